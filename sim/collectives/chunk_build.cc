#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "sim/collectives/chunk.h"
#include "sim/collectives/chunk_builder.h"
#include "sim/collectives/flows.h"
#include "sim/core/diagnostic.h"

namespace aurum {

// The steps of the algorithms that flows.cc describes. Here only what the flow level does not need
// to know: who passes on what, and when.

namespace {

using LaneId = ChunkBuilder::LaneId;

// Into how many chunks a stream of bytes is cut.
std::uint32_t Pieces(double stream) {
  return static_cast<std::uint32_t>(std::max(1.0, std::ceil(stream / kChunkBytes)));
}

// The ring of one channel. A ring enters a domain at one rank and leaves at another, through that
// one's own NIC; the next domain is entered at the same place, so that no hop leaves its rail.
// Domains alternate between two places, so that the ring closes on the rail on which it began; if
// their number is odd the last one takes a third.
RankGroup RingOfChannel(const GroupShape& shape, std::size_t channel) {
  if (!shape.SeveralDomains()) return shape.order;
  const std::size_t c = shape.channels, domains = shape.domains.size();
  const auto shift = [&](std::size_t d) -> std::size_t {  // place at which domain d is entered
    if (d == domains) return 0;
    if (d == domains - 1 && domains % 2 == 1) return 2;
    return d % 2;
  };
  RankGroup order;
  for (std::size_t d = 0; d < domains; ++d) {
    const std::vector<int>& here = shape.domains[d];
    const std::size_t n = here.size();
    const auto place = [&](std::size_t s) { return (channel + c * n - s) % c * n / c; };
    const std::size_t in = place(shift(d));
    std::size_t out = place(shift(d + 1));
    if (out == in) out = (in + n - 1) % n;
    order.push_back(here[in]);
    for (std::size_t i = 1; i < n; ++i) {
      const std::size_t at = (in + i) % n;
      if (at != out) order.push_back(here[at]);
    }
    if (n > 1) order.push_back(here[out]);
  }
  return order;
}

// Closed: every rank passes on what came in `lag` items before.
void AddClosedRing(const RankGroup& order, double bytes_per_item, std::uint32_t repeats, int lag,
                   int channel, int stage, ChunkBuilder* builder) {
  const auto n = static_cast<LaneId>(order.size());
  const auto first = static_cast<LaneId>(builder->size());
  for (LaneId i = 0; i < n; ++i)
    builder->Add(order[i], order[(i + 1) % n], bytes_per_item, repeats, channel, stage);
  for (LaneId i = 0; i < n; ++i) builder->Wait(first + i, first + (i + n - 1) % n, lag);
}

// From the first rank to the last; item k goes on when it has arrived. `feed`: the lane that brings
// it to the first. Returns the lane into each rank; the first one's is `feed`.
std::vector<std::optional<LaneId>> AddChain(const RankGroup& order, double bytes_per_item,
                                            std::uint32_t repeats, std::optional<LaneId> feed,
                                            int channel, int stage, ChunkBuilder* builder) {
  std::vector<std::optional<LaneId>> into{feed};
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    const LaneId lane =
        builder->Add(order[i], order[i + 1], bytes_per_item, repeats, channel, stage);
    if (into.back()) builder->Wait(lane, *into.back(), 0);
    into.push_back(lane);
  }
  return into;
}

RankGroup RotatedTo(const RankGroup& domain, int first) {
  RankGroup order = domain;
  std::rotate(order.begin(), std::find(order.begin(), order.end(), first), order.end());
  return order;
}

void AddRingChunks(CollectiveKind kind, double bytes, const GroupShape& shape, bool pipelined,
                   ChunkBuilder* builder) {
  const std::size_t channels = shape.SeveralDomains() ? shape.channels : 1;
  const double stream = bytes / static_cast<double>(channels);
  const int n = shape.ranks;
  for (std::size_t channel = 0; channel < channels; ++channel) {
    const int label = static_cast<int>(channel);
    if (kind != CollectiveKind::kBroadcast) {
      const double block = stream / n;
      const std::uint32_t pieces = pipelined ? Pieces(block) : 1;
      const auto steps =
          static_cast<std::uint32_t>(kind == CollectiveKind::kAllReduce ? 2 * (n - 1) : n - 1);
      AddClosedRing(RingOfChannel(shape, channel), block / pieces, steps * pieces,
                    static_cast<int>(pieces), label, 0, builder);
      continue;
    }
    // A chain inside every domain, from the rank at which the channel enters; from there it also
    // goes on to the next domain.
    const std::uint32_t pieces = Pieces(stream);
    std::optional<LaneId> feed;
    for (std::size_t d = 0; d < shape.domains.size(); ++d) {
      const RankGroup& here = shape.domains[d];
      const RankGroup order =
          d == 0 ? here : RotatedTo(here, RankOfChannel(here, channel, channels));
      const auto into = AddChain(order, stream / pieces, pieces, feed, label, 0, builder);
      if (d + 1 == shape.domains.size()) break;
      const int exit = RankOfChannel(here, channel, channels);
      const auto at =
          static_cast<std::size_t>(std::find(order.begin(), order.end(), exit) - order.begin());
      const LaneId lane = builder->Add(exit, RankOfChannel(shape.domains[d + 1], channel, channels),
                                       stream / pieces, pieces, label, 0);
      if (into[at]) builder->Wait(lane, *into[at], 0);
      feed = lane;
    }
  }
}

// One tree. `input`: what vertex v's own contribution waits for. Returns what a rank of v waits for
// that wants the result.
std::vector<std::vector<LaneId>> AddTreeChunks(const std::vector<int>& parent,
                                               const std::vector<int>& rank,
                                               const std::vector<std::vector<LaneId>>& input,
                                               double bytes_per_item, std::uint32_t repeats,
                                               bool reduce, int channel, ChunkBuilder* builder) {
  const std::size_t n = parent.size();
  std::vector<std::size_t> from_root;  // parents before children
  std::vector<std::vector<std::size_t>> children(n);
  for (std::size_t v = 0; v < n; ++v) {
    if (parent[v] < 0) {
      from_root.push_back(v);
    } else {
      children[static_cast<std::size_t>(parent[v])].push_back(v);
    }
  }
  for (std::size_t i = 0; i < from_root.size(); ++i) {
    const auto& below = children[from_root[i]];
    from_root.insert(from_root.end(), below.begin(), below.end());
  }
  std::vector<std::vector<LaneId>> arrived = input;  // what v's subtree has to have sent to v
  if (reduce) {
    for (auto v = from_root.rbegin(); v != from_root.rend(); ++v) {
      if (parent[*v] < 0) continue;
      const auto up = static_cast<std::size_t>(parent[*v]);
      const LaneId lane = builder->Add(rank[*v], rank[up], bytes_per_item, repeats, channel, 0);
      for (const LaneId before : arrived[*v]) builder->Wait(lane, before, 0);
      arrived[up].push_back(lane);
    }
  }
  for (const std::size_t v : from_root) {
    if (parent[v] < 0) continue;
    const auto up = static_cast<std::size_t>(parent[v]);
    const LaneId lane = builder->Add(rank[up], rank[v], bytes_per_item, repeats, channel, 0);
    for (const LaneId before : arrived[up]) builder->Wait(lane, before, 0);
    arrived[v] = {lane};
  }
  return arrived;
}

void AddDoubleTreeChunks(CollectiveKind kind, double bytes, const GroupShape& shape,
                         ChunkBuilder* builder) {
  const bool reduce = kind == CollectiveKind::kAllReduce;
  std::vector<RankGroup> vertices = shape.domains;
  std::size_t channels = shape.channels;
  if (!shape.SeveralDomains()) {
    vertices.clear();
    for (const int rank : shape.order) vertices.push_back({rank});
    channels = 1;
  }
  const double stream = bytes / static_cast<double>(2 * channels);
  const std::uint32_t pieces = Pieces(stream);
  const double item = stream / pieces;
  for (std::size_t channel = 0; channel < 2 * channels; ++channel) {
    const int label = static_cast<int>(channel);
    const auto entry = [&](std::size_t v) {
      return RankOfChannel(vertices[v], channel / 2, channels);
    };
    const std::size_t outside = reduce ? 0 : 1;  // a broadcast's root
    const int n = static_cast<int>(vertices.size() - outside);
    const std::vector<int> parent = channel % 2 == 0 ? BinaryTree(n) : SecondTree(n);
    std::vector<int> rank;
    std::vector<std::vector<LaneId>> input(static_cast<std::size_t>(n));
    for (std::size_t v = outside; v < vertices.size(); ++v) {
      rank.push_back(entry(v));
      if (!reduce || vertices[v].size() < 2) continue;
      RankGroup towards = RotatedTo(vertices[v], entry(v));
      std::reverse(towards.begin(), towards.end());
      input[v] = {*AddChain(towards, item, pieces, {}, label, 0, builder).back()};
    }
    if (!reduce) {
      const auto into = AddChain(vertices[0], item, pieces, {}, label, 0, builder);
      const int from = entry(0);
      const auto at = static_cast<std::size_t>(
          std::find(vertices[0].begin(), vertices[0].end(), from) - vertices[0].begin());
      const auto root =
          static_cast<std::size_t>(std::find(parent.begin(), parent.end(), -1) - parent.begin());
      const LaneId lane = builder->Add(from, rank[root], item, pieces, label, 0);
      if (into[at]) builder->Wait(lane, *into[at], 0);
      input[root] = {lane};
    }
    const auto arrived = AddTreeChunks(parent, rank, input, item, pieces, reduce, label, builder);
    for (std::size_t v = outside; v < vertices.size(); ++v) {
      if (vertices[v].size() < 2) continue;
      const RankGroup chain = RotatedTo(vertices[v], entry(v));
      const LaneId first = builder->Add(chain[0], chain[1], item, pieces, label, 0);
      for (const LaneId before : arrived[v - outside]) builder->Wait(first, before, 0);
      AddChain({chain.begin() + 1, chain.end()}, item, pieces, first, label, 0, builder);
    }
  }
}

// Stage by stage: a lane waits for all that its two ends sent and received in the last stage in
// which they took part: a message moves when both sides are there.
class Stages {
 public:
  explicit Stages(ChunkBuilder* builder) : builder_(*builder) {}
  // All lanes from `first` on are of the stage that ends here.
  void End(LaneId first) {
    for (LaneId lane = first; lane < builder_.size(); ++lane) {
      std::vector<LaneId> before;
      for (const int rank : {builder_.lane(lane).src, builder_.lane(lane).dst}) {
        const auto found = last_.find(rank);
        if (found != last_.end())
          before.insert(before.end(), found->second.begin(), found->second.end());
      }
      std::sort(before.begin(), before.end());
      before.erase(std::unique(before.begin(), before.end()), before.end());
      for (const LaneId wait : before) builder_.Wait(lane, wait, kAllItems);
    }
    std::map<int, std::vector<LaneId>> now;
    for (LaneId lane = first; lane < builder_.size(); ++lane) {
      now[builder_.lane(lane).src].push_back(lane);
      now[builder_.lane(lane).dst].push_back(lane);
    }
    for (auto& [rank, lanes] : now) last_[rank] = std::move(lanes);
    ++stage_;
  }
  int stage() const { return stage_; }

