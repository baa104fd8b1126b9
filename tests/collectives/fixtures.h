#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "sim/collectives/collective.h"
#include "sim/network/event_loop.h"

namespace aurum {

inline Cluster Named(const std::string& name) { return ReadCluster(OpenCluster(name, ".")); }

inline Fabric FabricOf(const Cluster& cluster) {
  Fabric fabric;
  for (const Link& link : cluster.links())
    fabric.capacity_bytes_per_s.push_back(link.bandwidth_bytes_per_s);
  return fabric;
}

inline RankGroup Range(int first, int count, int stride = 1) {
  RankGroup group;
  for (int i = 0; i < count; ++i) group.push_back(first + i * stride);
  return group;
}

// A profile of the given device that has measured nothing: models decide everywhere.
inline Profile Unmeasured(double compute_capability = 9.0) {
  Profile profile;
  profile.device.compute_capability = compute_capability;
  return profile;
}

// |a - b| / b, 0 for two zeros. doctest's Approx adds an absolute part, which swallows microseconds.
inline double Deviation(double a, double b) { return a == b ? 0 : std::abs(a - b) / std::abs(b); }

inline const std::vector<CollectiveKind> kAllKinds = {
    CollectiveKind::kAllReduce, CollectiveKind::kAllGather, CollectiveKind::kReduceScatter,
    CollectiveKind::kAllToAll,  CollectiveKind::kBroadcast, CollectiveKind::kSendRecv};

}  // namespace aurum
