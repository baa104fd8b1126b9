#pragma once

#include <vector>

#include "calibrate/measure.h"
#include "sim/plan/program.h"
#include "sim/plan/scenario.h"

namespace aurum {

// What a plan runs, to be measured in exactly its sizes: of a program that was lowered for execution
// (LowerOptions::for_execution; folded is enough, since classes of ranks differ in what they run).

// Distinct kernels that run on the device, rounded up, in order of first use.
std::vector<Kernel> KernelsOf(const Program& program);
// Distinct collectives and their group sizes; a transfer is a send_recv between two.
std::vector<ExactCollective> CollectivesOf(const Program& program, const Scenario& scenario);

// Both, of several scenarios, each call once.
void AddCallsOf(const Scenario& scenario, ExactCalls* calls);

}  // namespace aurum
