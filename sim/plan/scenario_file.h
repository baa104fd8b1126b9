#pragma once

#include <string>

#include "sim/core/json.h"

namespace aurum {

// The file, with the paths of models, clusters, profiles and stacks that it names, which are relative
// to it, made relative to the working directory. Errors of ReadJsonFile.
JsonDocument OpenScenarioFile(const std::string& file);
// A path, as a value that names a model or the like has it: of the file beside `file` that it names,
// if there is one, else as it is, like a name of the catalogue.
std::string PathBeside(const std::string& file, const std::string& named);
// The same for a document that came from there.
void ResolvePaths(const std::string& file, JsonDocument* document);

}  // namespace aurum
