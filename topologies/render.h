#pragma once

#include <string>

#include "sim/core/json.h"
#include "topologies/cluster.h"

namespace aurum {

// What `aurum topology` shows. Text is ASCII, at most 100 columns, ends in a newline; JSON has its
// units in the keys. Every rate is read from the cluster's links, so a scaled copy shows its scaled
// rates.

// One node, the fabric level by level, every kind of cable with its number, GB/s per direction and
// latency, and representative routes. Repeated structure is drawn once.
std::string DrawCluster(const Cluster& cluster);
// Each hop from one GPU to another with link kind, GB/s and µs; then the total latency and the
// narrowest link. E0507 if there is no such GPU.
std::string DescribePath(const Cluster& cluster, int src, int dst);
// GB/s of every ordered pair, "" for clusters of more than kMatrixGpus.
std::string BandwidthMatrix(const Cluster& cluster);
inline constexpr int kMatrixGpus = 16;

// {"schema": "aurum.topology/1", …}: counts, cables, fabric, routes and, for small clusters, the
// matrix.
Json ClusterJson(const Cluster& cluster);
// One path: hops with their links, "latency_us", "narrowest_gb_per_s" (null for src == dst). E0507
// as above.
Json PathJson(const Cluster& cluster, int src, int dst);

}  // namespace aurum
