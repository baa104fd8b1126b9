#include "sim/launch/gaps.h"

#include <algorithm>

namespace aurum {
namespace {

std::string Joined(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : "; ") + item;
  return text;
}

Diagnostic Warning(int code, std::string message, std::string help) {
  Diagnostic d;
  d.code = code;
  d.warning = true;
  d.message = std::move(message);
  d.help = std::move(help);
  return d;
}

}  // namespace

void Gaps::RefusePlan(const std::string& key, const std::string& why, const std::string& remedy) {
  plan_.push_back({key + ": " + why, remedy});
}
void Gaps::RefuseModel(const std::string& what, const std::string& remedy) {
  model_.push_back({what, remedy});
}
void Gaps::RefuseWorkload(const std::string& what, const std::string& remedy) {
  workload_.push_back({what, remedy});
}

void Gaps::ThrowIfRefused(const std::vector<Framework>& others) const {
  std::string elsewhere;
  for (const Framework other : others)
    elsewhere += (elsewhere.empty() ? "--framework " : " or ") + FrameworkName(other);
  const auto fail = [&](int code, const char* subject, const std::vector<Refusal>& refusals) {
    if (refusals.empty()) return;
    std::vector<std::string> what, remedies;
    for (const Refusal& refusal : refusals) {
      what.push_back(refusal.what);
      if (!refusal.remedy.empty() &&
          std::find(remedies.begin(), remedies.end(), refusal.remedy) == remedies.end())
        remedies.push_back(refusal.remedy);
    }
    if (!elsewhere.empty()) {
      remedies.push_back((remedies.empty() ? "" : "or ") + elsewhere + ", as it is");
    } else if (remedies.empty()) {
      remedies.emplace_back("none of the four frameworks takes it as it is");
    }
    ThrowInput(code,
               FrameworkName(framework_) + " cannot run this " + subject + ": " + Joined(what),
               Joined(remedies), ExitCode::kInfeasible);
  };
  fail(952, "workload", workload_);
  fail(951, "model", model_);
  fail(950, "plan", plan_);
}

std::vector<Diagnostic> Gaps::Warnings() const {
  const std::string name = FrameworkName(framework_);
  std::vector<Diagnostic> warnings;
  if (!decides_.empty()) {
    warnings.push_back(Warning(1950, name + " decides for itself: " + Joined(decides_),
                               "the run may differ from the prediction by that"));
  }
  if (!imposed_.empty()) {
    warnings.push_back(Warning(1951, "no run obeys what the scenario imposes: " + Joined(imposed_),
                               "remove it to predict what this launch will do"));
  }
  if (!program_.empty()) {
    warnings.push_back(Warning(1952, "left to you and your training program: " + Joined(program_),
                               "what stands in the files for it lets a timing run start"));
  }
  if (!other_stack_.empty()) {
    warnings.push_back(
        Warning(1953, "the prediction is of another software stack: " + Joined(other_stack_),
                "a stack of this framework predicts this launch (aurum list stacks)"));
  }
  return warnings;
}

}  // namespace aurum
