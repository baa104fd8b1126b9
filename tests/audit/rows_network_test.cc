#include <doctest/doctest.h>

#include <cmath>

#include "sim/audit/rows.h"
#include "tests/audit/claims.h"

namespace aurum {
namespace {

const Computations& NetworkComputations() {
  static const Computations known = AllComputations();
  return known;
}
std::vector<Claim> NetworkClaims() {
  static const std::vector<Claim> claims =
      ReadClaims(ReadJsonFile("scenarios/articles/claims/network.json"), NetworkComputations());
  return claims;
}
Claim Named(const std::string& id) {
  for (const Claim& claim : NetworkClaims()) {
    if (claim.id == id) return claim;
  }
  FAIL("no claim " << id);
  return {};
}
AuditLine LineOf(const Claim& claim) {
  return Audit(claim, NetworkComputations(), &SharedContext());
}
double Value(const Claim& claim) { return LineOf(claim).recomputed.value; }
Claim With(Claim claim, const std::string& name, double value) {
  claim.given[name] = value;
  return claim;
}

TEST_CASE("every row has claims, each is computed, and its verdict turns with what is claimed") {
  for (const char* row : {"A8", "A12", "A13", "A15", "A17"}) {
    const auto claims = NetworkClaims();
    CHECK(std::any_of(claims.begin(), claims.end(),
                      [&](const Claim& c) { return c.row == row && !c.scenario.empty(); }));
  }
  for (const Claim& claim : NetworkClaims()) {
    CAPTURE(claim.id);
    const AuditLine line = LineOf(claim);
    CHECK_FALSE(line.recomputed.formula.empty());
    CHECK(std::isfinite(line.recomputed.value));
    REQUIRE_FALSE(line.recomputed.verdict);  // all by their figures
    Claim right = claim, wrong = claim;
    right.claimed = line.recomputed.value;
    right.tolerance = 1e-9;
    wrong.claimed = 2 * line.recomputed.value + 1;
    wrong.tolerance = 0.01;
    CHECK(Judge(right, line.recomputed) == Verdict::kHolds);
    CHECK(Judge(wrong, line.recomputed) == Verdict::kRefuted);
  }
}

TEST_CASE("A8: sums, bytes and what bandwidth explains") {
  CHECK(Value(Named("A8.sum")) == 0);
  CHECK(Value(With(Named("A8.sum"), "ranks", 1)) == 1);  // one rank's own gradient is the sum
  CHECK(Value(Named("A8.bytes")) == 4);
  CHECK(Value(With(Named("A8.bytes"), "ranks", 2)) == 1);  // two ranks: as many
  CHECK(Value(Named("A8.bandwidth")) == doctest::Approx(91.0 / 68));
  CHECK(LineOf(Named("A8.bandwidth")).verdict == Verdict::kRefuted);
  CHECK(LineOf(With(Named("A8.bandwidth"), "busy_before", 91 / 2.262)).verdict == Verdict::kHolds);
}

TEST_CASE("A8: finer pieces empty the links, parts that are hidden shorten the wait") {
  const double small = Value(With(Named("A8.chunks"), "bucket_mb", 2));
  const double large = Value(With(Named("A8.chunks"), "bucket_mb", 400));
  CHECK(small < 0.9 * large);
  CHECK(Value(Named("A8.exposed")) > 1);
  CHECK(large < 100);
}

TEST_CASE("A12: 196 patches and twelve heads over powers of two") {
  CHECK(Value(Named("A12.divisible")) == 4);
  CHECK(LineOf(Named("A12.divisible")).verdict == Verdict::kRefuted);
  CHECK(LineOf(With(Named("A12.divisible"), "tokens", 192)).verdict == Verdict::kRefuted);  // heads
  CHECK(LineOf(With(With(Named("A12.divisible"), "tokens", 192), "heads", 16)).verdict ==
        Verdict::kHolds);
  CHECK(Value(Named("A12.eight")) == 0);
  CHECK(Value(With(Named("A12.eight"), "tp", 4)) == 1);
  CHECK(Value(With(Named("A12.vector"), "tp", 1)) == 4096);
}

TEST_CASE("A12: by tokens the tower talks less than by heads") {
  const Claim claim = Named("A12.vit_share");
  const auto share = [&](const char* split) {
    const Evaluation& e =
        SharedContext().Run(claim.scenario, {std::string("plan.vision.split=") + split});
    const ModuleShare& vision = e.program.classes[0].modules[0];
    return vision.tp_s / (vision.tp_s + vision.forward_s + vision.backward_s);
  };
  CHECK(100 * share("tokens") == doctest::Approx(Value(claim)).epsilon(1e-9));
  CHECK(share("hidden") > 1.5 * share("tokens"));
}

TEST_CASE("A13: the index, and what the table says against the text") {
  CHECK(Value(Named("A13.index")) == 2);
  CHECK(LineOf(Named("A13.index")).verdict == Verdict::kRefuted);
  CHECK(Value(With(Named("A13.index"), "latency_us_1", 1)) == 0);
  CHECK(Value(Named("A13.variance")) == 1);
  CHECK(Value(With(With(Named("A13.variance"), "rate_fusion", 100), "rate_head", 300)) == -1);
  CHECK(Value(Named("A13.passes")) == doctest::Approx(12.9).epsilon(0.01));
}

TEST_CASE("A13: the score's cut is slower than a balanced one") {
  CHECK(LineOf(Named("A13.score")).verdict == Verdict::kRefuted);
  CHECK(Value(Named("A13.score")) < 0.9);
  // The cut by dynamic programming, which balances, stands beside it.
  CHECK(LineOf(Named("A13.score")).recomputed.formula.find("min-max") != std::string::npos);
}

TEST_CASE("A15: the formula as it stands, in units, and as a divisor") {
  CHECK(Value(Named("A15.formula")) == 13);
  CHECK(LineOf(Named("A15.formula")).verdict == Verdict::kRefuted);
  CHECK(LineOf(With(Named("A15.formula"), "constant", 1000)).verdict == Verdict::kHolds);
  CHECK(Value(Named("A15.units")) == 27);
  CHECK(Value(Named("A15.divisor")) == 8);
  // ⌊4800 / 650⌋ = 7, and 4 divides.
  CHECK(LineOf(With(Named("A15.divisor"), "constant", 450)).verdict == Verdict::kHolds);
}

TEST_CASE("A15: a smaller buffer never speeds an all-to-all up") {
  const Claim claim = Named("A15.buffer");
  CHECK(Value(claim) <= 0);
  CHECK(Value(With(claim, "from_mb", 1)) < Value(claim));
  CHECK(Value(With(claim, "from_mb", 64)) == 0);
}

TEST_CASE("A17: percentages, Amdahl, hops") {
  CHECK(Value(Named("A17.title")) == doctest::Approx(17.7).epsilon(0.001));
  CHECK(LineOf(Named("A17.title")).verdict == Verdict::kRefuted);
  CHECK(LineOf(Named("A17.rate")).verdict == Verdict::kHolds);
  CHECK(LineOf(With(Named("A17.title"), "after", 58.2 * 1.173)).verdict == Verdict::kHolds);
  // The gain of a part is never the whole's, and grows with the part's.
  CHECK(Value(Named("A17.amdahl")) < 17.6);
  CHECK(Value(With(Named("A17.amdahl"), "link_after", 2 * 58.2)) > Value(Named("A17.amdahl")));
  // Two levels gain behind thin spines alone.
  CHECK(Value(Named("A17.simulated")) < 1);
  CHECK(Value(Named("A17.simulated_default")) < 1);
  CHECK(Value(Named("A17.simulated_thin")) > 10);
  CHECK(Value(Named("A17.hops")) == 0);
  CHECK(Value(With(Named("A17.hops"), "most_devices", 3)) == 100);
  CHECK(Value(Named("A17.shared_memory")) == 0);
}

TEST_CASE("A17: slower NVLink slows all-to-alls down") {
  const Claim claim = Named("A17.detour");
  CHECK(Value(claim) > 0);
  CHECK(Value(With(claim, "nvlink_factor", 1)) == doctest::Approx(0));
  CHECK(Value(With(claim, "nvlink_factor", 0.02)) > Value(claim));
}

}  // namespace
}  // namespace aurum