 private:
  ChunkBuilder& builder_;
  std::map<int, std::vector<LaneId>> last_;
  int stage_ = 0;
};

void AddHalvingChunks(CollectiveKind kind, double bytes, const GroupShape& shape,
                      ChunkBuilder* builder) {
  Stages stages(builder);
  for (const HalvingStep& step : HalvingSteps(kind, shape.ranks)) {
    const auto first = static_cast<LaneId>(builder->size());
    for (const auto& [src, dst] : step.sends)
      builder->Add(shape.order[static_cast<std::size_t>(src)],
                   shape.order[static_cast<std::size_t>(dst)], bytes * step.share, 1, 0,
                   stages.stage());
    stages.End(first);
  }
}

void AddLevelChunks(CollectiveKind kind, double bytes, const GroupShape& shape,
                    const Cluster& cluster, int depth, ChunkBuilder* builder) {
  const auto levels = Levels(shape, cluster, depth);
  assert(levels);
  Stages stages(builder);
  for (const LevelStep& step : LevelSteps(kind, *levels)) {
    const auto first = static_cast<LaneId>(builder->size());
    const double share = bytes * step.share;
    for (const RankGroup& ring : *step.rings) {
      const auto n = static_cast<std::uint32_t>(ring.size());
      if (n < 2) continue;
      switch (step.kind) {
        case CollectiveKind::kAllToAll:
          for (std::size_t i = 0; i < n; ++i) {
            for (std::size_t q = 1; q < n; ++q) {
              const LaneId lane =
                  builder->Add(ring[i], ring[(i + q) % n], share / n, 1, 0, stages.stage());
              const double round = std::ceil(static_cast<double>(q) / kPeersAtOnce);
              builder->SetLatency(lane, round * Seconds(builder->lane(lane).latency));
            }
          }
          break;
        case CollectiveKind::kBroadcast: {
          const std::uint32_t pieces = Pieces(share);
          AddChain(ring, share / pieces, pieces, {}, 0, stages.stage(), builder);
          break;
        }
        default:
          AddClosedRing(ring, share / n,
                        step.kind == CollectiveKind::kAllReduce ? 2 * (n - 1) : n - 1, 1, 0,
                        stages.stage(), builder);
      }
      if (step.kind == CollectiveKind::kBroadcast && stages.stage() == 0) break;
    }
    stages.End(first);
  }
}

// Rounds of kPeersAtOnce: a later round's messages start a step's latency later.
void AddDirectChunks(CollectiveKind kind, const std::vector<double>& bytes, const RankGroup& group,
                     const GroupShape& shape, const Cluster& cluster, ChunkBuilder* builder) {
  const std::size_t n = group.size();
  const double rounds_inside = std::ceil(static_cast<double>(shape.most - 1) / kPeersAtOnce);
  double intra_s = 0;
  std::vector<std::pair<LaneId, int>> outside;  // with their round
  for (std::size_t i = 0; i < n; ++i) {
    int served_inside = 0, served_outside = 0;
    for (std::size_t q = 1; q < n; ++q) {
      const std::size_t j = (i + q) % n;
      if (kind == CollectiveKind::kBroadcast && i != 0) continue;
      if (bytes[i * n + j] <= 0) continue;
      const LaneId lane = builder->Add(group[i], group[j], bytes[i * n + j], 1, 0, 0);
      const double step_s = Seconds(builder->lane(lane).latency);
      if (cluster.NvLinkDomainOf(group[i]) == cluster.NvLinkDomainOf(group[j])) {
        intra_s = std::max(intra_s, step_s);
        builder->SetLatency(lane, (served_inside++ / kPeersAtOnce + 1) * step_s);
      } else {
        outside.emplace_back(lane, served_outside++ / kPeersAtOnce + 1);
      }
    }
  }
  for (const auto& [lane, round] : outside)
    builder->SetLatency(lane,
                        rounds_inside * intra_s + round * Seconds(builder->lane(lane).latency));
}

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

// Each to each: all-to-all and halves S/n, one-shot all-reduce and broadcast S.
std::vector<double> EqualShares(CollectiveKind kind, double bytes, std::size_t n) {
  const bool whole = kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kBroadcast;
  return std::vector<double>(n * n, whole ? bytes : bytes / static_cast<double>(n));
}

// A measured time has no steps. Give it those of the pattern that carries it: equal latencies that
// add up to the measured one, and a rate at which the bytes take the rest.
void ScaleToMeasurement(const CollectiveCost& cost, ChunkProgram* program) {
  std::uint32_t items = 0;  // one after the other
  std::size_t steps = 0;    // latencies one after the other
  const bool direct = program->waits.empty();
  const bool chain = !direct && program->WaitsOf(program->lanes.front()).empty();
  for (const ChunkLane& lane : program->lanes) items = std::max(items, lane.repeats);
  if (direct) {
    steps = 1;
  } else if (chain) {
    steps = program->lanes.size();
    items += static_cast<std::uint32_t>(steps) - 1;
  } else {
    steps = items;
  }
  const double flow_s = cost.seconds - cost.latency_s;
  double most = 0;
  for (const ChunkLane& lane : program->lanes) most = std::max(most, lane.bytes);
  for (ChunkLane& lane : program->lanes) {
    lane.latency = TimeFromSeconds(cost.latency_s / static_cast<double>(steps));
    if (flow_s > 0) lane.cap_bytes_per_s = most * items / flow_s;
  }
  // What the links give must not be less than what was measured on them.
  std::vector<double> load(program->links.size(), 0);
  for (const ChunkLane& lane : program->lanes) {
    for (const std::uint32_t link : program->HopsOf(lane)) load[link] += lane.cap_bytes_per_s;
  }
  for (std::size_t link = 0; link < load.size(); ++link)
    program->capacity_bytes_per_s[link] = std::max(program->capacity_bytes_per_s[link], load[link]);
}

}  // namespace

