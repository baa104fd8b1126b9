#include "sim/plan/rank_classes.h"

#include <algorithm>

namespace aurum {
namespace {

// Labels of edges.
enum : std::uint32_t { kMemberOf = 1, kMember = 100 };

int Width(const Plan& plan) { return plan.tp * plan.dp; }

std::size_t GroupCount(const Plan& plan, std::size_t stage, GroupKind kind) {
  switch (kind) {
    case GroupKind::kTp:
      return static_cast<std::size_t>(plan.dp);
    case GroupKind::kDp:
      return static_cast<std::size_t>(plan.tp);
    case GroupKind::kForward:
      return stage + 1 < static_cast<std::size_t>(plan.pp) ? static_cast<std::size_t>(Width(plan))
                                                           : 0;
    case GroupKind::kBackward:
      return stage > 0 ? static_cast<std::size_t>(Width(plan)) : 0;
  }
  return 0;
}

// The group that a rank of the stage sends in; `local` counts within the stage.
std::size_t GroupOf(const Plan& plan, GroupKind kind, int local) {
  switch (kind) {
    case GroupKind::kTp:
      return static_cast<std::size_t>(local / plan.tp);
    case GroupKind::kDp:
      return static_cast<std::size_t>(local % plan.tp);
    default:
      return static_cast<std::size_t>(local);
  }
}

}  // namespace

std::vector<RankGroup> GroupsOfStage(const Plan& plan, std::size_t stage, GroupKind kind) {
  const int base = static_cast<int>(stage) * Width(plan);
  std::vector<RankGroup> groups(GroupCount(plan, stage, kind));
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const int at = static_cast<int>(g);
    switch (kind) {
      case GroupKind::kTp:
        for (int t = 0; t < plan.tp; ++t) groups[g].push_back(base + at * plan.tp + t);
        break;
      case GroupKind::kDp:
        for (int d = 0; d < plan.dp; ++d) groups[g].push_back(base + d * plan.tp + at);
        break;
      case GroupKind::kForward:
        groups[g] = {base + at, base + at + Width(plan)};
        break;
      case GroupKind::kBackward:
        groups[g] = {base + at, base + at - Width(plan)};
        break;
    }
  }
  return groups;
}

RankFolding::RankFolding(const Plan& plan, const std::vector<std::uint64_t>& rank_colour)
    : plan_(plan) {
  const int width = Width(plan);
  for (int gpu = 0; gpu < width * plan.pp; ++gpu) {
    const auto stage = static_cast<std::uint64_t>(gpu / width);
    graph_.AddVertex(stage + 1000003 * (rank_colour.empty()
                                            ? 0
                                            : rank_colour[static_cast<std::size_t>(gpu)] | 1));
  }
  for (std::size_t stage = 0; stage < static_cast<std::size_t>(plan.pp); ++stage) {
    for (int k = 0; k < kGroupKinds; ++k) {
      const auto kind = static_cast<GroupKind>(k);
      first_group_.push_back(static_cast<ColouredGraph::VertexId>(graph_.vertex_count()));
      const bool pair = kind == GroupKind::kForward || kind == GroupKind::kBackward;
      for (const RankGroup& group : GroupsOfStage(plan, stage, kind)) {
        const auto vertex = graph_.AddVertex(0x6a09e667f3bcc908ULL + static_cast<std::uint64_t>(k));
        for (std::size_t i = 0; i < group.size(); ++i) {
          // All members of a collective wait for each other, wherever they stand; what the place in
          // the ring makes different are the flows, which the caller adds. A pair has two ends.
          const std::uint32_t place = pair ? static_cast<std::uint32_t>(i) : 0;
          const auto rank = static_cast<ColouredGraph::VertexId>(group[i]);
          graph_.AddEdge(rank, vertex, kMemberOf + static_cast<std::uint32_t>(k) * 2 + place);
          graph_.AddEdge(vertex, rank, kMember + place);
        }
      }
    }
  }
}

ColouredGraph::VertexId RankFolding::GroupVertex(std::size_t stage, GroupKind kind,
                                                 std::size_t group) const {
  return first_group_[stage * kGroupKinds + static_cast<std::size_t>(kind)] +
         static_cast<ColouredGraph::VertexId>(group);
}

