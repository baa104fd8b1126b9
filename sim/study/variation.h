#pragma once

#include <vector>

#include "sim/plan/scenario.h"
#include "sim/plan/simulate.h"

namespace aurum {

// Steps whose ops vary, by the scenario's Variation.
struct VariedSteps {
  std::vector<double> step_s;  // ascending, one per seed
  double mean_s = 0;
  std::vector<double> sync_s;  // ascending: how long each step's gradients take (gradient_sync.h)
  // The smallest step that is at least as long as `share` of all; share in (0, 1].
  double Quantile(double share) const;
  double SyncQuantile(double share) const;  // the same of sync_s
};

// Draws `scenario.variation.seeds` steps. Nothing is alike any more, so every rank is simulated: a
// step is as late as the slowest of all that must meet. E0341 where that is too much. O(seeds · ops
// of all ranks).
VariedSteps DrawSteps(const Scenario& scenario, Level level);

}  // namespace aurum
