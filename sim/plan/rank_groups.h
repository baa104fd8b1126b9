#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/collectives/collective.h"
#include "sim/plan/plan.h"

namespace aurum {

// The groups that ranks of a plan form. Ranks count stage by stage, the encoders' own stages first;
// within a stage tensor parallel first, then context parallel, then data parallel. GPUs have the same
// numbers, unless the plan has a rank order of its own: then only PlacedGroups() tells GPUs. Experts cut the
// same ranks differently: expert-tensor parallel, expert parallel, then replicas of the experts
// (Megatron-Core's order).
enum class GroupKind : std::uint8_t {
  kTp,
  kCp,
  kDp,        // over cp · dp: all ranks that hold the same dense parameters
  kExpertTp,  // this and kExpertDp: only where experts are not cut like dense layers
  kEp,
  kExpertDp,  // all ranks that hold the same experts
  kShard,     // HSDP: of kDp's ranks, those that share state
  kReplica,   // HSDP: of kDp's ranks, those that hold the same shard
  kForward,   // a rank and its partners in the next stage; it sends
  kBackward,  // the same in the stage before
  kAround,    // interleaved chunks: between the backbone's last stage and its first, either way
};
inline constexpr int kGroupKinds = 11;

bool IsPair(GroupKind kind);  // kForward, kBackward, kAround

// How the ranks of one stage are cut.
struct StageLayout {
  int first_gpu = 0;
  int tp = 1, cp = 1, dp = 1;
  int expert_tp = 1, ep = 1;
  int shard = 1;  // ranks of a shard group; 1: not HSDP
  int Width() const { return tp * cp * dp; }
  int PerReplica() const { return tp * cp; }
  bool ExpertsApart() const { return ep != 1 || expert_tp != tp; }
};
StageLayout LayoutOf(const Plan& plan, std::size_t stage);

// The stage that ranks of `stage` send to in that direction. Nothing at the ends.
std::optional<std::size_t> NeighbourOf(const Plan& plan, std::size_t stage, GroupKind direction);

std::size_t GroupCount(const Plan& plan, std::size_t stage, GroupKind kind);
std::size_t GroupSize(const Plan& plan, std::size_t stage, GroupKind kind);
// The group that a rank of the stage is in (of pairs: sends in); `local` counts
// within the stage.
std::size_t GroupOf(const Plan& plan, std::size_t stage, GroupKind kind, int local);
// All groups of one kind of one stage, ranks. Of pairs: the sender, then its receivers.
std::vector<RankGroup> GroupsOfStage(const Plan& plan, std::size_t stage, GroupKind kind);
// The same on the GPUs where plan.rank_order puts the ranks.
std::vector<RankGroup> PlacedGroups(const Plan& plan, std::size_t stage, GroupKind kind);
// Where a rank runs.
int GpuOf(const Plan& plan, int rank);
// What a sender passes on, as a multiple of what one receiver takes: it may have several, or be one
// of several that send to the same.
double FanOut(const Plan& plan, std::size_t stage, GroupKind direction);

}  // namespace aurum
