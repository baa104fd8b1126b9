#include <doctest/doctest.h>

#include "tests/audit/claims.h"

// Verdicts about budgets, adapters, pruning, precision and memory turn with what they rest on.
namespace aurum {
namespace {

TEST_CASE("every row of recipes has a claim, and each is told with its formula") {
  Claims claims("recipe");
  for (const char* row :
       {"A19", "B1", "B2", "B3", "B4", "B5", "B7", "B8", "B9", "B10", "B11", "B12", "B13", "B16"}) {
    CAPTURE(row);
    bool found = false;
    for (const auto& [id, claim] : claims.all()) found = found || claim.row == row;
    CHECK(found);
  }
  for (const auto& [id, claim] : claims.all()) {
    CAPTURE(id);
    const AuditLine line = claims.Line(id);
    CHECK(!line.recomputed.formula.empty());
    MESSAGE(id, " claimed ", claim.claimed, " recomputed ", line.recomputed.value, " ", claim.unit,
            ": ", VerdictName(line.verdict), " | ", line.recomputed.formula);
  }
}

TEST_CASE("arithmetic of published tables") {
  Claims claims("recipe");
  // 76 of 128 M: −40.6 %, and no 85 % of anything.
  CHECK(claims.Line("B8.keep").recomputed.value == doctest::Approx(77.05).epsilon(1e-3));
  CHECK(claims.Line("B8.keep").recomputed.formula.find("−40.62") != std::string::npos);
  CHECK(claims.Line("B8.keep").verdict == Verdict::kRefuted);
  CHECK(claims.With("B8.keep", "after", 92.5) == Verdict::kHolds);
  CHECK(claims.Line("B9.column").verdict == Verdict::kRefuted);
  CHECK(claims.With("B9.column", "remaining", 58) == Verdict::kHolds);
  CHECK(claims.Line("B11.thresholds").recomputed.value == 0);
  CHECK(claims.With("B11.thresholds", "code_high", 0.87) == Verdict::kRefuted);
  CHECK(claims.Line("B8.traffic").verdict == Verdict::kUndefined);
  CHECK(claims.Claiming("B8.traffic", 80) == Verdict::kRefuted);
  CHECK(claims.With("B8.traffic", "kernel", 1) ==
        Verdict::kRefuted);  // half of the weights at least
}

TEST_CASE("pruning keeps between the square and the share, and masks keep all") {
  Claims claims("recipe");
  const double both = claims.Line("B8.parameters").recomputed.value;
  CHECK(both > 0.72 * 128);
  CHECK(both < 0.85 * 128);
  CHECK(claims.Line("B8.parameters").verdict == Verdict::kRefuted);
  CHECK(claims.With("B8.parameters", "keep", 0.77) == Verdict::kHolds);
  CHECK(claims.Line("B8.training").recomputed.value > 0);
  CHECK(claims.Line("B8.training").verdict == Verdict::kHolds);
  CHECK(claims.Claiming("B8.training", 50) == Verdict::kRefuted);
  CHECK(claims.Line("B9.masked").recomputed.value == 100);
  CHECK(claims.Line("B9.masked").verdict == Verdict::kRefuted);
  CHECK(claims.Line("B9.sliced").verdict == Verdict::kHolds);
  CHECK(claims.Line("B9.tp").recomputed.value == 311);
  CHECK(claims.With("B9.tp", "heads", 8) == Verdict::kHolds);
}

TEST_CASE("budgets and times turn with what is allowed and claimed") {
  Claims claims("recipe");
  CHECK(claims.Line("B1.fewer_than_four").verdict == Verdict::kRefuted);
  CHECK(claims.Claiming("B1.fewer_than_four", 4) == Verdict::kHolds);
  const AuditLine orin = claims.Line("B3.orin");
  CHECK(orin.recomputed.value < 0.5 * 42);
  CHECK(orin.verdict == Verdict::kRefuted);
  CHECK(claims.Claiming("B3.orin", orin.recomputed.value) == Verdict::kHolds);
  CHECK(claims.With("B3.busy", "hours", orin.recomputed.value) == Verdict::kHolds);
  CHECK(claims.Line("A19.feasible").recomputed.value >= 0);
  CHECK(claims.With("A19.feasible", "accuracy_floor", 0.95) == Verdict::kRefuted);
  CHECK(claims.With("A19.feasible", "latency_ms", 1e-3) == Verdict::kRefuted);
  CHECK(claims.With("A19.feasible", "latency_ms", 1e5) == Verdict::kHolds);
}

TEST_CASE("what is about accuracy is an input whatever is claimed") {
  Claims claims("recipe");
  for (const char* id : {"B2.quality", "B7.accuracy", "B13.accuracy"}) {
    CAPTURE(id);
    CHECK(claims.Line(id).verdict == Verdict::kInput);
    CHECK(claims.Claiming(id, 1e6) == Verdict::kInput);
  }
}

TEST_CASE("kernels, precision and adapters") {
  Claims claims("recipe");
  CHECK(claims.Line("B5.flash").verdict == Verdict::kHolds);
  CHECK(claims.Line("B5.paged").verdict == Verdict::kRefuted);
  CHECK(claims.Line("B16.fa3").recomputed.value == 383);
  CHECK(claims.Line("B16.zero3").recomputed.value == doctest::Approx(0));
  CHECK(claims.Line("B16.zero3").verdict == Verdict::kRefuted);
  CHECK(claims.Line("B12.memory").recomputed.value == 1);
  CHECK(claims.Line("B12.v100").verdict == Verdict::kHolds);
  CHECK(claims.On("B12.v100", "scenarios/articles/b12-a100-bf16.json") == Verdict::kRefuted);
  CHECK(claims.Line("B12.fallback").recomputed.value > 1.2);
  CHECK(claims.Line("B4.passes").recomputed.value == doctest::Approx(2).epsilon(0.15));
  CHECK(claims.Line("B13.passes").verdict == Verdict::kRefuted);
  CHECK(claims.Line("B13.trained").verdict == Verdict::kHolds);
  CHECK(claims.Line("B10.quantised_a").verdict == Verdict::kRefuted);
  CHECK(claims.Line("B10.rank").verdict == Verdict::kRefuted);
  CHECK(claims.Line("B7.throughput").recomputed.value < 1);
  CHECK(claims.Line("B11.held").recomputed.value == 3);
  CHECK(claims.Line("B11.stall").recomputed.value > 1);
  CHECK(claims.Line("B11.stall").verdict == Verdict::kHolds);       // milliseconds, as told
  CHECK(claims.Claiming("B11.stall", 0.001) == Verdict::kRefuted);  // and no microseconds
  CHECK(claims.With("B11.norm", "norm", 0.75) == Verdict::kRefuted);
}

}  // namespace
}  // namespace aurum
