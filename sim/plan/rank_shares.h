#pragma once

#include <cstddef>
#include <vector>

#include "sim/plan/pricing.h"
#include "sim/plan/program.h"
#include "sim/plan/units.h"

namespace aurum {

// What one stage says to itself and its neighbours: by unit, and between stages.
struct StageCommunication {
  std::vector<TpCollectives> tp;
  std::vector<DpCollectives> dp;
  CommId send_forward = kNoComm, send_backward = kNoComm;
  CommId decode_reduce = kNoComm;  // after each half of a layer, per new token
};

// What the communication costs the groups of rank class `c` of the stage, s; 0 for kNoComm.
double SecondsFor(const PlanPricer& pricer, std::size_t stage, std::size_t c, CommId comm);

// The optimizer of one GPU of the stage at full speed, s.
double OptimizerSeconds(const Scenario& scenario, const Stage& stage);

// Rank class `c` of a stage: who it is, and what each module leaves on one of its GPUs.
RankClass MakeRankClass(const Scenario& scenario, const Stage& stage, std::size_t number,
                        std::size_t c, const PlanPricer& pricer,
                        const StageCommunication& communication);

}  // namespace aurum
