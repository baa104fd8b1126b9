#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine/op_graph.h"

namespace aurum {

// In place of an index: there is none.
inline constexpr std::uint32_t kNoIndex = 0xffffffffU;

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
  // Rates may be off the fair ones by this much, relatively (max_min.h), which saves most of the
  // work where very many flows share very many links: 0.01 moves the mean completion time of dense
  // random traffic by less than 1 %. Off by default; Schedule::epsilon says when it was on.
  double epsilon = 0;
};

// Runs the graph as discrete events: transfers share links by weighted max-min fairness with
// per-flow caps, after a latency stage. With no link contended, bit for bit the schedule of
// EvaluateMaxPlus. No op ends before start + duration. The graph must be finished, every link of its
// flows be in the fabric with a capacity above 0, every factor of a change be finite and >= 0.
//
// A transfer stands still while a link of it is down, and goes on when it is back. If it never is,
// Schedule::stalled names the first such op; it and what waits for it have the end (and where they
// never started, the start) kTimeMax, and so has the schedule.
//
// In a folded graph (Flow::crossings) an op stands for a class of transfers that start together. The
// transfers that put flows on one link must each put equally many of a class there
// (Crossings::own), and a link may occur once in a flow. Then every time is, bit for bit, that of
// the graph in which the transfers are ops of their own.
//
// Memory: O(ops + dependencies + hops of the patterns).
Schedule RunEventLoop(const OpGraph& graph, const Fabric& fabric,
                      const EventLoopOptions& options = {});

}  // namespace aurum
