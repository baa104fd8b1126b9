#pragma once

#include <algorithm>
#include <string>

#include "topologies/cluster.h"
#include "topologies/machine.h"

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

inline Cluster ReadImported(const ImportedCluster& imported) {
  return ReadCluster(ParseJson(imported.document.Dump(2), "imported.json"));
}

inline int CountKind(const Cluster& cluster, VertexKind kind) {
  return static_cast<int>(std::count_if(cluster.vertices().begin(), cluster.vertices().end(),
                                        [&](const Vertex& v) { return v.kind == kind; }));
}

inline bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace aurum
