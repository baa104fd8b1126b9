#pragma once

#include <string>
#include <vector>

#include "sim/core/json.h"

namespace aurum {

// The JSON files of a folder, by name without ".json", sorted; empty where there is no such folder.
std::vector<std::string> CatalogueOf(const std::string& folder);

// Reads FOLDER/NAME.json, or the file itself where `name_or_file` holds a '/' or ends in ".json".
// An unknown name is error `code`, with the nearest known name; `what` is the kind of thing,
// "profile" or "stack".
JsonDocument OpenFromCatalogue(const std::string& name_or_file, const std::string& folder, int code,
                               const std::string& what);

}  // namespace aurum
