#pragma once

#include <vector>

#include "sim/engine/op_graph.h"

namespace aurum {

// Capacity of every link, B/s, by link id.
struct Fabric {
  std::vector<double> capacity_bytes_per_s;
};

// Runs the graph as discrete events: transfers share links by weighted max-min fairness with per-flow caps, after a latency
// stage. With no link contended, bit for bit the schedule of EvaluateMaxPlus. Order is (time, phase, op id).
Schedule RunEventLoop(const OpGraph& graph, const Fabric& fabric);

}  // namespace aurum
