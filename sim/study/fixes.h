#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/core/json.h"
#include "sim/memory/memory.h"
#include "sim/plan/scenario.h"
#include "sim/study/evaluate.h"

namespace aurum {

// What would make a plan smaller, and what each way costs.

// The scenario with something changed, walked again.
struct Fix {
  std::string what;              // "recompute every layer in backward"
  std::vector<std::string> set;  // "plan.recompute=full": for --set
  std::string caution;           // what the figures do not say; "" = nothing
  double step_s = 0;
  double step_delta_s = 0;  // against the plan as it is
  double peak_bytes = 0;    // of the heaviest rank, which may be another one
  double saves_bytes = 0;   // of it
  Fit verdict = Fit::kDoesNotFit;
};

struct FixSearch {
  std::vector<Fix> fixes;
  int tried = 0;  // simulations
};

struct FixOptions {
  int most = 40;             // simulations
  bool though_fits = false;  // search where the plan fits as it is, too
  bool recipes = false;      // also what trains less: adapters over a frozen base, frozen encoders
};

// Single changes of the plan first: more sharding, recomputation, smaller micro-batches of the same batch, more tensor,
// pipeline, context and expert parallelism, one chunk a stage, offload, states and bases in fewer bits, a leaner loss
// kernel. Nothing that changes what is trained, unless `recipes` asks for it; such a fix says so in its caution. A change that is no valid plan is left out. If none makes the plan fit,
// pairs follow, the most promising first. A change that saves less than 0.05 GiB is no fix, nor is a
// pair that saves no more than one of its parts.
//
// Order: what fits by step time, then what is at risk by step time, then the rest by what it saves. Deterministic.
// Times are of the analytic level, and deltas against the same level.
FixSearch SearchFixes(const Evaluation& evaluation, const JsonDocument& document, InputCache* cache,
                      const FixOptions& options = {});

// For `simulate --json`: an array of {"fix", "set", "caution"?, "step_time_s", "step_time_delta_s", "peak_gib",
// "saves_gib", "verdict"}.
Json FixesJson(const FixSearch& search);

// `document` with one value replaced, evaluated again without what is drawn (variation, failures); nothing if it is no
// valid scenario or plan.
std::optional<Evaluation> EvaluateWith(const JsonDocument& document, const std::string& path,
                                       Json value, InputCache* cache, Level level);

}  // namespace aurum
