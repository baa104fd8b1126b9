#include <algorithm>
#include <cassert>
#include <cmath>

#include "sim/collectives/flows.h"

namespace aurum {

// What passes besides the bytes, by algorithm; symbols and sources are in flows.cc.

namespace {

// What a pipeline of `hops` takes to fill, when each of its streams carries `stream` bytes in
// `flow_s`.
double FillSeconds(double hops, double stream, double flow_s, double chunk = 0) {
  if (stream <= 0) return 0;
  return std::max(0.0, hops - 1) * flow_s *
         std::min(1.0, (chunk > 0 ? chunk : ChunkOf(stream)) / stream);
}

double RingLatency(CollectiveKind kind, double bytes, const GroupShape& shape,
                   const StepLatencies& step, double flow_s) {
  const double passes = kind == CollectiveKind::kAllReduce ? 2 : 1;
  const double n = shape.ranks, domains = static_cast<double>(shape.domains.size());
  if (kind == CollectiveKind::kBroadcast) {
    const double chain = static_cast<double>(shape.most - 1);
    if (!shape.SeveralDomains())
      return (n - 1) * step.between_s + FillSeconds(n - 1, bytes, flow_s);
    return 2 * chain * step.intra_s + (domains - 1) * step.between_s +
           FillSeconds(2 * chain + domains - 1, bytes / static_cast<double>(shape.channels),
                       flow_s);
  }
  if (!shape.SeveralDomains()) return passes * (n - 1) * step.between_s;
  return passes * ((n - domains) * step.intra_s + domains * step.between_s);
}

double DirectLatency(const GroupShape& shape, const StepLatencies& step) {
  const double inside = static_cast<double>(shape.most);
  return std::ceil((inside - 1) / kPeersAtOnce) * step.intra_s +
         std::ceil((shape.ranks - inside) / kPeersAtOnce) * step.between_s;
}

double TreeLatency(CollectiveKind kind, double bytes, const GroupShape& shape,
                   const StepLatencies& step, double flow_s) {
  const bool both_ways = kind == CollectiveKind::kAllReduce;
  const bool several = shape.SeveralDomains();
  const int vertices = several ? static_cast<int>(shape.domains.size()) : shape.ranks;
  // A broadcast's root stands above both trees.
  const int depth =
      both_ways
          ? std::max(TreeDepth(BinaryTree(vertices)), TreeDepth(SecondTree(vertices)))
          : 1 + std::max(TreeDepth(BinaryTree(vertices - 1)), TreeDepth(SecondTree(vertices - 1)));
  // Up and down every chain; a broadcast goes down the root's and down the others'.
  const double chains = several ? 2 * static_cast<double>(shape.most - 1) : 0;
  const double levels = (both_ways ? 2 : 1) * depth;
  const double stream = bytes / (several ? 2 * static_cast<double>(shape.channels) : 2);
  return chains * step.intra_s + levels * (several ? step.between_s : step.intra_s) +
         FillSeconds(chains + levels, stream, flow_s);
}

double PhasedLatency(CollectiveAlgorithm algorithm, CollectiveKind kind, double bytes,
                     const GroupShape& shape, const Cluster& cluster, const StepLatencies& step,
                     double flow_s) {
  double latency = 0;
  if (algorithm == CollectiveAlgorithm::kHalvingDoubling) {
    std::vector<int> domain_of;
    for (std::size_t d = 0; d < shape.domains.size(); ++d)
      domain_of.insert(domain_of.end(), shape.domains[d].size(), static_cast<int>(d));
    for (const HalvingStep& halving : HalvingSteps(kind, shape.ranks)) {
      const bool between = std::any_of(halving.sends.begin(), halving.sends.end(), [&](auto pair) {
        return domain_of[static_cast<std::size_t>(pair.first)] !=
               domain_of[static_cast<std::size_t>(pair.second)];
      });
      latency += between ? step.between_s : step.intra_s;
    }
    return latency;
  }
  const int depth = algorithm == CollectiveAlgorithm::kHierarchical ? 2 : 3;
  const auto levels = Levels(shape, cluster, depth);
  assert(levels);
  const std::vector<LevelStep> level_steps = LevelSteps(kind, *levels);
  for (const LevelStep& level : level_steps) {
    const double n = static_cast<double>(level.rings->front().size());
    if (level.kind == CollectiveKind::kBroadcast)
      latency += FillSeconds(n - 1, bytes, flow_s / static_cast<double>(level_steps.size()));
    double steps = level.kind == CollectiveKind::kAllReduce ? 2 * (n - 1) : n - 1;
    if (level.kind == CollectiveKind::kAllToAll) steps = std::ceil((n - 1) / kPeersAtOnce);
    latency += steps * (level.rings == &levels->front() ? step.intra_s : step.between_s);
  }
  return latency;
}

}  // namespace

double ChunkOf(double stream) { return std::clamp(stream / 16, kLeastChunkBytes, kChunkBytes); }

double LatencySeconds(CollectiveAlgorithm algorithm, CollectiveKind kind, double bytes,
                      const GroupShape& shape, const Cluster& cluster, const StepLatencies& step,
                      double flow_s) {
  const double n = shape.ranks;
  switch (algorithm) {
    case CollectiveAlgorithm::kAuto:
      assert(false);
      return 0;
    case CollectiveAlgorithm::kRing:
      return RingLatency(kind, bytes, shape, step, flow_s);
    case CollectiveAlgorithm::kPipelined: {
      // A block takes `block` and is passed on in chunks of `chunk`; a step of latency shows where
      // it is longer than the rest of the block.
      const double block = flow_s / (n - 1);
      const double stream = bytes / n / static_cast<double>(shape.channels);
      const double pieces = stream > 0 ? std::max(1.0, stream / ChunkOf(stream)) : 1;
      const double shown_intra = std::max(0.0, step.intra_s + block / pieces - block);
      const double shown_between = std::max(0.0, step.between_s + block / pieces - block);
      if (!shape.SeveralDomains()) return step.intra_s + (n - 2) * shown_intra;
      const double domains = static_cast<double>(shape.domains.size());
      return step.between_s + (n - domains) * shown_intra +
             std::max(0.0, domains - 2) * shown_between;
    }
    case CollectiveAlgorithm::kTree:
      return TreeLatency(kind, bytes, shape, step, flow_s);
    case CollectiveAlgorithm::kHalvingDoubling:
    case CollectiveAlgorithm::kHierarchical:
    case CollectiveAlgorithm::kHierarchical3:
      return PhasedLatency(algorithm, kind, bytes, shape, cluster, step, flow_s);
    case CollectiveAlgorithm::kDirect:
      return kind == CollectiveKind::kSendRecv ? step.between_s : DirectLatency(shape, step);
    case CollectiveAlgorithm::kNvls: {
      const double depth =
          shape.SeveralDomains()
              ? std::max(TreeDepth(BinaryTree(static_cast<int>(shape.domains.size()))),
                         TreeDepth(SecondTree(static_cast<int>(shape.domains.size()))))
              : 0;
      const double inside = kind == CollectiveKind::kAllReduce ? 2 : 1;
      return kNvlsInside_s + 2 * depth * kNvlsBetween_s +
             FillSeconds(2 * inside + 2 * depth, bytes / static_cast<double>(shape.most), flow_s,
                         step.chunk_bytes);
    }
    case CollectiveAlgorithm::kSharp: {
      const double peers = static_cast<double>(shape.most) - 1;
      return 2 * (std::min(1.0, peers) * kSharpInside_s + peers * kSharpPeer_s) + kSharpBetween_s +
             FillSeconds(peers > 0 ? 4 : 2, bytes / static_cast<double>(shape.most), flow_s);
    }
  }
  return 0;
}

}  // namespace aurum
