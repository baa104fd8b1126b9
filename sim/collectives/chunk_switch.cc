#include <algorithm>
#include <optional>
#include <vector>

#include "sim/collectives/chunk_steps.h"
#include "sim/collectives/flows.h"

namespace aurum {

// Reduction and multicast in switches: NVLS and SHARP.

// Lanes into and out of the switch of one domain; the switch itself is a lane without links, which
// has an item when it has one from everybody.
void AddNvlsChunks(CollectiveKind kind, double bytes, const GroupShape& shape,
                   const Cluster& cluster, ChunkBuilder* builder) {
  const bool all_reduce = kind == CollectiveKind::kAllReduce;
  const bool reduces = all_reduce || kind == CollectiveKind::kReduceScatter;
  const double shard = bytes / static_cast<double>(shape.most);
  const std::uint32_t pieces = Pieces(shard);
  const double crossing_s = kNvlsInside_s / (all_reduce ? 2 : 1);
  const std::size_t domains = shape.domains.size();
  // By domain and place: what a rank's shard waits for once it is reduced.
  std::vector<std::vector<std::vector<LaneId>>> reduced(domains);
  std::vector<std::vector<SwitchPort>> ports;
  const auto through_switch = [&](std::size_t d, double up, double down, bool root_only,
                                  const std::vector<std::vector<LaneId>>* before) {
    const RankGroup& ranks = shape.domains[d];
    std::vector<LaneId> ups;
    for (std::size_t i = 0; i < (root_only ? 1 : ranks.size()); ++i) {
      const int link[] = {ports[d][i].up};
      ups.push_back(builder->AddPath(ranks[i], kNoRank, link, up / pieces, pieces, 0,
                                     static_cast<int>(i), 0));
      if (before == nullptr) continue;
      for (const LaneId lane : (*before)[i]) builder->Wait(ups.back(), lane, 0);
    }
    const LaneId hub = builder->AddPath(kNoRank, kNoRank, {}, 0, pieces, crossing_s, 0, 0);
    for (const LaneId lane : ups) builder->Wait(hub, lane, 0);
    std::vector<std::vector<LaneId>> down_lanes;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const int link[] = {ports[d][i].down};
      const LaneId lane = builder->AddPath(kNoRank, ranks[i], link, down / pieces, pieces, 0,
                                           static_cast<int>(i), 0);
      builder->Wait(lane, hub, 0);
      down_lanes.push_back({lane});
    }
    return down_lanes;
  };
  for (std::size_t d = 0; d < domains; ++d) {
    ports.push_back(*SwitchPorts(shape.domains[d], cluster));
    if (reduces) reduced[d] = through_switch(d, bytes, shard, false, nullptr);
  }
  if (!all_reduce) {
    if (!reduces)
      through_switch(0, kind == CollectiveKind::kBroadcast ? bytes : shard, bytes,
                     kind == CollectiveKind::kBroadcast, nullptr);
    return;
  }
  if (shape.SeveralDomains()) {
    for (std::size_t i = 0; i < shape.most; ++i) {
      std::vector<int> rank;
      std::vector<std::vector<LaneId>> input;
      for (std::size_t d = 0; d < domains; ++d) {
        rank.push_back(shape.domains[d][i]);
        input.push_back(reduced[d][i]);
      }
      std::vector<std::vector<LaneId>> result(domains);
      for (const bool second : {false, true}) {
        const int n = static_cast<int>(domains);
        const auto first = static_cast<LaneId>(builder->size());
        const auto arrived =
            AddTreeChunks(second ? SecondTree(n) : BinaryTree(n), rank, input, shard / 2 / pieces,
                          pieces, true, static_cast<int>(2 * i + second), builder);
        for (LaneId lane = first; lane < builder->size(); ++lane)
          builder->SetLatency(lane, kNvlsBetween_s);
        for (std::size_t d = 0; d < domains; ++d)
          result[d].insert(result[d].end(), arrived[d].begin(), arrived[d].end());
      }
      for (std::size_t d = 0; d < domains; ++d) reduced[d][i] = result[d];
    }
  }
  for (std::size_t d = 0; d < domains; ++d) through_switch(d, shard, bytes, false, &reduced[d]);
}

void AddSharpChunks(double bytes, const GroupShape& shape, const Cluster& cluster,
                    ChunkBuilder* builder) {
  const std::size_t r = shape.most, domains = shape.domains.size();
  const double shard = bytes / static_cast<double>(r);
  const std::uint32_t pieces = Pieces(shard);
  const double peers = static_cast<double>(r) - 1;
  const double inside_s = std::min(1.0, peers) * kSharpInside_s + peers * kSharpPeer_s;
  std::vector<std::vector<std::vector<LaneId>>> into(domains, std::vector<std::vector<LaneId>>(r));
  const auto exchange = [&](std::size_t d, const std::vector<std::optional<LaneId>>& after) {
    for (std::size_t i = 0; i < r; ++i) {
      for (std::size_t j = 0; j < r; ++j) {
        if (i == j) continue;
        const LaneId lane = builder->Add(shape.domains[d][i], shape.domains[d][j], shard / pieces,
                                         pieces, static_cast<int>(i), 0);
        builder->SetLatency(lane, inside_s);
        if (after[i]) builder->Wait(lane, *after[i], 0);
        into[d][j].push_back(lane);
      }
    }
  };
  for (std::size_t d = 0; d < domains; ++d) exchange(d, std::vector<std::optional<LaneId>>(r));
  std::vector<std::vector<std::optional<LaneId>>> down(domains,
                                                       std::vector<std::optional<LaneId>>(r));
  for (std::size_t i = 0; i < r; ++i) {
    const int label = static_cast<int>(i);
    const LaneId hub = builder->AddPath(kNoRank, kNoRank, {}, 0, pieces, kSharpBetween_s, label, 0);
    for (std::size_t d = 0; d < domains; ++d) {
      const int here = shape.domains[d][i];
      const SharpPath path = SharpPathOf(here, shape.domains[(d + 1) % domains][i], cluster);
      const LaneId up =
          builder->AddPath(here, kNoRank, path.up, shard / pieces, pieces, 0, label, 0);
      for (const LaneId before : into[d][i]) builder->Wait(up, before, 0);
      builder->Wait(hub, up, 0);
      const LaneId back =
          builder->AddPath(kNoRank, here, path.down, shard / pieces, pieces, 0, label, 0);
      builder->Wait(back, hub, 0);
      down[d][i] = back;
    }
  }
  for (std::size_t d = 0; d < domains; ++d) exchange(d, down[d]);
}

}  // namespace aurum
