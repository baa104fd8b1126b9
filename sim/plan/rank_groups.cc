#include "sim/plan/rank_groups.h"

#include <algorithm>

namespace aurum {
namespace {

// Where groups of a kind lie: a group is `size` ranks `stride` apart; groups fill blocks of
// size · stride ranks.
struct GroupCut {
  int size = 1, stride = 1;
};

GroupCut CutOf(const StageLayout& l, GroupKind kind) {
  const int replicas = l.cp * l.dp;
  switch (kind) {
    case GroupKind::kTp:
      return {l.tp, 1};
    case GroupKind::kCp:
      return {l.cp, l.tp};
    case GroupKind::kDp:
      return {replicas, l.tp};
    case GroupKind::kExpertTp:
      return l.ExpertsApart() ? GroupCut{l.expert_tp, 1} : GroupCut{};
    case GroupKind::kEp:
      return {l.ep, l.expert_tp};
    case GroupKind::kExpertDp:
      return l.ExpertsApart() ? GroupCut{l.Width() / (l.expert_tp * l.ep), l.expert_tp * l.ep}
                              : GroupCut{};
    case GroupKind::kShard:
      return l.shard > 0 ? GroupCut{l.shard, l.tp} : GroupCut{};
    case GroupKind::kReplica:
      return l.shard > 0 ? GroupCut{replicas / l.shard, l.tp * l.shard} : GroupCut{};
    default:
      return {};
  }
}

// Kinds that a plan has even where their groups are of one rank: the lowering gives them streams.
bool Always(GroupKind kind) { return kind == GroupKind::kTp || kind == GroupKind::kDp; }

// Of a rank of stage `from`: its receivers in stage `to`, the first and how many.
struct Receivers {
  int first = 0, count = 1;
};
Receivers ReceiversOf(const StageLayout& from, const StageLayout& to, int local) {
  const int replica = local / from.PerReplica(), place = local % from.PerReplica();
  const int base = to.first_gpu + replica * to.PerReplica();
  if (to.PerReplica() >= from.PerReplica()) {
    const int count = to.PerReplica() / from.PerReplica();
    return {base + place * count, count};
  }
  return {base + place / (from.PerReplica() / to.PerReplica()), 1};
}

}  // namespace

bool IsPair(GroupKind kind) {
  return kind == GroupKind::kForward || kind == GroupKind::kBackward || kind == GroupKind::kAround;
}

StageLayout LayoutOf(const Plan& plan, std::size_t stage) {
  StageLayout layout;
  layout.dp = plan.dp;
  int first = 0;
  auto at = static_cast<int>(stage);
  for (const ModulePlan& part : plan.modules) {
    if (part.placement != Placement::kOwnRanks) continue;
    const int width = part.tp * plan.dp;
    if (at < part.pp) {
      layout.first_gpu = first + at * width;
      layout.tp = layout.expert_tp = part.tp;
      if (plan.sharding == Sharding::kHsdp)
        layout.shard = plan.dp % plan.shard_group == 0 ? plan.shard_group : plan.dp;
      return layout;
    }
    at -= part.pp;
    first += part.pp * width;
  }
  layout.tp = plan.tp;
  layout.cp = plan.cp;
  layout.ep = plan.ep;
  layout.expert_tp = plan.expert_tp;
  if (plan.sharding == Sharding::kHsdp) layout.shard = plan.shard_group;
  layout.first_gpu = first + at * layout.Width();
  return layout;
}

std::optional<std::size_t> NeighbourOf(const Plan& plan, std::size_t stage, GroupKind direction) {
  const auto count = static_cast<std::size_t>(plan.StageCount());
  const auto first = static_cast<std::size_t>(plan.encoder_stages);
  const bool wraps = plan.schedule == ScheduleKind::kInterleaved && plan.vpp > 1 && plan.pp > 1;
  switch (direction) {
    case GroupKind::kForward:
      if (stage + 1 < count) return stage + 1;
      break;
    case GroupKind::kBackward:
      if (stage > 0) return stage - 1;
      break;
    default:
      if (wraps && stage == first) return count - 1;
      if (wraps && stage + 1 == count) return first;
      break;
  }
  return std::nullopt;
}

std::size_t GroupSize(const Plan& plan, std::size_t stage, GroupKind kind) {
  return static_cast<std::size_t>(IsPair(kind) ? 2 : CutOf(LayoutOf(plan, stage), kind).size);
}

std::size_t GroupCount(const Plan& plan, std::size_t stage, GroupKind kind) {
  const StageLayout layout = LayoutOf(plan, stage);
  if (IsPair(kind)) {
    return NeighbourOf(plan, stage, kind) ? static_cast<std::size_t>(layout.Width()) : 0;
  }
  const GroupCut cut = CutOf(layout, kind);
  if (cut.size == 1 && !Always(kind)) return 0;
  return static_cast<std::size_t>(layout.Width() / cut.size);
}

std::size_t GroupOf(const Plan& plan, std::size_t stage, GroupKind kind, int local) {
  if (IsPair(kind)) return static_cast<std::size_t>(local);
  const GroupCut cut = CutOf(LayoutOf(plan, stage), kind);
  return static_cast<std::size_t>(local / (cut.size * cut.stride) * cut.stride +
                                  local % cut.stride);
}

std::vector<RankGroup> GroupsOfStage(const Plan& plan, std::size_t stage, GroupKind kind) {
  const StageLayout layout = LayoutOf(plan, stage);
  std::vector<RankGroup> groups(GroupCount(plan, stage, kind));
  if (IsPair(kind)) {
    const auto neighbour = NeighbourOf(plan, stage, kind);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const auto local = static_cast<int>(g);
      const Receivers to = ReceiversOf(layout, LayoutOf(plan, *neighbour), local);
      groups[g].push_back(layout.first_gpu + local);
      for (int i = 0; i < to.count; ++i) groups[g].push_back(to.first + i);
    }
    return groups;
  }
  const GroupCut cut = CutOf(layout, kind);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const int at = static_cast<int>(g);
    const int first = layout.first_gpu + at / cut.stride * cut.size * cut.stride + at % cut.stride;
    groups[g].reserve(static_cast<std::size_t>(cut.size));
    for (int i = 0; i < cut.size; ++i) groups[g].push_back(first + i * cut.stride);
  }
  return groups;
}

