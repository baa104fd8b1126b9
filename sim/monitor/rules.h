#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/json.h"
#include "sim/monitor/step_record.h"

namespace aurum {

// The alignment monitor
// ---------------------
// Two ratios are watched, both over their own baselines, so that 1 is "as it was":
//
//   MAR  aligned / all cross-modal tokens of the step          mar = MAR / MAR₀
//   ASR  baseline step time / step time                        asr = T₀ / T
//
// and what they do, as four signals:
//
//   slowdown    1 − asr      steps take longer
//   misaligned  1 − mar      tokens reach their consumers less often than they did
//   divergence  |mar − asr|  one of the two moved and the other did not
//   opposed     correlation  over a window they move against each other
//
// The article that proposes the monitor has the third alone. It cannot see the case that matters most:
// where misalignment costs time, both fall together and their difference stays at 0. Hence the first
// two.
//
// The first three are medians over the last `smooth` steps, in percent, and fall into bands: [0, 12)
// none, [12, 20) level 1, [20, ∞) level 2. A level is raised when `raise_after` steps in a row ask
// for it, and lowered when `clear_after` in a row stay `hysteresis` below it: one slow step (a
// checkpoint, a collection of garbage) is no alarm, and an alarm does not flicker at its border.
//
// Example: T₀ = 1 s and from step 100 on T = 1.25 s: asr = 0.8, slowdown 20 %. The median of five has
// turned at step 102, the third step in a row that asks is 104: level 2 is raised at 104, a delay of
// 4 steps.
//
// An alarm says what to do. Steps that take longer while MAR stands still have another cause than
// alignment, and freezing layers for a slow GPU would do harm: divergence, which any slowdown brings
// about, proposes the actions against misalignment only as far as MAR itself is down, by the band of
// 1 − mar, and to diagnose where that is below level 1.
//
// What cannot be told is not "no alarm": a signal whose input is missing, and a correlation of numbers
// that do not vary, are undetermined, with the reason.

enum class Signal : std::uint8_t { kSlowdown, kMisaligned, kDivergence, kOpposed };
inline constexpr int kSignals = 4;
std::string_view SignalName(Signal signal);  // "slowdown", "misaligned", "divergence", "opposed"

struct MonitorRules {
  int warm_up = 5;          // steps at the start that are not looked at
  int baseline_steps = 20;  // whose median is the baseline, where it is not given
  std::optional<double> baseline_mar, baseline_step_s;
  double level1 = 0.12, level2 = 0.20;  // lower ends of the bands, both in the band
  int smooth = 5;
  int raise_after = 3;
  int clear_after = 10;
  double hysteresis = 0.03;
  int window = 32;             // pairs of the correlation
  double opposed = -0.65;      // at or below: against each other
  double least_spread = 0.01;  // of both, below which the correlation is of noise
  std::string non_critical;  // the modality whose sampling may be lowered; "": the record's largest
};

// 0 in [0, level1), 1 in [level1, level2), 2 from level2 on. Both ends belong to the upper band: 20 %
// is level 2, also as 1.2 − 1, which is 0.19999999999999996.
int BandOf(double deviation, const MonitorRules& rules);

enum class MonitorAction : std::uint8_t {
  kDiagnose,              // aurum monitor --diagnose: alignment is not what changed
  kLowerSampling,         // of the non-critical modality
  kFreezeCrossAttention,  // the layers that join the modalities train no more
  kSingleModality,        // go on without the other modality
};
std::string_view MonitorActionName(MonitorAction action);  // "lower_sampling", …

struct MonitorEvent {
  enum class Kind : std::uint8_t {
    kBaseline,
    kRaised,
    kChanged,
    kCleared,
    kUndetermined,
    kDetermined
  };
  Kind kind = Kind::kRaised;
  Signal signal = Signal::kSlowdown;
  int level = 0;  // now
  std::int64_t step = 0;
  std::optional<double> time_s;
  double value = 0;      // the signal's: a share, or the correlation
  std::string modality;  // of kLowerSampling
  std::string reason;    // of kUndetermined
  std::vector<MonitorAction> actions;
};
std::string_view MonitorEventName(MonitorEvent::Kind kind);  // "raised", …
// {"event": "raised", "signal": "slowdown", "level": 2, "step": 104, "value_percent": 20.1, "actions": […]}
Json MonitorEventJson(const MonitorEvent& event);

struct SignalState {
  std::optional<double> value;  // smoothed; nothing: undetermined
  std::string reason;           // why there is none
  int level = 0;
  std::int64_t since_step = 0;  // of the level, if above 0
  std::int64_t raised = 0;      // how often it was raised from 0
  int asking = 0, easing = 0;   // steps in a row
  int asked = 0, eased = 0;     // the level that all of them would have
  int missing = 0;              // steps in a row without its input
  bool undetermined_told = false;
};

class Monitor {
 public:
  // E0783 rules that contradict.
  explicit Monitor(MonitorRules rules);

  std::vector<MonitorEvent> Add(const StepRecord& record);

  const MonitorRules& rules() const { return rules_; }
  bool HasBaseline() const { return baseline_step_s_.has_value() || baseline_mar_.has_value(); }
  std::optional<double> baseline_step_s() const { return baseline_step_s_; }
  std::optional<double> baseline_mar() const { return baseline_mar_; }
  // Of the baseline's steps: half their interquartile range over their median; 0 where it was given.
  double baseline_spread() const { return baseline_spread_; }
  const SignalState& signal(Signal s) const { return signals_[static_cast<std::size_t>(s)]; }
  // The last record's, over the baselines.
  std::optional<double> mar() const { return mar_; }
  std::optional<double> asr() const { return asr_; }
  std::int64_t steps() const { return steps_; }
  int level() const;            // the highest of all signals
  std::int64_t raised() const;  // alarms, of all signals
  // Steps still to come until there is a baseline.
  int BaselineStepsMissing() const;

 private:
  void LearnBaseline(const StepRecord& record, std::vector<MonitorEvent>* events);
  void Judge(Signal signal, std::optional<double> value, const std::string& reason, int band,
             int eased_band, const StepRecord& record, std::vector<MonitorEvent>* events);
  int MarLevel() const;  // of MAR against its own baseline, whatever speed does
  MonitorEvent Event(MonitorEvent::Kind kind, Signal signal, const StepRecord& record) const;

  MonitorRules rules_;
  std::int64_t steps_ = 0;
  std::vector<double> learn_mar_, learn_step_s_;
  int learned_ = 0;
  std::optional<double> baseline_mar_, baseline_step_s_;
  double baseline_spread_ = 0;
  bool has_mar_ = false;                                   // any record so far
  std::deque<std::optional<double>> last_mar_, last_asr_;  // the last `smooth`
  std::deque<double> window_mar_, window_asr_;             // pairs, the last `window`
  std::optional<double> mar_, asr_;
  std::array<SignalState, kSignals> signals_;
};

}  // namespace aurum
