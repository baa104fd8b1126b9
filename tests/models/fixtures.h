#pragma once

#include <string>

#include "models/hf_import.h"
#include "models/model.h"

namespace aurum {

// A configuration of tests/models/fixtures as it is imported.
inline Model ImportedFixture(const std::string& name) {
  return ImportHuggingFace(ReadJsonFile("tests/models/fixtures/" + name + ".json"));
}

}  // namespace aurum
