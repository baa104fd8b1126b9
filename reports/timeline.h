#pragma once

#include "sim/core/json.h"
#include "sim/study/evaluate.h"

namespace aurum {

// The island's "timeline" of one evaluation. The main lane is gapless: idle time is an event with its cause. A step of more
// than a few thousand events is drawn in as many equal slices as the page can carry, each showing what filled it most.
Json TimelineJson(const Evaluation& evaluation);

}  // namespace aurum