namespace {

// Classes of a stage from a class number per rank and per group. Numbers are any, equal where alike.
template <typename RankNumber, typename GroupNumber>
StageClasses Collect(const Plan& plan, std::size_t stage, RankNumber rank_number,
                     GroupNumber group_number) {
  StageClasses classes;
  const int width = Width(plan);
  const int base = static_cast<int>(stage) * width;
  std::vector<std::pair<std::uint32_t, int>> ranks;  // (number, local rank)
  for (int local = 0; local < width; ++local) ranks.emplace_back(rank_number(base + local), local);
  std::stable_sort(ranks.begin(), ranks.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::pair<int, int>> first_and_count;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i == 0 || ranks[i].first != ranks[i - 1].first) {
      first_and_count.emplace_back(ranks[i].second, 0);
    }
    ++first_and_count.back().second;
  }
  std::sort(first_and_count.begin(), first_and_count.end());
  for (const auto& [local, count] : first_and_count) {
    classes.rank.push_back(base + local);
    classes.count.push_back(count);
  }
  classes.class_of.resize(ranks.size());
  std::size_t at = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i == 0 || ranks[i].first != ranks[i - 1].first) {
      at = static_cast<std::size_t>(
          std::lower_bound(classes.rank.begin(), classes.rank.end(), base + ranks[i].second) -
          classes.rank.begin());
    }
    classes.class_of[static_cast<std::size_t>(ranks[i].second)] = static_cast<std::uint32_t>(at);
  }
  for (int k = 0; k < kGroupKinds; ++k) {
    const auto kind = static_cast<GroupKind>(k);
    const std::size_t groups = GroupCount(plan, stage, kind);
    if (groups == 0) continue;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> by_number;  // (number, first group)
    for (std::uint32_t g = 0; g < groups; ++g) by_number.emplace_back(group_number(kind, g), g);
    std::sort(by_number.begin(), by_number.end());
    std::vector<std::pair<std::uint32_t, std::uint32_t>> counts;  // (first group, groups)
    for (const auto& [number, g] : by_number) {
      if (counts.empty() || group_number(kind, counts.back().first) != number)
        counts.emplace_back(g, 0);
      ++counts.back().second;
    }
    std::sort(counts.begin(), counts.end());
    for (const auto& [first, count] : counts) classes.group_count[k].push_back(count);
    by_number.erase(std::unique(by_number.begin(), by_number.end(),
                                [](const auto& a, const auto& b) { return a.first == b.first; }),
                    by_number.end());
    for (const auto& [number, g] : by_number) classes.first_group[k].push_back(g);
    std::sort(classes.first_group[k].begin(), classes.first_group[k].end());
    for (const int rank : classes.rank) {
      const std::uint32_t number =
          group_number(kind, static_cast<std::uint32_t>(GroupOf(plan, kind, rank - base)));
      const auto found = std::lower_bound(
          by_number.begin(), by_number.end(), number,
          [](const auto& entry, std::uint32_t wanted) { return entry.first < wanted; });
      const auto place = std::lower_bound(classes.first_group[k].begin(),
                                          classes.first_group[k].end(), found->second);
      classes.group_of[k].push_back(
          static_cast<std::uint32_t>(place - classes.first_group[k].begin()));
    }
  }
  return classes;
}

// The partner of a class's first rank in the next stage, looked up among that stage's classes.
template <typename RankNumber>
void Connect(const Plan& plan, RankNumber rank_number, std::vector<StageClasses>* stages) {
  for (std::size_t s = 0; s + 1 < stages->size(); ++s) {
    const StageClasses& there = (*stages)[s + 1];
    std::vector<std::pair<std::uint32_t, std::uint32_t>> classes;  // (number, class)
    for (std::uint32_t c = 0; c < there.rank.size(); ++c)
      classes.emplace_back(rank_number(there.rank[c]), c);
    std::sort(classes.begin(), classes.end());
    for (const int rank : (*stages)[s].rank) {
      const std::uint32_t number = rank_number(rank + Width(plan));
      const auto found = std::lower_bound(
          classes.begin(), classes.end(), number,
          [](const auto& entry, std::uint32_t wanted) { return entry.first < wanted; });
      (*stages)[s].next.push_back(found->second);
    }
  }
}

}  // namespace

std::vector<StageClasses> RankFolding::Classes(const Refinement& refinement) const {
  std::vector<StageClasses> stages;
  const auto rank_number = [&](int gpu) {
    return refinement.class_of[static_cast<std::size_t>(gpu)];
  };
  for (std::size_t stage = 0; stage < static_cast<std::size_t>(plan_.pp); ++stage) {
    stages.push_back(Collect(plan_, stage, rank_number, [&](GroupKind kind, std::uint32_t group) {
      return refinement.class_of[GroupVertex(stage, kind, group)];
    }));
  }
  Connect(plan_, rank_number, &stages);
  return stages;
}

std::vector<StageClasses> OneClassPerStage(const Plan& plan) {
  std::vector<StageClasses> stages(static_cast<std::size_t>(plan.pp));
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    StageClasses& classes = stages[stage];
    classes.rank = {static_cast<int>(stage) * Width(plan)};
    classes.count = {Width(plan)};
    for (int k = 0; k < kGroupKinds; ++k) {
      if (GroupCount(plan, stage, static_cast<GroupKind>(k)) == 0) continue;
      classes.group_of[k] = {0};
      classes.first_group[k] = {0};
      classes.group_count[k] = {
          static_cast<std::uint32_t>(GroupCount(plan, stage, static_cast<GroupKind>(k)))};
    }
    if (stage + 1 < stages.size()) classes.next = {0};
  }
  return stages;
}

std::vector<StageClasses> OneClassPerRank(const Plan& plan) {
  std::vector<StageClasses> stages;
  const auto rank_number = [](int gpu) { return static_cast<std::uint32_t>(gpu); };
  for (std::size_t stage = 0; stage < static_cast<std::size_t>(plan.pp); ++stage) {
    stages.push_back(
        Collect(plan, stage, rank_number, [](GroupKind, std::uint32_t group) { return group; }));
  }
  Connect(plan, rank_number, &stages);
  return stages;
}

}  // namespace aurum
