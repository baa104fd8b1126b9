#pragma once

#include "sim/plan/plan_costs.h"
#include "sim/plan/rank_shares.h"

namespace aurum {

// The costs of one stage of a plan, of a pricer that has settled. `host_bandwidth`: B/s.
StageCosts CostsOfStage(const Scenario& scenario, const PlanPricer& pricer, const StageUnits& units,
                        const StageCommunication& communication, std::size_t stage,
                        double host_bandwidth);

}  // namespace aurum
