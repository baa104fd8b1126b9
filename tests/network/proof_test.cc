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
      CHECK(difference.empty());
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

TEST_CASE("random graphs of transfers over very many links, which meet by pattern: likewise") {
  CheckAgainstReference({.most_ops = 10, .most_links = 60, .most_flows = 40}, 29, 20);
  CheckAgainstReference({.most_ops = 20, .most_links = 30, .most_flows = 12}, 30, 40);
}

TEST_CASE("random graphs whose links change and go down: likewise") {
  CheckAgainstReference({.changes = true}, 23, 300);
}

// The same graph with ops, patterns and links numbered otherwise; `renumbered[i]` is op i's new id.
Scenario Renumber(const Scenario& scenario, Random& random, std::vector<OpId>* renumbered) {
  // A random order that keeps dependencies and streams.
  const auto n = static_cast<std::uint32_t>(scenario.ops.size());
  const OpGraph graph = BuildGraph(scenario);
  std::vector<OpId> order;
  std::vector<bool> done(n, false);
  while (order.size() < n) {
    const OpId op = random() % n;
    const auto before = graph.predecessors(op);
    if (done[op] || !std::all_of(before.begin(), before.end(), [&](OpId b) { return done[b]; }))
      continue;
    done[op] = true;
    order.push_back(op);
  }
  renumbered->resize(n);
  for (OpId i = 0; i < n; ++i) (*renumbered)[order[i]] = i;
  std::vector<std::uint32_t> link(scenario.capacity.size());
  for (std::uint32_t i = 0; i < link.size(); ++i) link[i] = i;
  std::shuffle(link.begin(), link.end(), random);
  Scenario other = scenario;
  for (std::size_t i = 0; i < link.size(); ++i) other.capacity[link[i]] = scenario.capacity[i];
  for (LinkChange& change : other.changes) change.link = link[change.link];
  for (OpId i = 0; i < n; ++i) {
    other.ops[i] = scenario.ops[order[i]];
    for (std::uint32_t& before : other.ops[i].after) before = (*renumbered)[before];
    std::shuffle(other.ops[i].flows.begin(), other.ops[i].flows.end(), random);
    for (Flow& flow : other.ops[i].flows) {
      for (std::uint32_t& l : flow.links) l = link[l];
    }
  }
  return other;
}

TEST_CASE("numbers of ops, flows and links change nothing, bit for bit") {
  Random random(25);
  for (int trial = 0; trial < 300; ++trial) {
    Scenario scenario = RandomScenario(random, {.changes = trial % 2 == 0});
    // Priced once, since the reference's own sums depend on the order.
    for (ScenarioOp& op : scenario.ops) {
      if (op.flows.empty() || op.duration_ps >= 0) continue;
      op.duration_ps =
          op.latency_ps + TimeFromSeconds(AloneSecondsByReference(scenario.capacity, op.flows)).ps;
    }
    std::vector<OpId> renumbered;
    const Scenario other = Renumber(scenario, random, &renumbered);
    for (const bool from_start : {false, true}) {
      const EventLoopOptions options{.share_from_start = from_start};
      const Schedule a =
          RunEventLoop(BuildGraph(scenario), {scenario.capacity, scenario.changes}, options);
      const Schedule b = RunEventLoop(BuildGraph(other), {other.capacity, other.changes}, options);
      for (OpId op = 0; op < a.end.size(); ++op) {
        REQUIRE(a.start[op] == b.start[renumbered[op]]);
        REQUIRE(a.end[op] == b.end[renumbered[op]]);
      }
    }
  }
}

TEST_CASE("twice the bandwidth, caps and bytes: the same times, bit for bit, with changes too") {
  Random random(26);
  for (int trial = 0; trial < 200; ++trial) {
    const Scenario scenario = RandomScenario(random, {.changes = true});
    Scenario doubled = scenario;
    for (double& c : doubled.capacity) c *= 2;
    for (ScenarioOp& op : doubled.ops) {
      for (Flow& flow : op.flows) {
        flow.bytes *= 2;
        flow.cap_bytes_per_s *= 2;
      }
    }
    REQUIRE(RunEventLoop(BuildGraph(doubled), {doubled.capacity, doubled.changes}).end ==
            RunEventLoop(BuildGraph(scenario), {scenario.capacity, scenario.changes}).end);
  }
}

TEST_CASE("no makespan is below the critical path, or below what the busiest link has to carry") {
  Random random(27);
  for (int trial = 0; trial < 300; ++trial) {
    const Scenario scenario = RandomScenario(random, {.most_ops = 60, .most_links = 4});
    const OpGraph graph = BuildGraph(scenario);
    const Schedule schedule = RunEventLoop(graph, {scenario.capacity});
    CHECK(schedule.makespan >= EvaluateMaxPlus(graph).makespan);
    std::vector<double> carried(scenario.capacity.size(), 0);
    for (const ScenarioOp& op : scenario.ops) {
      for (const Flow& flow : op.flows) {
        // A factor below 1 on a duration moves fewer bytes (stretch); leave such ops out.
        if (op.duration_ps >= 0) continue;
        for (const std::uint32_t link : flow.links) carried[link] += flow.bytes;
      }
    }
    for (std::size_t link = 0; link < carried.size(); ++link) {
      CHECK(Seconds(schedule.makespan) >=
            carried[link] / scenario.capacity[link] * (1 - 1e-12) - 1e-12);
    }
  }
}

TEST_CASE("epsilon: off is exact; on, mean times stay close, and the schedule says so") {
  Random random(28);
  double exact_sum = 0, coarse_sum = 0;
  for (int trial = 0; trial < 10; ++trial) {
    // Dense: 200 flows at once over 12 links.
    Scenario scenario;
    scenario.capacity.assign(12, 1e9);
    scenario.streams = 200;
    for (std::uint32_t i = 0; i < 200; ++i) {
      const std::uint32_t a = random() % 12, b = (a + 1 + random() % 11) % 12;
      scenario.ops.push_back(
          {.stream = i, .duration_ps = -1, .flows = {Flow{{a, b}, 1e6 * (1 + random() % 100)}}});
    }
    const OpGraph graph = BuildGraph(scenario);
    const Fabric fabric{scenario.capacity};
    const Schedule exact = RunEventLoop(graph, fabric);
    CHECK(exact.epsilon == 0);
    CHECK(RunEventLoop(graph, fabric, {.epsilon = 0}).end == exact.end);
    const Schedule coarse = RunEventLoop(graph, fabric, {.epsilon = 0.01});
    CHECK(coarse.epsilon == 0.01);
    CHECK(coarse.end != exact.end);
    for (const Time end : exact.end) exact_sum += Seconds(end);
    for (const Time end : coarse.end) coarse_sum += Seconds(end);
  }
  CHECK(std::abs(coarse_sum / exact_sum - 1) < 0.005);
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
