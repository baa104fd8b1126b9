#pragma once

#include <string>
#include <vector>

#include "sim/study/evaluate.h"

namespace aurum {

// One thing that a scenario's budget bounds.
struct BudgetLine {
  std::string item;  // "gpus", "device_gib", "hours", "energy_kwh", "step_s"
  std::string unit;
  double allowed = 0, used = 0;
  bool known = true;  // false: nothing says how much is used
  bool exceeded = false;
  std::string basis;  // what `used` rests on
  double Left() const { return allowed - used; }
};

// What the budget allows and the simulation uses, in that order; empty without a budget. Device
// memory is the fullest device's peak. Hours are steps to the target times the mean step. Energy is
// an upper bound: every device at its power limit all the time, hosts, network and cooling apart; not
// known where a profile does not tell its limit.
std::vector<BudgetLine> JudgeBudget(const Evaluation& evaluation);
bool Exceeded(const std::vector<BudgetLine>& lines);
// "hours: 51.3 of 42": of what is exceeded.
std::string DescribeExceeded(const std::vector<BudgetLine>& lines);
Json BudgetJson(const std::vector<BudgetLine>& lines);

// Watts of all devices at their limits; 0 where one of them is not told.
double DeviceWatts(const Scenario& scenario);

}  // namespace aurum
