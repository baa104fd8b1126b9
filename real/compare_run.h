#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "real/execution.h"
#include "real/run_record.h"

namespace aurum {

// Predicted against measured, for one run of one plan: the step, and what each kind of op has to do
// with the difference.

// One figure on both sides. An error is predicted / measured − 1, as of published records.
struct RunMetric {
  std::string name;  // "step_time_s", "compute_s", "tokens_per_s", "peak_memory_gib"
  double predicted = 0, measured = 0;
  std::string of;  // "rank 3": where it is one rank's
  double RelativeError() const { return predicted / measured - 1; }
};

// Time of all ops of one kind. Measured is what they took themselves: of a collective, the time of
// the rank that came last; what the others waited for it stands apart.
struct OpClassTime {
  OpKind what = OpKind::kForward;
  bool modelled = false;  // delays of a rank alone: nothing was measured
  std::size_t count = 0;  // ops, of all ranks together
  double predicted_s = 0, measured_s = 0, waiting_s = 0;   // over ranks
  double busiest_predicted_s = 0, busiest_measured_s = 0;  // of the busiest rank
};

// One part of the difference measured − predicted of the step. All parts sum to it.
enum class ErrorPartKind : std::uint8_t {
  kOps,      // ops of one kind and module on the measured critical path
  kGaps,     // between ops that wait for nothing any more: launches, queues
  kWaits,    // predicted waits that did not come true: the path is not the predicted one
  kOverlap,  // ops that were predicted to run at once, and did not
  kTiming,   // whole steps against steps that were timed op by op
};
std::string ErrorPartName(ErrorPartKind kind);  // "ops", "gaps", "waits", "overlap", "timing"

struct ErrorPart {
  ErrorPartKind kind = ErrorPartKind::kOps;
  OpKind what = OpKind::kForward;  // of kOps
  int module = -1;                 // index into Model::modules; -1: none
  std::string mostly;              // of kOps: the kernels that most of the predicted time goes to:
                                   // "gemm", "attention", "memory"; "" = no kernels
  std::size_t count = 0;           // of kOps: on the path
  double predicted_s = 0, measured_s = 0;
  double difference_s = 0;    // measured − predicted
  double share_of_error = 0;  // of the step's difference; negative: it makes it smaller
};

// One op of one rank on both time axes, both from the step's beginning.
struct ComparedOp {
  std::size_t timed = 0;  // index of RunRecord::ops
  double predicted_start_s = 0, predicted_end_s = 0;
  double measured_start_s = 0, measured_end_s = 0;
  bool on_path = false;  // the measured critical one
};

struct RunComparison {
  std::vector<RunMetric> metrics;    // the step first
  std::vector<OpClassTime> classes;  // most measured time first
  std::vector<ErrorPart> parts;      // largest difference first
  std::vector<ComparedOp> ops;       // as RunRecord::ops
  int busiest_rank = 0;              // most measured kernel time
  double timed_step_s = 0;           // the step that was timed op by op; 0: none was
  double wall_step_s = 0;            // by wall clock, where the run's clock is another; 0: the same
  std::vector<Diagnostic> warnings;  // W1980 …
  std::vector<std::string> scenario_differences;  // "profile is "a" in the run and "b" here"
  const RunMetric& Step() const { return metrics.front(); }
  // What the verdict rests on: the step, or of a lone rank its own kernels, where those are further
  // off. Modelled delays fill its step up, so that kernels which are too fast would not show in it.
  const RunMetric& Judged() const;
};

// What is compared when nothing else is asked for, as a share: 1 % of virtual runs, whose hidden truth
// is the same simulator's, 5 % of GPUs and 25 % of CPU cores, whose step times vary as much.
double DefaultTolerance(const std::string& backend);

// MakeExecutable at another level than analytic: what shares links is simulated so. E0982 chunk, whose
// ops are not the plan's; a lone rank at another level than analytic.
Executable PredictRun(Scenario scenario, Level level, double epsilon, int lone_rank);

// E0981 the run was of another plan: names the first difference between `scenario`, the document of
// the prediction, and the run's. E0901 ops that are not those of the plan.
void CheckSamePlan(const RunRecord& record, const Executable& predicted, const Json& scenario);

// Whether the document that was run and this one differ in nothing but titles and the profile.
bool SamePlanDocument(const RunRecord& record, const Json& scenario);

// Compares; both must be of one plan (CheckSamePlan). `tokens_per_step` through the backbone; 0 = no
// such figure. Warnings:
//   W1980 the profile is of another device than the run's
//   W1981 the comparison is weak: the run's steps vary, or too few of them were undisturbed
//   W1982 a rank's clock fell, or it was throttled
//   W1983 a check of the run failed
RunComparison CompareRun(const RunRecord& record, const Executable& predicted, const Json& scenario,
                         double tokens_per_step);

// Of a step outside tolerance: which ops explain most of it, and what to do. "forward of backbone,
// mostly gemm, took 1.80 × the predicted time".
std::string ExplainError(const RunComparison& comparison, const Executable& predicted);

// What to do about it: calibrate, where ops or a device explain it; else what its largest part asks for.
std::string AdviceFor(const RunComparison& comparison, const RunRecord& record);

// "forward of backbone", "tp_collective".
std::string NameOf(const ErrorPart& part, const Model& model);

}  // namespace aurum
