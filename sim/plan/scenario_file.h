#pragma once

#include <string>

#include "sim/core/json.h"

namespace aurum {

// The file, with the paths of models, clusters, profiles and stacks that it names, which are relative
// to it, made relative to the working directory. Errors of ReadJsonFile.
JsonDocument OpenScenarioFile(const std::string& file);
// The same for a document that came from there.
void ResolvePaths(const std::string& file, JsonDocument* document);

}  // namespace aurum
