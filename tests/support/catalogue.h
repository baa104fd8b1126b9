#pragma once

#include <string>

#include "models/model.h"
#include "models/reader.h"

namespace aurum {

// A model of the catalogue by its name.
inline Model NamedModel(const std::string& name) { return ReadModel(OpenModel(name, ".")); }

}  // namespace aurum
