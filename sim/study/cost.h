#pragma once

#include "sim/core/json.h"
#include "sim/plan/scenario.h"

namespace aurum {

// What so many seconds of a whole cluster come to.
struct RunCost {
  double seconds = 0;
  double gpu_hours = 0;   // all of the cluster's GPUs, idle ones too
  double energy_kwh = 0;  // an upper bound: see CostOf
  double money = 0;       // in Scenario::prices' currency
  bool energy_known = false, money_known = false;
};

// The cost of a step of `step_s` seconds. GPU-hours are GPUs · hours: what a bill counts, whether a
// GPU works or waits. Energy is an upper bound, every device at its power limit all the time (hosts,
// network and cooling apart), as in budget.h; it is known where every profile tells its device's
// limit. Money = GPU-hours · prices.gpu_hour + kWh · prices.kwh; known where the scenario has prices
// and, if a kWh has one, energy is known too. No allocation: search asks this of every candidate.
RunCost CostOf(const Scenario& scenario, double step_s);
// The same cost `times` over.
RunCost Times(RunCost cost, double times);

// Of a step and, where there is a target, of all its steps ("cost" in result.schema.json).
Json CostJson(const Scenario& scenario, double step_s);

}  // namespace aurum
