#include "sim/search/bound.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

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

using PassLists = std::vector<std::vector<Pass>>;  // by stage

// A search asks for the same schedule many times in a row: plans that differ in what they recompute,
// shard or offload have one. The last few of a thread are kept.
std::shared_ptr<const PassLists> ScheduleOf(const PipelineShape& shape) {
  struct Known {
    PipelineShape shape;
    std::shared_ptr<const PassLists> schedule;
  };
  constexpr std::size_t kKept = 4;
  thread_local std::array<Known, kKept> known;
  thread_local std::size_t next = 0;
  for (const Known& each : known) {
    if (each.schedule != nullptr && each.shape == shape) return each.schedule;
  }
  known[next] = {shape, std::make_shared<const PassLists>(MakeSchedule(shape))};
  const auto schedule = known[next].schedule;
  next = (next + 1) % kKept;
  return schedule;
}

// When passes end, s; by chunk of a stage and micro-batch.
class Pipeline {
 public:
  Pipeline(const PlanCosts& costs, const PassLists& passes)
      : passes_(passes),
        micro_(static_cast<std::size_t>(costs.pipeline.micro_batches)),
        chunks_(static_cast<std::size_t>(costs.pipeline.chunks)),
        places_(passes.size() * chunks_) {
    for (std::size_t at = 0; at < places_.size(); ++at)
      places_[at].costs = &CostsAt(costs, at / chunks_, at % chunks_);
    for (std::size_t at = 0; at < places_.size(); ++at) {
      Place& place = places_[at];
      const auto stage = static_cast<int>(at / chunks_), chunk = static_cast<int>(at % chunks_);
      const auto flat = [&](const StageChunk& to) {
        return static_cast<std::size_t>(to.stage) * chunks_ + static_cast<std::size_t>(to.chunk);
      };
      if (const auto from = PreviousOf(costs.pipeline, stage, chunk)) {
        place.previous = flat(*from);
        place.arrives_s = places_[place.previous].costs->send_s;
      }
      if (const auto to = NextOf(costs.pipeline, stage, chunk)) {
        place.next = flat(*to);
        place.returns_s = places_[place.next].costs->return_s;
      }
      place.plain = std::all_of(place.costs->passes.begin(), place.costs->passes.end(),
                                [](const PassCosts& pass) { return pass.every == 1; });
      for (std::size_t kind = 0; kind < place.times.size(); ++kind)
        place.times[kind] = TimeOf(*place.costs, {.kind = static_cast<PassKind>(kind)});
    }
    forward_.assign(places_.size() * micro_, kNotYet);
    backward_.assign(places_.size() * micro_, kNotYet);
    free_.assign(passes.size(), costs.begin_s);
    next_.assign(passes.size(), 0);
  }

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
  static constexpr std::size_t kNone = SIZE_MAX;
  // A chunk of a stage: where its passes' inputs come from, and what a pass takes.
  struct Place {
    const ChunkCosts* costs = nullptr;
    std::size_t previous = kNone, next = kNone;
    double arrives_s = 0, returns_s = 0;  // transfers from there
    bool plain = true;                    // every micro-batch takes the same
    std::array<PassTime, 4> times;        // by kind, of a plain one
  };

  static const ChunkCosts& CostsAt(const PlanCosts& costs, std::size_t stage, std::size_t chunk) {
    return costs.stages[static_cast<std::size_t>(costs.encoder_stages) + stage].chunks[chunk];
  }
  std::size_t At(std::size_t place, const Pass& pass) const {
    return place * micro_ + static_cast<std::size_t>(pass.micro_batch);
  }
  PassTime Time(std::size_t place, const Pass& pass) const {
    const Place& p = places_[place];
    return p.plain ? p.times[static_cast<std::size_t>(pass.kind)] : TimeOf(*p.costs, pass);
  }

  // When what the pass needs is there; kNotYet while it is not.
  double Ready(std::size_t place, const Pass& pass) const {
    const Place& p = places_[place];
    if (pass.kind == PassKind::kForward) {
      if (p.previous == kNone) return 0;
      const double end = forward_[At(p.previous, pass)];
      return end == kNotYet ? kNotYet : end + p.arrives_s;
    }
    if (pass.kind == PassKind::kWeightGradient) return 0;
    if (p.next == kNone) return forward_[At(place, pass)];
    const double end = backward_[At(p.next, pass)];
    return end == kNotYet ? kNotYet : end + p.returns_s;
  }

  void End(std::size_t place, const Pass& pass, double end) {
    if (pass.kind == PassKind::kForward) forward_[At(place, pass)] = end;
    if (pass.kind == PassKind::kBackward || pass.kind == PassKind::kInputGradient)
      backward_[At(place, pass)] = end;
  }

  std::size_t PlaceOf(std::size_t stage, const Pass& pass) const {
    return stage * chunks_ + static_cast<std::size_t>(pass.chunk);
  }

  bool Step(std::size_t stage) {
    std::size_t& at = next_[stage];
    const std::vector<Pass>& mine = passes_[stage];
    if (at == mine.size()) return false;
    const Pass& pass = mine[at];
    const std::size_t place = PlaceOf(stage, pass);
    const double ready = Ready(place, pass);
    if (ready == kNotYet) return false;
    const PassTime time = Time(place, pass);
    if (!pass.with_next || at + 1 == mine.size()) {
      free_[stage] = std::max(free_[stage], ready) + time.StreamSeconds();
      End(place, pass, std::max(free_[stage], ready + time.DataSeconds()));
      ++at;
      return true;
    }
    const Pass& other = mine[at + 1];
    const std::size_t other_place = PlaceOf(stage, other);
    const double other_ready = Ready(other_place, other);
    if (other_ready == kNotYet) return false;
    const double mine_s = time.kernels_s;
    const double other_s = Time(other_place, other).kernels_s;
    const double mine_end = std::max(free_[stage], ready) + mine_s;
    const double other_end = std::max(free_[stage], other_ready) + other_s;
    End(place, pass, mine_end);
    End(other_place, other, other_end);
    free_[stage] = std::max({mine_end, other_end, free_[stage] + mine_s + other_s});
    at += 2;
    return true;
  }

  const PassLists& passes_;
  std::size_t micro_, chunks_;
  std::vector<Place> places_;
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
  const std::shared_ptr<const PassLists> schedule = ScheduleOf(costs.pipeline);
  Pipeline pipeline(costs, *schedule);
  const std::vector<double>& ends = pipeline.Run();
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const StageCosts& stage = costs.stages[first + i];
    bound.step_s = std::max(bound.step_s, ends[i] + AfterPasses(stage));
    const LastingMemory lasting = LastingOf(scenario, stage.rank);
    bound.memory_bytes =
        std::max(bound.memory_bytes, PeakOf(scenario, lasting, MostKept(stage, (*schedule)[i])));
  }
  bound.step_s *= kSlack;
  bound.memory_bytes *= kSlack;
  return bound;
}

}  // namespace aurum
