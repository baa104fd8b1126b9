#pragma once

#include <vector>

#include "sim/plan/lower.h"
#include "sim/plan/simulate.h"
#include "sim/workload/data_figures.h"

namespace aurum {

// Steps of a plan whose micro-batches hold different samples.
struct DataSteps {
  std::vector<double> step_s;  // ascending, one per drawn step
  double mean_s = 0;
  std::size_t typical = 0;  // of Scenario::steps, the one whose time is nearest to the mean
  DataFigures figures;
  // The smallest step that is at least as long as `share` of all; share in (0, 1].
  double Quantile(double share) const;
};

// Simulates every step that the scenario drew. A replica is as slow as its own data; all meet when
// gradients are reduced. Precondition: scenario.steps. E0341, E0387. O(draws · ops of all replicas).
DataSteps SimulateData(const Scenario& scenario, const LowerOptions& options, Level level);

}  // namespace aurum
