#include "sim/plan/gradient_compression.h"

#include <doctest/doctest.h>

#include "tests/support/scenario.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

// Data-parallel CLIP on four GPUs over PCIe, its vision gradients as told.
Evaluation Sparse(double keep, const std::vector<std::string>& more = {}) {
  std::vector<std::string> changes = {"what_if={}", "cluster=4x4090-pcie",
                                      "workload.global_batch_size=256", "plan.vision={}",
                                      "plan.text={}"};
  if (keep > 0) {
    changes.push_back(R"(plan.vision={"gradient_compression": {"selection": "topk", "keep": )" +
                      std::to_string(keep) + "}}");
  }
  changes.insert(changes.end(), more.begin(), more.end());
  return EvaluateDocument(Shipped("articles/a4-topk-gradients", changes));
}

double Reduced(const Evaluation& e, int module) {
  double bytes = 0;
  for (const OpInfo& info : e.program.info) {
    if (info.kind == OpKind::kGradientReduce && info.module == module) bytes += info.bytes;
  }
  return bytes;
}

TEST_CASE("kept entries travel with their indices, and everyone's are gathered") {
  const Evaluation dense = Sparse(0);
  const Evaluation sparse = Sparse(0.01);
  const double entries = dense.program.classes[0].modules[0].parameters;
  // nccl-tests' size of an all-gather is what comes together: 4 ranks, 2 + 4 bytes an entry.
  CHECK(Reduced(sparse, 0) == doctest::Approx(4 * 0.01 * entries * 6).epsilon(1e-9));
  CHECK(Reduced(dense, 0) ==
        doctest::Approx(entries * dense.scenario.stack->gradient_exchange_bytes).epsilon(1e-9));
  CHECK(Reduced(sparse, 1) == Reduced(dense, 1));  // the text tower's are whole
  CHECK(Reduced(Sparse(0.02), 0) == doctest::Approx(2 * Reduced(sparse, 0)).epsilon(1e-9));
}

TEST_CASE("above a third of the entries nothing is saved in bf16, for any number of ranks") {
  GradientCompression c;
  c.selection = GradientSelection::kTopK;
  for (const int ranks : {2, 3, 4, 8, 64}) CHECK(BreakEvenKeep(c, 2, ranks) <= 1.0 / 3 + 1e-12);
  CHECK(BreakEvenKeep(c, 2, 2) == doctest::Approx(1.0 / 3));
  CHECK(BreakEvenKeep(c, 2, 8) == doctest::Approx(1.0 / 12));
  // And the simulation agrees where communication is all: a tenth of PCIe, everything exposed.
  const std::vector<std::string> slow = {"what_if.pcie_factor=0.01"};
  CHECK(Sparse(0.4, slow).StepSeconds() > Sparse(0, slow).StepSeconds());
  CHECK(Sparse(0.01, slow).StepSeconds() < Sparse(0, slow).StepSeconds());
}

TEST_CASE("selection costs device time even where the network is free") {
  const std::vector<std::string> fast = {"what_if.comm_bw_gb_per_s=100000"};
  CHECK(Sparse(0.01, fast).StepSeconds() > Sparse(0, fast).StepSeconds());
  double last = 0;
  for (const double keep : {0.001, 0.01, 0.1, 0.5, 1.0}) {
    const double step = Sparse(keep).StepSeconds();
    CHECK(step > last);
    last = step;
  }
}

TEST_CASE("the residual and the selection's weights last in memory") {
  const auto optimizer_gib = [](const std::string& compression) {
    const Evaluation e = EvaluateDocument(Shipped(
        "articles/a14-covariance-topk",
        {"plan.text={}", compression.empty()
                             ? "plan.vision={}"
                             : "plan.vision={\"gradient_compression\": " + compression + "}"}));
    return e.memory.Heaviest().at_peak[static_cast<std::size_t>(MemoryComponent::kOptimizer)];
  };
  const double plain = optimizer_gib("");
  const double entries = EvaluateDocument(Shipped("articles/a14-covariance-topk"))
                             .program.classes[0]
                             .modules[0]
                             .parameters;
  CHECK(optimizer_gib(R"({"selection": "topk", "keep": 0.01})") - plain ==
        doctest::Approx(4 * entries).epsilon(1e-6));
  CHECK(optimizer_gib(R"({"selection": "topk", "keep": 0.01, "error_feedback": false})") ==
        doctest::Approx(plain));
  CHECK(optimizer_gib(R"({"selection": "covariance_topk", "keep": 0.01, "covariance_rank": 4})") -
            plain ==
        doctest::Approx(4 * 5 * entries).epsilon(1e-6));
}

