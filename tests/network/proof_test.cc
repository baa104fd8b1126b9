// The event loop against a brute-force reference, on random scenarios with shrinking.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "sim/network/event_loop.h"

#include "tests/network/scenario.h"

namespace aurum {
namespace {

// Empty: the loop agrees with the reference, within 1e-9 of the time and the rounding of a
// completion to a picosecond per op.
std::string Difference(const Scenario& scenario, const EventLoopOptions& options) {
  const OpGraph graph = BuildGraph(scenario);
  const Schedule schedule = RunEventLoop(graph, {scenario.capacity, scenario.changes}, options);
  const std::vector<long double> expected = ReferenceEnds(scenario);
  for (OpId op = 0; op < expected.size(); ++op) {
    const double got = Seconds(schedule.end[op]);
    const bool never = std::isinf(expected[op]);
    if (never != (schedule.end[op] == kTimeMax)) return "op " + std::to_string(op) + " never ends";
    if (never) continue;
    const auto wanted = static_cast<double>(expected[op]);
    const double tolerance = 1e-9 * wanted + 4e-12 * static_cast<double>(expected.size());
    if (!(std::abs(got - wanted) <= tolerance)) {
      return "op " + std::to_string(op) + " ends at " + std::to_string(got) + ", not at " +
             std::to_string(wanted);
    }
  }
  return {};
}

void CheckAgainstReference(const ScenarioShape& shape, std::uint32_t seed, int trials) {
  Random random(seed);
  for (int trial = 0; trial < trials; ++trial) {
    const Scenario scenario = RandomScenario(random, shape);
    for (const bool from_start : {false, true}) {
      const EventLoopOptions options{.share_from_start = from_start};
      const std::string difference = Difference(scenario, options);
      if (difference.empty()) continue;
      const Scenario small =
          Shrink(scenario, [&](const Scenario& s) { return !Difference(s, options).empty(); });
      FAIL(Difference(small, options)
           << (from_start ? " (shared from the start)\n" : "\n") << Print(small));
    }
  }
}

TEST_CASE("random graphs: every end is that of a simulation that fills all flows at every event") {
  CheckAgainstReference({}, 21, 300);
}

TEST_CASE("random graphs of many flows on few links: likewise") {
  CheckAgainstReference({.most_ops = 80, .most_links = 3}, 22, 60);
}

TEST_CASE("random graphs whose links change and go down: likewise") {
  CheckAgainstReference({.changes = true}, 23, 300);
}

TEST_CASE("shrinking keeps the failure and drops the rest") {
  Random random(24);
  const Scenario scenario = RandomScenario(random, {.most_ops = 40, .changes = true});
  const auto uses_link_0 = [](const Scenario& s) {
    return std::any_of(s.ops.begin(), s.ops.end(), [](const ScenarioOp& op) {
      return std::any_of(op.flows.begin(), op.flows.end(), [](const Flow& flow) {
        return std::find(flow.links.begin(), flow.links.end(), 0U) != flow.links.end();
      });
    });
  };
  REQUIRE(uses_link_0(scenario));
  const Scenario small = Shrink(scenario, uses_link_0);
  REQUIRE(small.ops.size() == 1);
  CHECK(small.ops[0].flows.size() == 1);
  CHECK(small.ops[0].flows[0].links == std::vector<std::uint32_t>{0});
  CHECK(small.changes.empty());
  CHECK(Print(small).find("links 0") != std::string::npos);
}

}  // namespace
}  // namespace aurum
