#include "sim/monitor/rules.h"

#include <doctest/doctest.h>

#include "sim/core/random.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

using Kind = MonitorEvent::Kind;

MonitorRules Given() {
  MonitorRules rules;
  rules.warm_up = 0;
  rules.baseline_mar = 1.0;
  rules.baseline_step_s = 1.0;
  return rules;
}

StepRecord At(std::int64_t step, std::optional<double> seconds, std::optional<double> mar) {
  StepRecord record;
  record.step = step;
  record.step_time_s = seconds;
  record.mar = mar;
  return record;
}

// Feeds `count` equal steps; the events that came.
std::vector<MonitorEvent> Feed(Monitor* monitor, int count, std::optional<double> seconds,
                               std::optional<double> mar) {
  std::vector<MonitorEvent> all;
  for (int i = 0; i < count; ++i) {
    for (MonitorEvent& event : monitor->Add(At(monitor->steps(), seconds, mar)))
      all.push_back(std::move(event));
  }
  return all;
}

bool Has(const std::vector<MonitorEvent>& events, Kind kind, Signal signal, int level = -1) {
  for (const MonitorEvent& event : events) {
    if (event.kind == kind && event.signal == signal && (level < 0 || event.level == level))
      return true;
  }
  return false;
}

TEST_CASE("the bands are closed below: 12 % is level 1, 20 % is level 2") {
  const MonitorRules rules;
  CHECK(BandOf(0, rules) == 0);
  CHECK(BandOf(0.1199, rules) == 0);
  CHECK(BandOf(0.12, rules) == 1);
  CHECK(BandOf(1.12 - 1, rules) == 1);
  CHECK(BandOf(0.1999, rules) == 1);
  CHECK(BandOf(0.20, rules) == 2);
  CHECK(BandOf(1.2 - 1, rules) == 2);  // 0.19999999999999996
  CHECK(BandOf(5, rules) == 2);
}

TEST_CASE(
    "a slow-down is told after two steps of median and three in a row; cleared when it is over") {
  Monitor monitor(Given());
  CHECK(Feed(&monitor, 50, 1.0, 1.0).empty() == false);  // the correlation is undetermined
  std::vector<MonitorEvent> events;
  int step = 50;
  for (; step < 70 && events.empty(); ++step) events = monitor.Add(At(step, 1.25, 1.0));
  REQUIRE(!events.empty());
  CHECK(events[0].step == 54);
  CHECK(events[0].kind == Kind::kRaised);
  CHECK(events[0].level == 2);
  CHECK(events[0].value == doctest::Approx(0.2));
  // MAR did not move: both tell, and only one says that alignment is to blame.
  CHECK(Has(events, Kind::kRaised, Signal::kSlowdown, 2));
  CHECK(Has(events, Kind::kRaised, Signal::kDivergence, 2));
  CHECK(monitor.signal(Signal::kMisaligned).level == 0);
  const auto after = Feed(&monitor, 30, 1.0, 1.0);
  CHECK(Has(after, Kind::kCleared, Signal::kSlowdown, 0));
  CHECK(monitor.level() == 0);
  CHECK(monitor.raised() == 2);
}

TEST_CASE(
    "both fall together: divergence, the article's measure, is blind; the other two are not") {
  Monitor monitor(Given());
  Feed(&monitor, 20, 1.0, 1.0);
  Feed(&monitor, 20, 1 / 0.7, 0.7);
  CHECK(*monitor.signal(Signal::kDivergence).value < 1e-9);
  CHECK(monitor.signal(Signal::kDivergence).level == 0);
  CHECK(monitor.signal(Signal::kSlowdown).level == 2);
  CHECK(monitor.signal(Signal::kMisaligned).level == 2);
}

TEST_CASE("one slow step in a while is no alarm; the border does not flicker") {
  Monitor monitor(Given());
  for (int i = 0; i < 400; ++i) monitor.Add(At(i, i % 7 == 3 ? 3.0 : 1.0, 1.0));
  CHECK(monitor.raised() == 0);
  // 13 % and 10 % by turns of ten steps: raised once, since 10 % is within the hysteresis.
  Monitor edge(Given());
  for (int i = 0; i < 400; ++i) edge.Add(At(i, 1 / (i / 10 % 2 == 0 ? 0.87 : 0.90), 1.0));
  CHECK(edge.signal(Signal::kSlowdown).raised == 1);
}