TEST_CASE("weights that are renewed less often cost less") {
  const auto step = [](int refresh) {
    return EvaluateDocument(Shipped("articles/a14-covariance-topk",
                                    {"plan.vision.gradient_compression.refresh_steps=" +
                                     std::to_string(refresh)}))
        .StepSeconds();
  };
  CHECK(step(1) > step(10));
  CHECK(step(10) > step(1000));
}

TEST_CASE("sparse gradients need whole replicas, and one choice a step") {
  const auto thrown = [](const std::vector<std::string>& changes) {
    return ThrownBy([&] { EvaluateDocument(Shipped("articles/a4-topk-gradients", changes)); });
  };
  const Diagnostic sharded = thrown({"plan.sharding=fsdp"});
  CHECK(sharded.code == 388);
  CHECK(sharded.where.pointer == "/plan/vision/gradient_compression");
  CHECK(thrown({R"(plan.frozen=["vision"])"}).code == 388);
  CHECK(thrown({"plan.reduce_every_micro_batch=true"}).code == 389);
  CHECK(thrown({"plan.vision.gradient_compression.refresh_steps=2"}).code == 109);
  CHECK(thrown({"plan.vision.gradient_compression.keep=0"}).code == 107);
}

TEST_CASE("gradients that are reduced after every micro-batch are exchanged so many times") {
  const Evaluation once = EvaluateDocument(Shipped("articles/b17-gradient-accumulation"));
  const Evaluation every = EvaluateDocument(
      Shipped("articles/b17-gradient-accumulation", {"plan.reduce_every_micro_batch=true"}));
  REQUIRE(once.program.micro_batches == 4);
  CHECK(Reduced(every, 0) == doctest::Approx(4 * Reduced(once, 0)));
  CHECK(every.StepSeconds() > once.StepSeconds());
  CHECK(every.program.classes[0].modules[0].gradient_bytes == doctest::Approx(Reduced(every, 0)));
  // On one GPU accumulating gains nothing.
  const auto alone = [](const std::vector<std::string>& more) {
    std::vector<std::string> changes = {"cluster=1x4090"};
    changes.insert(changes.end(), more.begin(), more.end());
    return EvaluateDocument(Shipped("articles/b17-gradient-accumulation", changes)).StepSeconds();
  };
  CHECK(alone({}) == alone({"plan.reduce_every_micro_batch=true"}));
}

TEST_CASE("a barrier between modalities exposes more, and moves the same bytes") {
  const Evaluation with = EvaluateDocument(Shipped("articles/a3-fsdp-ulysses-barrier"));
  const Evaluation without = EvaluateDocument(
      Shipped("articles/a3-fsdp-ulysses-barrier", {"plan.modality_barrier=false"}));
  CHECK(with.Time().exposed_comm_s > without.Time().exposed_comm_s);
  CHECK(with.StepSeconds() > without.StepSeconds());
  for (const int module : {0, 1, 2}) CHECK(Reduced(with, module) == Reduced(without, module));
  // Without prefetch there is nothing that the border could stop.
  const Evaluation one_module = EvaluateDocument(
      Shipped("llama-2-7b-1x4090", {"plan.modality_barrier=true", "plan.recompute=full"}));
  CHECK(one_module.StepSeconds() ==
        EvaluateDocument(Shipped("llama-2-7b-1x4090", {"plan.recompute=full"})).StepSeconds());
}

}  // namespace
}  // namespace aurum
