#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/monitor/rules.h"
#include "sim/plan/scenario.h"

namespace aurum {

// A training run as a series of simulated steps
// ---------------------------------------------
// A monitor is judged by what it tells of runs whose truth is known. A series is a scenario, a step from
// which something is wrong, and what varies from step to step anyway. Every step's time is the event
// simulator's, the same that `aurum simulate` tells (Evaluate: with the wait for a loader that does not
// keep up): of the healthy scenario, of the one with the case's changes, and of that with an action's
// changes on top, at the alignment ratio that the step has. What stands between:
//
//   T(step) = T_sim(changes, MAR(step)) · v · w · spike
//
// v is a draw of the simulator with varying kernels and collectives (DrawSteps, over its own mean), w a
// log-normal of mean 1 that all ranks share (clocks, the host), and now and then a step takes
// spike_factor times as long: a checkpoint, a collection of garbage. MAR is told with noise of its own.
// T_sim over MAR is taken between eleven simulated ratios, in straight lines.
// Random numbers are of (seed, use, step): the same series whatever else is asked.

struct SeriesNoise {
  double kernel_cv = 0.02, communication_cv = 0.05;
  double step_cv = 0.02;
  double spike_share = 0.01, spike_factor = 2;
  double mar_cv = 0.01;
};

// One thing that goes wrong, from Series::fault_step on.
struct SeriesCase {
  std::string name;
  std::vector<std::string> set;                // path=value, on the scenario
  std::vector<std::pair<double, double>> mar;  // (steps since the fault step, MAR), ascending
};

struct SeriesAction {
  MonitorAction action = MonitorAction::kLowerSampling;
  std::vector<std::string> set;
};

struct Series {
  std::string name, question, scenario_file;
  JsonDocument scenario;
  int steps = 240, fault_step = 120, seeds = 20;
  double mar = 1;  // while all is well
  SeriesNoise noise;
  MonitorRules rules;
  std::vector<SeriesCase> cases;
  std::vector<SeriesAction> actions;
};

// docs/schema/series.schema.json. A document without "schema": "aurum.series/1" is taken as a scenario
// and gets the cases that its cluster and model can have. The scenario's path is relative to the data
// root, or to the working directory. E0785 a series without a case, or a fault step outside of it.
Series ReadSeries(const JsonDocument& document, const std::string& data_root, InputCache* cache);

// Simulates the steps of a series, each variant of the scenario once.
class SeriesSimulator {
 public:
  SeriesSimulator(const Series& series, InputCache* cache);
  ~SeriesSimulator();
  // The noiseless step time at a ratio. `which`: -1 healthy, else the case; `action`: -1 none.
  // A variant that cannot run (E03xx) throws.
  double StepSeconds(int which, int action, double mar);
  // Samples of a step over its seconds.
  double SamplesPerSecond(int which, int action, double mar);
  // MAR of a step, without noise.
  double MarAt(int which, int step) const;
  // One step as the log would have it. The action applies from `action_from` on; < 0: never.
  StepRecord Step(int which, std::uint64_t seed, int step, int action = -1, int action_from = -1);

 private:
  struct Variant;
  Variant& Get(int which, int action);
  const Series& series_;
  InputCache* cache_;
  std::map<std::pair<int, int>, std::unique_ptr<Variant>> variants_;
};

// How one rule does on one case, over all seeds.
struct RuleScore {
  double detected_share = 0;    // of runs: told between the fault step and the end
  double mean_delay_steps = 0;  // of those: from the fault step to the first alarm
  int worst_delay_steps = 0;
  double false_run_share = 0;   // of runs: told before the fault step
  double false_step_share = 0;  // of healthy steps: under alarm
  double fault_step_share = 0;  // of steps with the fault: under alarm
};
enum class WatchedBy {
  kArticleText,  // |MAR − ASR| ≥ 12 %, neither over its baseline
  kArticleCode,  // |r| < 0.65 over 5 steps
  kOurs,
};
inline constexpr int kWatchers = 3;
std::string_view WatcherName(WatchedBy watcher);

struct ActionEffect {
  MonitorAction action = MonitorAction::kLowerSampling;
  std::string refused;  // why the plan cannot do it; "": it can
  double step_s = 0;    // noiseless, with the fault
  double samples_per_s = 0;
  // Of what the fault cost; below 0: slower still. Nothing where that is below half a percent of the
  // healthy step: a share of nearly nothing says nothing.
  std::optional<double> regained_share;
  double mean_step_s = 0;  // of the noisy series of seed 0, from the action to the end
};

struct CaseScore {
  std::string name;
  double healthy_s = 0, faulty_s = 0;  // noiseless, at the end of the MAR curve
  std::vector<RuleScore> by_watcher;
  std::optional<int> told_at;  // step of our first alarm, seed 0
  std::vector<ActionEffect> actions;
};

// All cases of a series, and first one without a fault.
std::vector<CaseScore> ScoreSeries(const Series& series, InputCache* cache);

}  // namespace aurum
