#pragma once

#include "sim/core/object_reader.h"
#include "sim/plan/scenario.h"

namespace aurum {

// The "what_if" of a scenario whose cluster and sample are known. E0330, E0331.
WhatIf ReadWhatIf(ObjectReader* reader, const Scenario& scenario);

}  // namespace aurum
