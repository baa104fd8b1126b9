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

// A pair of GPUs that stands for many: "same node", "next node, same rail", …; in a node that is a
// graph one of each kind of path: "NVLink", "one PCIe switch", "across CPUs", …
struct ExamplePair {
  std::string what;
  int src = 0;
  int dst = 0;
};
std::vector<ExamplePair> ExamplePairs(const Cluster& cluster);

// The link that limits what src can send dst: the narrowest of its route, the first of several; under
// adaptive routing the one that is narrowest for the share that it carries. -1 for src == dst.
int NarrowestLink(const Cluster& cluster, int src, int dst);
std::string NarrowestName(const Cluster& cluster, int src, int dst);  // "PCIe pcie - cpu"

int CountVertices(const Cluster& cluster, VertexKind kind);
std::string VertexNameAt(const Cluster& cluster, int vertex);
// E0507 if the cluster has no such GPU.
void CheckGpu(const Cluster& cluster, int gpu);

}  // namespace aurum
