#pragma once

#include <vector>

#include "sim/collectives/group_shape.h"
#include "sim/cost/profile.h"
#include "topologies/cluster.h"

namespace aurum {

// The least that wires can take for a communication: its bytes over the links at their own full rates, no
// latency and no protocol, all groups at once.
struct WireBound {
  double seconds = 0;
  LinkKind bottleneck = LinkKind::kNetwork;  // whose link is the last to finish
};

// `gpu`: of the group that it is in, with all others on the wires; -1: of the slowest group.
//
// A collective with `bytes` in nccl-tests' size convention: by a ring, an all-to-all directly. `groups` of
// one rank take nothing. O(hops of the flows), as PriceCollective. E0560.
WireBound BoundOfCollective(CollectiveKind kind, double bytes, const std::vector<RankGroup>& groups,
                            const Cluster& cluster, int gpu = -1);
// Transfers: of every group, its first rank sends `bytes` to its second (PlacedGroups of pairs).
WireBound BoundOfTransfers(double bytes, const std::vector<RankGroup>& groups,
                           const Cluster& cluster, int gpu = -1);

}  // namespace aurum
