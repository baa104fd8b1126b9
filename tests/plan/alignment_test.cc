#include "sim/plan/alignment.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "tests/plan/space.h"

namespace aurum {
namespace {

// Four stages of LLaVA-1.6-7B on eight GPUs, or one, with its encoder somewhere.
JsonDocument Llava(const std::vector<std::string>& changes) {
  return Document("llava-1.6-7b", "8xa100-hgx",
                  Join({"workload.global_batch_size=16", "workload.text_tokens=512",
                        R"(workload.images=[{"width": 672, "height": 672, "count": 1}])"},
                       changes));
}
double CrossModalTokens(const Evaluation& e) {
  return static_cast<double>(e.scenario.workload.global_batch_size) *
         e.scenario.sample.cross_modal_tokens;
}

TEST_CASE(
    "an encoder before the backbone on the same GPUs aligns everything and waits for nothing") {
  for (const char* placement : {"first_stage", "balanced"}) {
    CAPTURE(placement);
    const Evaluation e = EvaluateDocument(
        Llava({R"(plan.backbone={"tp": 1, "pp": 4})",
               std::string(R"(plan.vision={"tp": 1, "placement": ")") + placement + "\"}"}));
    CHECK(e.alignment.ratio == 1);
    CHECK(e.alignment.worst_s == 0);
    // Two replicas, tensor parallelism of one: every token is consumed once.
    CHECK(e.alignment.tokens == doctest::Approx(CrossModalTokens(e)).epsilon(1e-12));
    CHECK(e.program.fusion.size() == static_cast<std::size_t>(e.scenario.plan.micro_batches));
  }
}

TEST_CASE(
    "colocated: every GPU of a group of t made 1/t of the tokens, and waits for the exchange") {
  for (const int tp : {2, 4, 8}) {
    CAPTURE(tp);
    const Evaluation e =
        EvaluateDocument(Llava({"plan.backbone={\"tp\": " + std::to_string(tp) + "}",
                                R"(plan.vision={"tp": 1, "placement": "colocated_dp"})"}));
    CHECK(e.alignment.ratio == doctest::Approx(1.0 / tp).epsilon(1e-12));
    REQUIRE(e.alignment.modules.size() == 1);
    const AlignmentOf& vision = e.alignment.modules[0];
    CHECK(vision.late == 0);
    CHECK(vision.elsewhere == doctest::Approx(vision.tokens * (1 - 1.0 / tp)).epsilon(1e-12));
    // Each micro-batch waits for one exchange; there and back make the step's wait.
    const double exchange = e.program.alignment.seconds_per_micro_batch / 2;
    CHECK(vision.wait_worst_s == 0);
    CHECK(vision.move_worst_s == doctest::Approx(exchange).epsilon(1e-6));
    CHECK(vision.move_mean_s == doctest::Approx(exchange).epsilon(1e-6));
    const auto m = static_cast<double>(e.scenario.plan.micro_batches);
    CHECK(e.Time().alignment_wait_s == doctest::Approx(2 * m * exchange).epsilon(1e-6));
    // All t GPUs of a group take all tokens.
    CHECK(e.alignment.tokens == doctest::Approx(tp * CrossModalTokens(e)).epsilon(1e-12));
  }
}

TEST_CASE(
    "on ranks of its own nothing is aligned; the first micro-batch waits for it, the rest hardly") {
  const Evaluation e = EvaluateDocument(
      Llava({R"(plan.backbone={"tp": 2, "pp": 3, "layers_per_stage": [10, 11, 11]})",
             R"(plan.vision={"tp": 2, "placement": "own_ranks"})"}));
  CHECK(e.alignment.ratio == 0);
  CHECK(e.AlignRatio() == 0);
  const AlignmentOfMicroBatch& first = e.alignment.micro_batch.front();
  CHECK(e.alignment.worst == 0);
  // The backbone's first stage has nothing else to do: it waits for all kernels and collectives of
  // the encoder's forward, then for its transfer.
  const FusionPoint& point = e.program.fusion.front();
  const Schedule& schedule = e.outcome.schedule;
  double forward = 0;
  for (OpId op = 0; op < e.program.info.size(); ++op) {
    const OpInfo& info = e.program.info[op];
    if (info.rank_class == 0 && info.micro_batch == 0 && info.lane != Lane::kPpForward &&
        op <= point.producer && info.kind != OpKind::kHost)
      forward += Seconds(e.program.graph.duration(op));
  }
  CHECK(first.wait_s == doctest::Approx(forward).epsilon(1e-9));
  // What makes the tokens whole on all of the encoder's tensor-parallel GPUs, then the transfer.
  CHECK(first.move_s >= Seconds(e.program.graph.duration(point.arrival)));
  CHECK(first.Seconds() ==
        doctest::Approx(Seconds(schedule.end[point.arrival]) - e.scenario.stack->step_overhead_s)
            .epsilon(1e-9));
  CHECK(e.program.info[point.arrival].kind == OpKind::kPipelineTransfer);
  CHECK(schedule.start[point.consumer] == schedule.end[point.arrival]);
  // The encoder runs ahead: no later micro-batch waits as long.
  for (std::size_t i = 1; i < e.alignment.micro_batch.size(); ++i)
    CHECK(e.alignment.micro_batch[i].Seconds() < first.Seconds() / 2);
  // The formula's undisturbed wait is the same latency.
  CHECK(e.golden.align_wait_s == doctest::Approx(forward).epsilon(0.01));
}

TEST_CASE(
    "in bubbles: aligned are the micro-batches whose encoder ran on the stage that takes them") {
  const Evaluation e = EvaluateDocument(
      Llava({R"(plan.backbone={"tp": 1, "pp": 4})", "workload.global_batch_size=32",
             R"(plan.vision={"tp": 1, "placement": "in_bubbles"})",
             R"(plan.connector={"tp": 1, "placement": "in_bubbles"})"}));
  double here = 0;
  std::set<int> stages;
  for (const FusionPoint& point : e.program.fusion) {
    const int made = e.program.classes[e.program.info[point.producer].rank_class].stage;
    stages.insert(made);
    CHECK(e.program.classes[point.rank_class].stage == 0);
    CHECK(point.own_share == (made == 0 ? 1 : 0));
    here += made == 0 ? 1 : 0;
  }
  CHECK(stages.size() > 1);
  CHECK(e.alignment.ratio ==
        doctest::Approx(here / static_cast<double>(e.program.fusion.size())).epsilon(1e-12));
  CHECK(e.alignment.ratio > 0);
  CHECK(e.alignment.ratio < 1);
}

TEST_CASE("an imposed ratio is what is measured, wherever nothing else is misaligned") {
  for (const double ratio : {0.0, 0.3, 0.75, 1.0}) {
    for (const char* placement : {"first_stage", "colocated_dp", "balanced"}) {
      CAPTURE(ratio);
      CAPTURE(placement);
      const Evaluation e = EvaluateDocument(
          Llava({R"(plan.backbone={"tp": 2, "pp": 2})",
                 std::string(R"(plan.vision={"tp": 1, "placement": ")") + placement + "\"}",
                 "what_if.align_ratio=" + std::to_string(ratio)}));
      CHECK(e.program.alignment.imposed);
      CHECK(e.alignment.ratio == doctest::Approx(ratio).epsilon(1e-12));
      CHECK(e.AlignRatio() == doctest::Approx(ratio).epsilon(1e-12));
      CHECK((e.alignment.worst_s > 0) == (ratio < 1));
    }
  }
}

TEST_CASE("misaligned tokens cost in proportion: bytes, and the wait beyond the latency") {
  const auto moved = [](double ratio) {
    return EvaluateDocument(Llava({"what_if.align_ratio=" + std::to_string(ratio)}));
  };
  const Evaluation half = moved(0.5), none = moved(0);
  CHECK(none.program.alignment.bytes_per_micro_batch ==
        doctest::Approx(2 * half.program.alignment.bytes_per_micro_batch));
  CHECK(none.alignment.mean_s > half.alignment.mean_s);
  CHECK(none.alignment.mean_s < 2 * half.alignment.mean_s);
  CHECK(none.StepSeconds() > half.StepSeconds());
}

TEST_CASE(
    "the connector of an encoder elsewhere takes the tokens, and an exchange has its own point") {
  const Evaluation e = EvaluateDocument(
      Llava({R"(plan.backbone={"tp": 2, "pp": 3, "layers_per_stage": [10, 11, 11]})",
             R"(plan.vision={"tp": 2, "placement": "own_ranks"})", "what_if.align_ratio=0.5"}));
  const auto m = static_cast<std::size_t>(e.scenario.plan.micro_batches);
  REQUIRE(e.program.fusion.size() == 2 * m);
  CHECK(e.alignment.ratio == 0);  // none is made where it is consumed, whatever is imposed
  REQUIRE(e.alignment.modules.size() == 2);
  CHECK(e.scenario.model->modules[static_cast<std::size_t>(e.alignment.modules[0].module)].name ==
        "vision");
  CHECK(e.alignment.modules[1].tokens == 0);
  CHECK(e.alignment.modules[1].move_mean_s > 0);
}

TEST_CASE("two encoders, two fusion points a micro-batch, tokens by their outputs") {
  const Evaluation e =
      EvaluateDocument(Document("qwen2.5-omni-7b", "8xa100-hgx",
                                {R"(workload.images=[{"width": 448, "height": 448, "count": 1}])",
                                 "workload.audio_s=30", "workload.text_tokens=256"}));
  REQUIRE(e.alignment.modules.size() == 2);
  double tokens = 0;
  for (const AlignmentOf& module : e.alignment.modules) {
    CHECK(module.aligned == module.tokens);
    tokens += module.tokens;
  }
  CHECK(tokens == doctest::Approx(CrossModalTokens(e)).epsilon(1e-12));
  CHECK(e.alignment.modules[0].tokens == doctest::Approx(64 * 256).epsilon(1e-9));  // 448²/28²
}

TEST_CASE(
    "of every shipped scenario: shares are shares, and no wait is longer than the idle time") {
  for (const std::string& name : ShippedScenarios()) {
    CAPTURE(name);
    const Evaluation e = EvaluateDocument(Shipped(name));
    const bool joined = e.scenario.sample.cross_modal_tokens > 0 &&
                        e.scenario.model->task == ModelTask::kGenerative;
    CHECK(e.alignment.any == joined);
    CHECK(e.alignment.ratio >= 0);
    CHECK(e.alignment.ratio <= 1 + 1e-12);
    double all = 0;
    for (const AlignmentOfMicroBatch& one : e.alignment.micro_batch) all += one.Seconds();
    double idle = 0;
    for (const TimeBreakdown& time : e.outcome.time)
      idle = std::max(idle, e.StepSeconds() - time.compute_s);
    CHECK(all <= idle + 1e-9);
    for (const AlignmentOf& module : e.alignment.modules)
      CHECK(module.aligned + module.elsewhere + module.late ==
            doctest::Approx(module.tokens).epsilon(1e-9));
  }
}

TEST_CASE("ranks folded or apart, flows shared or not: the ratio is the same") {
  const auto document = Llava(
      {R"(plan.backbone={"tp": 2})", R"(plan.vision={"tp": 1, "placement": "colocated_dp"})"});
  const Evaluation folded = EvaluateDocument(document);
  const Evaluation apart = EvaluateDocument(document, Level::kAnalytic, Fold::kOff);
  const Evaluation flow = EvaluateDocument(document, Level::kFlow);
  CHECK(folded.alignment.ratio == doctest::Approx(apart.alignment.ratio).epsilon(1e-12));
  CHECK(folded.alignment.tokens == doctest::Approx(apart.alignment.tokens).epsilon(1e-12));
  CHECK(folded.alignment.mean_s == doctest::Approx(apart.alignment.mean_s).epsilon(1e-9));
  CHECK(flow.alignment.ratio == doctest::Approx(folded.alignment.ratio).epsilon(1e-12));
}

}  // namespace
}  // namespace aurum
