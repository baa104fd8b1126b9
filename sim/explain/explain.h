#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/explain/comm_tree.h"
#include "sim/explain/critical_path.h"
#include "sim/explain/memory_tree.h"
#include "sim/explain/sensitivity.h"
#include "sim/explain/work_tree.h"
#include "sim/study/decide.h"
#include "sim/study/evaluate.h"
#include "sim/study/fixes.h"
#include "sim/study/time_parts.h"

namespace aurum {

// Why a step takes what it takes, what would change that, and what it costs.

// What is asked for; all by default.
struct ExplainTopics {
  bool time = true;         // by module and op, the critical path
  bool memory = true;       // by component, module and tensor
  bool comm = true;         // by group and collective; whether the topology matters
  bool formula = true;      // the golden formula's terms against the simulation
  bool oom = true;          // micro-batches that fit, fixes by cost
  bool sensitivity = true;  // what 10 % more of each resource buys; the encoders' places
};
// "time", "memory", … in that order.
const std::vector<std::string>& ExplainTopicNames();
// E0890: none of them, with the nearest. Empty: all.
ExplainTopics TopicsOf(const std::vector<std::string>& names);

struct ExplainOptions {
  ExplainTopics topics;
  int jobs = 0;         // threads of what is simulated again; 0 = one a core
  int most_fixes = 40;  // simulations
  std::string tool_version;
  GoldenWeights weights;
};

// A sentence that the figures below it bear out.
struct Finding {
  std::string
      topic;  // "bound", "path", "topology", "memory", "fit", "sensitivity", "samples", "encoders", "formula"
  std::string text;
};

struct Explanation {
  int rank_class = 0;  // whose time it is: the busiest
  std::vector<Finding> findings;
  std::vector<TimePart> parts;  // of the busiest class; always there
  std::optional<WorkTree> work;
  std::optional<CriticalPath> path;
  std::optional<CommTree> comm;
  std::vector<LinkLimit> links;
  std::optional<MemoryTree> memory;
  std::vector<MicroBatchRow> micro_batches;
  std::vector<Recipe> recipes;  // where the plan does not surely fit
  std::optional<FixSearch> fixes;
  std::vector<Sensitivity> sensitivities;
  Fit with_more_memory = Fit::kFits;  // 10 % more on every card
  std::optional<Decision> encoders;   // where an encoder's work could be shared out otherwise
};

// `evaluation` of `document`, at the level at which everything is simulated again, fixes apart (analytic).
// Deterministic, whatever the number of threads. Cost: about 30 simulations of one step where all is asked.
Explanation Explain(const Evaluation& evaluation, const JsonDocument& document, InputCache* cache,
                    const ExplainOptions& options);

// The document of `explain --json` (docs/schema/explain.schema.json), without its run_id.
Json ExplainJson(const Evaluation& evaluation, const Explanation& explanation,
                 const ExplainOptions& options);

}  // namespace aurum
