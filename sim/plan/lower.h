#pragma once

#include "sim/plan/program.h"

namespace aurum {

struct LowerOptions {
  bool with_traffic =
      false;  // flows for the event simulation; without, durations alone (analytic level)
};

// Turns a validated scenario into its program. Cost: O(stages · micro-batches · layers) ops.
Program Lower(const Scenario& scenario, const LowerOptions& options = {});

}  // namespace aurum
