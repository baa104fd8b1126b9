#include "sim/search/bound.h"

#include <algorithm>
#include <array>

#include "sim/memory/memory.h"
#include "sim/memory/state.h"

// A lower bound on a step
// -----------------------
// The simulation is a max-plus system: an op starts when all it waits for has ended, so a step is the
// longest path through a graph of durations. Taking edges away, or making durations shorter, makes no
// path longer. The bound is the same pipeline with a pass as one op:
//
//   - its duration is that of its kernels alone on the GPU and of the collectives that they wait for
//     (plan_costs.h); what runs beside them, and what it costs them, is left out;
//   - a stage runs its passes in the order of its schedule, and may begin one while the last collective
//     of the pass before is under way; a pass waits for the transfer from the stage before it;
//   - after its last pass a stage reduces what nothing hides, and takes its optimizer step.
//
// Example: 1F1B with p equal stages, m micro-batches, forward f and backward b without communication
// gives (m + p − 1)(f + b), the textbook's closed form; uneven stages, interleaved chunks and zero
// bubbles come out of the schedule itself, where closed forms end.
//
// Two passes that run by turns (DualPipe) are taken as if each had the stream to itself, and the
// stream as busy with both: neither ends earlier in the simulation.
//
// Memory: what lasts (state.h), and the most that passes keep at once: those whose forward has begun
// and whose backward has not ended, counted along the stage's order.
//
// Cost: O(passes) = O(stages · chunks · micro-batches), some microseconds; the simulation walks tens of
// ops in every pass. Bounds of this kind prune branch and bound: Land and Doig 1960.
namespace aurum {
namespace {

// Rounding to picoseconds, op by op, must not put a bound above what it bounds.
constexpr double kSlack = 1 - 1e-7;

bool RunsIn(const PassCosts& costs, int micro_batch, bool backward) {
  const int place = micro_batch % costs.every;
  return backward ? place == costs.every - 1 : place == 0;
}

// Of one pass: its kernels, the collectives that they wait for, and of those the ones at its ends, beside
// which the stream may run another pass.
struct PassTime {
  double kernels_s = 0, in_line_s = 0, edge_s = 0;
  double StreamSeconds() const { return kernels_s + std::max(0.0, in_line_s - edge_s); }
  double DataSeconds() const { return kernels_s + in_line_s; }
};

PassTime TimeOf(const ChunkCosts& chunk, const Pass& pass) {
  PassTime time;
  for (const PassCosts& costs : chunk.passes) {
    const bool forward = pass.kind == PassKind::kForward;
    if (!RunsIn(costs, pass.micro_batch, !forward)) continue;
    switch (pass.kind) {
      case PassKind::kForward:
        time.kernels_s += costs.forward_s;
        time.in_line_s += costs.forward_in_line_s;
        break;
      case PassKind::kBackward:
        time.kernels_s += costs.backward_s + costs.weight_s;
        time.in_line_s += costs.backward_in_line_s;
        break;
      case PassKind::kInputGradient:
        time.kernels_s += costs.backward_s;
        time.in_line_s += costs.backward_in_line_s;
        break;
      case PassKind::kWeightGradient:
        time.kernels_s += costs.weight_s;
        continue;
      default:
        continue;
    }
    time.edge_s = std::max(time.edge_s, costs.edge_s);
  }
  return time;
}

// When passes end, s; by stage, chunk and micro-batch.
class Pipeline {
 public:
  explicit Pipeline(const PlanCosts& costs)
      : costs_(costs),
        shape_(costs.pipeline),
        passes_(MakeSchedule(costs.pipeline)),
        chunks_(static_cast<std::size_t>(costs.pipeline.chunks)),
        micro_(static_cast<std::size_t>(costs.pipeline.micro_batches)) {
    const std::size_t all = passes_.size() * chunks_ * micro_;
    forward_.assign(all, kNotYet);
    backward_.assign(all, kNotYet);
    free_.assign(passes_.size(), costs.begin_s);
    next_.assign(passes_.size(), 0);
  }

