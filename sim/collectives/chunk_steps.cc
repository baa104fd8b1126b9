#include "sim/collectives/chunk_steps.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "sim/collectives/flows.h"

namespace aurum {
namespace {

constexpr double kMostPieces = 1 << 20;
constexpr std::uint32_t kMostRepeats = std::uint32_t{1} << 31;

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

}  // namespace

std::uint32_t Pieces(double stream) {
  return static_cast<std::uint32_t>(
      std::clamp(std::ceil(stream / ChunkOf(stream)), 1.0, kMostPieces));
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
      const auto steps =
          static_cast<std::uint32_t>(kind == CollectiveKind::kAllReduce ? 2 * (n - 1) : n - 1);
      const std::uint32_t pieces = pipelined ? std::min(Pieces(block), kMostRepeats / steps) : 1;
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

}  // namespace aurum
