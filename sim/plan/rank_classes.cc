#include "sim/plan/rank_classes.h"

#include <algorithm>

namespace aurum {
namespace {

// Labels of edges.
enum : std::uint32_t { kMemberOf = 1, kMember = 100 };

// Base and width of a stage.
int FirstGpu(const Plan& plan, std::size_t stage) { return LayoutOf(plan, stage).first_gpu; }
int Width(const Plan& plan, std::size_t stage) { return LayoutOf(plan, stage).Width(); }
std::size_t Stages(const Plan& plan) { return static_cast<std::size_t>(plan.StageCount()); }

}  // namespace

RankFolding::RankFolding(const Plan& plan, const std::vector<std::uint64_t>& rank_colour)
    : plan_(plan) {
  for (std::size_t stage = 0; stage < Stages(plan); ++stage) {
    const int first = FirstGpu(plan, stage);
    for (int gpu = first; gpu < first + Width(plan, stage); ++gpu) {
      graph_.AddVertex(stage + 1000003 * (rank_colour.empty()
                                              ? 0
                                              : rank_colour[static_cast<std::size_t>(gpu)] | 1));
    }
  }
  for (std::size_t stage = 0; stage < Stages(plan); ++stage) {
    for (int k = 0; k < kGroupKinds; ++k) {
      const auto kind = static_cast<GroupKind>(k);
      first_group_.push_back(static_cast<ColouredGraph::VertexId>(graph_.vertex_count()));
      for (const RankGroup& group : GroupsOfStage(plan, stage, kind)) {
        const auto vertex = graph_.AddVertex(0x6a09e667f3bcc908ULL + static_cast<std::uint64_t>(k));
        for (std::size_t i = 0; i < group.size(); ++i) {
          // All members of a collective wait for each other, wherever they stand; what the place in
          // the ring makes different are the flows, which the caller adds. A pair has two ends.
          const std::uint32_t place = IsPair(kind) && i > 0 ? 1 : 0;
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
  const int width = Width(plan, stage);
  const int base = FirstGpu(plan, stage);
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
          group_number(kind, static_cast<std::uint32_t>(GroupOf(plan, stage, kind, rank - base)));
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

// The partners of a class's first rank, looked up among the classes of their stage.
template <typename RankNumber>
void Connect(const Plan& plan, RankNumber rank_number, std::vector<StageClasses>* stages) {
  for (std::size_t s = 0; s < stages->size(); ++s) {
    for (const GroupKind kind : {GroupKind::kForward, GroupKind::kBackward, GroupKind::kAround}) {
      const auto neighbour = NeighbourOf(plan, s, kind);
      if (!neighbour) continue;
      const StageClasses& there = (*stages)[*neighbour];
      std::vector<std::pair<std::uint32_t, std::uint32_t>> classes;  // (number, class)
      for (std::uint32_t c = 0; c < there.rank.size(); ++c)
        classes.emplace_back(rank_number(there.rank[c]), c);
      std::sort(classes.begin(), classes.end());
      const std::vector<RankGroup> groups = GroupsOfStage(plan, s, kind);
      auto& partners = (*stages)[s].partners[static_cast<std::size_t>(kind)];
      for (std::uint32_t c = 0; c < (*stages)[s].rank.size(); ++c) {
        const RankGroup& group =
            groups[static_cast<std::size_t>((*stages)[s].rank[c] - FirstGpu(plan, s))];
        for (std::size_t i = 1; i < group.size(); ++i) {
          const std::uint32_t number = rank_number(group[i]);
          const auto found = std::lower_bound(
              classes.begin(), classes.end(), number,
              [](const auto& entry, std::uint32_t wanted) { return entry.first < wanted; });
          partners.emplace_back(c, found->second);
        }
      }
      std::sort(partners.begin(), partners.end());
      partners.erase(std::unique(partners.begin(), partners.end()), partners.end());
    }
  }
}

}  // namespace

std::vector<StageClasses> RankFolding::Classes(const Refinement& refinement) const {
  std::vector<StageClasses> stages;
  const auto rank_number = [&](int gpu) {
    return refinement.class_of[static_cast<std::size_t>(gpu)];
  };
  for (std::size_t stage = 0; stage < Stages(plan_); ++stage) {
    stages.push_back(Collect(plan_, stage, rank_number, [&](GroupKind kind, std::uint32_t group) {
      return refinement.class_of[GroupVertex(stage, kind, group)];
    }));
  }
  Connect(plan_, rank_number, &stages);
  return stages;
}

void AddReplicaColours(const Plan& plan, std::vector<std::uint64_t>* rank_colour) {
  std::size_t gpus = 0;
  for (std::size_t stage = 0; stage < Stages(plan); ++stage)
    gpus += static_cast<std::size_t>(Width(plan, stage));
  rank_colour->resize(gpus, 0);
  for (std::size_t stage = 0; stage < Stages(plan); ++stage) {
    const StageLayout layout = LayoutOf(plan, stage);
    for (int local = 0; local < layout.Width(); ++local) {
      std::uint64_t& colour = (*rank_colour)[static_cast<std::size_t>(layout.first_gpu + local)];
      const auto replica = static_cast<std::uint64_t>(local / layout.PerReplica());
      colour = (colour ^ (replica + 1)) * 0x9e3779b97f4a7c15ULL;
    }
  }
}

std::vector<StageClasses> OneClassPerStage(const Plan& plan) {
  std::vector<StageClasses> stages(Stages(plan));
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    StageClasses& classes = stages[stage];
    classes.rank = {FirstGpu(plan, stage)};
    classes.count = {Width(plan, stage)};
    for (int k = 0; k < kGroupKinds; ++k) {
      const auto kind = static_cast<GroupKind>(k);
      const std::size_t groups = GroupCount(plan, stage, kind);
      if (groups == 0) continue;
      classes.group_of[k] = {0};
      classes.first_group[k] = {0};
      classes.group_count[k] = {static_cast<std::uint32_t>(groups)};
      if (IsPair(kind)) classes.partners[k] = {{0, 0}};
    }
  }
  return stages;
}

std::vector<StageClasses> OneClassPerRank(const Plan& plan) {
  std::vector<StageClasses> stages;
  const auto rank_number = [](int gpu) { return static_cast<std::uint32_t>(gpu); };
  for (std::size_t stage = 0; stage < Stages(plan); ++stage) {
    stages.push_back(
        Collect(plan, stage, rank_number, [](GroupKind, std::uint32_t group) { return group; }));
  }
  Connect(plan, rank_number, &stages);
  return stages;
}

}  // namespace aurum
