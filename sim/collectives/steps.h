#pragma once

#include <utility>
#include <vector>

#include "sim/collectives/algorithm.h"
#include "sim/collectives/group_shape.h"
#include "topologies/cluster.h"

namespace aurum {

// What the flow level and the chunk level both need to know of an algorithm's steps.

// n ranks' share of the buffer that crosses a link per byte of nccl-tests' size: busbw = factor ·
// bytes / seconds.
double BusFactor(CollectiveKind kind, int ranks);

// The pairs (i, j) of ranks, by place in shape.order, that talk in each step of recursive halving
// and doubling, and the share of the buffer that each sends. Ranks beyond a power of two fold into
// a neighbour first.
struct HalvingStep {
  std::vector<std::pair<int, int>> sends;
  double share = 0;
};
std::vector<HalvingStep> HalvingSteps(CollectiveKind kind, int ranks);

// Links from a rank up to its leaf switch and back, on the way to and from `other`.
struct SharpPath {
  std::vector<int> up, down;
};
SharpPath SharpPathOf(int rank, int other, const Cluster& cluster);

// One level of a hierarchical algorithm: subgroups that do `kind` on `share` of the buffer.
struct LevelStep {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  double share = 1;
  const std::vector<RankGroup>* rings = nullptr;
};
std::vector<LevelStep> LevelSteps(CollectiveKind kind,
                                  const std::vector<std::vector<RankGroup>>& levels);

}  // namespace aurum
