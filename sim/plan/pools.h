#pragma once

#include <cstdint>
#include <vector>

#include "sim/core/object_reader.h"
#include "sim/plan/scenario.h"

namespace aurum {

// Nodes of one cluster with different devices: each pool's kernels have its own profile's prices, and
// whoever waits for a collective waits for the slowest.

// Reads the scenario's "pools": [{"nodes": [0, 1], "profile": "rtx4090"}]. E0356 no such node, one in
// two pools, or a profile without the device's memory.
std::vector<Pool> ReadPools(std::vector<ObjectReader> readers, const Cluster& cluster,
                            InputCache* cache);

// 0: the cluster's own device; i + 1: Scenario::pools[i].
std::size_t PoolOf(const Scenario& scenario, int gpu);
const Profile& ProfileOfPool(const Scenario& scenario, std::size_t pool);
inline const Profile& ProfileOf(const Scenario& scenario, int gpu) {
  return ProfileOfPool(scenario, PoolOf(scenario, gpu));
}
// B of the device's memory: of the cluster's own, or the profile's.
double DeviceMemory(const Scenario& scenario, int gpu);
// FLOP/s of bf16, dense, mean over all GPUs of the cluster.
double MeanPeakFlops(const Scenario& scenario);
// Pools set ranks apart (rank_classes.h).
void AddPoolColours(const Scenario& scenario, std::vector<std::uint64_t>* rank_colour);

}  // namespace aurum
