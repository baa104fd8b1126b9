#pragma once

#include <cstddef>
#include <string>

#include "sim/plan/program.h"
#include "sim/plan/simulate.h"

namespace aurum {

// A folded simulation against the same with every rank on its own.
struct FoldCheck {
  std::size_t ranks = 0;     // compared
  std::size_t kernels = 0;   // of all ranks: starts and ends compared
  std::size_t classes = 0;   // of ranks, folded
  bool equal = true;         // bit for bit
  std::string difference{};  // the first one
};

// Compares when each kernel of each rank starts and ends.
FoldCheck CompareFolded(const Program& folded, const Outcome& folded_outcome,
                        const Program& unfolded, const Outcome& unfolded_outcome);

}  // namespace aurum
