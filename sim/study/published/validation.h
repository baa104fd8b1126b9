#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/plan/scenario.h"
#include "sim/plan/simulate.h"
#include "sim/study/published/record.h"
#include "sim/study/published/score.h"
#include "sim/study/published/sources.h"
#include "sim/study/published/to_scenario.h"

namespace aurum {

// Predicted against measured, over a file of published records (`aurum validate --published`).

// What one scenario of a record comes to.
struct Prediction {
  double step_s = 0;
  double model_flops = 0;   // of a step, on the average GPU; recomputation not counted
  double memory_bytes = 0;  // of the source's report level and rank
  double device_bytes = 0;  // what programs can have of the card
  // The 90 % interval of each, as factors of the prediction.
  double step_low = 1, step_high = 1, memory_low = 1, memory_high = 1;
  bool fits = true, at_risk = false;
  TimeBreakdown time;  // of the step, on the class with the most compute; sums to step_s
};

// The answer for one record: at the nominal scenario, and the least and most over its ends.
struct PredictedRecord {
  Translation translation;
  std::string failed;  // the nominal scenario's diagnostic; "" = it ran
  std::optional<Prediction> nominal;
  double step_low_s = 0, step_high_s = 0;
  double memory_low_bytes = 0, memory_high_bytes = 0;
  bool some_end_fits = false;  // the nominal one, or one of the ends
};

// Translates and simulates, by the walk of `aurum simulate`. The cache gets the record's own model
// and cluster under the names that its scenario uses. A function of its arguments alone.
PredictedRecord Predict(const RecordFacts& facts, const PublishedSources& sources,
                        const std::string& data_root, InputCache* cache,
                        Level level = Level::kAnalytic);

struct PublishedOptions {
  int jobs = 0;  // threads; 0 = one per core
  Level level = Level::kAnalytic;
  const std::atomic<bool>* stop = nullptr;
  std::function<void(std::size_t done, std::size_t total)> progress;  // on the calling thread
};
// Step seconds of a translation's nominal scenario alone. Errors: those of `aurum simulate`.
double PredictStepSeconds(const Translation& translation, InputCache* cache);
// Seconds of one step, from whichever figure was printed; tokens and samples per second need the
// batch, which is a fact, not a measurement. Nothing where no time was measured.
std::optional<double> MeasuredStep(const RecordMeasured& measured, const Translation& translation);
// One prediction per record, in their order, whatever the number of threads.
std::vector<PredictedRecord> PredictAll(const std::vector<Record>& records,
                                        const PublishedSources& sources,
                                        const std::string& data_root,
                                        const PublishedOptions& options);

// One metric of one record.
struct MetricRow {
  std::string id, metric, source, cluster, quality;
  std::string skipped;  // reason; "" = compared
  double predicted = 0, measured = 0;
  std::optional<double> low, high;     // over the ends of untold facts
  double band_low = 0, band_high = 0;  // the 90 % interval, around the ends where there are some
  std::vector<std::string> assumed;
  std::string what;  // model, GPUs, precision and task, as the record prints them
  // Of a step time that is compared: where the nominal prediction goes (sums to `predicted`), and the
  // model FLOPs behind it on the average GPU.
  std::optional<TimeBreakdown> time;
  double model_flops = 0;
};
inline constexpr const char* kIterationMetric = "iteration_s";
inline constexpr const char* kMemoryMetric = "peak_memory_gib";

// Did it fit? Reported against predicted.
struct FitRow {
  std::string id, source;
  bool reported_fits = true;
  // Where a fact that moves memory is not told: at risk if only some of its ends fit.
  bool predicted_fits = true, at_risk = false;
  double need_gib = 0, have_gib = 0;
};

// Plans that were measured against each other.
struct RankedSet {
  std::string set;
  std::vector<std::string> ids;  // fastest measured first
  std::vector<double> measured_s, predicted_s;
  std::optional<double> kendall_tau;
};
// Plans of one model, sequence length and GPU of one source, by GPU-seconds per token: what the plan
// that is predicted to be best loses against the best measured one.
struct PlanChoice {
  std::int64_t groups = 0;
  std::optional<double> regret_mean, regret_worst;
  std::optional<double> kendall_tau_10_percent;  // over pairs measured at least 10 % apart
};

struct PublishedReport {
  std::vector<MetricRow> rows;  // records' order; skipped ones too
  std::vector<FitRow> fits;
  std::vector<RankedSet> ranked;
  PlanChoice choice;
  std::int64_t records = 0, compared = 0;
  // Of all rows of one metric; source "" = all.
  Score ScoreOf(const std::string& metric, const std::string& source = "") const;
  Score ScoreOfQuality(const std::string& metric, const std::string& quality) const;
  std::vector<std::string> Sources() const;  // sorted
};

// The one place where predictions meet what was measured.
PublishedReport Compare(const std::vector<Record>& records,
                        const std::vector<PredictedRecord>& predictions);

// How often each reason holds, the most frequent first; equals by the alphabet.
std::vector<std::pair<std::string, std::int64_t>> SkipReasons(const PublishedReport& report);
// By what was reported (0: out of memory, 1: it ran) and predicted (0: does not fit, 1: at risk, 2:
// fits).
using FitCounts = std::array<std::array<std::int64_t, 3>, 2>;
FitCounts CountFits(const PublishedReport& report);
// Rows that are compared, the one furthest off first: by |ln(predicted / measured)|, so that half and
// double are equally wrong.
std::vector<const MetricRow*> WorstFirst(const PublishedReport& report);

// docs/schema/published.schema.json
Json PublishedJson(const PublishedReport& report, const std::string& tool_version);

}  // namespace aurum
