#pragma once

#include "sim/plan/scenario.h"

namespace aurum {

// Real data in a plan: the steps that its replicas draw, and what stands for them where one load must.

// Draws the steps of an uneven workload for the plan's replicas and micro-batches, and makes the mean
// row of a micro-batch the scenario's sample (for communication sizes, the formula and the split of
// layers). Nothing happens where all samples are alike. Errors of DrawStep.
void DrawData(Scenario* scenario);

// A copy whose sample is the heaviest that a row may be: for memory.
Scenario WithHeaviestSample(const Scenario& scenario);

}  // namespace aurum
