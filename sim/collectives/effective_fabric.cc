#include "sim/collectives/effective_fabric.h"

namespace aurum {

Fabric EffectiveFabric(const Cluster& cluster, const Profile& profile,
                       const CollectiveOptions& options) {
  const LinkEfficiency efficiency = EfficiencyOf(CollectiveAlgorithm::kRing, profile, options);
  Fabric fabric;
  fabric.capacity_bytes_per_s.reserve(cluster.links().size());
  for (const Link& link : cluster.links()) {
    const double share = link.kind == LinkKind::kNvLink ? 1 : efficiency.Of(link.kind);
    fabric.capacity_bytes_per_s.push_back(link.bandwidth_bytes_per_s * share);
  }
  return fabric;
}

}  // namespace aurum