TEST_CASE("levels go up and down with their actions") {
  Monitor monitor(Given());
  Feed(&monitor, 10, 1.0, 1.0);
  auto events = Feed(&monitor, 20, 1.0, 0.85);
  CHECK(Has(events, Kind::kRaised, Signal::kMisaligned, 1));
  for (const MonitorEvent& event : events) {
    if (event.signal == Signal::kMisaligned)
      CHECK(event.actions == std::vector{MonitorAction::kLowerSampling});
  }
  events = Feed(&monitor, 20, 1.0, 0.5);
  CHECK(Has(events, Kind::kChanged, Signal::kMisaligned, 2));
  events = Feed(&monitor, 30, 1.0, 0.85);
  CHECK(Has(events, Kind::kChanged, Signal::kMisaligned, 1));
  events = Feed(&monitor, 30, 1.0, 1.0);
  CHECK(Has(events, Kind::kCleared, Signal::kMisaligned, 0));
}

std::vector<MonitorAction> ActionsFor(const std::vector<MonitorEvent>& events, Signal signal) {
  for (const MonitorEvent& event : events) {
    if (event.signal == signal && (event.kind == Kind::kRaised || event.kind == Kind::kChanged))
      return event.actions;
  }
  return {};
}

TEST_CASE("a slow GPU moves the two apart and MAR not at all: no layer is to be frozen for it") {
  MonitorRules rules;
  Monitor monitor(rules);
  std::vector<MonitorEvent> all;
  for (int i = 0; i < 200; ++i) {
    const auto at = static_cast<std::uint64_t>(i);
    const double slow = i >= 100 ? 1.35 : 1;
    for (MonitorEvent& event : monitor.Add(At(i, 2.17 * slow * (1 + 0.02 * RandomNormal(4, 1, at)),
                                              0.9 * (1 + 0.01 * RandomNormal(4, 2, at)))))
      all.push_back(std::move(event));
  }
  CHECK(monitor.signal(Signal::kDivergence).level == 2);
  CHECK(Has(all, Kind::kRaised, Signal::kSlowdown));
  for (const MonitorEvent& event : all) {
    for (const MonitorAction action : event.actions) CHECK(action == MonitorAction::kDiagnose);
  }
  CHECK(ActionsFor(all, Signal::kDivergence) == std::vector{MonitorAction::kDiagnose});
}

TEST_CASE("divergence acts as far as MAR itself is down") {
  // MAR a quarter down, speed as it was.
  Monitor mar(Given());
  Feed(&mar, 10, 1.0, 1.0);
  CHECK(ActionsFor(Feed(&mar, 20, 1.0, 0.75), Signal::kDivergence) ==
        std::vector{MonitorAction::kFreezeCrossAttention, MonitorAction::kSingleModality});
  // 15 % down, and steps twice as long: 35 % apart, of which alignment's part is a level 1.
  Monitor both(Given());
  Feed(&both, 10, 1.0, 1.0);
  const auto events = Feed(&both, 20, 2.0, 0.85);
  CHECK(Has(events, Kind::kRaised, Signal::kDivergence, 2));
  CHECK(ActionsFor(events, Signal::kDivergence) == std::vector{MonitorAction::kLowerSampling});
  // MAR that rises is no misalignment.
  MonitorRules low = Given();
  low.baseline_mar = 0.5;
  Monitor up(low);
  Feed(&up, 10, 1.0, 0.5);
  CHECK(ActionsFor(Feed(&up, 20, 1.0, 0.8), Signal::kDivergence) ==
        std::vector{MonitorAction::kDiagnose});
}

