#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/monitor/root_cause.h"
#include "sim/plan/scenario.h"

namespace aurum {

// Simulated steps whose fault is known, to fit and to score the classifier on.

// A step of a scenario as a log with ranks' times tells it: every rank has the times of its class, each
// off by a factor of its own (1 + cv·z). The kernels of the host take `stall_s` longer.
StepRecord SimulateStep(const Scenario& scenario, double stall_s, double measurement_cv,
                        std::uint64_t seed);

struct LabelledStep {
  RootCause truth = RootCause::kNone;
  std::string fault;  // in words: "GPU 13 × 1.27"
  int place = -1;     // the slow GPU's rank, the sick NIC's node; -1: everywhere
  StepRecord healthy, now;
};

// `each` faults of every cause that the scenario can have (a NIC on a network, tokens to align), with
// severities and places drawn by `seed`, and as many healthy steps.
//   slow_gpu        one GPU, kernels × 1.05 … 2
//   sick_link       one NIC at 0.1 … 0.7 of its rate
//   retransmissions one NIC that resends 3 … 40 % of what it sends
//   data_stall      2 … 50 % of the step
//   misalignment    MAR to 0 … 0.7
//   more_work       1.1 … 2 times the text
// Those that cost less than half a percent of the step are no fault that a step time could show: they
// are labelled none.
std::vector<LabelledStep> DrawFaults(const JsonDocument& scenario, InputCache* cache, int each,
                                     std::uint64_t seed);

struct CauseScore {
  int steps = 0, right = 0;
  int placed = 0, place_named = 0;  // right ones with a place, and those whose suspects hold it
  double suspects = 0;              // mean number of ranks or nodes that are suspected
  std::array<std::array<int, kRootCauses>, kRootCauses> confusion{};  // [truth][answer]
  double Accuracy() const { return steps > 0 ? static_cast<double>(right) / steps : 0; }
};
CauseScore ScoreCauses(const std::vector<LabelledStep>& steps, const CauseRules& rules = {});

// The rules with the best accuracy on `steps`, over a grid of both numbers; ties go to the middle of
// the best.
CauseRules FitCauseRules(const std::vector<LabelledStep>& steps);

// Scenario files below the data root that the shipped rules were fitted on, and those that they are
// scored on. No file is in both, and no model.
const std::vector<std::string>& CauseFitScenarios();
const std::vector<std::string>& CauseScoreScenarios();

}  // namespace aurum
