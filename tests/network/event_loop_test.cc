#include "sim/network/event_loop.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "sim/network/max_min.h"

#include "tests/engine/random.h"
#include "tests/network/scenario.h"

namespace aurum {
namespace {

// The time of a pattern's flows with nobody else, by its own little simulation on fresh max-min
// solutions.
double AloneSeconds(const std::vector<double>& capacity, const TrafficPattern& pattern) {
  std::vector<double> left;
  for (const Flow& flow : pattern.flows) left.push_back(flow.bytes);
  double now = 0;
  for (;;) {
    std::vector<SharingFlow> flows;
    std::vector<std::size_t> open;
    for (std::size_t f = 0; f < left.size(); ++f) {
      if (left[f] <= 0) continue;
      const Flow& flow = pattern.flows[f];
      flows.push_back(
          {flow.links, flow.weight, flow.cap_bytes_per_s > 0 ? flow.cap_bytes_per_s : kNoCap});
      open.push_back(f);
    }
    if (open.empty()) return now;
    const std::vector<double> rates = MaxMinRates(capacity, flows);
    double step = kNoCap;
    for (std::size_t i = 0; i < open.size(); ++i) step = std::min(step, left[open[i]] / rates[i]);
    for (std::size_t i = 0; i < open.size(); ++i) {
      left[open[i]] -= rates[i] * step;
      if (left[open[i]] < 1e-6) left[open[i]] = 0;
    }
    now += step;
  }
}

OpId AddPriced(OpGraph& graph, StreamId stream, const std::vector<double>& capacity,
               PatternId pattern, Time latency) {
  const double alone = AloneSeconds(capacity, graph.traffic(pattern));
  return graph.AddTransfer(stream, TimeFromSeconds(Seconds(latency) + alone), latency, pattern);
}

PatternId SingleFlow(OpGraph& graph, std::vector<std::uint32_t> links, double bytes, double cap = 0,
                     double weight = 1) {
  return graph.AddPattern({{Flow{std::move(links), bytes, weight, cap}}});
}

TEST_CASE("two transfers on one link: the closed form") {
  // 1 MB on 1 GB/s each, the second half a millisecond later.
  const Fabric fabric{{1e9}};
  OpGraph graph;
  const PatternId pattern = SingleFlow(graph, {0}, 1e6);
  const OpId first = graph.AddTransfer(graph.AddStream(), {kMillisecond}, {0}, pattern);
  const StreamId stream = graph.AddStream();
  graph.AddOp(stream, {kMillisecond / 2});
  const OpId second = graph.AddTransfer(stream, {kMillisecond}, {0}, pattern);
  REQUIRE(graph.Finish());
  const Schedule schedule = RunEventLoop(graph, fabric);
  CHECK(schedule.end[first].ps == 3 * kMillisecond / 2);
  CHECK(schedule.end[second].ps == 2 * kMillisecond);
  CHECK(schedule.makespan.ps == 2 * kMillisecond);
}

TEST_CASE("latency passes before the link is used") {
  const Fabric fabric{{1e9}};
  OpGraph graph;
  const PatternId pattern = SingleFlow(graph, {0}, 1e6);
  const Time latency{kMillisecond};
  const OpId a = graph.AddTransfer(graph.AddStream(), {2 * kMillisecond}, latency, pattern);
  const OpId b = graph.AddTransfer(graph.AddStream(), {kMillisecond}, {0}, pattern);
  REQUIRE(graph.Finish());
  const Schedule schedule = RunEventLoop(graph, fabric);
  CHECK(schedule.end[b].ps == kMillisecond);      // done when a's latency is over
  CHECK(schedule.end[a].ps == 2 * kMillisecond);  // so neither was disturbed
}

TEST_CASE("weights and caps decide who waits") {
  const Fabric fabric{{1e9}};
  OpGraph graph;
  // Weights 1 and 3: 0.25 and 0.75 GB/s. The heavy one is done after 4/3 ms, then the other has 2/3
  // MB left.
  const OpId light =
      graph.AddTransfer(graph.AddStream(), {kMillisecond}, {0}, SingleFlow(graph, {0}, 1e6, 0, 1));
  const OpId heavy =
      graph.AddTransfer(graph.AddStream(), {kMillisecond}, {0}, SingleFlow(graph, {0}, 1e6, 0, 3));
  REQUIRE(graph.Finish());
  Schedule schedule = RunEventLoop(graph, fabric);
  CHECK(schedule.end[heavy].ps == 1'333'333'334);
  // The heavy one's end is rounded up to a picosecond, in which it still holds its share.
  CHECK(schedule.end[light].ps == 2 * kMillisecond + 1);

  OpGraph capped;
  // 0.2 GB/s by its cap: 5 ms, not disturbed. The other gets 0.8 GB/s: 1.25 ms.
  const OpId slow = capped.AddTransfer(capped.AddStream(), {5 * kMillisecond}, {0},
                                       SingleFlow(capped, {0}, 1e6, 0.2e9));
  const OpId fast =
      capped.AddTransfer(capped.AddStream(), {kMillisecond}, {0}, SingleFlow(capped, {0}, 1e6));
  REQUIRE(capped.Finish());
  schedule = RunEventLoop(capped, fabric);
  CHECK(schedule.end[slow].ps == 5 * kMillisecond);
  CHECK(schedule.end[fast].ps == 5 * kMillisecond / 4);
}

TEST_CASE("incast of n equal transfers takes n times as long") {
  for (const int n : {2, 3, 7, 16, 100}) {
    Fabric fabric{std::vector<double>(n + 1, 1e9)};
    OpGraph graph;
    for (int i = 0; i < n; ++i) {
      const PatternId pattern =
          SingleFlow(graph, {static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(n)}, 1e6);
      graph.AddTransfer(graph.AddStream(), {kMillisecond}, {0}, pattern);
    }
    REQUIRE(graph.Finish());
    const Schedule schedule = RunEventLoop(graph, fabric);
    for (const Time end : schedule.end) CHECK(std::abs(end.ps - n * kMillisecond) <= 1);
  }
}

TEST_CASE(
    "a duration that is not latency + flows stretches the bytes: a straggler's transfer is longer, "
    "and shares longer") {
  const Fabric fabric{{1e9}};
  OpGraph graph;
  const PatternId pattern = SingleFlow(graph, {0}, 1e6);
  const OpId slow = graph.AddTransfer(graph.AddStream(), {2 * kMillisecond}, {0}, pattern);
  const OpId normal = graph.AddTransfer(graph.AddStream(), {kMillisecond}, {0}, pattern);
  REQUIRE(graph.Finish());
  const Schedule schedule = RunEventLoop(graph, fabric);
  CHECK(schedule.end[normal].ps == 2 * kMillisecond);
  CHECK(schedule.end[slow].ps == 3 * kMillisecond);
}

TEST_CASE("a transfer's own contention is in its duration and is not counted again") {
  // Four flows of one transfer into one link, of different sizes: 10 MB in all on 1 GB/s.
  const Fabric fabric{{1e9, 1e9, 1e9, 1e9, 1e9}};
  OpGraph graph;
  TrafficPattern incast;
  for (std::uint32_t i = 0; i < 4; ++i) incast.flows.push_back(Flow{{i, 4}, (i + 1) * 1e6});
  const PatternId pattern = graph.AddPattern(incast);
  const OpId op = graph.AddTransfer(graph.AddStream(), {10 * kMillisecond}, {0}, pattern);
  // A second one on the first one's widest link, from 2 ms on: then the first has 8 MB left in four
  // flows at 0.25 GB/s, of which the first flow (1 MB) has 0.5 MB left.
  const StreamId stream = graph.AddStream();
  graph.AddOp(stream, {2 * kMillisecond});
  const OpId other = graph.AddTransfer(stream, {kMillisecond}, {0}, SingleFlow(graph, {0}, 1e6));
  REQUIRE(graph.Finish());
  const Schedule schedule = RunEventLoop(graph, fabric);
  // The other gets 0.75 GB/s of link 0 as long as the first flow holds 0.25: 0.5 MB / 0.25 GB/s = 2
  // ms, in which the other needs only 4/3 ms. The first transfer is bound by link 4 all the time:
  // not disturbed.
  CHECK(schedule.end[op].ps == 10 * kMillisecond);
  CHECK(schedule.end[other].ps == 2 * kMillisecond + 1'333'333'334);
}

TEST_CASE(
    "a transfer that is disturbed half way keeps what it has moved, in every phase of its own "
    "flows") {
  const std::vector<double> capacity{1e9, 1e9, 1e9};
  OpGraph graph;
  // Alone: both at 0.5 GB/s until 2 ms, when the 1 MB flow is done; the 3 MB flow has 2 MB left: 4
  // ms.
  const PatternId pair = graph.AddPattern({{Flow{{0, 1}, 1e6}, Flow{{0, 2}, 3e6}}});
  const OpId op = AddPriced(graph, graph.AddStream(), capacity, pair, {0});
  CHECK(graph.duration(op).ps == 4 * kMillisecond);
  const StreamId stream = graph.AddStream();
  graph.AddOp(stream, {3 * kMillisecond});
  // At 3 ms 1 MB is left; link 2 is then shared with 1 MB: both end at 5 ms.
  const OpId other = graph.AddTransfer(stream, {kMillisecond}, {0}, SingleFlow(graph, {2}, 1e6));
  REQUIRE(graph.Finish());
  const Schedule schedule = RunEventLoop(graph, {capacity});
  CHECK(schedule.end[op].ps == 5 * kMillisecond);
  CHECK(schedule.end[other].ps == 5 * kMillisecond);
}

struct RandomCase {
  OpGraph graph;
  std::vector<double> capacity;
};

// A random DAG over streams. `disjoint`: every stream's transfers have links of their own, so no
// two can meet.
RandomCase MakeRandom(Random& random, bool disjoint) {
  RandomCase made;
  const std::uint32_t streams = 1 + random() % 6;
  const std::uint32_t per_stream = 1 + random() % 4;
  made.capacity.resize(streams * per_stream);
  for (double& c : made.capacity) c = 1e9 * (1 + random() % 50) / 7;
  const std::uint32_t links = static_cast<std::uint32_t>(made.capacity.size());
  for (std::uint32_t s = 0; s < streams; ++s) made.graph.AddStream();
  const OpId n = 1 + random() % 80;
  for (OpId op = 0; op < n; ++op) {
    const StreamId s = random() % streams;
    if (random() % 3 == 0) {
      made.graph.AddOp(s, {static_cast<std::int64_t>(random() % 2'000'000)});
    } else {
      TrafficPattern pattern;
      for (std::uint32_t f = 1 + random() % 4; f > 0; --f) {
        Flow flow;
        for (std::uint32_t hop = 1 + random() % 3; hop > 0; --hop) {
          const std::uint32_t link =
              disjoint ? s * per_stream + random() % per_stream : random() % links;
          if (std::find(flow.links.begin(), flow.links.end(), link) == flow.links.end())
            flow.links.push_back(link);
        }
        flow.bytes = random() % 5 == 0 ? 0 : random() % 10'000;
        flow.weight = 1 + random() % 3;
        if (random() % 3 == 0) flow.cap_bytes_per_s = 1e9 * (1 + random() % 10) / 3;
        pattern.flows.push_back(flow);
      }
      const PatternId id = made.graph.AddPattern(pattern);
      const OpId added = AddPriced(made.graph, s, made.capacity, id,
                                   {static_cast<std::int64_t>(random() % 3 * 500'000)});
      // Some durations are the caller's own.
      if (random() % 4 == 0) {
        made.graph.SetDuration(added, {made.graph.duration(added).ps * 5 / 3});
      }
    }
    for (int e = static_cast<int>(random() % 3); e > 0 && op > 0; --e)
      made.graph.AddDependency(random() % op, op);
  }
  REQUIRE(made.graph.Finish());
  return made;
}

TEST_CASE("without contention the event loop is the max-plus pass, bit for bit") {
  Random random(5);
  for (int trial = 0; trial < 500; ++trial) {
    const RandomCase made = MakeRandom(random, true);
    const Schedule expected = EvaluateMaxPlus(made.graph);
    const Schedule schedule = RunEventLoop(made.graph, {made.capacity});
    REQUIRE(schedule.start == expected.start);
    REQUIRE(schedule.end == expected.end);
    REQUIRE(schedule.makespan == expected.makespan);
    REQUIRE(Signature(schedule) == Signature(expected));
  }
}

TEST_CASE("links that are shared but wide enough change nothing, bit for bit") {
  Random random(6);
  for (int trial = 0; trial < 200; ++trial) {
    OpGraph graph;
    const std::vector<double> capacity{300e9, 400e9};
    for (int s = 0; s < 6; ++s) {
      const StreamId stream = graph.AddStream();
      for (int i = 0; i < 10; ++i) {
        if (random() % 2 == 0) graph.AddOp(stream, {static_cast<std::int64_t>(random() % 1000)});
        const PatternId pattern =
            SingleFlow(graph, {0, 1}, 1 + random() % 9999, 50e9);  // six fit exactly
        AddPriced(graph, stream, capacity, pattern, {static_cast<std::int64_t>(random() % 1000)});
      }
    }
    REQUIRE(graph.Finish());
    const Schedule schedule = RunEventLoop(graph, {capacity});
    REQUIRE(schedule.end == EvaluateMaxPlus(graph).end);
  }
}

TEST_CASE(
    "with contention nothing starts or ends earlier, order holds, and every link carries its bytes "
    "in time") {
  Random random(7);
  int slowed = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const RandomCase made = MakeRandom(random, false);
    const Schedule alone = EvaluateMaxPlus(made.graph);
    const Schedule schedule = RunEventLoop(made.graph, {made.capacity});
    slowed += schedule.makespan > alone.makespan;
    std::vector<double> carried(made.capacity.size(), 0);
    for (OpId op = 0; op < made.graph.op_count(); ++op) {
      CHECK(schedule.start[op] >= alone.start[op]);
      CHECK(schedule.end[op] >= alone.end[op]);
      CHECK(schedule.end[op] >= schedule.start[op] + made.graph.duration(op));
      Time ready{0};
      for (const OpId before : made.graph.predecessors(op))
        ready = std::max(ready, schedule.end[before]);
      CHECK(schedule.start[op] == ready);
      if (made.graph.pattern(op) == kNoPattern) continue;
      for (const Flow& flow : made.graph.traffic(made.graph.pattern(op)).flows) {
        for (const std::uint32_t link : flow.links) carried[link] += flow.bytes;
      }
    }
    // Capacity is never exceeded: the busiest link bounds the makespan (but for a picosecond of
    // rounding per op).
    const double rounding = 1e-12 * static_cast<double>(made.graph.op_count());
    for (std::size_t link = 0; link < carried.size(); ++link) {
      CHECK(Seconds(schedule.makespan) + rounding >= carried[link] / made.capacity[link]);
    }
  }
  CHECK(slowed > 100);  // the cases do contend
}

// Independent transfers, one flow each, all at once: their completions by an event-by-event
// simulation on fresh solutions.
std::vector<double> ReferenceCompletions(const std::vector<double>& capacity,
                                         const std::vector<Flow>& flows,
                                         const std::vector<double>& arrival) {
  std::vector<double> left, end(flows.size(), -1);
  for (const Flow& flow : flows) left.push_back(flow.bytes);
  double now = 0;
  for (;;) {
    std::vector<SharingFlow> open;
    std::vector<std::size_t> index;
    double next = kNoCap;
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (end[f] >= 0) continue;
      if (arrival[f] > now) {
        next = std::min(next, arrival[f]);
        continue;
      }
      open.push_back({flows[f].links, flows[f].weight,
                      flows[f].cap_bytes_per_s > 0 ? flows[f].cap_bytes_per_s : kNoCap});
      index.push_back(f);
    }
    if (open.empty() && next == kNoCap) return end;
    const std::vector<double> rates = MaxMinRates(capacity, open);
    for (std::size_t i = 0; i < open.size(); ++i)
      next = std::min(next, now + left[index[i]] / rates[i]);
    for (std::size_t i = 0; i < open.size(); ++i) {
      left[index[i]] -= rates[i] * (next - now);
      if (left[index[i]] <= 1e-9 * flows[index[i]].bytes) end[index[i]] = next;
    }
    now = next;
  }
}

TEST_CASE(
    "independent flows: the same completions as a simulation that solves everything anew at each "
    "event") {
  Random random(8);
  for (int trial = 0; trial < 60; ++trial) {
    std::vector<double> capacity(2 + random() % 12);
    for (double& c : capacity) c = 1e9 * (1 + random() % 20);
    OpGraph graph;
    std::vector<Flow> flows;
    std::vector<double> arrival;
    std::vector<OpId> ops;
    for (int f = 0; f < 40; ++f) {
      Flow flow;
      for (int hop = 0; hop < 3; ++hop) {
        const auto link = static_cast<std::uint32_t>(random() % capacity.size());
        if (std::find(flow.links.begin(), flow.links.end(), link) == flow.links.end())
          flow.links.push_back(link);
      }
      flow.bytes = 1e6 + random() % 1'000'000;
      flow.weight = 1 + random() % 2;
      if (random() % 3 == 0) flow.cap_bytes_per_s = 1e8 * (1 + random() % 50);
      const Time start{static_cast<std::int64_t>(random() % 1'000'000'000)};
      const StreamId stream = graph.AddStream();
      graph.AddOp(stream, start);
      ops.push_back(AddPriced(graph, stream, capacity, graph.AddPattern({{flow}}), {0}));
      flows.push_back(flow);
      arrival.push_back(Seconds(start));
    }
    REQUIRE(graph.Finish());
    const Schedule schedule = RunEventLoop(graph, {capacity});
    const std::vector<double> expected = ReferenceCompletions(capacity, flows, arrival);
    // A picosecond of rounding per event, each of which can move the next.
    for (std::size_t f = 0; f < ops.size(); ++f) {
      CHECK(std::abs(Seconds(schedule.end[ops[f]]) - expected[f]) <= 200e-12);
    }
  }
}

TEST_CASE("independent flows on one link: more bandwidth is never slower") {
  // Over several links, or with dependencies, this is not a theorem of max-min sharing; on one link
  // it is.
  Random random(9);
  for (int trial = 0; trial < 50; ++trial) {
    OpGraph narrow, wide;
    for (int f = 0; f < 20; ++f) {
      const double bytes = 1 + random() % 1'000'000;
      const Time arrival{static_cast<std::int64_t>(random() % 100'000'000)};
      const auto add = [&](OpGraph& graph, double capacity) {
        const StreamId stream = graph.AddStream();
        graph.AddOp(stream, arrival);
        AddPriced(graph, stream, {capacity}, SingleFlow(graph, {0}, bytes), {0});
      };
      add(narrow, 1e9);
      add(wide, 1.25e9);
    }
    REQUIRE(narrow.Finish());
    REQUIRE(wide.Finish());
    const Schedule slow = RunEventLoop(narrow, {{1e9}}), fast = RunEventLoop(wide, {{1.25e9}});
    for (std::size_t op = 0; op < slow.end.size(); ++op)
      CHECK(fast.end[op].ps <= slow.end[op].ps + 20);
  }
}

TEST_CASE("sharing from the start, with no stage of being alone, gives the same schedule") {
  Random random(14);
  for (int trial = 0; trial < 200; ++trial) {
    const RandomCase made = MakeRandom(random, trial % 4 == 0);
    const Schedule lazy = RunEventLoop(made.graph, {made.capacity});
    const Schedule eager = RunEventLoop(made.graph, {made.capacity}, {.share_from_start = true});
    // A picosecond per completion on the way.
    for (std::size_t op = 0; op < lazy.end.size(); ++op) {
      CHECK(std::abs(lazy.end[op].ps - eager.end[op].ps) <=
            2 * static_cast<std::int64_t>(lazy.end.size()));
    }
  }
}

TEST_CASE("wide patterns that meet in the same few combinations: as if shared from the start") {
  Random random(15);
  for (int trial = 0; trial < 10; ++trial) {
    const std::vector<double> capacity(300, 10e9);
    OpGraph graph;
    std::vector<PatternId> patterns;
    for (int p = 0; p < 5; ++p) {
      // Capped so that two fit on a link, and three do not.
      TrafficPattern pattern;
      for (std::uint32_t link = 0; link < 300; ++link) {
        if (random() % 2 == 0) pattern.flows.push_back(Flow{{link}, 4e5, 1, 4e9});
      }
      patterns.push_back(graph.AddPattern(pattern));
    }
    for (int s = 0; s < 4; ++s) {
      const StreamId stream = graph.AddStream();
      for (int i = 0; i < 20; ++i) {
        graph.AddOp(stream, {static_cast<std::int64_t>(random() % 4) * 50'000'000});
        AddPriced(graph, stream, capacity, patterns[random() % 5], {1000});
      }
    }
    REQUIRE(graph.Finish());
    const Schedule lazy = RunEventLoop(graph, {capacity});
    const Schedule eager = RunEventLoop(graph, {capacity}, {.share_from_start = true});
    CHECK(lazy.makespan > EvaluateMaxPlus(graph).makespan);
    for (std::size_t op = 0; op < lazy.end.size(); ++op) {
      CHECK(std::abs(lazy.end[op].ps - eager.end[op].ps) <=
            2 * static_cast<std::int64_t>(lazy.end.size()));
    }
  }
}

TEST_CASE("twice the bytes on twice the bandwidth is the same schedule") {
  Random random(10);
  for (int trial = 0; trial < 100; ++trial) {
    const RandomCase made = MakeRandom(random, false);
    OpGraph doubled;
    for (std::size_t s = 0; s < made.graph.stream_count(); ++s) doubled.AddStream();
    for (PatternId id = 0; id < made.graph.pattern_count(); ++id) {
      TrafficPattern pattern = made.graph.traffic(id);
      for (Flow& flow : pattern.flows) {
        flow.bytes *= 2;
        flow.cap_bytes_per_s *= 2;
      }
      doubled.AddPattern(pattern);
    }
    for (OpId op = 0; op < made.graph.op_count(); ++op) {
      doubled.AddTransfer(made.graph.stream(op), made.graph.duration(op), made.graph.latency(op),
                          made.graph.pattern(op));
    }
    for (OpId op = 0; op < made.graph.op_count(); ++op) {
      for (const OpId before : made.graph.predecessors(op)) doubled.AddDependency(before, op);
    }
    REQUIRE(doubled.Finish());
    std::vector<double> capacity = made.capacity;
    for (double& c : capacity) c *= 2;
    // Powers of two are exact, so not even rounding differs.
    REQUIRE(RunEventLoop(doubled, {capacity}).end == RunEventLoop(made.graph, {made.capacity}).end);
  }
}

TEST_CASE("independent ops inserted in another order get the same times") {
  Random random(12);
  for (int trial = 0; trial < 50; ++trial) {
    const std::vector<double> capacity{8e9, 4e9, 2e9, 8e9};
    std::vector<Flow> flows;
    for (int f = 0; f < 24; ++f) {
      const std::uint32_t a = random() % 4, b = (a + 1 + random() % 3) % 4;
      flows.push_back(Flow{{a, b}, static_cast<double>(1 + random() % 1000) * 1024});
    }
    std::vector<std::size_t> order(flows.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    const auto run = [&] {
      OpGraph graph;
      std::vector<OpId> op(flows.size());
      for (const std::size_t f : order) {
        op[f] = AddPriced(graph, graph.AddStream(), capacity, graph.AddPattern({{flows[f]}}), {0});
      }
      REQUIRE(graph.Finish());
      const Schedule schedule = RunEventLoop(graph, {capacity});
      std::vector<Time> end;
      for (const OpId id : op) end.push_back(schedule.end[id]);
      return end;
    };
    const std::vector<Time> first = run();
    std::shuffle(order.begin(), order.end(), random);
    const std::vector<Time> second = run();
    CHECK(first == second);
  }
}

TEST_CASE("the same graph gives the same bytes") {
  Random random(13);
  const RandomCase made = MakeRandom(random, false);
  const std::string signature = Signature(RunEventLoop(made.graph, {made.capacity}));
  for (int i = 0; i < 3; ++i)
    CHECK(Signature(RunEventLoop(made.graph, {made.capacity})) == signature);
}

TEST_CASE("many patterns on one link: shared from the start, with the same result") {
  // More patterns per link than the loop lists as neighbours.
  OpGraph graph;
  const StreamId stream = graph.AddStream();
  std::vector<double> capacity{1e9};
  for (int i = 0; i < 400; ++i)
    AddPriced(graph, stream, capacity, SingleFlow(graph, {0}, 1000 + i * 7), {100});
  REQUIRE(graph.Finish());
  CHECK(RunEventLoop(graph, {capacity}).end == EvaluateMaxPlus(graph).end);

  OpGraph together;
  double bytes = 0;
  for (int i = 0; i < 400; ++i) {
    AddPriced(together, together.AddStream(), capacity, SingleFlow(together, {0}, 1000 + i * 7),
              {0});
    bytes += 1000 + i * 7;
  }
  REQUIRE(together.Finish());
  CHECK(std::abs(RunEventLoop(together, {capacity}).makespan.ps - std::llround(bytes * 1000)) <=
        400);
}

TEST_CASE("transfers with nothing to send or nothing in the way take their duration") {
  OpGraph graph;
  const StreamId stream = graph.AddStream();
  graph.AddTransfer(stream, {10}, {10}, graph.AddPattern({}));
  graph.AddTransfer(stream, {20}, {0}, SingleFlow(graph, {}, 1e9));  // no link, no cap
  graph.AddTransfer(stream, {30}, {5}, SingleFlow(graph, {0}, 0));   // no bytes
  graph.AddTransfer(stream, {40}, {50},
                    SingleFlow(graph, {0}, 1e9));  // told to be shorter than its latency
  graph.AddTransfer(stream, {1000}, {0}, SingleFlow(graph, {}, 1, 1e9));  // no link, but a cap
  REQUIRE(graph.Finish());
  CHECK(RunEventLoop(graph, {{1e9}}).makespan.ps == 1100);
}

}  // namespace
}  // namespace aurum
