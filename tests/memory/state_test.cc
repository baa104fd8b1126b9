#include "sim/memory/state.h"

#include <doctest/doctest.h>

#include "models/reader.h"
#include "sim/core/units.h"
#include "sim/memory/memory.h"

namespace aurum {
namespace {

// Hand-made: one class of ranks with a given share of a model, on 8 GPUs.
struct World {
  explicit World(const std::string& stack_name, const std::string& model_name = "llama-2-7b") {
    scenario.model = std::make_shared<const Model>(ReadModel(OpenModel(model_name, ".")));
    scenario.cluster = std::make_shared<const Cluster>(ReadCluster(OpenCluster("8xa100-hgx", ".")));
    UseStack(LoadStack(stack_name, "."));
    scenario.plan.modules.resize(1);
    scenario.plan.dp = 8;
    rank_class.modules.resize(1);
    Share().parameters = 1e9;
    Share().embedding_parameters = 2e8;
    Share().trained = true;
  }
  void UseStack(Stack stack) { scenario.stack = std::make_shared<const Stack>(std::move(stack)); }
  ModuleShare& Share() { return rank_class.modules[0]; }
  LastingMemory Lasting() const { return LastingOf(scenario, rank_class); }
  double State() const {
    const LastingMemory m = Lasting();
    return m.weights + m.gradients + m.optimizer;
  }

