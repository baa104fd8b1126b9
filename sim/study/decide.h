#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/core/json.h"
#include "sim/memory/memory.h"
#include "sim/plan/scenario.h"
#include "sim/plan/simulate.h"

namespace aurum {

// One decision of a plan, taken by simulating every alternative. Nothing here is a rule of thumb: what
// a rule would say is one of the alternatives, and stands where its step time puts it.

struct Alternative {
  std::string name;              // "vision: tokens over tp 4"
  std::vector<std::string> set;  // "plan.vision.split=tokens": for --set
  bool as_told = false;          // the plan as it is
  // Of a valid one:
  double step_s = 0;
  double samples_per_s = 0;
  double peak_bytes = 0;
  Fit verdict = Fit::kFits;
  TimeBreakdown time;  // of the busiest class
  std::string why;     // against the best: where the difference lies
  // Of one that is no plan:
  std::optional<Diagnostic> refused;
};

struct Decision {
  std::string what;
  // What fits by step time, then what is at risk, then what does not fit, then what is no plan.
  std::vector<Alternative> alternatives;
  std::string reason;  // a sentence about the first two
};

struct DecideOptions {
  Level level = Level::kAnalytic;
  int jobs = 0;  // threads; 0 = one a core
};

// Simulates the alternatives, each the document with its `set` applied, and ranks them. Ties keep
// their order. The same for any number of threads.
Decision Decide(std::string what, std::vector<Alternative> alternatives,
                const JsonDocument& document, InputCache* cache, const DecideOptions& options);

// The alternatives of one kind of decision. `scenario` is what the document reads as.
//   split    of every encoder with layers, on the backbone's GPUs: its tp GPUs share heads (hidden) or
//            tokens, none shares anything, or each takes its own images (colocated_dp); on ranks of its
//            own: hidden or tokens. Other encoders stay as told.
//   experts  expert-parallel sizes: every divisor of the experts or of a stage's GPUs; and, where the
//            group of one leaves the node, the all-to-all in two levels.
//   cut      of the pipeline's layers: sim/study/pipeline_cut.h.
std::vector<Alternative> SplitAlternatives(const Scenario& scenario);
std::vector<Alternative> ExpertAlternatives(const Scenario& scenario);

Json DecisionJson(const Decision& decision, const std::string& tool_version);

}  // namespace aurum
