#include <doctest/doctest.h>

#include "sim/monitor/fragmentation.h"
#include "tests/audit/claims.h"

// Verdicts about alarms, traces and root causes turn with the numbers that they rest on.
namespace aurum {
namespace {

TEST_CASE(
    "the rule of five steps alarms three times in four; a long window keeps what it promises") {
  Claims claims("monitoring");
  const AuditLine five = claims.Line("A18.suppression");
  CHECK(five.recomputed.value == doctest::Approx(23.5).epsilon(0.05));
  CHECK(five.verdict == Verdict::kRefuted);
  CHECK(claims.LineWith("A18.suppression", "window", 32).recomputed.value <
        1);  // always alarms: worse
  CHECK(claims.LineWith("A18.suppression", "bound", 0.005).verdict == Verdict::kHolds);
}

TEST_CASE("the gap between the bands, and what has no correlation") {
  Claims claims("monitoring");
  CHECK(claims.Line("A18.band_gap").verdict == Verdict::kRefuted);
  CHECK(claims.LineWith("A18.band_gap", "deviation_percent", 20.1).verdict == Verdict::kHolds);
  CHECK(claims.LineWith("A18.band_gap", "deviation_percent", 15).recomputed.value == 1);
  CHECK(claims.Line("A18.constant_history").recomputed.value == 0);
  CHECK(claims.Line("A18.constant_history").verdict == Verdict::kRefuted);
  CHECK(claims.LineWith("A18.constant_history", "mar_noise", 0.01).recomputed.value > 10);
  CHECK(claims.Line("A18.negative_correlation").verdict == Verdict::kRefuted);
  CHECK(claims.LineWith("A18.negative_correlation", "correlation", 0).recomputed.value > 60);
  CHECK(claims.Line("A18.deviation").verdict == Verdict::kUndefined);
}

TEST_CASE("false alarms of simulated training") {
  Claims claims("monitoring");
  const AuditLine line = claims.LineWith("A18.false_alarms", "seeds", 5);
  CHECK(line.verdict == Verdict::kRefuted);
  CHECK(line.recomputed.value < 45);
}

TEST_CASE("link errors cost what is exposed of them") {
  Claims claims("monitoring");
  const double little = claims.Line("A20.link_errors").recomputed.value;
  const double much =
      claims.LineWith("A20.link_errors", "retransmission_percent", 80).recomputed.value;
  CHECK(little >= 0);
  CHECK(much > little);
  CHECK(much > 5);
  CHECK(claims.LineWith("A20.link_errors", "retransmission_percent", 0).recomputed.value == 0);
}

TEST_CASE("groups that fit into no node leave GPUs behind") {
  const Fragmentation whole = MeasureFragmentation({8, 8}, 8, 2);
  CHECK(whole.replicas == 1);
  CHECK(whole.StrandedShare() == 0);
  const Fragmentation odd = MeasureFragmentation({7, 7, 7}, 4, 1);
  CHECK(odd.in_groups == 12);
  CHECK(odd.StrandedShare() == doctest::Approx(9.0 / 21));
  CHECK(MeasureFragmentation({7, 7, 7}, 4, 2).in_replicas == 8);  // the third group has no partner
  CHECK(MeasureFragmentation({3, 3, 3}, 4, 1).replicas == 0);     // nine GPUs, and no group
  CHECK(MeasureFragmentation({}, 4, 1).StrandedShare() == 0);
  Claims claims("monitoring");
  CHECK(claims.LineWith("A20.utilisation", "free_gpus_per_node", 8).recomputed.value >
        claims.Line("A20.utilisation").recomputed.value);
}

TEST_CASE("one utilisation, two bounds") {
  Claims claims("monitoring");
  const AuditLine line = claims.Line("A22.utilisation");
  CHECK(line.verdict == Verdict::kHolds);
  Claim same = claims.Get("A22.utilisation");
  same.scenario =
      "scenarios/articles/a22-memory-bound.json";  // beside itself: it would prove nothing
  CHECK(claims.Line(same).verdict == Verdict::kRefuted);
  CHECK(claims.Line("A22.spans").recomputed.value > 50);
}

TEST_CASE("root causes of plans that the rules have not seen") {
  Claims claims("monitoring");
  const AuditLine line = claims.LineWith("B20.root_cause", "faults_of_each_cause", 3);
  CHECK(line.recomputed.value > 80);
  CHECK(line.verdict == Verdict::kUndefined);
}

}  // namespace
}  // namespace aurum
