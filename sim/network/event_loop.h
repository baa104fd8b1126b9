#pragma once

#include <vector>

#include "sim/engine/op_graph.h"

namespace aurum {

// From `at` on, a link carries `factor` of its capacity; 0 = it is down. A flap is two changes.
struct LinkChange {
  Time at;
  std::uint32_t link = 0;
  double factor = 1;
};

// Capacity of every link, B/s, by link id, and what changes while the graph runs.
struct Fabric {
  std::vector<double> capacity_bytes_per_s;
  std::vector<LinkChange>
      changes{};  // in any order; of two at one time, the later in the list wins
};

struct EventLoopOptions {
  // Put every transfer into the sharing solver at once, instead of when it can first meet another.
  // Slower, with the same result but for rounding to a picosecond: a check on the other way.
  bool share_from_start = false;
};

// Runs the graph as discrete events: transfers share links by weighted max-min fairness with
// per-flow caps, after a latency stage. With no link contended, bit for bit the schedule of
// EvaluateMaxPlus. Order is (time, phase, op id): ends before starts of flows, rates solved once
// per instant. No op ends before start + duration. The graph must be finished, every link of its
// flows be in the fabric with a capacity above 0. Memory: O(ops + dependencies + hops of the
// patterns).
Schedule RunEventLoop(const OpGraph& graph, const Fabric& fabric,
                      const EventLoopOptions& options = {});

}  // namespace aurum
