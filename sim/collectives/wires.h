#pragma once

#include <string>
#include <vector>

#include "sim/engine/op_graph.h"
#include "topologies/cluster.h"

namespace aurum {

// What moves at the same time from GPU to GPU.
struct Wire {
  int src = 0;
  int dst = 0;
  double bytes = 0;
};

// The share of a link's rate that collectives and transfers reach.
struct LinkEfficiency {
  double nvlink = 1;
  double pcie = 1;
  double network = 1;
  double Of(LinkKind kind) const;
};

// Wires on their routes, and what they put on each link. One object per pricing.
class WirePlan {
 public:
  explicit WirePlan(const Cluster& cluster);

  // Adds a wire; its hops' latency is Latency(). Throws E0560 where no route connects the two.
  void Add(const Wire& wire);
  std::size_t size() const { return bytes_.size(); }
  double Latency(std::size_t wire) const { return latency_[wire]; }
  bool CrossesNetwork(std::size_t wire) const { return network_[wire]; }
  double HighestLatency(
      bool over_network) const;  // of the wires that do or do not cross the network; 0 if none

  // Until the last byte has arrived when each link carries capacity · efficiency: max over links of
  // bytes / rate, which is exact both for wires in lock step and for the slowest of equal ones
  // under max-min sharing. 0 if nothing moves. `bottleneck` receives the kind of the limiting link.
  double Seconds(const LinkEfficiency& efficiency, LinkKind* bottleneck) const;

  void Scale(double factor);  // all bytes

  // Flows of lock step: all end after `seconds`.
  TrafficPattern LockStep(double seconds) const;
  // Independent flows of equal bytes: each is capped at its share of the narrowest link at that
  // efficiency.
  TrafficPattern Independent(const LinkEfficiency& efficiency) const;

 private:
  std::span<const int> Hops(std::size_t wire) const {
    return {hops_.data() + first_hop_[wire], hops_.data() + first_hop_[wire + 1]};
  }

  const Cluster& cluster_;
  std::vector<double> bytes_, latency_;
  std::vector<bool> network_;
  std::vector<std::size_t> first_hop_{0};
  std::vector<int> hops_;
  std::vector<double> load_;          // bytes, by link
  std::vector<std::uint32_t> users_;  // wires, by link
};

}  // namespace aurum
