#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/model.h"
#include "sim/plan/program.h"
#include "sim/plan/simulate.h"

namespace aurum {

// Where one class of ranks spends a step, one line for every module, kind of work and collective: what a
// breakdown by category (TimeBreakdown) is made of. Every moment of the class's compute stream belongs to
// exactly one part, and times are whole picoseconds, so the exposed times of all parts sum to the step
// exactly, not about.

// The leaves of TimeBreakdown, in its order.
enum class TimeCause : std::uint8_t {
  kCompute,
  // Exposed communication.
  kTp,
  kCp,
  kEp,
  kHost,  // offload
  kDpGather,
  kDpReduce,
  kPpTransfer,
  // Bubbles: another stage computes.
  kPpWarmup,
  kPpCooldown,
  kPpOther,
  kStraggler,  // a slower rank of the same stage computes
  kAlignment,  // tokens of another modality move
  kData,       // the host prepares the step
  kOptimizer,
};
inline constexpr int kTimeCauses = 15;
// As `simulate --json` spells it: "compute", "tp", "dp_all_gather", "pp_warmup", "alignment_wait", …
std::string_view TimeCauseName(TimeCause cause);
TimeCause CauseOf(GapCause cause);
TimeCause CauseOf(
    const OpInfo& info);  // where its time counts when the compute stream runs it or waits
bool IsCommunication(
    TimeCause cause);  // of exposed communication; alignment is a category of its own
bool IsBubble(TimeCause cause);
// The seconds of a breakdown that have this cause.
double SecondsOf(const TimeBreakdown& time, TimeCause cause);

struct TimePart {
  TimeCause cause = TimeCause::kCompute;
  // What runs, or what is waited for. A bubble's is the kernel of the other stage.
  int module = -1;  // index of Model::modules; -1: none, as of transfers between stages
  OpKind kind = OpKind::kForward;
  Lane lane = Lane::kMain;
  bool head = false;  // output head and loss
  // Whether ranks of the class take part in it; else they only wait for it: a bubble, or a transfer
  // between two other stages on the way of the data.
  bool own = true;
  Time busy{};           // at least one of them runs; 0 unless `own`
  Time exposed{};        // the compute stream runs it, or waits for it
  double slowed_s = 0;   // of a kernel's time: what communication beside it costs
  double flops = 0;      // of one GPU, recomputation not counted
  double bytes = 0;      // of one GPU (nccl-tests' size), of all ops
  std::int64_t ops = 0;  // of the class; at the chunk level, every step is one
  Time Hidden() const { return busy > exposed ? busy - exposed : Time{}; }
};

// In the order of TimeCause, then by module (none last), kind and lane. What is never run nor waited for
// is no part. O(ops · log of those of one part).
std::vector<TimePart> SplitTime(const Program& program, const Schedule& schedule, int rank_class);

// By op: whether ranks of the class run it or take part in it. Its own ops, and those of groups that
// another class speaks for: what its kernels wait for, or wait for its kernels. O(dependencies).
std::vector<bool> OwnOps(const Program& program, int rank_class);

// Sum of the exposed times. Of all parts of a class: the step.
Time ExposedOf(const std::vector<TimePart>& parts);
Time ExposedOf(const std::vector<TimePart>& parts, TimeCause cause);

// In words: "backbone forward", "backbone head and loss backward", "vision tensor parallel",
// "pipeline transfer", "another stage's backbone backward". Unique among parts of one cause.
std::string DescribePart(const TimePart& part, const Model& model);
// Of a kind of op: "forward", "tensor parallel", "parameter gather", …
std::string_view OpWords(OpKind kind);
// Of a lane beside the compute stream, as a suffix where one kind runs on several: "experts",
// "shard group", "replicas"; "" where there is nothing to tell.
std::string_view LaneWords(Lane lane);

}  // namespace aurum