  // In order, by stage.
  const std::vector<std::vector<Pass>>& passes() const { return passes_; }
  // When each stage has run all its passes.
  const std::vector<double>& Run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t stage = 0; stage < passes_.size(); ++stage) {
        while (Step(stage)) moved = true;
      }
    }
    return free_;
  }

 private:
  static constexpr double kNotYet = -1;

  const StageCosts& Stage(std::size_t stage) const {
    return costs_.stages[static_cast<std::size_t>(costs_.encoder_stages) + stage];
  }
  std::size_t At(std::size_t stage, int chunk, int micro_batch) const {
    return (stage * chunks_ + static_cast<std::size_t>(chunk)) * micro_ +
           static_cast<std::size_t>(micro_batch);
  }

  // When what the pass needs is there; kNotYet while it is not.
  double Ready(std::size_t stage, const Pass& pass) const {
    const int s = static_cast<int>(stage);
    if (pass.kind == PassKind::kForward) {
      const auto from = PreviousOf(shape_, s, pass.chunk);
      if (!from) return 0;
      const auto before = static_cast<std::size_t>(from->stage);
      const double end = forward_[At(before, from->chunk, pass.micro_batch)];
      if (end == kNotYet) return kNotYet;
      return end + Stage(before).chunks[static_cast<std::size_t>(from->chunk)].send_s;
    }
    if (pass.kind == PassKind::kWeightGradient) return 0;
    const auto from = NextOf(shape_, s, pass.chunk);
    if (!from) return forward_[At(stage, pass.chunk, pass.micro_batch)];
    const auto after = static_cast<std::size_t>(from->stage);
    const double end = backward_[At(after, from->chunk, pass.micro_batch)];
    if (end == kNotYet) return kNotYet;
    return end + Stage(after).chunks[static_cast<std::size_t>(from->chunk)].return_s;
  }

  void End(std::size_t stage, const Pass& pass, double end) {
    if (pass.kind == PassKind::kForward) forward_[At(stage, pass.chunk, pass.micro_batch)] = end;
    if (pass.kind == PassKind::kBackward || pass.kind == PassKind::kInputGradient)
      backward_[At(stage, pass.chunk, pass.micro_batch)] = end;
  }

  bool Step(std::size_t stage) {
    std::size_t& at = next_[stage];
    const std::vector<Pass>& mine = passes_[stage];
    if (at == mine.size()) return false;
    const Pass& pass = mine[at];
    const ChunkCosts& chunk = Stage(stage).chunks[static_cast<std::size_t>(pass.chunk)];
    const double ready = Ready(stage, pass);
    if (ready == kNotYet) return false;
    const PassTime time = TimeOf(chunk, pass);
    if (!pass.with_next || at + 1 == mine.size()) {
      free_[stage] = std::max(free_[stage], ready) + time.StreamSeconds();
      End(stage, pass, std::max(free_[stage], ready + time.DataSeconds()));
      ++at;
      return true;
    }
    const Pass& other = mine[at + 1];
    const double other_ready = Ready(stage, other);
    if (other_ready == kNotYet) return false;
    const double mine_s = time.kernels_s;
    const double other_s =
        TimeOf(Stage(stage).chunks[static_cast<std::size_t>(other.chunk)], other).kernels_s;
    const double mine_end = std::max(free_[stage], ready) + mine_s;
    const double other_end = std::max(free_[stage], other_ready) + other_s;
    End(stage, pass, mine_end);
    End(stage, other, other_end);
    free_[stage] = std::max({mine_end, other_end, free_[stage] + mine_s + other_s});
    at += 2;
    return true;
  }

  const PlanCosts& costs_;
  PipelineShape shape_;
  std::vector<std::vector<Pass>> passes_;
  std::size_t chunks_, micro_;
  std::vector<double> forward_, backward_, free_;
  std::vector<std::size_t> next_;
};

// The most that passes of one stage keep at once, bytes.
double MostKept(const StageCosts& stage, const std::vector<Pass>& passes) {
  double now = 0, most = 0;
  for (const Pass& pass : passes) {
    for (const PassCosts& costs : stage.chunks[static_cast<std::size_t>(pass.chunk)].passes) {
      if (pass.kind == PassKind::kForward && RunsIn(costs, pass.micro_batch, false))
        now += costs.kept_bytes;
      if ((pass.kind == PassKind::kBackward || pass.kind == PassKind::kInputGradient) &&
          RunsIn(costs, pass.micro_batch, true)) {
        most = std::max(most, now);
        now -= costs.kept_bytes;
      }
    }
    most = std::max(most, now);
  }
  return most;
}

double Work(const StageCosts& stage, int micro_batches) {
  double seconds = 0;
  for (const ChunkCosts& chunk : stage.chunks) {
    for (const PassCosts& costs : chunk.passes) {
      const int times = micro_batches / costs.every;
      seconds += times * (costs.forward_s + costs.backward_s + costs.weight_s);
    }
  }
  return seconds;
}

double AfterPasses(const StageCosts& stage) {
  return stage.late_reduce_s + stage.host_step_s + stage.rank.optimizer_s;
}

// Each direction of the host's link is busy with all activations that leave, or come back.
double HostSeconds(const PlanCosts& costs, const StageCosts& stage) {
  if (costs.host_bandwidth <= 0) return 0;
  double bytes = 0;
  for (const ChunkCosts& chunk : stage.chunks) {
    for (const PassCosts& pass : chunk.passes)
      bytes += pass.host_bytes * (costs.pipeline.micro_batches / pass.every);
  }
  if (costs.pipeline.kind == ScheduleKind::kDualPipe) bytes /= 2;  // half of the batch each way
  return bytes / costs.host_bandwidth;
}

}  // namespace

PlanBound BoundOf(const Scenario& scenario, const PlanCosts& costs) {
  PlanBound bound;
  for (const StageCosts& stage : costs.stages) {
    const LastingMemory lasting = LastingOf(scenario, stage.rank);
    bound.state_bytes =
        std::max(bound.state_bytes, lasting.weights + lasting.gradients + lasting.optimizer);
  }
  bound.memory_bytes = bound.state_bytes;
  bound.step_s = costs.begin_s;
  if (!costs.exact_loads || scenario.workload.task != Task::kTrain) return bound;

  const auto first = static_cast<std::size_t>(costs.encoder_stages);
  for (std::size_t i = 0; i < costs.stages.size(); ++i) {
    const StageCosts& stage = costs.stages[i];
    if (i < first) {
      bound.step_s = std::max(bound.step_s, costs.begin_s + AfterPasses(stage) +
                                                Work(stage, costs.pipeline.micro_batches));
    }
    bound.step_s = std::max(bound.step_s, HostSeconds(costs, stage));
  }
  Pipeline pipeline(costs);
  const std::vector<double>& ends = pipeline.Run();
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const StageCosts& stage = costs.stages[first + i];
    bound.step_s = std::max(bound.step_s, ends[i] + AfterPasses(stage));
    const LastingMemory lasting = LastingOf(scenario, stage.rank);
    bound.memory_bytes = std::max(bound.memory_bytes,
                                  PeakOf(scenario, lasting, MostKept(stage, pipeline.passes()[i])));
  }
  bound.step_s *= kSlack;
  bound.memory_bytes *= kSlack;
  return bound;
}

}  // namespace aurum
