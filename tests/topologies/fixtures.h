#pragma once

#include <string>

#include "topologies/cluster.h"

namespace aurum {

inline Cluster OpenCatalogue(const std::string& name) {
  return ReadCluster(OpenCluster(name, "."));
}

// The catalogue's document with one path set, as --set does.
inline JsonDocument Changed(const std::string& name, const std::string& assignment) {
  JsonDocument document = OpenCluster(name, ".");
  ApplyOverride(&document, assignment);
  return document;
}

}  // namespace aurum
