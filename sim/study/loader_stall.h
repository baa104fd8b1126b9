#pragma once

#include <cstdint>

#include "sim/plan/scenario.h"
#include "sim/workload/loader.h"

namespace aurum {

// How long a step waits for its data.

// Batches that all take `load_s` to load and steps that all take `step_s` without waiting: seconds of
// waiting in every step. `prefetch` batches may wait ready; 0: a batch is loaded when asked for, while
// the step waits.
double EvenStall(double load_s, double step_s, int prefetch);

// The mean of many steps where a batch takes a log-normal time of mean `load_s` and coefficient of
// variation `cv`, on each of `nodes` on its own; a step begins when all nodes have theirs. A pure
// function of its arguments. O(steps · nodes).
double QueuedStall(double load_s, double cv, double step_s, int prefetch, int nodes,
                   std::uint64_t seed, int steps);

struct LoaderStall {
  LoaderWork batch;                 // one node's part of a step's batch
  double load_s = 0;                // that it takes
  double step_s = 0;                // of a step that waits for no data
  double stall_s = 0;               // a step waits, on average
  double read_gb_per_s_needed = 0;  // by a node, for reading alone to keep up with the steps
};
// Precondition: scenario.workload.loader. Samples are loaded once, by the nodes that have replicas.
LoaderStall StallOf(const Scenario& scenario, double step_s);

}  // namespace aurum
