#include "sim/audit/audit.h"

#include <doctest/doctest.h>

#include <fstream>

#include "sim/audit/rows.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

Computations Halving() {
  return {{"A15.half", [](const AuditInput& in) {
             return Recomputed{in.Given("whole") / 2, "whole / 2", "", {}};
           }}};
}

JsonDocument OneClaim(const std::string& inside) {
  return ParseJson(R"({"schema": "aurum.claims/1", "claims": [{"id": "A15.half", "claim": "half",
    "where": "1", )" + inside +
                       "}]}",
                   "claims.json");
}

TEST_CASE("a verdict follows from the claimed figure, its tolerance and the numbers it rests on") {
  AuditContext context(".");
  const auto verdict = [&](const std::string& inside) {
    const std::vector<Claim> claims = ReadClaims(OneClaim(inside), Halving());
    return Audit(claims.at(0), Halving(), &context).verdict;
  };
  CHECK(verdict(R"("claimed": 4, "tolerance": 0, "given": {"whole": 8})") == Verdict::kHolds);
  CHECK(verdict(R"("claimed": 4, "tolerance": 0, "given": {"whole": 9})") == Verdict::kRefuted);
  CHECK(verdict(R"("claimed": 4, "tolerance": 0.2, "given": {"whole": 9})") == Verdict::kHolds);
  CHECK(verdict(R"("claimed": 0, "tolerance": 0.2, "given": {"whole": 0.3})") == Verdict::kHolds);
  CHECK(verdict(R"("claimed": -4, "tolerance": 0.2, "given": {"whole": 9})") == Verdict::kRefuted);
}

TEST_CASE("claims that cannot be computed are refused, with their place") {
  AuditContext context(".");
  const auto code = [&](const std::string& inside) {
    return ThrownBy([&] { ReadClaims(OneClaim(inside), Halving()); }).code;
  };
  CHECK(code(R"("claimed": 4, "given": {"whole": "8"})") == 103);
  CHECK(code(R"("claimed": 4, "clamed": 5)") == 101);
  CHECK(ThrownBy([&] { ReadClaims(OneClaim(R"("claimed": 4)"), {}); }).code == 791);
  const std::vector<Claim> claims = ReadClaims(OneClaim(R"("claimed": 4)"), Halving());
  const Diagnostic lacking = ThrownBy([&] { Audit(claims[0], Halving(), &context); });
  CHECK(lacking.code == 790);
  CHECK(lacking.where.pointer == "/claims/0");
}

}  // namespace
}  // namespace aurum
