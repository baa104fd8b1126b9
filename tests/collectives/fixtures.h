#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "sim/collectives/collective.h"
#include "sim/network/event_loop.h"
#include "sim/network/max_min.h"

namespace aurum {

inline Cluster Named(const std::string& name) { return ReadCluster(OpenCluster(name, ".")); }

inline Profile NamedProfile(const std::string& name) { return ReadProfile(OpenProfile(name, ".")); }

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

// The flows of a pattern with nobody else, solved anew whenever one ends.
inline double AloneSeconds(const Fabric& fabric, const TrafficPattern& pattern) {
  std::vector<double> left;
  for (const Flow& flow : pattern.flows) left.push_back(flow.bytes);
  double now = 0;
  for (;;) {
    std::vector<SharingFlow> flows;
    std::vector<std::size_t> open;
    for (std::size_t f = 0; f < left.size(); ++f) {
      if (left[f] <= 0) continue;
      flows.push_back(
          {pattern.flows[f].links, pattern.flows[f].weight, pattern.flows[f].cap_bytes_per_s});
      open.push_back(f);
    }
    if (open.empty()) return now;
    const std::vector<double> rates = MaxMinRates(fabric.capacity_bytes_per_s, flows);
    double step = kNoCap;
    for (std::size_t i = 0; i < open.size(); ++i) step = std::min(step, left[open[i]] / rates[i]);
    for (std::size_t i = 0; i < open.size(); ++i) {
      left[open[i]] -= rates[i] * step;
      if (left[open[i]] <= 1e-9 * pattern.flows[open[i]].bytes) left[open[i]] = 0;
    }
    now += step;
  }
}

inline const std::vector<CollectiveKind> kAllKinds = {
    CollectiveKind::kAllReduce, CollectiveKind::kAllGather, CollectiveKind::kReduceScatter,
    CollectiveKind::kAllToAll,  CollectiveKind::kBroadcast, CollectiveKind::kSendRecv};

}  // namespace aurum
