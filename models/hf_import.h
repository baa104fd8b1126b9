#pragma once

#include "models/model.h"
#include "sim/core/json.h"

namespace aurum {

// Turns a Hugging Face config.json into a Model. What had to be assumed (class defaults) and what
// was ignored is told in Model::assumed and ::ignored. An architecture it does not know is E0601
// with the nearest known one; a config that lacks a shape which has no documented class default is
// E0602; contradictory shapes are E0603.
Model ImportHuggingFace(const JsonDocument& config);

}  // namespace aurum
