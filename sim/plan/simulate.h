#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/engine/op_graph.h"
#include "sim/plan/lower.h"
#include "sim/plan/program.h"

namespace aurum {

// How much of the communication is simulated.
//   analytic  every collective takes its priced time: one max-plus pass
//   flow      a collective is a set of flows that share links with all others
//   auto      the same, but a collective takes its priced time until a link of it can be asked for
//             more than it has while it runs: flow's answer, at less cost where little meets
//   chunk     every step of every channel of every rank shares links
enum class Level : std::uint8_t { kAnalytic, kFlow, kAuto, kChunk };
std::string_view LevelName(Level level);  // "analytic", "flow", "auto", "chunk"
Traffic TrafficOf(Level level);           // what to lower with
std::optional<Level> LevelByName(std::string_view name);

// Where the seconds of one rank class go. They sum to the step: every moment of the compute stream is either an op or a gap, and
// every gap has the cause that its end waited for.
struct TimeBreakdown {
  double compute_s = 0;         // forward, backward and recomputation, decode
  double slowed_s = 0;          // of compute_s: what hidden communication costs it
  double exposed_comm_s = 0;    // the compute stream waits for a collective or a transfer
  double bubble_s = 0;          // it waits for another stage's compute
  double straggler_wait_s = 0;  // it waits for a slower rank of its own stage
  double alignment_wait_s = 0;  // it waits for tokens of another modality
  double data_wait_s = 0;       // the host prepares the step
  double optimizer_s = 0;
  // Of exposed_comm_s and bubble_s, by the names of Optimus (USENIX ATC 2025).
  double dp_gather_s = 0, dp_reduce_s = 0, tp_s = 0, pp_transfer_s = 0;
  double cp_s = 0, ep_s = 0, host_s = 0;  // context and expert parallelism, offload
  double pp_warmup_s = 0, pp_cooldown_s = 0, pp_other_s = 0;
  double Sum() const {
    return compute_s + exposed_comm_s + bubble_s + straggler_wait_s + alignment_wait_s +
           data_wait_s + optimizer_s;
  }
};

// A stretch of the compute stream without an op, and why.
enum class GapCause {
  kTp,
  kCp,
  kEp,
  kHost,
  kDpGather,
  kDpReduce,
  kPpTransfer,
  kPpWarmup,
  kPpCooldown,
  kPpOther,
  kAlignment,
  kStraggler
};
struct Gap {
  Time start, end;
  GapCause cause = GapCause::kPpOther;
  int micro_batch = -1;
};

// A gap, or the part of one, that belongs to one op: the communication that ran, or the kernel of
// another class that was waited for.
struct GapPart {
  Gap gap;
  OpId op = kNoOp;  // none after the last op of the class's compute stream
};

struct Outcome {
  Schedule schedule;
  Level level = Level::kAnalytic;
  std::vector<TimeBreakdown> time;     // by class
  std::vector<std::vector<Gap>> gaps;  // by class, in time order
  int busiest_class = 0;               // most compute
  std::string signature;
  double StepSeconds() const { return Seconds(schedule.makespan); }
};

// When every op starts and ends; Simulate without the breakdown.
// `epsilon`: rates may be off the fair ones by this much, relatively (event_loop.h); 0 is exact.
Schedule SimulateSchedule(const Program& program, Level level, double epsilon = 0);

// The gaps of one class as Outcome::gaps has them, op by op. O(ops + what gaps are made of).
std::vector<GapPart> GapsByOp(const Program& program, const Schedule& schedule, int rank_class);

// Runs a program. All but kAnalytic need a program that was lowered for that level.
Outcome Simulate(const Program& program, Level level, double epsilon = 0);

}  // namespace aurum
