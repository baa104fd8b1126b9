#include "sim/collectives/steps.h"

#include <bit>

namespace aurum {

double BusFactor(CollectiveKind kind, int ranks) {
  const double n = ranks;
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return 2 * (n - 1) / n;
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllToAll:
      return (n - 1) / n;
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kSendRecv:
      return 1;
  }
  return 1;
}

std::vector<HalvingStep> HalvingSteps(CollectiveKind kind, int ranks) {
  const int whole = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)));
  const int extra = ranks - whole;
  // Of the first 2 · extra ranks the even ones take part, for their neighbours too.
  const auto place = [extra](int i) { return i < extra ? 2 * i : i + extra; };
  std::vector<HalvingStep> halving;
  double share = 0.5;
  for (int distance = 1; distance < whole; distance *= 2, share /= 2) {
    HalvingStep& step = halving.emplace_back();
    step.share = share;
    for (int i = 0; i < whole; ++i) step.sends.emplace_back(place(i), place(i ^ distance));
  }
  if (kind == CollectiveKind::kReduceScatter) return halving;
  std::vector<HalvingStep> doubling(halving.rbegin(), halving.rend());
  if (kind == CollectiveKind::kAllGather) return doubling;
  std::vector<HalvingStep> steps;
  HalvingStep fold, tell;
  fold.share = tell.share = 1;
  for (int i = 0; i < extra; ++i) {
    fold.sends.emplace_back(2 * i + 1, 2 * i);
    tell.sends.emplace_back(2 * i, 2 * i + 1);
  }
  if (extra > 0) steps.push_back(fold);
  steps.insert(steps.end(), halving.begin(), halving.end());
  steps.insert(steps.end(), doubling.begin(), doubling.end());
  if (extra > 0) steps.push_back(tell);
  return steps;
}

std::vector<LevelStep> LevelSteps(CollectiveKind kind,
                                  const std::vector<std::vector<RankGroup>>& levels) {
  const std::size_t depth = levels.size();
  std::vector<double> share(depth, 1);  // of the buffer that level l works on
  for (std::size_t l = 1; l < depth; ++l)
    share[l] = share[l - 1] / static_cast<double>(levels[l - 1].front().size());
  std::vector<LevelStep> steps;
  switch (kind) {
    case CollectiveKind::kAllReduce:
      for (std::size_t l = 0; l + 1 < depth; ++l)
        steps.push_back({CollectiveKind::kReduceScatter, share[l], &levels[l]});
      steps.push_back({CollectiveKind::kAllReduce, share[depth - 1], &levels[depth - 1]});
      for (std::size_t l = depth - 1; l-- > 0;)
        steps.push_back({CollectiveKind::kAllGather, share[l], &levels[l]});
      break;
    case CollectiveKind::kReduceScatter:
      for (std::size_t l = 0; l < depth; ++l) steps.push_back({kind, share[l], &levels[l]});
      break;
    case CollectiveKind::kAllGather:
      for (std::size_t l = depth; l-- > 0;) steps.push_back({kind, share[l], &levels[l]});
      break;
    case CollectiveKind::kBroadcast:
      for (std::size_t l = depth; l-- > 0;) steps.push_back({kind, 1, &levels[l]});
      break;
    case CollectiveKind::kAllToAll:
      for (std::size_t l = 0; l < depth; ++l) steps.push_back({kind, 1, &levels[l]});
      break;
    case CollectiveKind::kSendRecv:
      break;
  }
  return steps;
}

SharpPath SharpPathOf(int rank, int other, const Cluster& cluster) {
  SharpPath path;
  for (const int id : cluster.Route(rank, other)) {
    path.up.push_back(id);
    if (cluster.vertices()[cluster.links()[id].to].kind == VertexKind::kLeaf) break;
  }
  const std::vector<int> back = cluster.Route(other, rank);
  auto leaf = back.rbegin();
  while (leaf != back.rend() &&
         cluster.vertices()[cluster.links()[*leaf].from].kind != VertexKind::kLeaf)
    ++leaf;
  path.down.assign(leaf == back.rend() ? back.begin() : leaf.base() - 1, back.end());
  return path;
}

}  // namespace aurum
