#pragma once

#include <string>

#include "sim/core/json.h"
#include "sim/core/rounding.h"
#include "sim/study/evaluate.h"

namespace aurum {

// What every island says about how it came to be.
struct ReportOrigin {
  std::string tool_version;
  std::string command;
  std::string generated_at;  // ISO 8601, UTC
};

// Figures of an island, so that a file does not hang on the last bits.
inline double SixDigits(double value) { return RoundSignificant(value, 6); }

// The island (aurum.report/1, see reports/README.md) of one scenario: verdict, time, timeline of one step, memory over the step
// with fixes, what 10 % more of each resource buys, warnings, assumptions. `document` is the scenario as it was evaluated; fixes
// and sensitivities come from evaluating it again with one thing changed.
Json EvaluationIsland(const Evaluation& evaluation, const JsonDocument& document, InputCache* cache,
                      const ReportOrigin& origin);

// The island of a stored study: the golden formula's sweep where its axes are there, else its points as plans compared.
// E0750 where the store holds no point that succeeded.
Json StudyIsland(const std::string& path, InputCache* cache, const ReportOrigin& origin);

}  // namespace aurum
