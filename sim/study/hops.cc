#include "sim/study/hops.h"

namespace aurum {

HopCensus CountHops(const Cluster& cluster, const std::vector<int>& gpus, int most_devices) {
  HopCensus census;
  for (const int from : gpus) {
    for (const int to : gpus) {
      if (from == to) continue;
      const std::vector<int> route = cluster.Route(from, to);
      if (route.empty()) continue;  // nothing joins them
      ++census.pairs;
      const std::size_t devices = route.size() + 1;
      if (census.by_devices.size() <= devices) census.by_devices.resize(devices + 1);
      ++census.by_devices[devices];
      if (static_cast<int>(devices) <= most_devices) ++census.within;
      bool own = true, cpu = false, network = false;
      for (const int id : route) {
        const Link& link = cluster.links()[static_cast<std::size_t>(id)];
        own = own && IsGpuLink(link.kind);
        network = network || link.kind == LinkKind::kNetwork;
        cpu = cpu || cluster.vertices()[static_cast<std::size_t>(link.to)].kind == VertexKind::kCpu;
      }
      census.gpu_links += own ? 1 : 0;
      census.through_cpu += cpu ? 1 : 0;
      census.over_network += network ? 1 : 0;
    }
  }
  return census;
}

}  // namespace aurum
