#pragma once

#include "sim/network/fold.h"
#include "sim/plan/program.h"

namespace aurum {

struct LowerOptions {
  bool with_traffic =
      false;  // flows for the event simulation; without, durations alone (analytic level)
  Fold fold = Fold::kOn;  // kOff: every rank is a class of its own
};

// Turns a validated scenario into its program. Cost: O(stages · micro-batches · layers) ops.
Program Lower(const Scenario& scenario, const LowerOptions& options = {});

}  // namespace aurum
