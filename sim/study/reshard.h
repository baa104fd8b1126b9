#pragma once

#include "sim/plan/program.h"
#include "sim/plan/scenario.h"

namespace aurum {

// What it takes to go from one plan to another on the same GPUs, between two steps.
struct Reshard {
  double total_bytes = 0;    // that come to a GPU which did not hold them, all GPUs
  double busiest_bytes = 0;  // to the one that takes most
  double seconds = 0;        // of an all-to-all over all GPUs in which everyone takes as much
};

// Weights and optimizer states that must move, where both plans train the same model on the same
// cluster. A GPU holds a rectangle of every module: the layers of its stage by its tensor-parallel slice, and of
// sharded states its replica's part; what the two rectangles have in common stays. Chunks of
// interleaved stages are taken as if they lay side by side. E0772 where model or cluster differ.
Reshard ReshardBetween(const Scenario& from, const Program& from_program, const Scenario& to,
                       const Program& to_program);

}  // namespace aurum
