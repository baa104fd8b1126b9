#include <doctest/doctest.h>

#include "tests/audit/claims.h"

// Verdicts about the formula, FLOPs per token and alignment turn with the numbers that they rest on.
namespace aurum {
namespace {

TEST_CASE(
    "A1: the formula as it is worded does not meet the step, and F over a bandwidth is no time") {
  Claims claims("formula");
  CHECK(claims.Line("A1.units").verdict == Verdict::kUndefined);
  const AuditLine max = claims.Line("A1.max"), forward = claims.Line("A1.forward");
  // Forward alone is a third of a training step's work, or less with recomputation.
  CHECK(forward.recomputed.value < max.recomputed.value - 20);
  CHECK(forward.verdict == Verdict::kRefuted);
  CHECK(claims.Claiming("A1.forward", forward.recomputed.value) == Verdict::kHolds);
}

TEST_CASE("A6: one plan speeds up all tokens of a sample alike; steps to converge are an input") {
  Claims claims("formula");
  const AuditLine vision = claims.Line("A6.vision");
  CHECK(vision.recomputed.value > 1000 * vision.claim.claimed);
  CHECK(vision.verdict == Verdict::kRefuted);
  CHECK(claims.Claiming("A6.vision", vision.recomputed.value) == Verdict::kHolds);
  CHECK(claims.Line("A6.text").verdict == Verdict::kRefuted);
  CHECK(claims.Line("A6.together").recomputed.value == doctest::Approx(1).epsilon(1e-9));
  CHECK(claims.Line("A6.together").verdict == Verdict::kRefuted);
  CHECK(claims.Claiming("A6.together", 1) == Verdict::kHolds);
  const AuditLine steps = claims.Line("A6.steps");
  CHECK(steps.verdict == Verdict::kInput);
  CHECK(steps.recomputed.value == doctest::Approx(36.97).epsilon(1e-3));
  // The factor multiplies the time to the target and nothing else.
  const char* plan = "scenarios/articles/a6-modality-plan-32xa100.json";
  const Evaluation& with = claims.context().Run(plan);
  const Evaluation& without = claims.context().Run(plan, {"target.steps_factor=1"});
  CHECK(with.StepSeconds() == without.StepSeconds());
  CHECK(with.scenario.target->Steps() == doctest::Approx(8950).epsilon(1e-4));
  CHECK(without.scenario.target->Steps() == doctest::Approx(14200));
}

TEST_CASE("A7: FLOPs per token from the shapes, and the entropy's arithmetic") {
  Claims claims("formula");
  // 2 · 6.6 billion weights and attention over 2,048 tokens.
  CHECK(claims.Line("A7.text").recomputed.value == doctest::Approx(13.7e9).epsilon(0.03));
  CHECK(claims.Line("A7.text").verdict == Verdict::kRefuted);
  // open_clip's profile of ViT-B/16: 35.1 GFLOP over 197 tokens.
  CHECK(claims.Line("A7.image").recomputed.value == doctest::Approx(35.1e9 / 197).epsilon(0.03));
  CHECK(claims.Line("A7.video").recomputed.value > 1e9);
  CHECK(claims.Line("A7.entropy").recomputed.value == doctest::Approx(0.000947).epsilon(1e-3));
  CHECK(claims.Line("A7.entropy_unscaled").recomputed.value ==
        doctest::Approx(0.000398).epsilon(2e-3));
  CHECK(claims.Line("A7.entropy").verdict == Verdict::kRefuted);
  CHECK(claims.With("A7.entropy", "bits", 74.7 * 0.42) == Verdict::kHolds);
  CHECK(claims.Line("A7.video_bits").recomputed.value == doctest::Approx(74.7).epsilon(1e-3));
  CHECK(claims.Line("A7.video_bits").verdict == Verdict::kRefuted);
  CHECK(claims.With("A7.video_bits", "entropy", 0.000398) == Verdict::kHolds);
  CHECK(claims.Line("A7.text_bits").verdict == Verdict::kHolds);
  CHECK(claims.With("A7.text_bits", "flops", 200) == Verdict::kRefuted);
  CHECK(claims.Line("A7.redundancy").verdict == Verdict::kHolds);
  CHECK(claims.With("A7.redundancy", "redundancy", 0.5) == Verdict::kRefuted);
  CHECK(claims.Line("A7.own_table").verdict == Verdict::kRefuted);
  CHECK(claims.With("A7.own_table", "flops", 18.7e9) == Verdict::kHolds);
}

TEST_CASE(
    "A9: definitions differ, a falling gamma parts the gradients, a learnt factor aligns nothing") {
  Claims claims("formula");
  CHECK(claims.Line("A9.definitions").verdict == Verdict::kRefuted);
  CHECK(claims.Line("A9.gamma").recomputed.value == doctest::Approx(2.91).epsilon(0.01));
  CHECK(claims.Line("A9.gamma").verdict == Verdict::kRefuted);
  CHECK(claims.With("A9.gamma", "gamma_end", 0.95) == Verdict::kHolds);
  CHECK(claims.Line("A9.alpha").recomputed.value == 1);
  CHECK(claims.Line("A9.alpha").verdict == Verdict::kRefuted);
  const AuditLine time = claims.Line("A9.time");
  CHECK(time.recomputed.value > 0);  // tokens that need not move are time
  CHECK(time.verdict == Verdict::kRefuted);
  CHECK(claims.With("A9.time", "mar_start", 0.82) == Verdict::kRefuted);
  Claim wider = claims.Get("A9.time");
  wider.given.at("mar_start") = 0;
  CHECK(claims.Line(wider).recomputed.value > time.recomputed.value);
}

TEST_CASE("A11: the article's protocol, three models, within its band or not") {
  Claims claims("formula");
  CHECK(claims.Line("A11.llava").recomputed.value == doctest::Approx(14.6).epsilon(0.05));
  CHECK(claims.Line("A11.qwen").recomputed.value == doctest::Approx(25.9).epsilon(0.05));
  // 16.8 with logits of every token; generation forms those of the prompt's last one alone, and Fuyu's
  // vocabulary of 262,144 is 2.1 GFLOP a token.
  CHECK(claims.Line("A11.fuyu").recomputed.value == doctest::Approx(15.0).epsilon(0.02));
  for (const char* id : {"A11.llava", "A11.qwen", "A11.fuyu"}) {
    CHECK(claims.Line(id).verdict == Verdict::kHolds);
    CHECK(claims.Claiming(id, 40) == Verdict::kRefuted);
  }
  CHECK(claims.Line("A11.highest").verdict == Verdict::kHolds);
  CHECK(claims.Line("A11.lowest").verdict == Verdict::kRefuted);
  CHECK(claims.Line("A11.llava_confidence").verdict == Verdict::kUndefined);
  // Bytes of keys and values per token: two of 4,096 numbers in each of 32 layers, 16 bit.
  const AuditLine cache = claims.Line("A11.llava_cache");
  CHECK(cache.recomputed.formula.find("5.243e+05 B a token") != std::string::npos);
  // What crosses links follows from a degree of parallelism that is not told.
  CHECK(cache.verdict == Verdict::kUndefined);
  CHECK(cache.recomputed.value > 1);
}

}  // namespace
}  // namespace aurum
