#include "sim/monitor/rules.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/core/diagnostic.h"
#include "sim/monitor/correlation.h"

namespace aurum {
namespace {

constexpr std::string_view kSignalNames[] = {"slowdown", "misaligned", "divergence", "opposed"};
constexpr std::string_view kActionNames[] = {"diagnose", "lower_sampling", "freeze_cross_attention",
                                             "single_modality"};
constexpr std::string_view kEventNames[] = {"baseline", "raised",       "changed",
                                            "cleared",  "undetermined", "determined"};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// Of those that are known; nothing where none is.
std::optional<double> Median(const std::deque<std::optional<double>>& values) {
  std::vector<double> known;
  for (const std::optional<double>& value : values) {
    if (value) known.push_back(*value);
  }
  if (known.empty()) return std::nullopt;
  return Median(std::move(known));
}

template <typename T>
void Push(std::deque<T>* queue, T value, int most) {
  queue->push_back(std::move(value));
  while (static_cast<int>(queue->size()) > most) queue->pop_front();
}

// `mar_level`: of MAR alone, against its own baseline.
std::vector<MonitorAction> ActionsOf(Signal signal, int level, int mar_level) {
  if (level == 0) return {};
  if (signal == Signal::kDivergence) level = std::min(level, mar_level);
  if (level == 0) return {MonitorAction::kDiagnose};
  switch (signal) {
    case Signal::kSlowdown:
    case Signal::kOpposed:
      return {MonitorAction::kDiagnose};
    case Signal::kMisaligned:
    case Signal::kDivergence:
      if (level == 1) return {MonitorAction::kLowerSampling};
      return {MonitorAction::kFreezeCrossAttention, MonitorAction::kSingleModality};
  }
  return {};
}

void CheckRules(const MonitorRules& r) {
  const auto fail = [](const std::string& what, const std::string& help) {
    ThrowInput(783, what, help, ExitCode::kUsage);
  };
  if (!(r.level1 > 0 && r.level2 > r.level1))
    fail("level 1 must begin above 0 and below level 2", "12 % and 20 %, for example");
  if (!(r.hysteresis >= 0 && r.hysteresis < r.level1))
    fail("an alarm that clears below level 1 less its hysteresis would never clear",
         "a hysteresis below level 1");
  if (r.window < 8)
    fail(
        "a correlation over fewer than 8 steps is chance: of 5 independent pairs, |r| < 0.65 in 3 "
        "cases of 4",
        "--window 32");
  if (r.smooth < 1 || r.raise_after < 1 || r.clear_after < 1 || r.baseline_steps < 1)
    fail("steps are counted from 1", "at least 1 for each of them");
  if (!(r.opposed < 0 && r.opposed > -1))
    fail("series that move against each other have a correlation between -1 and 0", "-0.65");
}

}  // namespace

std::string_view SignalName(Signal signal) { return kSignalNames[static_cast<int>(signal)]; }
std::string_view MonitorActionName(MonitorAction action) {
  return kActionNames[static_cast<int>(action)];
}
std::string_view MonitorEventName(MonitorEvent::Kind kind) {
  return kEventNames[static_cast<int>(kind)];
}

int BandOf(double deviation, const MonitorRules& rules) {
  constexpr double kRounding = 1e-9;
  if (deviation + kRounding >= rules.level2) return 2;
  return deviation + kRounding >= rules.level1 ? 1 : 0;
}

Json MonitorEventJson(const MonitorEvent& event) {
  Json out = Json::Object();
  out.Set("event", MonitorEventName(event.kind));
  out.Set("step", event.step);
  if (event.time_s) out.Set("time_s", *event.time_s);
  if (event.kind == MonitorEvent::Kind::kBaseline) return out;
  out.Set("signal", SignalName(event.signal));
  if (event.kind == MonitorEvent::Kind::kUndetermined) {
    out.Set("reason", event.reason);
    return out;
  }
  out.Set("level", event.level);
  if (event.signal == Signal::kOpposed) {
    out.Set("correlation", event.value);
  } else {
    out.Set("value_percent", event.value * 100);
  }
  if (!event.actions.empty()) {
    Json& actions = out.Set("actions", Json::Array());
    for (const MonitorAction action : event.actions) actions.Append(MonitorActionName(action));
  }
  if (!event.modality.empty()) out.Set("modality", event.modality);
  return out;
}

Monitor::Monitor(MonitorRules rules) : rules_(std::move(rules)) {
  CheckRules(rules_);
  baseline_mar_ = rules_.baseline_mar;
  baseline_step_s_ = rules_.baseline_step_s;
}

int Monitor::level() const {
  int most = 0;
  for (const SignalState& s : signals_) most = std::max(most, s.level);
  return most;
}

int Monitor::MarLevel() const {
  const SignalState& state = signal(Signal::kMisaligned);
  return std::max(state.level, state.value ? BandOf(*state.value, rules_) : 0);
}

std::int64_t Monitor::raised() const {
  std::int64_t all = 0;
  for (const SignalState& s : signals_) all += s.raised;
  return all;
}

int Monitor::BaselineStepsMissing() const { return std::max(rules_.baseline_steps - learned_, 0); }

MonitorEvent Monitor::Event(MonitorEvent::Kind kind, Signal signal,
                            const StepRecord& record) const {
  MonitorEvent event;
  event.kind = kind;
  event.signal = signal;
  event.step = record.step;
  event.time_s = record.time_s;
  const SignalState& state = signals_[static_cast<std::size_t>(signal)];
  event.level = state.level;
  event.value = state.value.value_or(0);
  event.reason = state.reason;
  if (kind == MonitorEvent::Kind::kRaised || kind == MonitorEvent::Kind::kChanged)
    event.actions = ActionsOf(signal, state.level, MarLevel());
  if (std::find(event.actions.begin(), event.actions.end(), MonitorAction::kLowerSampling) !=
      event.actions.end()) {
    event.modality = rules_.non_critical;
    double most = 0;
    for (const auto& [name, tokens] : record.modality_tokens) {
      if (!rules_.non_critical.empty() || name == "text" || tokens <= most) continue;
      most = tokens;
      event.modality = name;
    }
  }
  return event;
}

void Monitor::LearnBaseline(const StepRecord& record, std::vector<MonitorEvent>* events) {
  ++learned_;
  if (record.mar) learn_mar_.push_back(*record.mar);
  if (record.step_time_s) learn_step_s_.push_back(*record.step_time_s);
  if (learned_ < rules_.baseline_steps) return;
  if (!baseline_step_s_ && !learn_step_s_.empty()) {
    baseline_step_s_ = Median(learn_step_s_);
    std::sort(learn_step_s_.begin(), learn_step_s_.end());
    const std::size_t n = learn_step_s_.size();
    baseline_spread_ =
        (learn_step_s_[n - 1 - n / 4] - learn_step_s_[n / 4]) / 2 / *baseline_step_s_;
  }
  // A MAR of 0 is no measure for what comes after it.
  if (!baseline_mar_ && !learn_mar_.empty() && Median(learn_mar_) > 0)
    baseline_mar_ = Median(learn_mar_);
  events->push_back(Event(MonitorEvent::Kind::kBaseline, Signal::kSlowdown, record));
}

void Monitor::Judge(Signal signal, std::optional<double> value, const std::string& reason, int band,
                    int eased_band, const StepRecord& record, std::vector<MonitorEvent>* events) {
  SignalState& s = signals_[static_cast<std::size_t>(signal)];
  s.value = value;
  s.reason = value ? std::string() : reason;
  if (!value) {
    // An alarm that stands goes on standing: nothing says that its cause is gone.
    s.asking = s.easing = 0;
    if (++s.missing >= 2 * rules_.smooth && !s.undetermined_told) {
      s.undetermined_told = true;
      events->push_back(Event(MonitorEvent::Kind::kUndetermined, signal, record));
    }
    return;
  }
  s.missing = 0;
  if (s.undetermined_told) {
    s.undetermined_told = false;
    events->push_back(Event(MonitorEvent::Kind::kDetermined, signal, record));
  }
  if (band > s.level) {
    s.asked = s.asking == 0 ? band : std::min(s.asked, band);
    ++s.asking;
  } else {
    s.asking = 0;
  }
  if (eased_band < s.level) {
    s.eased = s.easing == 0 ? eased_band : std::max(s.eased, eased_band);
    ++s.easing;
  } else {
    s.easing = 0;
  }
  if (s.asking >= rules_.raise_after) {
    const bool fresh = s.level == 0;
    s.level = s.asked;
    s.asking = s.easing = 0;
    if (fresh) {
      ++s.raised;
      s.since_step = record.step;
    }
    events->push_back(
        Event(fresh ? MonitorEvent::Kind::kRaised : MonitorEvent::Kind::kChanged, signal, record));
  } else if (s.easing >= rules_.clear_after) {
    s.level = s.eased;
    s.asking = s.easing = 0;
    events->push_back(
        Event(s.level == 0 ? MonitorEvent::Kind::kCleared : MonitorEvent::Kind::kChanged, signal,
              record));
  }
}

std::vector<MonitorEvent> Monitor::Add(const StepRecord& record) {
  std::vector<MonitorEvent> events;
  has_mar_ = has_mar_ || record.mar;
  if (++steps_ <= rules_.warm_up) return events;
  const bool given = rules_.baseline_mar && rules_.baseline_step_s;
  if (!given && learned_ < rules_.baseline_steps) {
    LearnBaseline(record, &events);
    return events;
  }
  mar_ = asr_ = std::nullopt;
  if (baseline_mar_ && record.mar) mar_ = *record.mar / *baseline_mar_;
  if (baseline_step_s_ && record.step_time_s) asr_ = *baseline_step_s_ / *record.step_time_s;
  Push(&last_mar_, mar_, rules_.smooth);
  Push(&last_asr_, asr_, rules_.smooth);
  const std::optional<double> mar = Median(last_mar_), asr = Median(last_asr_);

  const auto judge = [&](Signal signal, std::optional<double> value, const std::string& reason) {
    const double v = value.value_or(0);
    Judge(signal, value, reason, BandOf(v, rules_), BandOf(v + rules_.hysteresis, rules_), record,
          &events);
  };
  const auto less = [](std::optional<double> ratio) {
    return ratio ? std::optional(1 - *ratio) : std::nullopt;
  };
  const std::string no_mar = !has_mar_       ? "the log has no MAR"
                             : baseline_mar_ ? "no MAR in the last steps"
                                             : "no MAR above 0 in the baseline";
  const std::string no_asr =
      baseline_step_s_ ? "no step time in the last steps" : "no step time in the baseline";
  judge(Signal::kSlowdown, less(asr), no_asr);
  judge(Signal::kMisaligned, less(mar), no_mar);
  judge(Signal::kDivergence, mar && asr ? std::optional(std::abs(*mar - *asr)) : std::nullopt,
        mar ? no_asr : no_mar);

  std::optional<double> r;
  std::string reason = mar ? no_asr : no_mar;
  if (mar_ && asr_) {
    Push(&window_mar_, *mar_, rules_.window);
    Push(&window_asr_, *asr_, rules_.window);
  }
  bool moved = false;
  if (mar && asr) {
    if (static_cast<int>(window_mar_.size()) < rules_.window) {
      reason = "fewer than " + std::to_string(rules_.window) + " steps";
    } else {
      const Correlation c = Correlate({window_mar_.begin(), window_mar_.end()},
                                      {window_asr_.begin(), window_asr_.end()});
      r = c.r;
      reason = c.reason;
      moved = c.spread_a >= rules_.least_spread && c.spread_b >= rules_.least_spread;
    }
  }
  const int opposed = r && moved && *r <= rules_.opposed ? 1 : 0;
  Judge(Signal::kOpposed, r, reason, opposed, opposed, record, &events);
  return events;
}

}  // namespace aurum
