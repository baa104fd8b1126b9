#pragma once

#include <cstdint>
#include <span>
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

// Numbers keys 0, 1, 2, … by first appearance: open addressing, O(keys) memory.
class KeyNumbers {
 public:
  // The number of `key`; *fresh: it had none before.
  std::uint32_t Of(std::uint64_t key, bool* fresh);

 private:
  static constexpr std::uint32_t kFree = 0xffffffffU;
  struct Slot {
    std::uint64_t key = 0;
    std::uint32_t number = kFree;
  };
  void Grow();
  std::vector<Slot> slots_;
  std::uint32_t count_ = 0;
};

// Wires of one or more groups on their routes, and what they put on each link. Phases come one
// after the other, the wires of a phase are in lock step. Memory O(hops of the wires), whatever the
// size of the cluster. One object per pricing.
class WirePlan {
 public:
  explicit WirePlan(const Cluster& cluster);

  void StartGroup();  // wires from here on are the next group's; not needed for the first
  // Adds a wire; its hops' latency is Latency(). Where the cluster spreads flows over equal paths, one
  // for each path, with its share of the bytes. Throws E0560 where no route connects the two.
  void Add(const Wire& wire, int phase = 0);
  // The same over given links, e.g. from a GPU into its switch.
  void AddPath(std::span<const int> links, double bytes, int phase = 0, double weight = 1);

  std::size_t size() const { return bytes_.size(); }
  std::size_t group_count() const { return first_of_group_.size(); }
  double Latency(std::size_t wire) const { return latency_[wire]; }
  double Bytes(std::size_t wire) const { return bytes_[wire]; }
  bool CrossesNetwork(std::size_t wire) const { return network_[wire]; }
  // Of the wires that do or do not cross the network; 0 if none.
  double HighestLatency(bool over_network) const;
  double HighestLatency(bool over_network, std::size_t group) const;
  bool AnyCrossesNetwork(std::size_t group) const { return crosses_[group]; }

  // Until the last byte has arrived when each link carries capacity · efficiency: the sum over
  // phases of the max over links of bytes / rate, which is exact both for wires in lock step and
  // for the slowest of equal ones under max-min sharing. 0 if nothing moves. `bottleneck` receives
  // the kind of the limiting link of the longest phase.
  double Seconds(const LinkEfficiency& efficiency, LinkKind* bottleneck) const;
  // The same over the links that the group's wires cross, with the bytes of all groups on them.
  double GroupSeconds(std::size_t group, const LinkEfficiency& efficiency,
                      LinkKind* bottleneck) const;

  void Scale(double factor);  // all bytes

  // Flows of lock step: all end after `seconds`.
  TrafficPattern LockStep(double seconds) const;
  TrafficPattern GroupLockStep(std::size_t group, double seconds) const;
  // Independent flows of equal bytes: each is capped at its share of the narrowest link at that
  // efficiency.
  TrafficPattern Independent(const LinkEfficiency& efficiency) const;

 private:
  // A link in one phase.
  struct Load {
    int link = 0;
    int phase = 0;
    double bytes = 0;
    std::uint32_t users = 0;
  };
  std::span<const std::uint32_t> Loads(std::size_t wire) const {
    return {hops_.data() + first_hop_[wire], hops_.data() + first_hop_[wire + 1]};
  }
  std::pair<std::size_t, std::size_t> WiresOf(std::size_t group) const;
  Flow FlowOf(std::size_t wire, double cap) const;
  template <typename Visit>
  double SumOfPhases(Visit each, const LinkEfficiency& efficiency, LinkKind* bottleneck) const;

  const Cluster* cluster_;
  std::vector<double> bytes_, weight_, latency_;
  std::vector<bool> network_, crosses_;
  std::vector<std::size_t> first_hop_{0}, first_of_group_{0};
  std::vector<std::uint32_t> hops_;  // indices of loads_
  std::uint32_t LoadOf(int link, int phase);

  std::vector<Load> loads_;
  KeyNumbers numbers_;                         // of (phase, link)
  std::vector<std::uint32_t> load_of_number_;  // by number: index of loads_
  // Once a good part of the cluster's links is used, those of phase 0 by link: a table of all links
  // is then worth its while. Empty before.
  std::vector<std::uint32_t> load_of_link_;
  int phases_ = 0;
};

}  // namespace aurum
