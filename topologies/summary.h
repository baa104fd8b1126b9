#pragma once

#include <string>
#include <vector>

#include "topologies/cluster.h"

namespace aurum {

// What both renderings of a cluster say, gathered once.

// Cables that are alike: ends of the same kinds, same rates.
struct CableClass {
  LinkKind kind = LinkKind::kNvLink;
  VertexKind from = VertexKind::kGpu;
  VertexKind to = VertexKind::kGpu;
  double bandwidth_bytes_per_s = 0;  // per direction
  double latency_s = 0;
  int cables = 0;
};
// In the order of their first cable.
std::vector<CableClass> CableClasses(const Cluster& cluster);

// A pair of GPUs that stands for many: "same node", "next node, same rail", …
struct ExamplePair {
  std::string what;
  int src = 0;
  int dst = 0;
};
std::vector<ExamplePair> ExamplePairs(const Cluster& cluster);

int CountVertices(const Cluster& cluster, VertexKind kind);

}  // namespace aurum
