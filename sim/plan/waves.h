#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/plan/pricing.h"
#include "sim/plan/program.h"
#include "sim/plan/tape.h"

namespace aurum {

// Programs of more operations than this are refused: their simulation would take gigabytes.
inline constexpr double kMostOps = 1e7;

// A step longer than this is refused, s. The clock holds 106 days; all ops in a row must stay a
// tenth of that, so that sharing has room to delay them.
inline constexpr double kLongestStep = 864e3;

// Whose streams a lane is made of; nothing: every rank's.
std::optional<GroupKind> GroupsOf(Lane lane);

// The ops of one moment: one for each class of ranks of a stage, or of its groups of one kind. Ids
// are consecutive. A collective of many steps has an op before them, `entry`, and one after them,
// `first`; else both are the same.
struct Wave {
  OpId first = kNoOp;
  OpId entry = kNoOp;
  std::size_t stage = 0;
  std::optional<GroupKind> groups{};
  bool Exists() const { return first != kNoOp; }
};

// Kernels in a row: seconds at full speed, `slowed_s` more that communication beside them costs, and
// FLOPs; for execution, which they are (Program::kernels), and how often all of them run.
struct Work {
  double seconds = 0, slowed_s = 0, flops = 0;
  std::uint32_t kernels = kNoWork, repeats = 1;
  std::uint32_t atom = kNoAtom;  // of the tape, where one is kept
};

// Puts waves of ops into a program, with their streams and what is known of each op. All ranks of a
// stage run the same program, so a lowering need not know how many classes of them there are.
class Waves {
 public:
  // All must outlive this; the pricer has settled.
  Waves(const PlanPricer& pricer, Program* program, Tape* tape)
      : pricer_(pricer), program_(*program), tape_(*tape) {}

  // Streams of the next stage; its classes are program.classes[first_class] and following.
  void AddStage(std::uint32_t first_class);
  std::uint32_t FirstClass(std::size_t stage) const { return first_class_[stage]; }

  // Classes of the stage's ranks, or of its groups of a kind.
  std::size_t CountOf(std::size_t stage, std::optional<GroupKind> groups) const;
  // The op of a wave that rank class `c` takes part in: whose end it waits for, and which waits for
  // it.
  OpId At(const Wave& wave, std::size_t c) const { return wave.first + IndexOf(wave, c); }
  OpId EntryAt(const Wave& wave, std::size_t c) const { return wave.entry + IndexOf(wave, c); }
  // Two waves of one stage, class by class.
  void Follow(const Wave& before, const Wave& after);

  // A kernel on every rank of the stage, by its class's slowdown; or a transfer of every rank to or
  // from host memory, which nothing slows down. `work`: one for all classes, or one for each.
  Wave AddKernel(std::size_t stage, Lane lane, const OpInfo& kind, std::span<const Work> work);
  // A communication of every group of its kind. `times`: so many of it in a row, as one op; one
  // number for all groups, or one for each. E0341.
  Wave AddCommunication(std::size_t stage, Lane lane, const OpInfo& kind, CommId comm,
                        std::span<const double> times);

 private:
  OpId IndexOf(const Wave& wave, std::size_t c) const;
  StreamId Stream(std::size_t stage, Lane lane, std::size_t index) const;
  OpId NextOp() const { return static_cast<OpId>(program_.info.size()); }
  OpInfo& NewInfo(std::size_t stage, Lane lane, const OpInfo& kind, std::size_t rank_class);
  OpInfo& NewGroupInfo(std::size_t stage, Lane lane, const OpInfo& kind, CommId comm,
                       std::size_t group_class);
  Wave AddSteps(std::size_t stage, Lane lane, const OpInfo& kind, CommId comm);
  void CheckOps() const;

  const PlanPricer& pricer_;
  Program& program_;
  Tape& tape_;
  std::vector<std::uint32_t> first_class_;  // by stage
  std::vector<StreamId> first_stream_;      // by stage and lane
  // By stage and kind: the first rank class of each class of groups, which speaks for it.
  std::vector<std::array<std::vector<std::uint32_t>, kGroupKinds>> leader_;
};

}  // namespace aurum
