#pragma once

#include <string>
#include <vector>

#include "sim/launch/launch.h"

namespace aurum {

// Collects what a framework does not take, so that a user reads all of it at once.
class Gaps {
 public:
  explicit Gaps(Framework framework) : framework_(framework) {}

  // `key`: as the scenario spells it with its value, "plan.backbone.pp = 4". `why`: a sentence without
  // its full stop. `remedy`: what to change; "" = nothing helps but another framework. Which one would is
  // for Emit() to find out, not for a remedy to guess.
  void RefusePlan(const std::string& key, const std::string& why, const std::string& remedy);
  void RefuseModel(const std::string& what, const std::string& remedy);
  void RefuseWorkload(const std::string& what, const std::string& remedy);
  void Decides(const std::string& what) { decides_.push_back(what); }         // W1950
  void Imposed(const std::string& what) { imposed_.push_back(what); }         // W1951
  void Program(const std::string& what) { program_.push_back(what); }         // W1952
  void OtherStack(const std::string& what) { other_stack_.push_back(what); }  // W1953

  bool Refused() const { return !plan_.empty() || !model_.empty() || !workload_.empty(); }
  // `others`: frameworks that take the scenario as it is.
  void ThrowIfRefused(const std::vector<Framework>& others) const;
  std::vector<Diagnostic> Warnings() const;
  Framework framework() const { return framework_; }

 private:
  struct Refusal {
    std::string what, remedy;
  };
  Framework framework_;
  std::vector<Refusal> plan_, model_, workload_;
  std::vector<std::string> decides_, imposed_, program_, other_stack_;
};

}  // namespace aurum
