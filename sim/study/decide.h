#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/core/json.h"
#include "sim/memory/memory.h"
#include "sim/plan/scenario.h"
#include "sim/plan/simulate.h"
#include "sim/study/budget.h"

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
  std::vector<BudgetLine> budget;  // empty where the scenario has none
  TimeBreakdown time;              // of the busiest class
  std::string why;                 // against the best: where the difference lies
  // Of one that is no plan:
  std::optional<Diagnostic> refused;
};

struct Decision {
  std::string what;
  // What fits by step time, then what is at risk, then both again of what exceeds the scenario's budget,
  // then what does not fit the memory and so runs on no budget, then what is no plan. Among equals the
  // plan as it is comes first: it asks for no change.
  std::vector<Alternative> alternatives;
  std::string reason;  // a sentence about the first two, or about the plan where it is the best
};

struct DecideOptions {
  Level level = Level::kAnalytic;
  int jobs = 0;  // threads; 0 = one a core
};

// Simulates the alternatives, each the document with its `set` applied, and ranks them. Other ties keep
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
// The plan as it is is always among them, of every encoder for itself: where it is none of the usual ways,
// by its own name and with nothing to set.
std::vector<Alternative> SplitAlternatives(const Scenario& scenario);
std::vector<Alternative> ExpertAlternatives(const Scenario& scenario);

// Decide() with SplitAlternatives(); where a tp of 1 leaves nothing to share, the reason says so.
Decision DecideSplit(const JsonDocument& document, InputCache* cache, const DecideOptions& options);

// W1771 where the document has `phases`, of which `command` takes none.
std::optional<Diagnostic> PhasesLeftOut(const JsonDocument& document, const std::string& command);

Json DecisionJson(const Decision& decision, const std::string& tool_version);

}  // namespace aurum
