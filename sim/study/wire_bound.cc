#include "sim/study/wire_bound.h"

#include <algorithm>
#include <cstddef>

#include "sim/collectives/flows.h"
#include "sim/collectives/wires.h"

namespace aurum {
namespace {

// The place in the plan of the group with `gpu`, of those that have wires.
struct Sought {
  int gpu = -1;
  std::size_t next = 0;
  bool found = false;
  std::size_t group = 0;
  void Visit(const RankGroup& ranks) {
    if (!found && std::find(ranks.begin(), ranks.end(), gpu) != ranks.end()) {
      found = true;
      group = next;
    }
    ++next;
  }
  WireBound Of(const WirePlan& wires) const {
    WireBound bound;
    if (next == 0) return bound;
    bound.seconds = found ? wires.GroupSeconds(group, {}, &bound.bottleneck)
                          : wires.Seconds({}, &bound.bottleneck);
    return bound;
  }
};

}  // namespace

WireBound BoundOfCollective(CollectiveKind kind, double bytes, const std::vector<RankGroup>& groups,
                            const Cluster& cluster, int gpu) {
  constexpr std::size_t kMostFlows = 1 << 16;
  const bool direct = kind == CollectiveKind::kAllToAll || kind == CollectiveKind::kSendRecv;
  WirePlan wires(cluster);
  Sought sought{gpu};
  for (const RankGroup& group : groups) {
    if (group.size() < 2) continue;
    if (sought.next > 0) wires.StartGroup();
    sought.Visit(group);
    AddFlows(direct ? CollectiveAlgorithm::kDirect : CollectiveAlgorithm::kRing, kind, bytes,
             ShapeOf(group, cluster, 0), cluster, kMostFlows, &wires);
  }
  return sought.Of(wires);
}

WireBound BoundOfTransfers(double bytes, const std::vector<RankGroup>& groups,
                           const Cluster& cluster, int gpu) {
  WirePlan wires(cluster);
  Sought sought{gpu};
  for (const RankGroup& pair : groups) {
    if (pair.size() < 2 || pair[0] == pair[1]) continue;
    if (sought.next > 0) wires.StartGroup();
    sought.Visit({pair[0], pair[1]});
    wires.Add({pair[0], pair[1], bytes});
  }
  return sought.Of(wires);
}

}  // namespace aurum