TEST_CASE("what is not known is undetermined, and a standing alarm goes on standing") {
  Monitor monitor(Given());
  Feed(&monitor, 10, 1.0, 1.0);
  Feed(&monitor, 20, 1.5, 1.0);
  CHECK(monitor.signal(Signal::kSlowdown).level == 2);
  const auto events = Feed(&monitor, 40, std::nullopt, 1.0);
  CHECK(Has(events, Kind::kUndetermined, Signal::kSlowdown));
  CHECK(monitor.signal(Signal::kSlowdown).level == 2);
  CHECK_FALSE(monitor.signal(Signal::kSlowdown).value);
  CHECK(Has(Feed(&monitor, 1, 1.0, 1.0), Kind::kDetermined, Signal::kSlowdown));
}

TEST_CASE("a log without MAR is watched for its speed, and says what it cannot tell") {
  MonitorRules rules;
  Monitor monitor(rules);
  const auto events = Feed(&monitor, 60, 1.0, std::nullopt);
  CHECK(Has(events, Kind::kBaseline, Signal::kSlowdown));
  CHECK(Has(events, Kind::kUndetermined, Signal::kMisaligned));
  CHECK(Has(events, Kind::kUndetermined, Signal::kOpposed));
  CHECK(monitor.signal(Signal::kSlowdown).value == 0.0);
  for (const Signal signal : {Signal::kMisaligned, Signal::kDivergence, Signal::kOpposed})
    CHECK(monitor.signal(signal).reason == "the log has no MAR");
  // One that comes after the baseline is known, and has nothing to be compared with.
  monitor.Add(At(60, 1.0, 0.9));
  CHECK(monitor.signal(Signal::kMisaligned).reason == "no MAR above 0 in the baseline");
}

TEST_CASE(
    "a constant history has no correlation; one against the other is an alarm, noise is none") {
  Monitor still(Given());
  const auto events = Feed(&still, 60, 1.0, 1.0);
  CHECK(Has(events, Kind::kUndetermined, Signal::kOpposed));
  CHECK(still.signal(Signal::kOpposed).reason == "MAR does not vary");

  Monitor opposed(Given());
  for (int i = 0; i < 80; ++i) {
    const double up = 0.04 * RandomNormal(5, 1, static_cast<std::uint64_t>(i));
    opposed.Add(At(i, 1 / (1 - up), 1 + up));
  }
  CHECK(opposed.signal(Signal::kOpposed).level == 1);
  CHECK(*opposed.signal(Signal::kOpposed).value < -0.9);

  int raised = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Monitor noise(Given());
    for (std::uint64_t i = 0; i < 500; ++i) {
      noise.Add(At(static_cast<std::int64_t>(i), 1 + 0.03 * RandomNormal(seed, 1, i),
                   1 + 0.03 * RandomNormal(seed, 2, i)));
    }
    raised += static_cast<int>(noise.raised());
  }
  CHECK(raised == 0);
}

TEST_CASE("the baseline is the median after the warm-up") {
  MonitorRules rules;
  rules.warm_up = 3;
  rules.baseline_steps = 5;
  Monitor monitor(rules);
  const double seconds[] = {90, 30, 20, 1.0, 1.1, 9.0, 1.2, 1.05};
  for (int i = 0; i < 8; ++i) monitor.Add(At(i, seconds[i], 0.8));
  CHECK(*monitor.baseline_step_s() == 1.1);
  CHECK(*monitor.baseline_mar() == 0.8);
  monitor.Add(At(8, 2.2, 0.4));
  CHECK(*monitor.asr() == doctest::Approx(0.5));
  CHECK(*monitor.mar() == doctest::Approx(0.5));
}

TEST_CASE("rules that contradict are refused") {
  const auto refused = [](auto change) {
    MonitorRules rules;
    change(&rules);
    return ThrownBy([&] { Monitor monitor(rules); }).code == 783;
  };
  CHECK(refused([](MonitorRules* r) { r->window = 5; }));
  CHECK(refused([](MonitorRules* r) { r->level2 = r->level1; }));
  CHECK(refused([](MonitorRules* r) { r->hysteresis = 0.2; }));
  CHECK(refused([](MonitorRules* r) { r->raise_after = 0; }));
  CHECK(refused([](MonitorRules* r) { r->opposed = 0.3; }));
}

}  // namespace
}  // namespace aurum