ChunkProgram BuildChunks(CollectiveKind kind, double bytes, const RankGroup& group,
                         const Cluster& cluster, const Profile& profile,
                         const CollectiveOptions& options) {
  if (group.size() <= 1) return {};
  CollectiveOptions named = options;
  named.want_pattern = false;
  const CollectiveCost cost = PriceCollective(kind, bytes, {group}, cluster, profile, named);
  const bool measured = cost.algorithm == "envelope";
  CollectiveAlgorithm algorithm = options.algorithm;
  if (algorithm == CollectiveAlgorithm::kAuto && !measured)
    algorithm = CollectiveAlgorithmByName(cost.algorithm);
  const GroupShape shape = ShapeOf(group, cluster, options.channels);
  ChunkBuilder builder(cluster);
  const bool each_to_each = kind == CollectiveKind::kAllToAll;
  if (kind == CollectiveKind::kSendRecv) {
    for (std::size_t i = 0; i < group.size(); ++i)
      builder.Add(group[i], group[(i + 1) % group.size()], bytes, 1, 0, 0);
  } else if (measured && !each_to_each) {
    AddRingChunks(kind, bytes, shape, false, &builder);
  } else if (measured || algorithm == CollectiveAlgorithm::kDirect) {
    AddDirectChunks(kind, EqualShares(kind, bytes, group.size()), shape.order, shape, cluster,
                    &builder);
  } else {
    switch (algorithm) {
      case CollectiveAlgorithm::kRing:
      case CollectiveAlgorithm::kPipelined:
        AddRingChunks(kind, bytes, shape, algorithm == CollectiveAlgorithm::kPipelined, &builder);
        break;
      case CollectiveAlgorithm::kTree:
        AddDoubleTreeChunks(kind, bytes, shape, &builder);
        break;
      case CollectiveAlgorithm::kHalvingDoubling:
        AddHalvingChunks(kind, bytes, shape, &builder);
        break;
      case CollectiveAlgorithm::kNvls:
        AddNvlsChunks(kind, bytes, shape, cluster, &builder);
        break;
      case CollectiveAlgorithm::kSharp:
        AddSharpChunks(bytes, shape, cluster, &builder);
        break;
      case CollectiveAlgorithm::kHierarchical:
        AddLevelChunks(kind, bytes, shape, cluster, 2, &builder);
        break;
      case CollectiveAlgorithm::kHierarchical3:
        AddLevelChunks(kind, bytes, shape, cluster, 3, &builder);
        break;
      default:
        assert(false);
    }
  }
  ChunkProgram program = builder.Finish(EfficiencyOf(algorithm, profile, options),
                                        measured ? 0 : cost.seconds - cost.latency_s);
  program.algorithm = measured ? CollectiveAlgorithm::kAuto : algorithm;
  if (measured) ScaleToMeasurement(cost, &program);
  return program;
}

