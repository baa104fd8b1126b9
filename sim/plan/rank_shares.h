#pragma once

#include <cstddef>
#include <vector>

#include "sim/plan/pricing.h"
#include "sim/plan/program.h"
#include "sim/plan/units.h"

namespace aurum {

// What one chunk says to other GPUs: by unit, and to its neighbours.
struct ChunkCommunication {
  std::vector<UnitCommunication> units;
  PlanPricer::AlignmentCommunication alignment;
  CommId rebalance = kNoComm;  // data that another replica computes
  CommId send_forward = kNoComm, send_backward = kNoComm;
  bool ends = false;  // the model ends here: backward begins where forward ended
};
struct StageCommunication {
  std::vector<ChunkCommunication> chunks;
  ChunkCommunication bubbles;
  CommId decode_reduce = kNoComm;  // after each half of a layer, per new token
};

// What the communication costs the groups of rank class `c` of the stage, s; 0 for kNoComm.
double SecondsFor(const PlanPricer& pricer, std::size_t stage, std::size_t c, CommId comm);

// The optimizer of one GPU of the stage at full speed, s: only what stays on the GPU. As a kernel, it
// is the traffic of all its states.
Kernel OptimizerKernel(const Scenario& scenario, const StageUnits& stage, std::size_t number);
double OptimizerSeconds(const Scenario& scenario, const StageUnits& stage, std::size_t number,
                        const Profile& profile);
// Kernels that read and write so many bytes on that device, s.
double TrafficSeconds(const Scenario& scenario, double bytes, const Profile& profile);
// Device memory traffic of a unit's sparse gradients, B: choosing what is sent, adding up what came.
struct SparseTraffic {
  double selection = 0, merge = 0;
};
SparseTraffic SparseTrafficOf(const Scenario& scenario, const PlanPricer& pricer, std::size_t stage,
                              const Unit& unit, const UnitCommunication& of);
// Parameters of one GPU whose optimizer states it keeps, on itself or on its host.
double OptimizedParameters(const Scenario& scenario, const StageUnits& stage, std::size_t number);

// Rank class `c` of a stage: who it is, and what each module leaves on one of its GPUs.
RankClass MakeRankClass(const Scenario& scenario, const StageUnits& stage, std::size_t number,
                        std::size_t c, const PlanPricer& pricer,
                        const StageCommunication& communication);

}  // namespace aurum
