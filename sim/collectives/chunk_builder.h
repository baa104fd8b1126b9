#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/collectives/chunk.h"
#include "sim/collectives/wires.h"

namespace aurum {

// Collects lanes and waits in any order, and makes a program of them.
class ChunkBuilder {
 public:
  using LaneId = std::uint32_t;
  explicit ChunkBuilder(const Cluster& cluster) : cluster_(cluster) {}

  // Over the cluster's route; latency: the route's and the software's of one step. E0560.
  LaneId Add(int src, int dst, double bytes_per_item, std::uint32_t repeats, int channel,
             int stage);
  // Over given links (none: a switch's own work) with a given latency.
  LaneId AddPath(int src, int dst, std::span<const int> links, double bytes_per_item,
                 std::uint32_t repeats, double latency_s, int channel, int stage);
  void SetLatency(LaneId lane, double latency_s) {
    lanes_[lane].latency = TimeFromSeconds(latency_s);
  }
  void Wait(LaneId lane, LaneId on, std::int32_t lag) { waits_.push_back({lane, {on, lag}}); }

  std::size_t size() const { return lanes_.size(); }
  ChunkLane& lane(LaneId id) { return lanes_[id]; }

  // Caps: on every link of a stage the lanes get shares in proportion to their bytes. Slowed to
  // take `least_flow_s` in all, if given more than the links alone need.
  ChunkProgram Finish(const LinkEfficiency& efficiency, double least_flow_s);

 private:
  const Cluster& cluster_;
  std::vector<ChunkLane> lanes_;
  std::vector<int> hops_;  // ids of links
  std::vector<std::pair<LaneId, ChunkWait>> waits_;
};

}  // namespace aurum
