// Links that change while the graph runs: closed forms. Random ones are in proof_test.cc.

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "sim/network/event_loop.h"
#include "tests/network/scenario.h"

namespace aurum {
namespace {

Time Milliseconds(std::int64_t ms) { return {ms * kMillisecond}; }

// Transfers of 1 GB/s links, `bytes` each, all at once on streams of their own.
OpGraph Transfers(const std::vector<std::vector<std::uint32_t>>& routes, double bytes) {
  OpGraph graph;
  for (const std::vector<std::uint32_t>& route : routes) {
    graph.AddTransfer(graph.AddStream(), TimeFromSeconds(bytes / 1e9), {0},
                      graph.AddPattern({{Flow{route, bytes}}}));
  }
  graph.Finish();
  return graph;
}

TEST_CASE("a flap: bytes / rate + the time that the link was down") {
  const OpGraph graph = Transfers({{0}}, 10e6);
  const Fabric fabric{{1e9}, {{Milliseconds(4), 0, 0}, {Milliseconds(7), 0, 1}}};
  const Schedule schedule = RunEventLoop(graph, fabric);
  CHECK(schedule.end[0] == Milliseconds(13));
  CHECK(schedule.stalled == kNoOp);
  // Several, in any order of the list, one of them before the transfer and one after it.
  const Fabric many{{1e9},
                    {{Milliseconds(90), 0, 0},
                     {Milliseconds(7), 0, 1},
                     {Milliseconds(1), 0, 0},
                     {Milliseconds(4), 0, 0},
                     {Milliseconds(3), 0, 1}}};
  CHECK(RunEventLoop(graph, many).end[0] == Milliseconds(15));
}

TEST_CASE("a link that is slower from half-way on, and one that is slower for a while") {
  const OpGraph graph = Transfers({{0}}, 10e6);
  // 5 MB at 1 GB/s, 5 MB at 0.25 GB/s.
  CHECK(RunEventLoop(graph, {{1e9}, {{Milliseconds(5), 0, 0.25}}}).end[0] == Milliseconds(25));
  // 2 MB, then 4 ms at half speed, then 6 MB.
  CHECK(RunEventLoop(graph, {{1e9}, {{Milliseconds(2), 0, 0.5}, {Milliseconds(6), 0, 1}}}).end[0] ==
        Milliseconds(12));
}

TEST_CASE("a static factor is a change at 0") {
  const OpGraph graph = Transfers({{0}}, 10e6);
  CHECK(RunEventLoop(graph, {{1e9}, {{Milliseconds(0), 0, 0.5}}}).end[0] == Milliseconds(20));
  // Wider than what the transfer was priced with: no op ends before its nominal end.
  CHECK(RunEventLoop(graph, {{1e9}, {{Milliseconds(0), 0, 2}}}).end[0] == Milliseconds(10));
  // But two that share it do not disturb each other any more.
  const OpGraph two = Transfers({{0}, {0}}, 10e6);
  CHECK(RunEventLoop(two, {{1e9}}).makespan == Milliseconds(20));
  CHECK(RunEventLoop(two, {{1e9}, {{Milliseconds(0), 0, 2}}}).makespan == Milliseconds(10));
}

TEST_CASE("of two changes of a link at one time the later in the list holds") {
  const OpGraph graph = Transfers({{0}}, 10e6);
  const Time at = Milliseconds(5);
  CHECK(RunEventLoop(graph, {{1e9}, {{at, 0, 0.5}, {at, 0, 0.25}}}).end[0] == Milliseconds(25));
  CHECK(RunEventLoop(graph, {{1e9}, {{at, 0, 0.25}, {at, 0, 0.5}}}).end[0] == Milliseconds(15));
}

TEST_CASE("two flows: the one whose link goes down leaves its share to the other") {
  // Both over link 2; link 0 is the first one's own, down from 4 to 10 ms.
  const OpGraph graph = Transfers({{0, 2}, {1, 2}}, 10e6);
  const Fabric fabric{{1e9, 1e9, 1e9}, {{Milliseconds(4), 0, 0}, {Milliseconds(10), 0, 1}}};
  const Schedule schedule = RunEventLoop(graph, fabric);
  // 2 MB each by 4 ms; by 10 ms the second has moved 6 MB more; 2 MB left each 8 MB: 4 ms at half.
  CHECK(schedule.end[1] == Milliseconds(14));
  CHECK(schedule.end[0] == Milliseconds(20));
}

TEST_CASE("a change that does not limit a transfer does not disturb it") {
  OpGraph graph;
  const PatternId capped = graph.AddPattern({{Flow{{0}, 10e6, 1, 0.4e9}}});
  // A straggler: 12 MB at its cap of 0.4 GB/s.
  graph.AddTransfer(graph.AddStream(), Milliseconds(30), {0}, capped);
  REQUIRE(graph.Finish());
  CHECK(RunEventLoop(graph, {{1e9}, {{Milliseconds(5), 0, 0.5}}}).end[0] == Milliseconds(30));
  CHECK(RunEventLoop(graph, {{1e9}, {{Milliseconds(5), 0, 0.2}}}).end[0] == Milliseconds(55));
}

TEST_CASE("ends come before changes and starts in an instant") {
  const OpGraph graph = Transfers({{0}}, 10e6);
  // Down at the very moment when the transfer is done.
  CHECK(RunEventLoop(graph, {{1e9}, {{Milliseconds(10), 0, 0}}}).end[0] == Milliseconds(10));
  OpGraph chain;
  const StreamId stream = chain.AddStream();
  const PatternId pattern = chain.AddPattern({{Flow{{0}, 10e6}}});
  for (int i = 0; i < 2; ++i) chain.AddTransfer(stream, Milliseconds(10), {0}, pattern);
  REQUIRE(chain.Finish());
  const Schedule schedule =
      RunEventLoop(chain, {{1e9}, {{Milliseconds(10), 0, 0}, {Milliseconds(11), 0, 1}}});
  CHECK(schedule.end[0] == Milliseconds(10));
  CHECK(schedule.end[1] == Milliseconds(21));
}

TEST_CASE("down for good: the first op that never ends is named, the rest goes on") {
  OpGraph graph;
  const StreamId a = graph.AddStream(), b = graph.AddStream();
  graph.AddTransfer(a, Milliseconds(10), {0}, graph.AddPattern({{Flow{{0}, 10e6}}}));
  const OpId stuck =
      graph.AddTransfer(a, Milliseconds(10), {0}, graph.AddPattern({{Flow{{1, 0}, 10e6}}}));
  const OpId waiting = graph.AddOp(a, Milliseconds(1));
  const OpId later =
      graph.AddTransfer(b, Milliseconds(30), {0}, graph.AddPattern({{Flow{{1}, 30e6}}}));
  const OpId free = graph.AddOp(graph.AddStream(), Milliseconds(500));
  REQUIRE(graph.Finish());
  const Fabric fabric{{1e9, 1e9}, {{Milliseconds(20), 1, 0}}};
  const Schedule schedule = RunEventLoop(graph, fabric);
  CHECK(schedule.stalled == stuck);
  CHECK(schedule.end[0] == Milliseconds(10));
  CHECK(schedule.end[stuck] == kTimeMax);
  CHECK(schedule.start[stuck] == Milliseconds(10));
  CHECK(schedule.start[waiting] == kTimeMax);
  CHECK(schedule.end[waiting] == kTimeMax);
  CHECK(schedule.end[later] == kTimeMax);
  CHECK(schedule.end[free] == Milliseconds(500));
  CHECK(schedule.makespan == kTimeMax);
}

TEST_CASE("a link that is nearly down lasts longer than the clock: no overflow, no end") {
  const OpGraph graph = Transfers({{0}}, 10e6);
  const Schedule schedule = RunEventLoop(graph, {{1e9}, {{Milliseconds(5), 0, 1e-15}}});
  CHECK(schedule.stalled == 0);
  CHECK(schedule.end[0] == kTimeMax);
  // Back in time, it is done.
  CHECK(
      RunEventLoop(graph, {{1e9}, {{Milliseconds(5), 0, 1e-15}, {Milliseconds(9), 0, 1}}}).end[0] ==
      Milliseconds(14));
}

TEST_CASE("changes of links that carry nothing, or after the end, are no events") {
  const OpGraph graph = Transfers({{0}}, 10e6);
  const Fabric fabric{{1e9, 1e9}, {{Milliseconds(5), 1, 0}, {Milliseconds(50), 0, 0}}};
  CHECK(RunEventLoop(graph, fabric).makespan == Milliseconds(10));
}

}  // namespace
}  // namespace aurum
