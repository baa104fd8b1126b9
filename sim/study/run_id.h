#pragma once

#include <string>

#include "sim/study/evaluate.h"

namespace aurum {

// Names one run in every artefact that is made of it: results, reports, traces, metrics. The same
// inputs, version and schedule give the same id; 32 hexadecimal digits.
std::string RunId(const Evaluation& evaluation, const std::string& tool_version);

}  // namespace aurum
