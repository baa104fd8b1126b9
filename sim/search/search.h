#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/memory/memory.h"
#include "sim/plan/simulate.h"
#include "sim/search/space.h"
#include "sim/study/cost.h"
#include "sim/study/evaluate.h"

namespace aurum {

// The best plans of a space. Every combination is accounted for: simulated, bounded out, refused with
// its reason, or alike another.

enum class Objective {
  kThroughput,  // samples a second
  kTime,        // to the scenario's target, or of a step
  kCost,    // money where the scenario has prices, else GPU-hours; of a sample, or of the target
  kEnergy,  // of a sample, or of the target; every device at its power limit
};
std::string ObjectiveName(Objective objective);  // "throughput", ...

struct SearchOptions {
  Objective objective = Objective::kThroughput;
  std::size_t top = 10;         // plans that are found
  bool pareto = false;          // nothing is bounded out that may be on the front
  bool accept_at_risk = false;  // plans whose memory may or may not do
  // Why a plan is out of the question, whatever it takes; nothing: it is not. Counted with its code.
  std::function<std::optional<Diagnostic>(const Scenario&)> refuses;
  Level level = Level::kAnalytic;
  int jobs = 0;  // threads; 0 = one a core. The result does not depend on it
  const std::atomic<bool>* stop = nullptr;
  // Groups of combinations that have been looked at, of all; plans simulated so far.
  std::function<void(std::uint64_t done, std::uint64_t all, std::uint64_t simulated)> progress;
};

struct FoundPlan {
  ChoiceIndices at;
  std::vector<std::string> labels;  // by dimension
  std::vector<std::string> set;     // for --set
  std::string plan, recipe;         // in words
  double score = 0;                 // of the objective; the less the better
  double bound_s = 0;               // what the step was known to take at the least
  double step_s = 0, samples_per_s = 0, tokens_per_s = 0, mfu = 0;
  double peak_bytes = 0, usable_bytes = 0;
  Fit verdict = Fit::kFits;
  int gpus = 0;
  RunCost cost;
  TimeBreakdown time;
  Limit limit = Limit::kCompute;
  bool on_front = false;  // no other plan is better in time, memory, GPUs, cost and energy at once
};

// Why combinations are not among the plans, with one that shows it.
struct RejectedPlans {
  std::string code;    // "E0312"; "memory", "state", "bound", "unplaceable", "alike"
  std::string reason;  // of the example
  std::uint64_t count = 0;
  std::vector<std::string> example;  // its choices, by dimension
};

struct SearchCounts {
  std::uint64_t total = 0;        // executions of the space
  std::uint64_t alike = 0;        // the same plan as another of them
  std::uint64_t unplaceable = 0;  // no placement realises them
  std::uint64_t refused = 0;      // no plan: it divides nothing, a kernel is missing …
  std::uint64_t state = 0;        // weights, gradients and optimizer states alone do not fit
  std::uint64_t kept = 0;         // with the activations that its schedule keeps, no more fits
  std::uint64_t memory = 0;       // simulated: do not fit
  std::uint64_t bounded = 0;      // cannot be better than the plans that were found
  std::uint64_t valued = 0;       // simulated: fit
  std::uint64_t Accounted() const {
    return alike + unplaceable + refused + state + kept + memory + bounded + valued;
  }
};

struct SearchReport {
  PlanSpace space;
  SearchOptions options;
  std::vector<Scenario::Input> inputs;  // of the scenario as it is
  std::vector<Diagnostic> warnings;
  SearchCounts counts;
  std::vector<FoundPlan> best;          // at most `top`, by score
  std::vector<FoundPlan> front;         // of all that were valued, by step time
  std::vector<RejectedPlans> rejected;  // by count
  std::optional<FoundPlan> told;        // the scenario's own plan, if it is one
  bool told_fits = false;
  std::string told_refused;
  // The fastest plan that may not fit, where it is better than the best: at risk.
  std::optional<FoundPlan> at_risk;
  std::uint64_t bounds = 0, simulations = 0;  // that it took
  bool interrupted = false;
  // Samples differ: plans were sought for their mean, and the best simulated with the samples as drawn.
  bool uneven = false;
};

// Searches the space around the scenario of `document`. E0876 an objective without what it needs.
SearchReport Search(const JsonDocument& document, const PlanSpace& space, InputCache* cache,
                    const SearchOptions& options);

Json SearchJson(const SearchReport& report, const std::string& tool_version);

}  // namespace aurum
