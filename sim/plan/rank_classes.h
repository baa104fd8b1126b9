#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/network/fold.h"
#include "sim/plan/rank_groups.h"

namespace aurum {

// The classes of one stage: ranks that behave alike, and groups that do.
struct StageClasses {
  std::vector<int> rank;   // by class: its first GPU
  std::vector<int> count;  // by class: GPUs
  // By rank of the stage, in order: its class. Empty: there is one class.
  std::vector<std::uint32_t> class_of;
  // By kind: by rank class, the class of its group; and by class of groups, its first group.
  std::vector<std::uint32_t> group_of[kGroupKinds];
  std::vector<std::uint32_t> first_group[kGroupKinds];
  std::vector<std::uint32_t> group_count[kGroupKinds];
  // By kind of pairs: (class here, class of a partner there), every two that meet.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> partners[kGroupKinds];
};

// What tells the ranks of a plan apart, as a coloured graph: ranks by stage and by own colour,
// groups by their members, and whatever the caller hangs on the groups.
class RankFolding {
 public:
  // `rank_colour`: by GPU; empty = all alike.
  RankFolding(const Plan& plan, const std::vector<std::uint64_t>& rank_colour);

  ColouredGraph& graph() { return graph_; }
  ColouredGraph::VertexId GroupVertex(std::size_t stage, GroupKind kind, std::size_t group) const;
  // The classes by the refinement of graph().
  std::vector<StageClasses> Classes(const Refinement& refinement) const;

 private:
  const Plan& plan_;
  ColouredGraph graph_;
  std::vector<ColouredGraph::VertexId> first_group_;  // by stage · kGroupKinds + kind
};

// Tells replicas apart that draw data of their own.
void AddReplicaColours(const Plan& plan, std::vector<std::uint64_t>* rank_colour);

// Every stage one class, or every rank its own class.
std::vector<StageClasses> OneClassPerStage(const Plan& plan);
std::vector<StageClasses> OneClassPerRank(const Plan& plan);

}  // namespace aurum
