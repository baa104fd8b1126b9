#include "sim/plan/waves.h"

#include <algorithm>
#include <string>
#include <utility>

#include "sim/collectives/chunk.h"
#include "sim/core/diagnostic.h"

namespace aurum {

std::optional<GroupKind> GroupsOf(Lane lane) {
  switch (lane) {
    case Lane::kTp:
      return GroupKind::kTp;
    case Lane::kCp:
      return GroupKind::kCp;
    case Lane::kEp:
      return GroupKind::kEp;
    case Lane::kExpertTp:
      return GroupKind::kExpertTp;
    case Lane::kPpForward:
      return GroupKind::kForward;
    case Lane::kPpBackward:
      return GroupKind::kBackward;
    case Lane::kPpAround:
      return GroupKind::kAround;
    case Lane::kDp:
      return GroupKind::kDp;
    case Lane::kExpertDp:
      return GroupKind::kExpertDp;
    case Lane::kShard:
      return GroupKind::kShard;
    case Lane::kReplica:
      return GroupKind::kReplica;
    default:
      return std::nullopt;
  }
}

void Waves::AddStage(std::uint32_t first_class) {
  const std::size_t stage = first_class_.size();
  first_class_.push_back(first_class);
  for (int lane = 0; lane < kLanes; ++lane) {
    std::size_t count = CountOf(stage, GroupsOf(static_cast<Lane>(lane)));
    if (static_cast<Lane>(lane) == Lane::kAlign) {  // of whichever groups exchange tokens
      count = std::max({CountOf(stage, GroupKind::kTp), CountOf(stage, GroupKind::kDp),
                        CountOf(stage, GroupKind::kCp)});
    }
    first_stream_.push_back(static_cast<StreamId>(program_.graph.stream_count()));
    for (std::size_t i = 0; i < count; ++i) program_.graph.AddStream();
  }
  const StageClasses& classes = pricer_.Classes(stage);
  leader_.emplace_back();
  for (std::size_t k = 0; k < kGroupKinds; ++k) {
    leader_.back()[k].resize(classes.first_group[k].size());
    if (classes.group_of[k].empty()) continue;
    for (std::size_t c = classes.rank.size(); c-- > 0;)
      leader_.back()[k][classes.group_of[k][c]] = static_cast<std::uint32_t>(c);
  }
}

std::size_t Waves::CountOf(std::size_t stage, std::optional<GroupKind> groups) const {
  const StageClasses& classes = pricer_.Classes(stage);
  return groups ? classes.first_group[static_cast<std::size_t>(*groups)].size()
                : classes.rank.size();
}

OpId Waves::IndexOf(const Wave& wave, std::size_t c) const {
  if (!wave.groups) return static_cast<OpId>(c);
  return pricer_.Classes(wave.stage).group_of[static_cast<std::size_t>(*wave.groups)][c];
}

void Waves::Follow(const Wave& before, const Wave& after) {
  if (before.groups && before.groups == after.groups) {
    for (OpId g = 0; g < CountOf(before.stage, before.groups); ++g)
      program_.graph.AddDependency(before.first + g, after.entry + g);
    return;
  }
  for (std::size_t c = 0; c < CountOf(after.stage, {}); ++c)
    program_.graph.AddDependency(At(before, c), EntryAt(after, c));
}

StreamId Waves::Stream(std::size_t stage, Lane lane, std::size_t index) const {
  return first_stream_[stage * kLanes + static_cast<std::size_t>(lane)] +
         static_cast<StreamId>(index);
}

OpInfo& Waves::NewInfo(std::size_t stage, Lane lane, const OpInfo& kind, std::size_t rank_class) {
  OpInfo info = kind;
  info.rank_class = first_class_[stage] + static_cast<std::uint32_t>(rank_class);
  info.lane = lane;
  info.instances = static_cast<std::uint32_t>(pricer_.Classes(stage).count[rank_class]);
  program_.info.push_back(info);
  if (program_.executable) program_.work.emplace_back();
  return program_.info.back();
}

OpInfo& Waves::NewGroupInfo(std::size_t stage, Lane lane, const OpInfo& kind, CommId comm,
                            std::size_t group_class) {
  const auto groups = static_cast<std::size_t>(pricer_.Groups(comm));
  OpInfo& info = NewInfo(stage, lane, kind, leader_[stage][groups][group_class]);
  info.instances = pricer_.Classes(stage).group_count[groups][group_class];
  if (program_.executable) {
    program_.work.back().communication = comm;
    program_.work.back().group = pricer_.Classes(stage).first_group[groups][group_class];
  }
  return info;
}

Wave Waves::AddKernel(std::size_t stage, Lane lane, const OpInfo& kind,
                      std::span<const Work> work) {
  const Wave wave{.first = NextOp(), .entry = NextOp(), .stage = stage};
  for (std::size_t c = 0; c < CountOf(stage, {}); ++c) {
    const Work& mine = work[work.size() == 1 ? 0 : c];
    const bool even = kind.kind == OpKind::kHost || lane == Lane::kHost || lane == Lane::kHostIn;
    const double slowdown = even ? 1 : program_.classes[first_class_[stage] + c].slowdown;
    program_.graph.AddOp(Stream(stage, lane, c),
                         TimeFromSeconds(mine.seconds * slowdown + mine.slowed_s));
    OpInfo& info = NewInfo(stage, lane, kind, c);
    tape_.NextOp(mine.atom, lane, kind.kind);
    info.slowed_s = mine.slowed_s;
    info.flops = mine.flops;
    if (program_.executable) {
      program_.work.back().kernels = mine.kernels;
      program_.work.back().repeats = mine.repeats;
    }
  }
  return wave;
}

Wave Waves::AddCommunication(std::size_t stage, Lane lane, const OpInfo& kind, CommId comm,
                             std::span<const double> times) {
  const GroupKind groups = pricer_.Groups(comm);
  const bool once = times.size() == 1 && times[0] == 1;
  if (once && pricer_.Price(comm, 0).chunks != nullptr) return AddSteps(stage, lane, kind, comm);
  const Wave wave{.first = NextOp(), .entry = NextOp(), .stage = stage, .groups = groups};
  for (std::size_t g = 0; g < CountOf(stage, groups); ++g) {
    const double factor = times[times.size() == 1 ? 0 : g];
    const Priced& priced = pricer_.Price(comm, g);
    const Time duration = TimeFromSeconds(priced.seconds * factor);
    const StreamId stream = Stream(stage, lane, g);
    if (priced.pattern != kNoPattern && factor == 1) {
      program_.graph.AddTransfer(
          stream, duration, std::min(TimeFromSeconds(priced.latency_s), duration), priced.pattern);
    } else {
      program_.graph.AddOp(stream, duration);  // many small messages in a row: latency alone
    }
    NewGroupInfo(stage, lane, kind, comm, g).bytes = pricer_.Bytes(comm) * factor;
    tape_.NextOp(tape_.Communication(comm, factor), lane, kind.kind);
    if (program_.executable) program_.work.back().times = factor;
  }
  return wave;
}

// All steps of a collective of every group, between an op that waits for the members and one that
// they wait for.
Wave Waves::AddSteps(std::size_t stage, Lane lane, const OpInfo& kind, CommId comm) {
  const GroupKind groups = pricer_.Groups(comm);
  const std::size_t count = CountOf(stage, groups);
  Wave wave{.stage = stage, .groups = groups};
  const auto marks = [&] {
    const OpId first = NextOp();
    for (std::size_t g = 0; g < count; ++g) {
      program_.graph.AddOp(Stream(stage, lane, g), Time{0});
      NewGroupInfo(stage, lane, kind, comm, g);
    }
    return first;
  };
  wave.entry = marks();
  std::vector<std::pair<OpId, OpId>> exits;  // (last step, group)
  for (std::size_t g = 0; g < count; ++g) {
    const ExpandedChunks steps = ExpandChunks(*pricer_.Price(comm, g).chunks, &program_.graph);
    while (program_.info.size() < program_.graph.op_count())
      NewGroupInfo(stage, lane, kind, comm, g);
    for (const OpId op : steps.entry)
      program_.graph.AddDependency(wave.entry + static_cast<OpId>(g), op);
    for (const OpId op : steps.exit) exits.emplace_back(op, static_cast<OpId>(g));
    CheckOps();
  }
  wave.first = marks();
  for (std::size_t g = 0; g < count; ++g) program_.info[wave.first + g].bytes = pricer_.Bytes(comm);
  for (const auto& [op, g] : exits) program_.graph.AddDependency(op, wave.first + g);
  return wave;
}

// How many steps there will be is known only when they are there.
void Waves::CheckOps() const {
  if (static_cast<double>(program_.graph.op_count()) <= kMostOps) return;
  ThrowInput(341,
             "the chunk level of this scenario is more than " +
                 std::to_string(static_cast<std::int64_t>(kMostOps / 1e6)) + " million operations",
             "--level flow, which has one operation a collective; or fewer micro-batches or GPUs",
             ExitCode::kInfeasible);
}

}  // namespace aurum
