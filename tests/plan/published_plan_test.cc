// Published facts that come out of whole plans.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/plan/space.h"

namespace aurum {
namespace {

TEST_CASE("Korthikanti et al. 2022 in a whole pipeline: every stage keeps theirs times layers") {
  // GPT-3 175B, a stage in the middle: 12 layers, nothing beside them; unfused attention with dropout.
  const double s = 2048, b = 1, h = 12288, a = 96, t = 8, layers = 12;
  const double sbh = s * b * h;
  const auto kept = [&](const std::vector<std::string>& changes, std::size_t stage) {
    const Evaluation e = EvaluateDocument(
        Shipped("gpt-3-175b-64xa100",
                Join({"stack=megatron-core-local", "workload.global_batch_size=16"}, changes)));
    CHECK(e.memory.classes[stage].left_bytes == doctest::Approx(0.0));
    return Peak(e.memory.classes[stage].activations);
  };
  for (const std::size_t stage : {1U, 3U, 6U}) {
    CAPTURE(stage);
    const double held = 8 - static_cast<double>(stage);  // micro-batches, 1F1B
    CHECK(kept({"plan.recompute=none"}, stage) ==
          doctest::Approx(held * layers * sbh * (34 + 5 * a * s / h) / t).epsilon(1e-9));
    CHECK(kept({"plan.recompute=selective"}, stage) ==
          doctest::Approx(held * layers * sbh * 34 / t).epsilon(1e-9));
    CHECK(kept({"plan.recompute=full"}, stage) ==
          doctest::Approx(held * layers * 2 * sbh / t).epsilon(1e-9));
    CHECK(kept({"plan.recompute=none", "plan.backbone.sequence_parallel=false"}, stage) ==
          doctest::Approx(held * layers * sbh * (10 + 24 / t + 5 * a * s / h / t)).epsilon(1e-9));
  }
  // Interleaved, two chunks: 1 + (p - 1) / (p v) of the first stage's (their section 4.2.3): p (v - 1) +
  // 2 (p - 1) + 1 chunks of 6 layers. Of the second stage, which has no embedding: two fewer.
  CHECK(kept({"plan.recompute=none", "plan.backbone.vpp=2"}, 1) ==
        doctest::Approx((8 + 2 * 6 + 1) * 6 * sbh * (34 + 5 * a * s / h) / t).epsilon(1e-9));
}

// Feng et al., "Optimus", USENIX ATC 2025: ViT-22B before GPT-175B, TP 8, PP 8, 12 chunks, a batch of
// 1536 samples.
JsonDocument Optimus(int gpus, const std::string& placement) {
  return Document("vit-22b-gpt-175b", std::to_string(gpus) + "xh100-ndr",
                  {"workload.global_batch_size=1536", "workload.text_tokens=1792",
                   R"(workload.images=[{"width": 224, "height": 224, "count": 1}])",
                   R"(plan.backbone={"tp": 8, "pp": 8, "vpp": 12})",
                   "plan.vision={\"tp\": 8, \"placement\": \"" + placement + "\"}",
                   "plan.recompute=selective"});
}

TEST_CASE("Optimus, table 1: every kind of bubble has its seconds") {
  const Evaluation e = EvaluateDocument(Optimus(3072, "first_stage"));
  TimeBreakdown most;
  for (const TimeBreakdown& time : e.outcome.time) {
    most.dp_gather_s = std::max(most.dp_gather_s, time.dp_gather_s);
    most.dp_reduce_s = std::max(most.dp_reduce_s, time.dp_reduce_s);
    most.pp_warmup_s = std::max(most.pp_warmup_s, time.pp_warmup_s);
    most.pp_cooldown_s = std::max(most.pp_cooldown_s, time.pp_cooldown_s);
    most.pp_other_s = std::max(most.pp_other_s, time.pp_other_s);
    most.tp_s = std::max(most.tp_s, time.tp_s);
    CHECK(time.Sum() == doctest::Approx(e.StepSeconds()).epsilon(1e-9));
  }
  CHECK(most.dp_gather_s > 0);
  CHECK(most.dp_reduce_s > 0);
  CHECK(most.pp_warmup_s > 0);
  CHECK(most.pp_cooldown_s > 0);
  CHECK(most.pp_other_s > 0);
  CHECK(most.tp_s > 0);
  MESSAGE("of ", e.StepSeconds(), " s: dp all-gather ", most.dp_gather_s, ", dp reduce-scatter ",
          most.dp_reduce_s, ", warm-up ", most.pp_warmup_s, ", cool-down ", most.pp_cooldown_s,
          ", other ", most.pp_other_s, ", tp ", most.tp_s);
}

TEST_CASE("Optimus, strong scaling: fewer micro-batches, faster steps, more of them bubbles") {
  double seconds = 1e9, idle = 0, busy = 1;
  for (const int gpus : {1536, 2048, 3072}) {
    CAPTURE(gpus);
    const Evaluation e = EvaluateDocument(Optimus(gpus, "first_stage"));
    CHECK(e.scenario.plan.micro_batches == 1536 / (gpus / 64));
    double share = 0;  // of the mean stage
    for (const TimeBreakdown& time : e.outcome.time)
      share += 1 - (time.compute_s + time.tp_s) / e.StepSeconds();
    share /= static_cast<double>(e.outcome.time.size());
    CHECK(e.StepSeconds() < seconds);
    CHECK(share > idle);
    CHECK(ModelFlopsUtilisation(e) < busy);
    MESSAGE(gpus, " GPUs: ", e.StepSeconds(), " s, idle ", share, ", MFU ",
            ModelFlopsUtilisation(e));
    seconds = e.StepSeconds();
    idle = share;
    busy = ModelFlopsUtilisation(e);
  }
}

// Table 2's balanced plan: 10.43, 8.06 and 5.87 s. Its FLOPs are those of 2,048 tokens in the encoder; whether it recomputed
// is not told, and full recomputation comes closest. Nothing was fitted on it.
TEST_CASE(
    "Optimus, published step times of balanced stages: 12 % as they are, 5.5 % with one scale") {
  const std::vector<std::pair<int, double>> measured = {{1536, 10.43}, {2048, 8.06}, {3072, 5.87}};
  std::vector<double> predicted;
  for (const auto& [gpus, seconds] : measured) {
    CAPTURE(gpus);
    const Evaluation e =
        EvaluateDocument(Changed(Optimus(gpus, "balanced"),
                                 {R"(workload.images=[{"width": 224, "height": 224, "count": 8}])",
                                  "workload.text_tokens=1", "plan.recompute=full"}));
    predicted.push_back(e.StepSeconds());
    CHECK(e.StepSeconds() == doctest::Approx(seconds).epsilon(0.12));
  }
  const double scale = measured[1].second / predicted[1];
  for (std::size_t i = 0; i < measured.size(); ++i)
    CHECK(scale * predicted[i] == doctest::Approx(measured[i].second).epsilon(0.055));
}

// Of the class that computes most: what data parallelism adds to its step.
double DataParallel(const Evaluation& e) { return e.Time().dp_gather_s + e.Time().dp_reduce_s; }

TEST_CASE("Optimus: balanced stages beat the first stage, filled bubbles beat balanced stages") {
  // Frozen, trained without chunks, and a smaller encoder.
  const auto qwen = [](const std::string& placement, const char* backbone) {
    return Document("qwen2.5-vl-72b", "64xh100-ndr",
                    {"workload.global_batch_size=64", "workload.text_tokens=1792",
                     R"(workload.images=[{"width": 1120, "height": 1120, "count": 2}])",
                     std::string("plan.backbone=") + backbone,
                     R"(plan.vision={"tp": 8, "placement": ")" + placement + "\"}",
                     "plan.recompute=selective"});
  };
  const std::string frozen = R"(plan.frozen=["vision"])";
  const std::string one_chunk = R"(plan.backbone={"tp": 8, "pp": 8})";
  for (int plan = 0; plan < 5; ++plan) {
    CAPTURE(plan);
    const auto seconds = [&](const std::string& placement) {
      switch (plan) {
        case 0:
          return EvaluateDocument(Changed(Optimus(1536, placement), {frozen})).StepSeconds();
        case 1:
          return EvaluateDocument(Changed(Optimus(3072, placement), {frozen})).StepSeconds();
        case 2:
          return EvaluateDocument(Changed(Optimus(3072, placement), {one_chunk})).StepSeconds();
        case 3:
          return EvaluateDocument(qwen(placement, R"({"tp": 8, "pp": 4})")).StepSeconds();
        default:
          return EvaluateDocument(qwen(placement, R"({"tp": 8, "pp": 4, "vpp": 2})")).StepSeconds();
      }
    };
    const double first = seconds("first_stage"), balanced = seconds("balanced"),
                 bubbles = seconds("in_bubbles");
    MESSAGE("first stage ", first, ", balanced ", balanced, ", in bubbles ", bubbles, " s");
    CHECK(balanced < first);
    CHECK(bubbles < balanced);
  }
}

TEST_CASE("a large encoder on every stage fills bubbles, and pays for its copies' collectives") {
  // ViT-22B, trained: 2.8 billion parameters more on every GPU. Optimus cuts its encoder into stages of
  // its own inside of the backbone's, which this placement does not.
  for (const int gpus : {1536, 3072}) {
    CAPTURE(gpus);
    const Evaluation first = EvaluateDocument(Optimus(gpus, "first_stage"));
    const Evaluation balanced = EvaluateDocument(Optimus(gpus, "balanced"));
    const Evaluation bubbles = EvaluateDocument(Optimus(gpus, "in_bubbles"));
    MESSAGE(gpus, " GPUs: ", first.StepSeconds(), ", ", balanced.StepSeconds(), ", ",
            bubbles.StepSeconds(), " s");
    CHECK(balanced.StepSeconds() < first.StepSeconds());
    CHECK(bubbles.StepSeconds() < first.StepSeconds());
    CHECK(bubbles.StepSeconds() - DataParallel(bubbles) <
          balanced.StepSeconds() - DataParallel(balanced));
  }
}

}  // namespace
}  // namespace aurum
