#include "sim/plan/pools.h"

#include <algorithm>
#include <string>

namespace aurum {

std::vector<Pool> ReadPools(std::vector<ObjectReader> readers, const Cluster& cluster,
                            InputCache* cache) {
  std::vector<Pool> pools;
  std::vector<bool> taken(static_cast<std::size_t>(cluster.nodes), false);
  for (ObjectReader& reader : readers) {
    Pool pool;
    for (const std::int64_t node : reader.Integers("nodes", 0, 1'000'000)) {
      if (node >= cluster.nodes) {
        reader.Fail(356, "nodes",
                    "cluster '" + cluster.name + "' has no node " + std::to_string(node),
                    "nodes 0 to " + std::to_string(cluster.nodes - 1));
      }
      if (taken[static_cast<std::size_t>(node)]) {
        reader.Fail(356, "nodes", "node " + std::to_string(node) + " is listed twice",
                    "every node in one pool at most; the others have the cluster's own device");
      }
      taken[static_cast<std::size_t>(node)] = true;
      pool.nodes.push_back(static_cast<int>(node));
    }
    if (pool.nodes.empty())
      reader.Fail(356, "nodes", "a pool without nodes", "numbers of nodes, from 0");
    pool.profile_name = reader.String("profile");
    try {
      pool.profile = cache->GetProfile(pool.profile_name).value;
    } catch (const InputError& error) {
      const Diagnostic& d = error.diagnostic();
      if (!d.where.file.empty()) throw;
      reader.Fail(d.code, "profile", d.message, d.help, d.note, error.exit_code());
    }
    if (pool.profile->device.memory_bytes <= 0) {
      reader.Fail(356, "profile",
                  "profile '" + pool.profile_name + "' does not tell its device's memory",
                  "add device.memory_bytes to it");
    }
    reader.Finish();
    pools.push_back(std::move(pool));
  }
  return pools;
}

std::size_t PoolOf(const Scenario& s, int gpu) {
  if (s.pools.empty()) return 0;
  const int node = gpu / s.cluster->gpus_per_node;
  for (std::size_t i = 0; i < s.pools.size(); ++i) {
    const std::vector<int>& nodes = s.pools[i].nodes;
    if (std::find(nodes.begin(), nodes.end(), node) != nodes.end()) return i + 1;
  }
  return 0;
}

const Profile& ProfileOfPool(const Scenario& s, std::size_t pool) {
  return pool == 0 ? *s.profile : *s.pools[pool - 1].profile;
}

double DeviceMemory(const Scenario& s, int gpu) {
  const std::size_t pool = PoolOf(s, gpu);
  return pool == 0 ? s.cluster->gpu.memory_bytes : s.pools[pool - 1].profile->device.memory_bytes;
}

double MeanPeakFlops(const Scenario& s) {
  double peak = s.profile->device.peak_bf16_flops * s.cluster->nodes;
  for (const Pool& pool : s.pools) {
    peak += static_cast<double>(pool.nodes.size()) *
            (pool.profile->device.peak_bf16_flops - s.profile->device.peak_bf16_flops);
  }
  return peak / s.cluster->nodes;
}

void AddPoolColours(const Scenario& s, std::vector<std::uint64_t>* rank_colour) {
  rank_colour->resize(static_cast<std::size_t>(s.cluster->GpuCount()), 0);
  for (std::size_t gpu = 0; gpu < rank_colour->size(); ++gpu) {
    std::uint64_t& colour = (*rank_colour)[gpu];
    colour = (colour ^ (PoolOf(s, static_cast<int>(gpu)) + 1)) * 0xd6e8feb86659fd93ULL;
  }
}

}  // namespace aurum
