#pragma once

#include <string>
#include <vector>

#include "sim/study/evaluate.h"

namespace aurum {

// What lies in the memory of the fullest GPU at its peak.
struct MemoryItem {
  MemoryComponent component = MemoryComponent::kWeights;
  std::string module;  // "" of what belongs to no one module
  std::string what;    // "parameters", "layer: MLP up and gate", "context and libraries"
  double count = 1;    // of that name; a share of one where it is split
  double bytes = 0;
};

struct MemoryTree {
  int rank_class = 0;
  // By component, then module as in the model (none last), then the largest first. Those of a component
  // sum to ClassMemory::at_peak of it, within what sums of doubles round.
  std::vector<MemoryItem> items;
  double BytesOf(MemoryComponent component) const;
};

// Where samples differ, of the step whose every sample is the heaviest, as the verdict is. What a module
// leaves for the whole step is told apart by its parameters; what moves, by the tensors of the program
// that are live at the peak.
MemoryTree MakeMemoryTree(const Evaluation& evaluation);

}  // namespace aurum
