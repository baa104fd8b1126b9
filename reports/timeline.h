#pragma once

#include <string>

#include "sim/core/json.h"
#include "sim/study/evaluate.h"

namespace aurum {

// The island's "timeline" of one evaluation. The main lane is gapless: idle time is an event with its cause. A step of more
// than a few thousand events is drawn in as many equal slices as the page can carry, each showing what filled it most.
Json TimelineJson(const Evaluation& evaluation);

// Of an event, what the page knows to draw: "backbone_forward", "tp_all_reduce".
std::string EventKind(const Model& model, const OpInfo& info);
// The lane of the page that shows it: "main", "tp", "pp" or "dp"; "" = the main lane's wait.
const char* EventLane(Lane lane);

}  // namespace aurum
