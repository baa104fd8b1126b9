// A folded graph, where a flow stands for a class of flows, gives to the bit the times of the graph
// that it is folded from.

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "sim/network/event_loop.h"

#include "tests/network/scenario.h"

namespace aurum {
namespace {

PatternId OneFlow(OpGraph& graph, std::vector<std::uint32_t> links, double bytes,
                  std::vector<Crossings> crossings = {}) {
  Flow flow{std::move(links), bytes};
  flow.crossings = std::move(crossings);
  return graph.AddPattern({{flow}});
}

TEST_CASE("k transfers over one link, and one that stands for them") {
  for (const std::uint32_t k : {1U, 2U, 3U, 7U, 30U, 1000U}) {
    const Fabric fabric{{1e9}};
    OpGraph many, folded;
    const Time alone = TimeFromSeconds(0.001);
    for (std::uint32_t i = 0; i < k; ++i) {
      many.AddTransfer(many.AddStream(), alone, {0}, OneFlow(many, {0}, 1e6));
    }
    const PatternId pattern = OneFlow(folded, {0}, 1e6, {{.all = k, .own = 1}});
    folded.AddTransfer(folded.AddStream(), alone, {0}, pattern);
    REQUIRE(many.Finish());
    REQUIRE(folded.Finish());
    const Schedule expected = RunEventLoop(many, fabric);
    const Schedule schedule = RunEventLoop(folded, fabric);
    for (const Time end : expected.end) CHECK(end == schedule.end[0]);
    CHECK(schedule.end[0].ps >= static_cast<std::int64_t>(k) * alone.ps);
    CHECK(schedule.end[0].ps <= static_cast<std::int64_t>(k) * alone.ps + k);
  }
}

TEST_CASE("flows of one transfer in each other's way are in its duration, folded or not") {
  // Four flows of one transfer into one port: 4 MB at 1 GB/s. Nobody else is there.
  const Fabric fabric{{1e9, 1e9}};
  OpGraph folded;
  const PatternId pattern =
      OneFlow(folded, {0, 1}, 1e6, {{.all = 1, .own = 1}, {.all = 4, .own = 4}});
  folded.AddTransfer(folded.AddStream(), TimeFromSeconds(0.004), {0}, pattern);
  REQUIRE(folded.Finish());
  CHECK(RunEventLoop(folded, fabric).end == EvaluateMaxPlus(folded).end);
  // Two such transfers at one port: twice as long.
  OpGraph two;
  const PatternId both = OneFlow(two, {0, 1}, 1e6, {{.all = 1, .own = 1}, {.all = 8, .own = 4}});
  two.AddTransfer(two.AddStream(), TimeFromSeconds(0.004), {0}, both);
  REQUIRE(two.Finish());
  CHECK(RunEventLoop(two, fabric).end[0] == TimeFromSeconds(0.008));
}

TEST_CASE("neighbours on a star: rings at two distances fold to one host") {
  // Link 2h goes up from host h, 2h + 1 down to it. Every host sends to the next one, and from half
  // a millisecond on to the one after it too.
  for (const std::uint32_t hosts : {3U, 5U, 64U}) {
    OpGraph ring, folded;
    const Time alone = TimeFromSeconds(0.001), later = TimeFromSeconds(0.0005);
    const auto add = [&](OpGraph& graph, std::vector<std::uint32_t> near,
                         std::vector<std::uint32_t> far, std::vector<Crossings> crossings) {
      graph.AddTransfer(graph.AddStream(), alone, {0}, OneFlow(graph, near, 1e6, crossings));
      const StreamId stream = graph.AddStream();
      graph.AddOp(stream, later);
      graph.AddTransfer(stream, alone, {0}, OneFlow(graph, far, 1e6, crossings));
    };
    for (std::uint32_t h = 0; h < hosts; ++h) {
      add(ring, {2 * h, 2 * ((h + 1) % hosts) + 1}, {2 * h, 2 * ((h + 2) % hosts) + 1}, {});
    }
    add(folded, {0, 1}, {0, 1}, {{.all = 1, .own = 1}, {.all = 1, .own = 1}});
    REQUIRE(ring.Finish());
    REQUIRE(folded.Finish());
    const Schedule expected = RunEventLoop(ring, {std::vector<double>(2 * hosts, 1e9)});
    const Schedule schedule = RunEventLoop(folded, {{1e9, 1e9}});
    CHECK(schedule.end[0] == TimeFromSeconds(0.0015));
    CHECK(schedule.end[2] == TimeFromSeconds(0.002));
    for (OpId op = 0; op < expected.end.size(); ++op) {
      REQUIRE(expected.end[op] == schedule.end[op % 3]);
    }
  }
}

TEST_CASE("two classes on one port: 30 short flows and 10 long ones of twice the weight") {
  const std::vector<double> capacity{7e9, 0.4e9, 0.3e9};
  const auto add = [&](OpGraph& graph, std::uint32_t link, double bytes, double weight,
                       std::uint32_t times) {
    Flow flow{{link, 0}, bytes, weight};
    if (times > 1) flow.crossings = {{.all = times, .own = 1}, {.all = times, .own = 1}};
    graph.AddTransfer(graph.AddStream(), TimeFromSeconds(bytes / capacity[link]), {0},
                      graph.AddPattern({{flow}}));
  };
  OpGraph many, folded;
  for (int i = 0; i < 30; ++i) add(many, 1, 1e6, 1, 1);
  for (int i = 0; i < 10; ++i) add(many, 2, 7e6, 2, 1);
  add(folded, 1, 1e6, 1, 30);
  add(folded, 2, 7e6, 2, 10);
  REQUIRE(many.Finish());
  REQUIRE(folded.Finish());
  const Schedule expected = RunEventLoop(many, {capacity});
  const Schedule schedule = RunEventLoop(folded, {capacity});
  for (OpId op = 0; op < 40; ++op) CHECK(expected.end[op] == schedule.end[op < 30 ? 0 : 1]);
}

// `copies` of a scenario side by side, every flow of it in `lanes`. A link is one for all, one per
// copy, or one per copy and lane.
enum class Spread { kAll, kCopy, kLane };
struct Fold {
  std::uint32_t copies, lanes;
  std::vector<Spread> spread;  // by link
};

Scenario Unfold(const Scenario& base, const Fold& fold, bool by_copy) {
  Scenario unfolded;
  std::vector<std::uint32_t> first(base.capacity.size());
  for (std::size_t link = 0; link < base.capacity.size(); ++link) {
    first[link] = static_cast<std::uint32_t>(unfolded.capacity.size());
    std::uint32_t count = 1;
    if (fold.spread[link] != Spread::kAll) count *= fold.copies;
    if (fold.spread[link] == Spread::kLane) count *= fold.lanes;
    unfolded.capacity.insert(unfolded.capacity.end(), count, base.capacity[link]);
    for (const LinkChange& change : base.changes) {
      if (change.link != link) continue;
      for (std::uint32_t i = 0; i < count; ++i) {
        unfolded.changes.push_back({change.at, first[link] + i, change.factor});
      }
    }
  }
  unfolded.streams = base.streams * fold.copies;
  const auto n = static_cast<std::uint32_t>(base.ops.size());
  const auto id = [&](std::uint32_t copy, std::uint32_t op) {
    return by_copy ? copy * n + op : op * fold.copies + copy;
  };
  unfolded.ops.resize(std::size_t{n} * fold.copies);
  for (std::uint32_t copy = 0; copy < fold.copies; ++copy) {
    for (std::uint32_t i = 0; i < n; ++i) {
      ScenarioOp op = base.ops[i];
      op.stream += copy * base.streams;
      for (std::uint32_t& before : op.after) before = id(copy, before);
      op.flows.clear();
      for (std::uint32_t lane = 0; lane < fold.lanes; ++lane) {
        for (Flow flow : base.ops[i].flows) {
          for (std::uint32_t& link : flow.links) {
            const Spread spread = fold.spread[link];
            link = first[link] + (spread == Spread::kAll    ? 0
                                  : spread == Spread::kCopy ? copy
                                                            : copy * fold.lanes + lane);
          }
          op.flows.push_back(flow);
        }
      }
      unfolded.ops[id(copy, i)] = op;
    }
  }
  return unfolded;
}

Scenario FoldCrossings(Scenario base, const Fold& fold) {
  for (ScenarioOp& op : base.ops) {
    for (Flow& flow : op.flows) {
      for (const std::uint32_t link : flow.links) {
        const std::uint32_t own = fold.spread[link] == Spread::kLane ? 1 : fold.lanes;
        flow.crossings.push_back(
            {.all = fold.spread[link] == Spread::kAll ? own * fold.copies : own, .own = own});
      }
    }
  }
  return base;
}

// What one copy of a transfer takes alone, lanes and all.
void Price(const Scenario& unfolded, const Fold& fold, bool by_copy, Scenario* base) {
  for (std::size_t i = 0; i < base->ops.size(); ++i) {
    ScenarioOp& op = base->ops[i];
    if (op.flows.empty() || op.duration_ps >= 0) continue;
    const ScenarioOp& copy = unfolded.ops[by_copy ? i : i * fold.copies];
    op.duration_ps =
        op.latency_ps + TimeFromSeconds(AloneSecondsByReference(unfolded.capacity, copy.flows)).ps;
  }
}

bool Differs(Scenario base, const Fold& fold, bool by_copy, const EventLoopOptions& options) {
  const Scenario priced = Unfold(base, fold, by_copy);
  Price(priced, fold, by_copy, &base);
  const Scenario unfolded = Unfold(base, fold, by_copy);
  const Scenario folded = FoldCrossings(base, fold);
  const Schedule expected =
      RunEventLoop(BuildGraph(unfolded), {unfolded.capacity, unfolded.changes}, options);
  const Schedule schedule =
      RunEventLoop(BuildGraph(folded), {folded.capacity, folded.changes}, options);
  if (schedule.makespan != expected.makespan) return true;
  const auto n = static_cast<std::uint32_t>(base.ops.size());
  for (std::uint32_t i = 0; i < expected.end.size(); ++i) {
    const std::uint32_t op = by_copy ? i % n : i / fold.copies;
    if (expected.end[i] != schedule.end[op] || expected.start[i] != schedule.start[op]) return true;
  }
  return false;
}

void CheckFolds(const ScenarioShape& shape, std::uint32_t seed, int trials, double epsilon) {
  Random random(seed);
  for (int trial = 0; trial < trials; ++trial) {
    const Scenario scenario = RandomScenario(random, shape);
    Fold fold{.copies = 1 + random() % 5, .lanes = 1 + random() % 3, .spread = {}};
    for (std::size_t link = 0; link < scenario.capacity.size(); ++link) {
      fold.spread.push_back(static_cast<Spread>(random() % 3));
    }
    const bool by_copy = random() % 2 == 0;
    const EventLoopOptions options{.share_from_start = random() % 4 == 0, .epsilon = epsilon};
    const auto fails = [&](const Scenario& s) { return Differs(s, fold, by_copy, options); };
    if (!fails(scenario)) continue;
    std::string spread;
    for (const Spread s : fold.spread)
      spread += s == Spread::kAll ? 'a' : s == Spread::kCopy ? 'c' : 'l';
    FAIL(fold.copies << " copies, " << fold.lanes << " lanes, links " << spread << "\n"
                     << Print(Shrink(scenario, fails)));
  }
  CHECK(trials > 0);
}

TEST_CASE("random graphs in copies and lanes: folded = unfolded, bit for bit") {
  CheckFolds({}, 31, 300, 0);
  CheckFolds({.most_ops = 60, .most_links = 3}, 32, 100, 0);
  CheckFolds({.most_ops = 12, .most_links = 60, .most_flows = 30}, 36, 20, 0);
}

TEST_CASE("likewise where links change, and with rates that are not renewed for small changes") {
  CheckFolds({.changes = true}, 33, 300, 0);
  CheckFolds({}, 34, 100, 0.05);
  CheckFolds({.most_ops = 60, .most_links = 3, .changes = true}, 35, 100, 0.05);
}

}  // namespace
}  // namespace aurum