int GpuOf(const Plan& plan, int rank) {
  if (plan.rank_order == kDefaultRankOrder) return rank;
  int size[4] = {}, at[4] = {};
  constexpr auto kIndex = [](RankDimension d) { return static_cast<std::size_t>(d); };
  size[kIndex(RankDimension::kTp)] = plan.tp;
  size[kIndex(RankDimension::kCp)] = plan.cp;
  size[kIndex(RankDimension::kDp)] = plan.dp;
  size[kIndex(RankDimension::kPp)] = plan.pp;
  for (const RankDimension d : kDefaultRankOrder) {
    at[kIndex(d)] = rank % size[kIndex(d)];
    rank /= size[kIndex(d)];
  }
  int gpu = 0, stride = 1;
  for (const RankDimension d : plan.rank_order) {
    gpu += at[kIndex(d)] * stride;
    stride *= size[kIndex(d)];
  }
  return gpu;
}

std::vector<RankGroup> PlacedGroups(const Plan& plan, std::size_t stage, GroupKind kind) {
  std::vector<RankGroup> groups = GroupsOfStage(plan, stage, kind);
  if (plan.rank_order == kDefaultRankOrder) return groups;
  for (RankGroup& group : groups) {
    for (int& rank : group) rank = GpuOf(plan, rank);
  }
  return groups;
}

double FanOut(const Plan& plan, std::size_t stage, GroupKind direction) {
  const auto neighbour = NeighbourOf(plan, stage, direction);
  if (!neighbour) return 1;
  return static_cast<double>(LayoutOf(plan, *neighbour).PerReplica()) /
         LayoutOf(plan, stage).PerReplica();
}

}  // namespace aurum
