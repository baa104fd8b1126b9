#include "sim/network/fold.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "tests/engine/random.h"

namespace aurum {
namespace {

// `copies` of one random job, each on links of its own, and all of them on some common links.
struct Replicated {
  OpGraph graph;
  Fabric fabric;
  std::size_t ops_of_one = 0;
};

Replicated RandomJobs(Random& random, std::uint32_t copies) {
  Replicated jobs;
  const std::uint32_t own_links = 1 + random() % 6, common_links = random() % 3;
  const std::uint32_t ops = 2 + random() % 20;
  std::vector<double> own_capacity;
  for (std::uint32_t i = 0; i < own_links; ++i) own_capacity.push_back(1e9 * (1 + random() % 3));
  for (std::uint32_t i = 0; i < common_links; ++i) {
    jobs.fabric.capacity_bytes_per_s.push_back(1e9 * (1 + random() % 3) * (copies / 2.0));
  }
  for (std::uint32_t c = 0; c < copies; ++c) {
    jobs.fabric.capacity_bytes_per_s.insert(jobs.fabric.capacity_bytes_per_s.end(),
                                            own_capacity.begin(), own_capacity.end());
  }
  struct Op {
    std::uint32_t stream;
    Time duration, latency;
    std::vector<Flow> flows;  // link < own_links: of the copy; else common
    std::vector<std::uint32_t> after;
  };
  std::vector<Op> job;
  for (std::uint32_t i = 0; i < ops; ++i) {
    Op op;
    op.stream = random() % 4;
    op.duration = {static_cast<std::int64_t>(random() % 5) * 100000 + 1};
    if (random() % 3 != 0) {
      op.latency = {static_cast<std::int64_t>(random() % 3) * 1000};
      double longest = 0;
      for (std::uint32_t f = 1 + random() % 4; f > 0; --f) {
        Flow flow;
        flow.bytes = 1000.0 * (1 + random() % 4);
        flow.weight = 1 + random() % 2;
        if (random() % 3 == 0) flow.cap_bytes_per_s = 5e8 * (1 + random() % 2);
        for (std::uint32_t link = 0; link < own_links + common_links; ++link) {
          if (random() % 3 == 0) flow.links.push_back(link);
        }
        if (flow.links.empty()) flow.links.push_back(0);
        longest = std::max(longest, flow.bytes / 2e8);
        op.flows.push_back(std::move(flow));
      }
      op.duration = op.latency + Time{static_cast<std::int64_t>(longest * 1e12) + 1};
    }
    for (std::uint32_t before = 0; before < i; ++before) {
      if (random() % 6 == 0) op.after.push_back(before);
    }
    job.push_back(std::move(op));
  }
  jobs.ops_of_one = job.size();
  std::vector<std::vector<StreamId>> streams(copies);
  std::vector<std::vector<OpId>> ids(copies);
  for (std::uint32_t c = 0; c < copies; ++c) {
    for (int s = 0; s < 4; ++s) streams[c].push_back(jobs.graph.AddStream());
  }
  for (const Op& op : job) {
    for (std::uint32_t c = 0; c < copies; ++c) {
      const StreamId stream = streams[c][op.stream];
      OpId id = 0;
      if (op.flows.empty()) {
        id = jobs.graph.AddOp(stream, op.duration);
      } else {
        TrafficPattern pattern{op.flows};
        for (Flow& flow : pattern.flows) {
          for (std::uint32_t& link : flow.links) {
            link = link < own_links ? common_links + c * own_links + link : link - own_links;
          }
        }
        id = jobs.graph.AddTransfer(stream, op.duration, op.latency,
                                    jobs.graph.AddPattern(std::move(pattern)));
      }
      for (const std::uint32_t before : op.after) jobs.graph.AddDependency(ids[c][before], id);
      ids[c].push_back(id);
    }
  }
  REQUIRE(jobs.graph.Finish());
  return jobs;
}

void CheckSame(const OpGraph& graph, const Fabric& fabric, const FoldedGraph& folded) {
  const Schedule plain = RunEventLoop(graph, fabric);
  const Schedule unfolded = Unfold(RunEventLoop(folded.graph, folded.fabric), folded);
  CHECK(plain.makespan == unfolded.makespan);
  for (OpId op = 0; op < graph.op_count(); ++op) {
    REQUIRE(plain.start[op] == unfolded.start[op]);
    REQUIRE(plain.end[op] == unfolded.end[op]);
  }
}

TEST_CASE("copies of a job that share links fold to one, bit for bit") {
  Random random(11);
  for (int trial = 0; trial < 300; ++trial) {
    CAPTURE(trial);
    const std::uint32_t copies = 2 + random() % 7;
    const Replicated jobs = RandomJobs(random, copies);
    const FoldedGraph folded = FoldGraph(jobs.graph, jobs.fabric);
    CHECK(folded.graph.op_count() <= jobs.ops_of_one);
    CheckSame(jobs.graph, jobs.fabric, folded);
  }
}

TEST_CASE("a degraded or flapping link splits its copy off, and the times stay the same") {
  Random random(12);
  for (int trial = 0; trial < 200; ++trial) {
    CAPTURE(trial);
    const std::uint32_t copies = 3 + random() % 5;
    Replicated jobs = RandomJobs(random, copies);
    auto& capacity = jobs.fabric.capacity_bytes_per_s;
    const std::uint32_t sick = random() % static_cast<std::uint32_t>(capacity.size());
    if (trial % 2 == 0) {
      capacity[sick] *= 0.5;
    } else {
      jobs.fabric.changes = {{Time{2000000}, sick, 0}, {Time{5000000}, sick, 1}};
    }
    const FoldedGraph folded = FoldGraph(jobs.graph, jobs.fabric);
    CHECK(folded.graph.op_count() <= jobs.graph.op_count());
    CheckSame(jobs.graph, jobs.fabric, folded);
  }
}

// A ring of neighbours through a tree: `leaves` leaves of `down` hosts, one uplink each way a host.
struct Ring {
  OpGraph graph;
  Fabric fabric;
};
Ring NeighbourRing(std::uint32_t leaves, std::uint32_t down) {
  Ring ring;
  const std::uint32_t hosts = leaves * down;
  // Links: up of host, down of host, up of leaf by destination slot, down of leaf by slot.
  ring.fabric.capacity_bytes_per_s.assign(4UL * hosts, 50e9);
  const Time latency{500000};
  const Time duration = latency + Time{200000000};
  for (std::uint32_t h = 0; h < hosts; ++h) {
    const std::uint32_t to = (h + 1) % hosts, slot = to % down;
    Flow flow{.links = {h}, .bytes = 1e7};
    if (h / down != to / down) {
      flow.links.push_back(2 * hosts + h / down * down + slot);
      flow.links.push_back(3 * hosts + to / down * down + slot);
    }
    flow.links.push_back(hosts + to);
    ring.graph.AddTransfer(ring.graph.AddStream(), duration, latency,
                           ring.graph.AddPattern({{flow}}));
  }
  REQUIRE(ring.graph.Finish());
  return ring;
}

TEST_CASE("a neighbour ring through a tree folds to its kinds of hops") {
  const Ring ring = NeighbourRing(32, 32);
  const FoldedGraph folded = FoldGraph(ring.graph, ring.fabric);
  CHECK(folded.graph.op_count() == 2);  // inside a leaf, across
  CHECK(folded.flow_classes == 2);
  CheckSame(ring.graph, ring.fabric, folded);
}

TEST_CASE("broken NICs stay exact, and only they stop being alike") {
  Ring ring = NeighbourRing(32, 32);
  for (std::uint32_t i = 0; i < 10; ++i) ring.fabric.capacity_bytes_per_s[i * 97] *= 0.5;
  const FoldedGraph folded = FoldGraph(ring.graph, ring.fabric);
  MESSAGE("1,024 hosts, 10 NICs at half rate: ", folded.flow_classes, " flow classes");
  CHECK(folded.graph.op_count() <= 4);
  CheckSame(ring.graph, ring.fabric, folded);
}

TEST_CASE("traffic without symmetry does not fold, and is still exact") {
  Random random(3);
  OpGraph graph;
  Fabric fabric;
  fabric.capacity_bytes_per_s.assign(64, 1e9);
  for (int i = 0; i < 200; ++i) {
    Flow flow{.links = {random() % 32, 32 + random() % 32}, .bytes = 1e6 + random() % 1000000};
    graph.AddTransfer(graph.AddStream(), Time{2000000000}, Time{0}, graph.AddPattern({{flow}}));
  }
  REQUIRE(graph.Finish());
  const FoldedGraph folded = FoldGraph(graph, fabric);
  CHECK(folded.graph.op_count() > 190);
  CheckSame(graph, fabric, folded);
}

}  // namespace
}  // namespace aurum
