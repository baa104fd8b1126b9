#pragma once

#include "sim/plan/plan_costs.h"
#include "sim/plan/scenario.h"

namespace aurum {

// What a plan takes at the least, found without simulating it.
struct PlanBound {
  double step_s = 0;
  double memory_bytes = 0;  // of the fullest GPU
  double state_bytes = 0;   // of them, weights, gradients and optimizer states
};

// Never more than what the simulation says (analytic level): tests compare thousands of plans.
PlanBound BoundOf(const Scenario& scenario, const PlanCosts& costs);

}  // namespace aurum
