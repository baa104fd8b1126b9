#pragma once

#include <memory>
#include <vector>

#include "sim/plan/lower.h"
#include "sim/plan/pricing.h"
#include "sim/plan/rank_shares.h"
#include "sim/plan/tape.h"
#include "sim/plan/units.h"

namespace aurum {

// A lowering that took down how its durations came about (tape.h), and what it made. All pointers are
// into `owner`, and valid while that and the scenario live.
struct TapedLowering {
  std::shared_ptr<void> owner;
  Program* program = nullptr;
  const Tape* tape = nullptr;
  PlanPricer* pricer = nullptr;
  const std::vector<StageUnits>* stages = nullptr;
  const std::vector<StageCommunication>* communication = nullptr;
  const CostContext* context = nullptr;
  bool fills_bubbles = false;  // the order of passes follows from their durations
};

// Lower(), on tape. `scenario` must outlive what is returned; its what_if may change.
TapedLowering LowerOnTape(const Scenario& scenario, const LowerOptions& options = {});

}  // namespace aurum
