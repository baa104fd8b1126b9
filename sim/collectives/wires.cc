#include "sim/collectives/wires.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include "sim/core/diagnostic.h"

namespace aurum {

double LinkEfficiency::Of(LinkKind kind) const {
  switch (kind) {
    case LinkKind::kNvLink:
    case LinkKind::kXgmi:
      return nvlink;
    case LinkKind::kPcie:
      return pcie;
    case LinkKind::kNetwork:
      return network;
    default:
      return 1;
  }
}

WirePlan::WirePlan(const Cluster& cluster)
    : cluster_(cluster), load_(cluster.links().size(), 0), users_(cluster.links().size(), 0) {}

void WirePlan::Add(const Wire& wire) {
  assert(wire.src >= 0 && wire.src < cluster_.GpuCount() && wire.dst >= 0 &&
         wire.dst < cluster_.GpuCount());
  const std::vector<int> route = cluster_.Route(wire.src, wire.dst);
  if (route.empty() && wire.src != wire.dst) {
    ThrowInput(560,
               "no route from GPU " + std::to_string(wire.src) + " to GPU " +
                   std::to_string(wire.dst) + " in " + cluster_.name,
               "give the cluster a network, or keep the group inside one node");
  }
  double latency_s = 0;
  bool network = false;
  for (const int id : route) {
    const Link& link = cluster_.links()[id];
    latency_s += link.latency_s;
    network = network || link.kind == LinkKind::kNetwork;
    load_[id] += wire.bytes;
    ++users_[id];
  }
  hops_.insert(hops_.end(), route.begin(), route.end());
  first_hop_.push_back(hops_.size());
  bytes_.push_back(wire.bytes);
  latency_.push_back(latency_s);
  network_.push_back(network);
}

double WirePlan::HighestLatency(bool over_network) const {
  double highest = 0;
  for (std::size_t wire = 0; wire < size(); ++wire) {
    if (network_[wire] == over_network) highest = std::max(highest, latency_[wire]);
  }
  return highest;
}

double WirePlan::Seconds(const LinkEfficiency& efficiency, LinkKind* bottleneck) const {
  double longest = 0;
  for (std::size_t id = 0; id < load_.size(); ++id) {
    if (load_[id] <= 0) continue;
    const Link& link = cluster_.links()[id];
    const double seconds = load_[id] / (link.bandwidth_bytes_per_s * efficiency.Of(link.kind));
    // A link of the fabric has bytes of several wires, summed in another order: rounding must not
    // choose the name.
    if (seconds <= longest * (1 + 1e-12)) continue;
    longest = seconds;
    *bottleneck = link.kind;
  }
  return longest;
}

void WirePlan::Scale(double factor) {
  for (double& bytes : bytes_) bytes *= factor;
  for (double& bytes : load_) bytes *= factor;
}

TrafficPattern WirePlan::LockStep(double seconds) const {
  TrafficPattern pattern;
  if (seconds <= 0) return pattern;
  pattern.flows.reserve(size());
  for (std::size_t wire = 0; wire < size(); ++wire) {
    if (bytes_[wire] <= 0) continue;
    const std::span<const int> hops = Hops(wire);
    pattern.flows.push_back({.links = {hops.begin(), hops.end()},
                             .bytes = bytes_[wire],
                             .weight = 1,
                             .cap_bytes_per_s = bytes_[wire] / seconds});
  }
  return pattern;
}

TrafficPattern WirePlan::Independent(const LinkEfficiency& efficiency) const {
  TrafficPattern pattern;
  pattern.flows.reserve(size());
  for (std::size_t wire = 0; wire < size(); ++wire) {
    if (bytes_[wire] <= 0) continue;
    const std::span<const int> hops = Hops(wire);
    double rate = std::numeric_limits<double>::infinity();
    for (const int id : hops) {
      const Link& link = cluster_.links()[id];
      rate = std::min(rate, link.bandwidth_bytes_per_s * efficiency.Of(link.kind) / users_[id]);
    }
    pattern.flows.push_back({.links = {hops.begin(), hops.end()},
                             .bytes = bytes_[wire],
                             .weight = 1,
                             .cap_bytes_per_s = rate});
  }
  return pattern;
}

}  // namespace aurum
