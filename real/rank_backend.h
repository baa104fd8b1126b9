#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "real/rank_program.h"
#include "real/run_record.h"

namespace aurum {

// The device of one rank, as the interpreter drives it. Ops are launched in the order of the
// program; a backend may run them at once (cpu), queue them (cuda) or only advance a clock
// (virtual). All failures are thrown as InputError with the rank in the message.
class Progress;
class RankBackend {
 public:
  virtual ~RankBackend() = default;
  // Before all else: who is to be asked while this waits for a device, and outlives it. A backend
  // whose waits end by themselves needs none.
  virtual void Watch(Progress* /*progress*/) {}
  // Buffers, communicators. Once, before the first step.
  virtual void Prepare(const Program& program, const RankProgram& mine) = 0;
  // All ranks have come here, and a step begins. `per_op`: every op is timed.
  virtual void BeginStep(std::int64_t step, bool per_op) = 0;
  // Starts op `index` of the program after op.waits.
  virtual void Launch(std::size_t index) = 0;
  // Everything has ended. Seconds of the step on this rank.
  struct StepTime {
    double seconds = 0;      // by the clock that predictions are compared with
    double wall_s = 0;       // 0: the same
    bool disturbed = false;  // preempted, throttled
  };
  virtual StepTime EndStep() = 0;
  // Of a step with per_op: by op, start since the step began and duration.
  struct OpTime {
    double start_s = 0, duration_s = 0;
  };
  virtual std::vector<OpTime> OpTimes() = 0;
  // After the last step: sums of collectives, equal replicas, memory.
  virtual std::vector<RunCheck> Check() = 0;
  virtual RankFacts Facts() = 0;
};

struct StepPlan {
  int warm_up = 2;
  int steps = 8;        // whole, not instrumented
  int timed_steps = 3;  // op by op
};

// What one rank hands back.
struct RankRun {
  RankFacts facts;
  std::vector<RankBackend::StepTime> steps;
  std::vector<std::vector<RankBackend::OpTime>> timed;  // by timed step, by op
  std::vector<RunCheck> checks;
};

// Tells someone outside where this rank is, so that a rank that hangs can be named. Both may be
// called from any thread.
class Progress {
 public:
  virtual ~Progress() = default;
  virtual void At(std::int64_t step, std::size_t op) = 0;
  virtual bool Stopped() const = 0;  // give up: another rank has
};

// Warm-up, whole steps, timed steps, checks: the same on every rank.
RankRun RunRank(RankBackend* backend, const Program& program, const RankProgram& mine,
                const StepPlan& plan, Progress* progress);

}  // namespace aurum
