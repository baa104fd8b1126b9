#include "sim/study/wire_bound.h"

#include "sim/collectives/flows.h"
#include "sim/collectives/wires.h"

namespace aurum {

WireBound BoundOfCollective(CollectiveKind kind, double bytes, const std::vector<RankGroup>& groups,
                            const Cluster& cluster) {
  constexpr std::size_t kMostFlows = 1 << 16;
  const CollectiveAlgorithm algorithm =
      kind == CollectiveKind::kAllToAll || kind == CollectiveKind::kSendRecv
          ? CollectiveAlgorithm::kDirect
          : CollectiveAlgorithm::kRing;
  WirePlan wires(cluster);
  bool any = false;
  for (const RankGroup& group : groups) {
    if (group.size() < 2) continue;
    if (any) wires.StartGroup();
    any = true;
    AddFlows(algorithm, kind, bytes, ShapeOf(group, cluster, 0), cluster, kMostFlows, &wires);
  }
  WireBound bound;
  if (any) bound.seconds = wires.Seconds({}, &bound.bottleneck);
  return bound;
}

WireBound BoundOfTransfers(double bytes, const std::vector<RankGroup>& groups,
                           const Cluster& cluster) {
  WirePlan wires(cluster);
  bool any = false;
  for (const RankGroup& pair : groups) {
    if (pair.size() < 2 || pair[0] == pair[1]) continue;
    wires.Add({pair[0], pair[1], bytes});
    any = true;
  }
  WireBound bound;
  if (any) bound.seconds = wires.Seconds({}, &bound.bottleneck);
  return bound;
}

}  // namespace aurum
