#pragma once

#include <string>

#include "sim/core/object_reader.h"
#include "sim/workload/workload.h"

namespace aurum {

// What a scenario's workload of this text is.
inline Workload ParseWorkload(const std::string& text, const std::string& name = "workload.json") {
  const JsonDocument document = ParseJson(text, name);
  return ReadWorkload(ObjectReader(document, document.root, "/workload"));
}

}  // namespace aurum
