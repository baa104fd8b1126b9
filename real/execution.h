#pragma once

#include <string>
#include <vector>

#include "real/rank_backend.h"
#include "sim/plan/scenario.h"
#include "sim/plan/simulate.h"

namespace aurum {

// A scenario made ready to be executed, or compared with an execution of it.
struct Executable {
  Scenario scenario;
  Program program;     // lowered for execution: unfolded, or folded for a lone rank
  Outcome outcome;     // its simulation
  int lone_rank = -1;  // executed alone; -1: all ranks
  std::vector<double>
      peak_bytes;  // by GPU; of a lone rank, its own alone. 0 = the model cannot tell

  int Ranks() const { return lone_rank < 0 ? scenario.cluster->GpuCount() : 1; }
  // The simulated step; of a lone rank, until the last of its own ops.
  double PredictedSeconds() const;
  // Of the plan: 0 … Ranks() − 1, or the lone one.
  RankProgram RankAt(int rank) const;
};

// Lowers and simulates. Errors: what a lowering throws, and
//   E0902 no such rank · E0904 more ranks than a job on one machine can have
//   E0903 something imposed or drawn that nobody can run: what_if, faults, variation, uneven samples,
//         an optimizer on the host
Executable MakeExecutable(Scenario scenario, int lone_rank = -1);

// What one op is, for people: "backward of backbone, micro-batch 2".
std::string NameOf(const Program& program, const Scenario& scenario, OpId op);

// The middle value, or the mean of the two; 0 of none.
double MedianOf(std::vector<double> values);

// Puts what the ranks handed back into a record: a step is as long as its slowest rank, clean if it was
// so on all of them. Who ran it, when and how is left to the caller.
RunRecord MakeRunRecord(const Executable& executable, const std::vector<RankRun>& runs,
                        const StepPlan& steps);

}  // namespace aurum
