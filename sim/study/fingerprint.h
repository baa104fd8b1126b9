#pragma once

#include <string>

#include "sim/plan/scenario.h"
#include "sim/study/design.h"

namespace aurum {

// What the results of a study rest on beside its scenario: a hash of the content of every file that a
// point may name, in the scenario or as a value of an axis (models, clusters and their profiles,
// profiles, stacks, profiles of pools, files of samples). A store with another one is not continued.
// Names that cannot be read count by their text; the points that use them say what is wrong.
std::string StudyFingerprint(const JsonDocument& scenario, const Design& design, InputCache* cache);

}  // namespace aurum
