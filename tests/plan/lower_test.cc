#include "sim/plan/lower.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "models/reader.h"
#include "tests/support/scenario.h"

namespace aurum {
namespace {

const char* const kUniformModel = "tests/plan/fixtures/uniform-8-layers.json";

// Eight equal layers and nothing else, on eight GPUs: every stage alike, so the closed forms of pipelines hold exactly.
JsonDocument Uniform(const std::vector<std::string>& changes) {
  const std::string text = R"({"schema": "aurum.scenario/1", "model": ")" +
                           std::string(kUniformModel) + R"(", "cluster": "8xh100-hgx",
    "workload": {"task": "train", "global_batch_size": 16, "text_tokens": 2048},
    "plan": {"micro_batch_size": 1, "backbone": {"tp": 1, "pp": 8}, "sharding": "ddp"}})";
  return Changed(ParseJson(text, "uniform.json"), changes);
}

TEST_CASE("the parameters of all stages are the model's, for every model of the catalogue") {
  for (const std::string& name : ModelCatalogue(".")) {
    CAPTURE(name);
    const Model model = ReadModel(OpenModel(name, "."));
    JsonDocument document = ParseJson(
        R"({"schema": "aurum.scenario/1", "cluster": "1x4090", "workload": {"global_batch_size": 1, "text_tokens": 16}, "plan": {}})",
        "t");
    SetPath(&document, "model", Json(name), "test");
    const Evaluation e = EvaluateDocument(document);
    double parameters = 0;
    for (const ModuleShare& share : e.program.classes[0].modules) parameters += share.parameters;
    CHECK(parameters == static_cast<double>(ModelParameters(model)));
  }
}

TEST_CASE("1F1B on equal stages takes (m + p - 1) rounds, and the bubble is (p - 1) of them") {
  for (const int micro_batches : {8, 16, 64}) {
    CAPTURE(micro_batches);
    const Evaluation e =
        EvaluateDocument(Uniform({"workload.global_batch_size=" + std::to_string(micro_batches),
                                  "what_if.comm_bw_gb_per_s=1000000"}));
    const double overhead = e.scenario.stack->step_overhead_s + e.program.classes[0].optimizer_s;
    const double round = e.Time().compute_s / micro_batches;
    CHECK(e.StepSeconds() - overhead == doctest::Approx((micro_batches + 7) * round).epsilon(2e-3));
    for (const TimeBreakdown& time : e.outcome.time) {
      CHECK((time.bubble_s + time.pp_transfer_s) /
                (time.bubble_s + time.pp_transfer_s + time.compute_s) ==
            doctest::Approx(7.0 / (micro_batches + 7)).epsilon(5e-3));
    }
  }
}

TEST_CASE("a stage runs its warm-up, then one forward, one backward, then the rest") {
  const Evaluation e = EvaluateDocument(
      Uniform({"plan.backbone.pp=4", "workload.global_batch_size=12"}));  // dp 2, m 6
  std::map<int, std::string> order;
  std::map<int, std::pair<int, OpKind>> last;
  for (OpId op = 0; op < e.program.info.size(); ++op) {
    const OpInfo& info = e.program.info[op];
    if (info.kind != OpKind::kForward && info.kind != OpKind::kBackward) continue;
    const std::pair<int, OpKind> now{info.micro_batch, info.kind};
    if (!order[info.rank_class].empty() && last[info.rank_class] == now) continue;
    last[info.rank_class] = now;
    order[info.rank_class] +=
        (info.kind == OpKind::kForward ? "F" : "B") + std::to_string(info.micro_batch);
  }
  CHECK(order[0] == "F0F1F2F3B0F4B1F5B2B3B4B5");
  CHECK(order[2] == "F0F1B0F2B1F3B2F4B3F5B4B5");
  CHECK(order[3] == "F0B0F1B1F2B2F3B3F4B4F5B5");
}

TEST_CASE(
    "a frozen module costs no weight gradient, and no backward where nothing upstream learns") {
  const auto share = [](const std::vector<std::string>& changes, const char* module) {
    const Evaluation e = EvaluateDocument(Shipped("llava-1.6-7b-finetune-8xa100", changes));
    for (std::size_t i = 0; i < e.scenario.model->modules.size(); ++i) {
      if (e.scenario.model->modules[i].name == module) return e.program.classes[0].modules[i];
    }
    return ModuleShare{};
  };
  const ModuleShare trained = share({}, "vision");
  CHECK(trained.flops == doctest::Approx(3 * trained.forward_flops).epsilon(1e-9));
  CHECK(trained.gradient_bytes > 0);
  const ModuleShare frozen = share({R"(plan.frozen=["vision"])"}, "vision");
  CHECK(frozen.flops == frozen.forward_flops);
  CHECK(frozen.gradient_bytes == 0);
  // A frozen backbone behind a connector that learns passes gradients on: every matrix once more, attention twice more.
  const ModuleShare passing = share({R"(plan.frozen=["vision","backbone"])"}, "backbone");
  const double tokens = 512 + 2928;
  const double attention = 2 /* samples */ * 32 /* layers */ * 2 * tokens * tokens * 4096;
  CHECK(passing.flops == doctest::Approx(2 * passing.forward_flops + attention).epsilon(1e-9));
}

