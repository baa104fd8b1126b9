#include "sim/engine/op_graph.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "tests/engine/random.h"

namespace aurum {
namespace {

// A pipeline of `stages` with `batches` micro-batches, 1F1B, forward and backward of the same
// length. Added stage by stage, so that op ids are not a topological order.
OpGraph OneForwardOneBackward(int stages, int batches, Time pass) {
  OpGraph graph;
  std::vector<std::vector<OpId>> forward(stages), backward(stages);
  for (int s = 0; s < stages; ++s) {
    const StreamId stream = graph.AddStream();
    const int warm_up = std::min(batches, stages - s);
    for (int i = 0; i < warm_up; ++i) forward[s].push_back(graph.AddOp(stream, pass));
    for (int i = 0; i < batches; ++i) {
      backward[s].push_back(graph.AddOp(stream, pass));
      if (warm_up + i < batches) forward[s].push_back(graph.AddOp(stream, pass));
    }
  }
  for (int s = 0; s + 1 < stages; ++s) {
    for (int b = 0; b < batches; ++b) {
      graph.AddDependency(forward[s][b], forward[s + 1][b]);
      graph.AddDependency(backward[s + 1][b], backward[s][b]);
    }
  }
  for (int b = 0; b < batches; ++b)
    graph.AddDependency(forward[stages - 1][b], backward[stages - 1][b]);
  return graph;
}

TEST_CASE("ops of one stream follow each other, dependencies hold across streams") {
  OpGraph graph;
  const StreamId a = graph.AddStream(), b = graph.AddStream();
  const OpId a0 = graph.AddOp(a, {10}), a1 = graph.AddOp(a, {5});
  const OpId b0 = graph.AddOp(b, {40}), b1 = graph.AddOp(b, {0});
  graph.AddDependency(b0, a1);
  graph.AddDependency(b0, a1);  // twice is allowed
  REQUIRE(graph.Finish());
  const Schedule schedule = EvaluateMaxPlus(graph);
  CHECK(schedule.start[a0].ps == 0);
  CHECK(schedule.start[a1].ps == 40);
  CHECK(schedule.end[a1].ps == 45);
  CHECK(schedule.end[b1].ps == 40);
  CHECK(schedule.makespan.ps == 45);
  const auto before = graph.predecessors(a1);
  CHECK(std::count(before.begin(), before.end(), a0) == 1);
  CHECK(std::count(before.begin(), before.end(), b0) == 2);
  CHECK(graph.predecessors(a0).empty());
}

TEST_CASE("an empty graph has an empty schedule") {
  OpGraph graph;
  REQUIRE(graph.Finish());
  CHECK(EvaluateMaxPlus(graph).makespan.ps == 0);
}

TEST_CASE("the 1F1B bubble is (p - 1) passes each way") {
  for (const auto& [p, m] : {std::pair{1, 4}, {2, 2}, {4, 8}, {8, 64}, {8, 3}}) {
    OpGraph graph = OneForwardOneBackward(p, m, {1000});
    REQUIRE(graph.Finish());
    CHECK(EvaluateMaxPlus(graph).makespan.ps == (m + p - 1) * 2 * 1000);
  }
}

TEST_CASE("a cycle is found, through streams too, and named in order") {
  OpGraph graph;
  const StreamId a = graph.AddStream(), b = graph.AddStream();
  const OpId a0 = graph.AddOp(a, {1}), a1 = graph.AddOp(a, {1});
  const OpId b0 = graph.AddOp(b, {1}), b1 = graph.AddOp(b, {1});
  graph.AddDependency(a1, b0);
  graph.AddDependency(b1, a0);
  std::vector<OpId> cycle;
  CHECK_FALSE(graph.Finish(&cycle));
  CHECK(std::set<OpId>(cycle.begin(), cycle.end()) == std::set<OpId>{a0, a1, b0, b1});
  // Each op on it waits for the one before, around the end.
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    const auto before = graph.predecessors(cycle[(i + 1) % cycle.size()]);
    CHECK(std::find(before.begin(), before.end(), cycle[i]) != before.end());
  }
  OpGraph self;
  const OpId op = self.AddOp(self.AddStream(), {1});
  self.AddDependency(op, op);
  CHECK_FALSE(self.Finish(&cycle));
  CHECK(cycle == std::vector<OpId>{op});
  CHECK_FALSE(self.Finish());
}

TEST_CASE("only the ops on the cycle are named") {
  OpGraph graph;
  std::vector<OpId> ops;
  for (int i = 0; i < 6; ++i) ops.push_back(graph.AddOp(graph.AddStream(), {1}));
  graph.AddDependency(ops[0], ops[1]);
  graph.AddDependency(ops[1], ops[2]);
  graph.AddDependency(ops[2], ops[3]);
  graph.AddDependency(ops[3], ops[2]);
  graph.AddDependency(ops[3], ops[4]);
  std::vector<OpId> cycle;
  CHECK_FALSE(graph.Finish(&cycle));
  CHECK(std::set<OpId>(cycle.begin(), cycle.end()) == std::set<OpId>{ops[2], ops[3]});
}

TEST_CASE(
    "the order is topological and the same every time; it is 0, 1, 2, … where that is "
    "topological") {
  OpGraph graph = OneForwardOneBackward(6, 9, {7});
  REQUIRE(graph.Finish());
  std::vector<std::size_t> position(graph.op_count());
  for (std::size_t i = 0; i < graph.order().size(); ++i) position[graph.order()[i]] = i;
  for (OpId op = 0; op < graph.op_count(); ++op) {
    for (const OpId before : graph.predecessors(op)) CHECK(position[before] < position[op]);
  }
  const std::vector<OpId> order(graph.order().begin(), graph.order().end());
  REQUIRE(graph.Finish());
  CHECK(std::equal(order.begin(), order.end(), graph.order().begin(), graph.order().end()));

  OpGraph sorted;
  const StreamId s = sorted.AddStream(), t = sorted.AddStream();
  for (int i = 0; i < 50; ++i) sorted.AddOp(i % 2 != 0 ? s : t, {i});
  for (OpId i = 2; i < 50; ++i) sorted.AddDependency(i - 1, i);
  REQUIRE(sorted.Finish());
  std::vector<OpId> identity(50);
  std::iota(identity.begin(), identity.end(), 0);
  CHECK(std::equal(identity.begin(), identity.end(), sorted.order().begin()));
}

TEST_CASE("a million ops in one chain neither overflow a stack nor lose a picosecond") {
  OpGraph graph;
  // The chain runs against the ids: the worst case of the walk.
  constexpr OpId kOps = 1'000'000;
  for (OpId i = 0; i < kOps; ++i) graph.AddOp(graph.AddStream(), {i % 7});
  for (OpId i = 0; i + 1 < kOps; ++i) graph.AddDependency(i + 1, i);
  REQUIRE(graph.Finish());
  std::int64_t sum = 0;
  for (OpId i = 0; i < kOps; ++i) sum += i % 7;
  CHECK(EvaluateMaxPlus(graph).makespan.ps == sum);
}

TEST_CASE("new durations need no new order; a cleared graph is as new") {
  OpGraph graph = OneForwardOneBackward(4, 8, {1000});
  REQUIRE(graph.Finish());
  Schedule schedule;
  EvaluateMaxPlus(graph, &schedule);
  const std::string signature = Signature(schedule);
  for (OpId op = 0; op < graph.op_count(); ++op) graph.SetDuration(op, {3000});
  EvaluateMaxPlus(graph, &schedule);
  CHECK(schedule.makespan.ps == 11 * 2 * 3000);
  CHECK(Signature(schedule) != signature);

  const PatternId pattern = graph.AddPattern({{Flow{{0}, 1.0}}});
  graph.ClearOps();
  CHECK(graph.op_count() == 0);
  CHECK(graph.pattern_count() == 1);
  CHECK(graph.traffic(pattern).flows.size() == 1);
  const StreamId stream = graph.AddStream();
  CHECK(stream == 0);
  graph.AddOp(stream, {5});
  graph.AddTransfer(stream, {7}, {2}, pattern);
  REQUIRE(graph.Finish());
  CHECK(EvaluateMaxPlus(graph).makespan.ps == 12);
  graph.Clear();
  CHECK(graph.pattern_count() == 0);
}

TEST_CASE("the makespan is at least the critical path and the busiest stream") {
  Random random(11);
  for (int trial = 0; trial < 100; ++trial) {
    OpGraph graph;
    const int streams = 1 + static_cast<int>(random() % 5);
    std::vector<std::int64_t> busy(streams, 0);
    for (int s = 0; s < streams; ++s) graph.AddStream();
    const OpId n = 1 + random() % 60;
    for (OpId op = 0; op < n; ++op) {
      const StreamId s = random() % streams;
      const Time duration{static_cast<std::int64_t>(random() % 1000)};
      graph.AddOp(s, duration);
      busy[s] += duration.ps;
    }
    for (OpId op = 1; op < n; ++op) {
      if (random() % 2 != 0) graph.AddDependency(random() % op, op);
    }
    REQUIRE(graph.Finish());
    const Schedule schedule = EvaluateMaxPlus(graph);
    CHECK(schedule.makespan.ps >= *std::max_element(busy.begin(), busy.end()));
    // Every op starts exactly when the last of its predecessors ends: no idling, no overtaking.
    for (OpId op = 0; op < n; ++op) {
      std::int64_t ready = 0;
      for (const OpId before : graph.predecessors(op))
        ready = std::max(ready, schedule.end[before].ps);
      CHECK(schedule.start[op].ps == ready);
      CHECK(schedule.end[op] == schedule.start[op] + graph.duration(op));
    }
  }
}

TEST_CASE("the signature depends on every completion and its place") {
  const Schedule a{{{0}, {0}}, {{1}, {2}}, {2}}, b{{{0}, {0}}, {{2}, {1}}, {2}};
  CHECK(Signature(a) != Signature(b));
  CHECK(Signature(a) == Signature(Schedule{a}));
  CHECK(Signature(a).size() == 32);
}

}  // namespace
}  // namespace aurum
