#include "sim/collectives/chunk_builder.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <string>

#include "sim/core/diagnostic.h"

namespace aurum {

std::uint64_t ChunkProgram::ItemCount() const {
  std::uint64_t items = 0;
  for (const ChunkLane& lane : lanes) items += lane.repeats;
  return items;
}

Time TransmissionTime(double bytes, double bytes_per_s) {
  if (bytes <= 0) return {0};
  assert(bytes_per_s > 0);
  const double ps = bytes * kPicosecondsPerSecond / bytes_per_s;
  assert(ps < 9.2e18);
  return {static_cast<std::int64_t>(std::ceil(ps * (1 - 4e-16)))};
}

ChunkBuilder::LaneId ChunkBuilder::Add(int src, int dst, double bytes, std::uint32_t repeats,
                                       int channel, int stage) {
  const std::vector<int> route = cluster_.Route(src, dst);
  if (route.empty()) {
    ThrowInput(560,
               "no route from GPU " + std::to_string(src) + " to GPU " + std::to_string(dst) +
                   " in " + cluster_.name,
               "give the cluster a network, or keep the group inside one node");
  }
  double latency_s = 0;
  bool network = false;
  for (const int id : route) {
    latency_s += cluster_.links()[id].latency_s;
    network = network || cluster_.links()[id].kind == LinkKind::kNetwork;
  }
  latency_s += network ? kNetworkStepSoftware_s : kIntraStepSoftware_s;
  return AddPath(src, dst, route, bytes, repeats, latency_s, channel, stage);
}

ChunkBuilder::LaneId ChunkBuilder::AddPath(int src, int dst, std::span<const int> links,
                                           double bytes, std::uint32_t repeats, double latency_s,
                                           int channel, int stage) {
  ChunkLane& lane = lanes_.emplace_back();
  lane.src = src;
  lane.dst = dst;
  lane.channel = channel;
  lane.stage = stage;
  lane.bytes = bytes;
  lane.repeats = repeats;
  lane.latency = TimeFromSeconds(latency_s);
  lane.first_hop = static_cast<std::uint32_t>(hops_.size());
  lane.hop_count = static_cast<std::uint32_t>(links.size());
  hops_.insert(hops_.end(), links.begin(), links.end());
  return static_cast<LaneId>(lanes_.size() - 1);
}

ChunkProgram ChunkBuilder::Finish(const LinkEfficiency& efficiency, double least_flow_s) {
  ChunkProgram program;
  program.lanes = std::move(lanes_);

  KeyNumbers links, loads;
  std::vector<double> load;  // of a link in a stage
  std::vector<std::uint32_t> load_of_hop, link_of_load;
  std::vector<int> stage_of_load;
  program.hops.reserve(hops_.size());
  load_of_hop.reserve(hops_.size());
  bool fresh = false;
  for (const ChunkLane& lane : program.lanes) {
    for (std::uint32_t h = lane.first_hop; h < lane.first_hop + lane.hop_count; ++h) {
      const auto id = static_cast<std::uint32_t>(hops_[h]);
      const std::uint32_t link = links.Of(id, &fresh);
      if (fresh) {
        program.links.push_back(id);
        const Link& l = cluster_.links()[id];
        program.capacity_bytes_per_s.push_back(l.bandwidth_bytes_per_s * efficiency.Of(l.kind));
      }
      program.hops.push_back(link);
      const std::uint32_t at =
          loads.Of((static_cast<std::uint64_t>(lane.stage) << 32) | link, &fresh);
      if (fresh) {
        load.push_back(0);
        link_of_load.push_back(link);
        stage_of_load.push_back(lane.stage);
      }
      load[at] += lane.bytes * lane.repeats;
      load_of_hop.push_back(at);
    }
  }

  std::vector<double> stage_s;
  for (std::size_t at = 0; at < load.size(); ++at) {
    const auto stage = static_cast<std::size_t>(stage_of_load[at]);
    if (stage >= stage_s.size()) stage_s.resize(stage + 1, 0);
    stage_s[stage] =
        std::max(stage_s[stage], load[at] / program.capacity_bytes_per_s[link_of_load[at]]);
  }
  double flow_s = 0;
  for (const double seconds : stage_s) flow_s += seconds;
  const double slower =
      least_flow_s > flow_s * (1 + 1e-9) && flow_s > 0 ? flow_s / least_flow_s : 1;

  for (ChunkLane& lane : program.lanes) {
    if (lane.bytes <= 0) continue;
    for (std::uint32_t h = lane.first_hop; h < lane.first_hop + lane.hop_count; ++h) {
      const double share = lane.bytes * lane.repeats / load[load_of_hop[h]];
      const double rate = program.capacity_bytes_per_s[program.hops[h]] * share * slower;
      lane.cap_bytes_per_s =
          lane.cap_bytes_per_s == 0 ? rate : std::min(lane.cap_bytes_per_s, rate);
    }
  }

  // Waits by lane, in the order in which they were given.
  for (const auto& [lane, wait] : waits_) ++program.lanes[lane].wait_count;
  std::uint32_t first = 0;
  for (ChunkLane& lane : program.lanes) {
    lane.first_wait = first;
    first += lane.wait_count;
    lane.wait_count = 0;
  }
  program.waits.resize(waits_.size());
  for (const auto& [id, wait] : waits_) {
    ChunkLane& lane = program.lanes[id];
    program.waits[lane.first_wait + lane.wait_count++] = wait;
  }
  return program;
}

}  // namespace aurum