TEST_CASE("full recomputation adds one forward pass of the layers, and no model FLOPs") {
  const Evaluation none = EvaluateDocument(Uniform({"plan.backbone.pp=1"}));
  const Evaluation full = EvaluateDocument(Uniform({"plan.backbone.pp=1", "plan.recompute=full"}));
  const ModuleShare& n = none.program.classes[0].modules[0];
  const ModuleShare& f = full.program.classes[0].modules[0];
  CHECK(f.backward_s == doctest::Approx(n.backward_s + n.forward_s).epsilon(1e-12));
  CHECK(f.flops == n.flops);
}

TEST_CASE("gradient and parameter bytes follow the sharding") {
  const auto bytes = [](const std::string& sharding) {
    const Evaluation e = EvaluateDocument(Uniform(
        {"plan.backbone.pp=1", "plan.sharding=" + sharding, "workload.global_batch_size=32"}));
    return std::pair(
        e.program.classes[0].modules[0].gradient_bytes / e.program.classes[0].modules[0].parameters,
        e.scenario.stack->gradient_exchange_bytes);
  };
  CHECK(bytes("ddp").first == doctest::Approx(bytes("ddp").second).epsilon(1e-12));
  CHECK(bytes("zero1").first == doctest::Approx(bytes("zero1").second).epsilon(1e-12));
  CHECK(
      bytes("fsdp").first ==
      doctest::Approx(4 * bytes("fsdp").second).epsilon(1e-12));  // every one of four micro-batches
}

TEST_CASE("alignment is measured from the placement, and can be imposed") {
  const std::vector<std::string> colocated = {
      "plan.backbone.tp=4", "plan.vision.placement=colocated_dp", "plan.sharding=zero1"};
  CHECK(EvaluateDocument(Shipped("llava-1.6-7b-finetune-8xa100")).program.alignment.ratio == 1);
  const Evaluation measured = EvaluateDocument(Shipped("llava-1.6-7b-finetune-8xa100", colocated));
  CHECK(measured.program.alignment.ratio == 0.25);  // each of four ranks encoded a quarter
  CHECK(measured.Time().alignment_wait_s > 0);
  const Evaluation imposed =
      EvaluateDocument(Shipped("llava-1.6-7b-finetune-8xa100", {"what_if.align_ratio=0.4"}));
  CHECK(imposed.program.alignment.bytes_per_micro_batch ==
        doctest::Approx(0.6 * 2 * 2928 * 4096 * 2).epsilon(1e-12));
  double before = 0;
  for (const char* ratio : {"1", "0.8", "0.3", "0"}) {
    const double wait = EvaluateDocument(Shipped("llava-1.6-7b-finetune-8xa100",
                                                 {std::string("what_if.align_ratio=") + ratio}))
                            .Time()
                            .alignment_wait_s;
    CHECK(wait >= before);
    before = wait;
  }
}

TEST_CASE("two towers gather their features over all replicas before the loss") {
  const Evaluation e = EvaluateDocument(Shipped("clip-vit-l-14-4x4090"));
  const Scenario& scenario = e.scenario;
  const double width = static_cast<double>(scenario.model->Backbone().output.back().out);
  const double expected = 2 * 2.0 * width * static_cast<double>(scenario.plan.micro_batch_size) * 4;
  int gathers = 0;
  for (const OpInfo& info : e.program.info) {
    if (info.kind != OpKind::kAlignment) continue;
    ++gathers;
    CHECK(info.bytes == expected);
  }
  CHECK(gathers == scenario.plan.micro_batches);
}

TEST_CASE("a mixture of equal samples is the plain workload, learned queries included") {
  const auto at = [](const std::string& sample) {
    const std::string text =
        R"({"schema": "aurum.scenario/1", "model": "blip2-opt-2.7b", "cluster": "8xa100-hgx",)"
        R"( "workload": {"global_batch_size": 32, )" +
        sample + R"(}, "plan": {"micro_batch_size": 4}})";
    return EvaluateDocument(ParseJson(text, "equal samples"));
  };
  const std::string keys =
      R"("text_tokens": 64, "images": [{"width": 224, "height": 224, "count": 1}])";
  const Evaluation plain = at(keys);
  const Evaluation mixed = at(R"("mixture": [{)" + keys + R"(}], "draws": 1)");
  CHECK(mixed.StepSeconds() == plain.StepSeconds());
  CHECK(mixed.memory.Heaviest().peak_bytes == plain.memory.Heaviest().peak_bytes);
}

}  // namespace
}  // namespace aurum
