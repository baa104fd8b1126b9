#pragma once

#include <map>
#include <string>

#include "sim/audit/rows.h"

namespace aurum {

// One for all tests: what a claim's scenario comes to does not change.
inline AuditContext& SharedContext() {
  static AuditContext context(".");
  return context;
}

// The shipped claims of one file, as they are and with changes.
class Claims {
 public:
  explicit Claims(const std::string& file) : known_(AllComputations()), context_(".") {
    const JsonDocument document = ReadJsonFile("scenarios/articles/claims/" + file + ".json");
    for (Claim& claim : ReadClaims(document, known_)) claims_.emplace(claim.id, claim);
  }
  const std::map<std::string, Claim>& all() const { return claims_; }
  AuditContext& context() { return context_; }
  Claim Get(const std::string& id) const { return claims_.at(id); }
  AuditLine Line(const Claim& claim) { return Audit(claim, known_, &context_); }
  AuditLine Line(const std::string& id) { return Line(Get(id)); }
  // With another number that it rests on, another figure that is claimed, or on another scenario.
  AuditLine LineWith(const std::string& id, const std::string& name, double value) {
    Claim claim = Get(id);
    claim.given.at(name) = value;
    return Line(claim);
  }
  Verdict With(const std::string& id, const std::string& name, double value) {
    return LineWith(id, name, value).verdict;
  }
  Verdict Claiming(const std::string& id, double claimed) {
    Claim claim = Get(id);
    claim.claimed = claimed;
    return Line(claim).verdict;
  }
  Verdict On(const std::string& id, const std::string& scenario) {
    Claim claim = Get(id);
    claim.scenario = scenario;
    return Line(claim).verdict;
  }

 private:
  Computations known_;
  AuditContext context_;
  std::map<std::string, Claim> claims_;
};

}  // namespace aurum
