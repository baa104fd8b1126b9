#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/plan/program.h"

namespace aurum {

// What one rank does in a step: a Program as one of its ranks sees it, in the order in which it is
// launched. All executors run this and nothing else, so they cannot disagree with the simulator
// about what the plan is.

// Where work of a rank is queued; each queue runs in order. Executors give each a stream.
struct RankQueue {
  Lane lane = Lane::kMain;
  bool receives = false;  // messages from other ranks
};

enum class RankOpKind : std::uint8_t {
  kCompute,       // its kernels, `repeats` times
  kCollective,    // with the members of its group
  kSend,          // a message to each of `peers`
  kReceive,       // one message from `peers[0]`
  kHostTransfer,  // bytes between device and host memory
  kDelay,         // modelled: begins no earlier than `not_before_s`, takes `modelled_s`
};

struct RankOp {
  RankOpKind kind = RankOpKind::kCompute;
  OpId op = kNoOp;          // of the Program; a receive: the op whose message it is
  std::uint32_t queue = 0;  // index of RankProgram::queues
  // Indices of earlier ops of this rank, on other queues, that must have ended before it starts.
  std::vector<std::uint32_t> waits;
  std::uint32_t kernels = kNoWork;  // index of Program::kernels
  std::uint32_t repeats = 1;
  CollectiveKind collective = CollectiveKind::kSendRecv;
  std::uint32_t group = kNoWork;  // index of RankProgram::groups
  std::vector<int> peers;         // ranks
  double bytes = 0;               // of a collective as nccl-tests counts; of a message its own
  double times = 1;               // a collective so many times in a row
  double modelled_s = 0;          // what the simulator takes for it, undisturbed
  double not_before_s = 0;        // kDelay: since the step began
};

// Ranks that communicate with each other, in the order of their GPUs. Equal members, equal group: a
// communicator each.
struct RankGroupMembers {
  std::vector<int> ranks;
  std::string name;  // "tp 0 of stage 1"
};

struct RankProgram {
  int rank = 0;
  int ranks = 0;  // of the plan
  std::vector<RankQueue> queues;
  std::vector<RankGroupMembers> groups;  // that this rank is a member of
  std::vector<RankOp> ops;               // in launch order
  double activations_bytes = 0;          // largest message or kernel operand set, for buffers
  double predicted_peak_bytes = 0;       // of this rank by the memory model; 0 = not asked for
};

// Whether an op is a message to other ranks, and no collective.
bool IsTransfer(const Program& program, OpId op);

// Rank `rank`'s part of a program that was lowered unfolded (Fold::kOff) and for execution. Messages
// are made of dependencies between ranks: every op of another rank that one of this rank waits for,
// without a collective between both, sends it one (0 bytes where the program moves none).
RankProgram RankProgramOf(const Program& program, const Scenario& scenario, int rank);

// The same for a rank alone: everything that other ranks take part in becomes a delay of its
// modelled length, which begins no earlier than the modelled other ranks let it. `program` may be
// folded; `schedule` is its simulation.
RankProgram LoneRankProgramOf(const Program& program, const Schedule& schedule,
                              const Scenario& scenario, int rank);

// A hash of what is executed: kinds, kernels, communications and order of all ops. Equal plans, equal
// shape; durations do not enter.
std::string ShapeOf(const Program& program);

}  // namespace aurum