ChunkProgram BuildAllToAllVChunks(const std::vector<double>& bytes, const RankGroup& group,
                                  const Cluster& cluster, const Profile& profile,
                                  const CollectiveOptions& options) {
  assert(bytes.size() == group.size() * group.size());
  if (group.size() <= 1) return {};
  ChunkBuilder builder(cluster);
  AddDirectChunks(CollectiveKind::kAllToAll, bytes, group, ShapeOf(group, cluster, 0), cluster,
                  &builder);
  ChunkProgram program =
      builder.Finish(EfficiencyOf(CollectiveAlgorithm::kDirect, profile, options), 0);
  program.algorithm = CollectiveAlgorithm::kDirect;
  return program;
}

ChunkProgram BuildUniformRing(CollectiveKind kind, double bytes, int ranks, double bytes_per_s,
                              Time latency) {
  assert(ranks >= 2 && (kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kAllGather ||
                        kind == CollectiveKind::kReduceScatter));
  ChunkProgram program;
  program.algorithm = CollectiveAlgorithm::kRing;
  const auto n = static_cast<std::uint32_t>(ranks);
  for (std::uint32_t i = 0; i < n; ++i) {
    program.lanes.push_back({.src = static_cast<int>(i),
                             .dst = static_cast<int>((i + 1) % n),
                             .bytes = bytes / ranks,
                             .repeats = (kind == CollectiveKind::kAllReduce ? 2 : 1) * (n - 1),
                             .latency = latency,
                             .cap_bytes_per_s = bytes_per_s,
                             .first_hop = i,
                             .hop_count = 1,
                             .first_wait = i,
                             .wait_count = 1});
    program.hops.push_back(i);
    program.links.push_back(i);
    program.capacity_bytes_per_s.push_back(bytes_per_s);
    program.waits.push_back({(i + n - 1) % n, 1});
  }
  return program;
}

ChunkProgram RunTogether(std::span<const ChunkProgram> programs) {
  ChunkProgram all;
  KeyNumbers links;
  bool fresh = false;
  for (const ChunkProgram& program : programs) {
    const auto first_lane = static_cast<std::uint32_t>(all.lanes.size());
    std::vector<std::uint32_t> link_of;
    for (std::size_t link = 0; link < program.links.size(); ++link) {
      link_of.push_back(links.Of(program.links[link], &fresh));
      if (fresh) {
        all.links.push_back(program.links[link]);
        all.capacity_bytes_per_s.push_back(program.capacity_bytes_per_s[link]);
      }
    }
    for (ChunkLane lane : program.lanes) {
      const auto hops = program.HopsOf(lane);
      const auto waits = program.WaitsOf(lane);
      lane.first_hop = static_cast<std::uint32_t>(all.hops.size());
      lane.first_wait = static_cast<std::uint32_t>(all.waits.size());
      for (const std::uint32_t hop : hops) all.hops.push_back(link_of[hop]);
      for (const ChunkWait& wait : waits) all.waits.push_back({wait.lane + first_lane, wait.lag});
      all.lanes.push_back(lane);
    }
  }
  return all;
}

}  // namespace aurum