  Scenario scenario;
  RankClass rank_class;
};

TEST_CASE("18 bytes a parameter: 2 + 4 + 12, and the optimizer's over the replicas") {
  World w("megatron-core-local");
  w.scenario.plan.sharding = Sharding::kDdp;
  CHECK(w.State() == 18e9);
  w.scenario.plan.sharding = Sharding::kZero1;
  CHECK(w.State() == 6e9 + 12e9 / 8);
  // The GPUs that share a sequence share the states too.
  w.scenario.plan.cp = 2;
  CHECK(w.State() == 6e9 + 12e9 / 16);
  w.scenario.plan.sharding = Sharding::kZero2;
  CHECK(w.State() == 2e9 + 16e9 / 16);
  w.scenario.plan.sharding = Sharding::kFsdp;
  CHECK(w.State() == 18e9 / 16);
  w.scenario.plan.sharding = Sharding::kHsdp;
  w.scenario.plan.shard_group = 4;
  CHECK(w.State() == 18e9 / 4);
  // InternEvo's optimizer is shared out over data parallelism alone.
  World evo("internevo");
  evo.scenario.plan.cp = 2;
  CHECK(evo.Lasting().optimizer == 20e9 / 8);
}

TEST_CASE("one layer's gradient is cached under Transformer Engine, 2 bytes a parameter") {
  World w("megatron-core");
  w.scenario.plan.sharding = Sharding::kDdp;
  const double layer = 202383360;  // of Llama-2-7B
  w.Share().largest_layer = layer;
  CHECK(w.State() == 18e9 + 2 * layer);
  // A mixture caches one expert's, not all.
  World moe("megatron-core", "mixtral-8x7b");
  moe.scenario.plan.sharding = Sharding::kDdp;
  const double expert = 3.0 * 4096 * 14336;
  const double whole =
      static_cast<double>(LayerParameters(moe.scenario.model->Backbone().runs[0].layer, 4096));
  moe.Share().largest_layer = whole;
  CHECK(moe.State() == doctest::Approx(18e9 + 2 * (whole - 7 * expert)).epsilon(1e-12));
}

TEST_CASE("routed experts are shared out over their own replicas") {
  World w("megatron-core-local", "mixtral-8x7b");
  Plan& plan = w.scenario.plan;
  plan.ep = 4;  // experts twice, everything else eight times
  w.Share().expert_parameters = 3e9;
  plan.sharding = Sharding::kZero1;
  CHECK(w.Lasting().weights == 2 * 4e9);
  CHECK(w.Lasting().optimizer == 12e9 / 8 + 12 * 3e9 / 2);
  plan.sharding = Sharding::kFsdp;
  CHECK(w.Lasting().weights == 2e9 / 8 + 2 * 3e9 / 2);
}

TEST_CASE("more sharding never keeps more state, and more replicas never keep more") {
  for (const std::string& name : StackCatalogue(".")) {
    CAPTURE(name);
    World w(name);
    w.Share().expert_parameters = 2e9;
    double last = 1e30;
    for (const Sharding sharding :
         {Sharding::kDdp, Sharding::kZero1, Sharding::kZero2, Sharding::kFsdp}) {
      w.scenario.plan.sharding = sharding;
      CHECK(w.State() <= last);
      last = w.State();
    }
    for (const Sharding sharding : {Sharding::kZero1, Sharding::kZero2, Sharding::kFsdp}) {
      w.scenario.plan.sharding = sharding;
      double least = 1e30;
      for (const int dp : {1, 2, 8, 64}) {
        w.scenario.plan.dp = dp;
        CHECK(w.State() < least);
        least = w.State();
      }
    }
  }
}

TEST_CASE("optimizers: 8 and 4 bits save the moments, not the embedding's; 32-bit training") {
  World w("torchtune");
  w.scenario.plan.sharding = Sharding::kDdp;
  CHECK(w.Lasting().optimizer == 4e9);
  w.scenario.plan.optimizer = OptimizerKind::kAdam8bit;
  CHECK(w.Lasting().optimizer == doctest::Approx(2.03 * 8e8 + 8 * 2e8).epsilon(1e-12));
  w.scenario.plan.optimizer = OptimizerKind::kAdam4bit;
  CHECK(w.Lasting().optimizer == doctest::Approx(1.06 * 8e8 + 8 * 2e8).epsilon(1e-12));
  w.scenario.plan.optimizer = OptimizerKind::kSgd;
  CHECK(w.Lasting().optimizer == 2e9);
  World wide("megatron-core-local");
  wide.scenario.plan.sharding = Sharding::kDdp;
  wide.scenario.plan.precision = Precision::kFp32;
  CHECK(wide.State() == 16e9);  // 4 + 4 + 8: the weights are their own masters
}

TEST_CASE("frozen and served weights have no gradients; adapters over a base in few bits") {
  World w("hf-transformers");
  w.scenario.plan.sharding = Sharding::kDdp;
  w.Share().trained = false;
  CHECK(w.State() == 2e9);
  w.scenario.workload.task = Task::kGenerate;
  w.Share().kv_cache_bytes = 7;
  CHECK(w.State() == 2e9);
  CHECK(w.Lasting().kv_cache == 7);
  w.scenario.workload.task = Task::kTrain;
  w.Share().trained = true;
  w.Share().adapter_parameters = 1e7;
  w.scenario.plan.adapter.kind = AdapterKind::kLora;
  CHECK(w.Lasting().weights == 2e9 + 4e7);
  CHECK(w.Lasting().optimizer == 8e7);
  w.scenario.plan.adapter.base = QuantisedBase::kNf4;
  w.Share().quantised_parameters = 8e8;
  CHECK(w.Lasting().weights == doctest::Approx(0.5625 * 8e8 + 2 * 2e8 + 4e7).epsilon(1e-12));
  CHECK(w.Lasting().workspace ==
        doctest::Approx(w.scenario.stack->workspace_bytes + 2.0 * 4096 * 11008).epsilon(1e-12));
  // ZeRO-3 shares out the embeddings and the adapters, and not 4-bit weights.
  World zero("deepspeed-zero");
  zero.rank_class = w.rank_class;
  zero.scenario.plan.adapter = w.scenario.plan.adapter;
  zero.scenario.plan.sharding = Sharding::kFsdp;
  CHECK(zero.Lasting().weights ==
        doctest::Approx(0.5625 * 8e8 + (2 * 2e8 + 2 * 1e7) / 8).epsilon(1e-12));
  // Trained embeddings are copies in the stack's own formats.
  w.scenario.plan.adapter.trains_embeddings = true;
  w.Share().adapter_parameters = 1e7 + 2e8;
  CHECK(w.Lasting().optimizer == 8e7 + 4 * 2e8);
}

TEST_CASE("what is offloaded lies in host memory, with the gradients that the host steps on") {
  World w("deepspeed-zero");
  w.scenario.plan.sharding = Sharding::kZero2;
  const LastingMemory here = w.Lasting();
  CHECK(here.host == 0);
  w.scenario.plan.offload.optimizer = 0.5;
  CHECK(w.Lasting().optimizer == here.optimizer / 2);
  CHECK(w.Lasting().host == here.optimizer / 2 + 2e9 / 8 / 2);
  w.scenario.plan.sharding = Sharding::kFsdp;
  w.scenario.plan.offload.optimizer = w.scenario.plan.offload.parameters = 1;
  CHECK(w.Lasting().weights == 0);
  CHECK(w.Lasting().host == (2e9 + 2e9 + 16e9) / 8);
}

// Two ops of one stream, forward 0…10 and backward 10…30 ps, and what they take.
struct Timeline : World {
  explicit Timeline(const std::string& stack) : World(stack) {
    scenario.plan.sharding = Sharding::kDdp;
    const StreamId stream = program.graph.AddStream();
    forward = program.graph.AddOp(stream, Time{10});
    backward = program.graph.AddOp(stream, Time{20});
    program.info.resize(2);
    program.info[0].kind = OpKind::kForward;
    program.info[1].kind = OpKind::kBackward;
    program.info[1].micro_batch = 3;
    program.info[0].module = program.info[1].module = 0;
    REQUIRE(program.graph.Finish());
    outcome.schedule = EvaluateMaxPlus(program.graph);
    program.tensors.push_back({0, "layer", {{"MLP up and gate", 60}, {"queries", 40}}});
  }
  void Take(OpId op, bool at_end, MemoryKind kind, double bytes,
            std::uint32_t tensors = kNoTensors) {
    program.memory.push_back({op, at_end, 0, kind, bytes, tensors});
  }
  MemoryReport Report() {
    program.classes = {rank_class};
    return MeasureMemory(scenario, program, outcome);
  }
  OpId forward = 0, backward = 0;
  Program program;
  Outcome outcome;
};

TEST_CASE("the peak is a moment, not a sum of maxima; what is taken is returned") {
  Timeline t("megatron-core-local");
  t.Take(t.forward, false, MemoryKind::kActivations, 300, 0);  // three layers
  t.Take(t.forward, false, MemoryKind::kLogits, 500);
  t.Take(t.forward, true, MemoryKind::kLogits, -500);
  t.Take(t.backward, false, MemoryKind::kWorkspace, 450);
  t.Take(t.backward, true, MemoryKind::kWorkspace, -450);
  t.Take(t.backward, true, MemoryKind::kActivations, -300, 0);
  const MemoryReport report = t.Report();
  const ClassMemory& m = report.Heaviest();
  const Stack& stack = *t.scenario.stack;
  CHECK(m.peak_time == Time{0});
  CHECK(m.at == "forward, backbone");
  CHECK(m.at_peak[static_cast<std::size_t>(MemoryComponent::kActivations)] == 300);
  CHECK(m.at_peak[static_cast<std::size_t>(MemoryComponent::kLogits)] == 500);
  CHECK(m.at_peak[static_cast<std::size_t>(MemoryComponent::kWorkspace)] == stack.workspace_bytes);
  CHECK(m.allocated_bytes == doctest::Approx(18e9 + stack.workspace_bytes + 800).epsilon(1e-15));
  CHECK(m.reserved_bytes ==
        doctest::Approx(m.allocated_bytes + stack.fragmentation * 800).epsilon(1e-15));
  CHECK(m.peak_bytes ==
        doctest::Approx(m.reserved_bytes + stack.runtime_bytes + stack.communicator_bytes));
  double sum = 0;
  for (const double bytes : m.at_peak) sum += bytes;
  CHECK(sum == doctest::Approx(m.peak_bytes).epsilon(1e-12));
  CHECK(m.left_bytes == 0);
  CHECK(m.times == std::vector<Time>{Time{0}, Time{10}, Time{30}});
  CHECK(m.logits == std::vector<double>{500, 0, 0});
  CHECK(m.workspace == std::vector<double>{0, 450, 0});
  CHECK(m.activations == std::vector<double>{300, 300, 0});
  REQUIRE(m.largest.size() == 2);
  CHECK(m.largest[0].name == "MLP up and gate");
  CHECK(m.largest[0].module == "backbone");
  CHECK(m.largest[0].unit == "layer");
  CHECK(m.largest[0].count == 3);
  CHECK(m.largest[0].bytes == 180);

  t.Take(t.backward, false, MemoryKind::kGradients, 51);
  const MemoryReport later = t.Report();
  CHECK(later.Heaviest().at == "backward of micro-batch 3, backbone");
  CHECK(later.Heaviest().left_bytes == 51);
  CHECK(later.Heaviest().gradients.back() == 51);
}

TEST_CASE("three verdicts, 7 % of what is usable to either side") {
  Timeline t("megatron-core-local");
  const MemoryReport empty = t.Report();
  const double usable = empty.usable_bytes;
  CHECK(usable == UsableBytes(empty.device_bytes));
  const auto at = [&](double share) {
    t.program.memory.clear();
    // Memory that moves is allocated with its fragmentation.
    const double bytes = (share * usable - empty.Heaviest().peak_bytes) / 1.03;
    t.Take(t.forward, false, MemoryKind::kActivations, bytes);
    t.Take(t.backward, true, MemoryKind::kActivations, -bytes);
    return t.Report();
  };
  CHECK(at(0.92).verdict == Fit::kFits);
  CHECK(at(0.94).verdict == Fit::kAtRisk);
  CHECK(at(0.94).fits);
  CHECK(at(0.94).at_risk);
  CHECK(at(0.94).over_bytes == 0);
  CHECK(at(1.06).verdict == Fit::kAtRisk);
  CHECK(at(1.06).over_bytes == doctest::Approx(0.06 * usable).epsilon(1e-9));
  CHECK(at(1.08).verdict == Fit::kDoesNotFit);
  CHECK_FALSE(at(1.08).fits);
  CHECK_FALSE(at(1.08).at_risk);
  CHECK(at(1.08).largest == MemoryComponent::kActivations);
  CHECK(at(1.08).low_bytes < at(1.08).Heaviest().peak_bytes);
  CHECK(FitName(Fit::kAtRisk) == "at risk");
  // What CUDA offers of cards of 24, 40 and 80 GiB, within half a GiB.
  CHECK(UsableBytes(24 * kGiB) / kGiB == doctest::Approx(23.6).epsilon(0.02));
  CHECK(UsableBytes(40 * kGiB) / kGiB == doctest::Approx(39.4).epsilon(0.02));
  CHECK(UsableBytes(80 * kGiB) / kGiB == doctest::Approx(79.2).epsilon(0.01));
}

TEST_CASE("loading can be the peak: the whole checkpoint beside the share") {
  Timeline t("litgpt");
  t.scenario.plan.sharding = Sharding::kFsdp;
  t.scenario.plan.adapter.kind = AdapterKind::kLora;
  t.Share().adapter_parameters = 1e6;
  const MemoryReport report = t.Report();
  CHECK(report.Heaviest().at == "loading");
  CHECK(
      report.Heaviest().allocated_bytes ==
      doctest::Approx(2.4e9 + (2e9 + 2e6) / 8 + t.scenario.stack->workspace_bytes).epsilon(1e-12));
  // A step that needs more hides it.
  t.Take(t.forward, false, MemoryKind::kActivations, 1e10);
  CHECK(t.Report().Heaviest().at == "forward, backbone");
}

TEST_CASE("even routing is an assumption, and widens the band") {
  Timeline t("megatron-core");
  t.program.tensors[0].tensors = {{"experts' up and gate", 100e9}};
  t.Take(t.forward, false, MemoryKind::kActivations, 100e9, 0);
  MemoryReport report = t.Report();
  const double band = t.scenario.stack->band_share * report.Heaviest().allocated_bytes;
  REQUIRE(report.untold.size() == 1);
  CHECK(report.untold[0].find("expert_imbalance") != std::string::npos);
  CHECK(report.high_bytes == doctest::Approx(report.Heaviest().peak_bytes + band + 50e9));
  t.scenario.plan.expert_imbalance = 1.5;
  report = t.Report();
  CHECK(report.untold.empty());
  CHECK(report.high_bytes == doctest::Approx(report.Heaviest().peak_bytes + band));
}

}  // namespace
}  // namespace aurum
