#pragma once

#include "sim/study/evaluate.h"

namespace aurum {

// Evaluate(), quicker, to tell a change from another: of the steps that samples give the first alone, without what is
// drawn (variation, failures). Memory is as of all of them.
Evaluation EvaluateOneStep(Scenario scenario, Level level);

}  // namespace aurum
