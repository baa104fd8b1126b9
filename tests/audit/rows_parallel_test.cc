#include <doctest/doctest.h>

#include "tests/audit/claims.h"

// Verdicts about plans, gradients, phases and pools turn with the numbers that they rest on.
namespace aurum {
namespace {

TEST_CASE("the accumulation table's arithmetic") {
  Claims claims("parallel");
  CHECK(claims.Line("B17.table").recomputed.value == doctest::Approx(34.68).epsilon(1e-3));
  CHECK(claims.Line("B17.table").verdict == Verdict::kRefuted);
  CHECK(claims.With("B17.table", "after", 57.7) == Verdict::kHolds);
  CHECK(claims.Line("B17.eight").recomputed.value == doctest::Approx(87.5));
  CHECK(claims.With("B17.eight", "micro_batches", 2.63) == Verdict::kHolds);
  CHECK(claims.Line("B17.quarter").verdict == Verdict::kHolds);
  CHECK(claims.With("B17.quarter", "micro_batches", 8) == Verdict::kRefuted);
  CHECK(claims.Line("B17.table").recomputed.remark.find("= 1.429 times") != std::string::npos);
  // Nobody to reduce with, nothing to save.
  CHECK(claims.Line("B17.simulated").recomputed.remark.find("on one GPU it is 0 %") !=
        std::string::npos);
  // A sum that stays is one copy, over two micro-batches as over eight.
  const AuditLine memory = claims.Line("B17.memory");
  CHECK(memory.recomputed.value > 0);
  Claim two = claims.Get("B17.memory");
  two.given.at("micro_batches") = 2;
  CHECK(claims.Line(two).recomputed.value == doctest::Approx(memory.recomputed.value));
}

TEST_CASE("sparse gradients among more ranks save less") {
  Claims claims("parallel");
  CHECK(claims.Line("A4.bytes").verdict == Verdict::kRefuted);
  CHECK(claims.With("A4.bytes", "keep", 0.0002) == Verdict::kHolds);
  Claim two = claims.Get("A4.bytes");
  two.given.at("ranks") = 2;
  CHECK(claims.Line(two).recomputed.value == doctest::Approx(97));
  two.given.at("keep") = 0.34;
  CHECK(claims.Line(two).recomputed.value < 0);
  CHECK(claims.Line("A4.step").recomputed.value > claims.Line("A4.fast_network").recomputed.value);
}

TEST_CASE("a full covariance fits no device, and the sign of a drop cannot be read") {
  Claims claims("parallel");
  CHECK(claims.Line("A14.covariance").verdict == Verdict::kRefuted);
  CHECK(claims.Line("A14.sign").verdict == Verdict::kUndefined);
  CHECK(claims.With("A14.sign", "drop_many", 0.1) == Verdict::kInput);
  CHECK(claims.Line("A14.energy").verdict == Verdict::kInput);
}

TEST_CASE("GPUs that a plan leaves over depend on its parts") {
  Claims claims("parallel");
  CHECK(claims.Line("A5.gpus").recomputed.value == 5);
  CHECK(claims.Line("A5.gpus").verdict == Verdict::kUndefined);
  CHECK(claims.With("A5.gpus", "text_gpus", 8) == Verdict::kHolds);
}

TEST_CASE("a kernel's gain is not the step's") {
  Claims claims("parallel");
  CHECK(claims.Line("B19.kernel").recomputed.value == doctest::Approx(57.7).epsilon(1e-3));
  CHECK(claims.With("B19.kernel", "after_us", 134.5) == Verdict::kHolds);
  CHECK(claims.Line("B19.step").verdict == Verdict::kRefuted);
}

TEST_CASE("a difficulty leaves its range with a clean sound or a deep sentence") {
  Claims claims("parallel");
  CHECK(claims.Line("B15.difficulty").verdict == Verdict::kRefuted);
  Claim tame = claims.Get("B15.difficulty");
  tame.given["snr_db"] = 0.5;
  tame.given["tree_depth"] = 8;
  CHECK(claims.Line(tame).verdict == Verdict::kHolds);
}

}  // namespace
}  // namespace aurum
