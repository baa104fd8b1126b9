#pragma once

#include <string>
#include <vector>

#include "models/model.h"
#include "sim/core/json.h"

namespace aurum {

// Reads a model file (docs/schema/model.schema.json), strictly. E01xx for its form, E06xx for
// shapes that contradict.
Model ReadModel(const JsonDocument& document);
// The inverse: ReadModel(ParseJson(WriteModel(m).Dump())) == m in every field.
Json WriteModel(const Model& model);
// `name_or_file`: a name of the catalogue (models/catalogue/NAME.json under `data_root`), or a path
// (contains '/' or ends in .json). E0210 unknown model, with the nearest name.
JsonDocument OpenModel(const std::string& name_or_file, const std::string& data_root);
std::vector<std::string> ModelCatalogue(const std::string& data_root);  // sorted names

}  // namespace aurum
