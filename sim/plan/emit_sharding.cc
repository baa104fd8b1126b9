#include "sim/plan/emit.h"

#include <algorithm>
#include <array>

#include "sim/plan/host_link.h"

// Data parallelism of one stage: gathers, windows, buckets, and the optimizer at the end.
namespace aurum {

Wave StageEmitter::AddDp(OpKind kind, const Unit& unit, CommId comm, const Wave& after) {
  Lane lane = Lane::kDp;
  switch (pricer_.Groups(comm)) {
    case GroupKind::kExpertDp:
      lane = Lane::kExpertDp;
      break;
    case GroupKind::kTp:  // on the group's own stream, as everything that it says to each other
      lane = Lane::kTp;
      break;
    case GroupKind::kShard:
      lane = Lane::kShard;
      break;
    case GroupKind::kReplica:
      lane = Lane::kReplica;
      break;
    default:
      break;
  }
  Cursor nowhere;
  nowhere.pass.micro_batch = -1;
  const Wave wave = Communicate(nowhere, lane, kind, comm, static_cast<int>(unit.module));
  if (after.Exists()) waves_.Follow(after, wave);
  return wave;
}

// The gather that the next compute of `unit` needs under FSDP.
void StageEmitter::GatherAhead(Cursor* at, const Unit& unit, const UnitCommunication& of) {
  if (!Gathers() || !Training()) return;
  if (Stays(unit) &&
      (at->pass.kind != PassKind::kForward || at->pass.micro_batch != EndsOf(*at).forward))
    return;
  const int ahead =
      s_.plan.modality_barrier ? std::min(s_.plan.prefetch, since_border_) : s_.plan.prefetch;
  const Wave after = Earlier(ahead);
  if (s_.plan.offload.parameters > 0) {
    const StageLayout layout = LayoutOf(s_.plan, stage_);
    const double shards =
        s_.plan.sharding == Sharding::kHsdp ? layout.shard : layout.cp * layout.dp;
    const double bytes = unit.AllParameters() * s_.stack->parameter_exchange_bytes / shards *
                         s_.plan.offload.parameters;
    if (bytes > 0) pending_.push_back(HostTransfer(*at, Lane::kHostIn, unit, bytes, after));
  }
  const std::size_t from_host = pending_.size();
  for (const CommId comm : {of.gather, of.gather_experts}) {
    if (pricer_.Seconds(comm) <= 0) continue;
    const Wave wave = AddDp(OpKind::kParameterGather, unit, comm, after);
    for (std::size_t i = 0; i < from_host; ++i) waves_.Follow(pending_[i], wave);
    pending_.push_back(wave);
  }
  if (pending_.size() > from_host) TakeWindow(pending_[from_host], unit, of);
}

// Of one gather, what comes and goes. A share of embedding and head stays for the whole step
// (sim/memory/state.cc).
double StageEmitter::WindowBytes(const Unit& unit, CommId comm) const {
  if (pricer_.Seconds(comm) <= 0) return 0;
  const double all = unit.AllParameters();
  const double root = all > 0 ? s_.stack->root_window_share * unit.parameters.embedding / all : 0;
  return pricer_.Bytes(comm) * (1 - root);
}

// Micro-batches in flight share the gathered parameters of a unit that is not resharded.
void StageEmitter::TakeWindow(const Wave& wave, const Unit& unit, const UnitCommunication& of) {
  if (windows_[&unit]++ > 0) return;
  Take(wave, false, MemoryKind::kCommunication, unit,
       WindowBytes(unit, of.gather) + WindowBytes(unit, of.gather_experts));
}
void StageEmitter::ReturnWindow(const Wave& wave, const Unit& unit, const UnitCommunication& of) {
  const auto held = windows_.find(&unit);
  if (held == windows_.end() || held->second == 0 || --held->second > 0) return;
  Take(wave, true, MemoryKind::kCommunication, unit,
       -WindowBytes(unit, of.gather) - WindowBytes(unit, of.gather_experts));
}

// After an op of the main stream that consumes gathered parameters.
void StageEmitter::Consume(const Wave& wave) {
  for (const Wave& gathered : pending_) waves_.Follow(gathered, wave);
  pending_.clear();
}

// Choosing what a sparse gradient sends is work of the device, after the gradient is there.
Wave StageEmitter::Select(const Unit& unit, const UnitCommunication& of, const Wave& after) {
  const SparseTraffic traffic = SparseTrafficOf(s_, pricer_, stage_, unit, of);
  merge_bytes_ += traffic.merge;
  Cursor nowhere;
  nowhere.pass.micro_batch = -1;
  OpInfo info = Kind(OpKind::kBackward, nowhere);
  info.module = static_cast<std::int16_t>(unit.module);
  const Wave selected = waves_.AddKernel(stage_, Lane::kMain, info, TrafficWork(traffic.selection));
  if (after.Exists()) waves_.Follow(after, selected);
  return selected;
}

// Compute of the next module waits for what the last one reduces, and gathers nothing ahead of it.
void StageEmitter::CrossBorder(const Unit& unit) {
  const auto module = static_cast<int>(unit.module);
  if (module == module_) {
    ++since_border_;
    return;
  }
  if (module_ >= 0 && s_.plan.modality_barrier) {
    FlushReduce();
    for (; behind_border_ < reduces_.size(); ++behind_border_)
      pending_.push_back(reduces_[behind_border_]);
  }
  module_ = module;
  since_border_ = 0;
}

void StageEmitter::Reduce(const Unit& unit, const UnitCommunication& of, const Wave& made) {
  const Wave after = s_.plan.modules[unit.module].compression.Any() ? Select(unit, of, made) : made;
  Wave last;
  for (const CommId comm : {of.reduce, of.reduce_replicas, of.reduce_tokens, of.reduce_experts}) {
    if (pricer_.Seconds(comm) <= 0) continue;
    const bool chained = (comm == of.reduce_replicas || comm == of.reduce_tokens) && last.Exists();
    last = AddDp(OpKind::kGradientReduce, unit, comm, chained ? last : after);
    reduces_.push_back(last);
  }
}

// FSDP launches the next unit's gather before this unit's reduction, or the gather would wait behind it.
void StageEmitter::FlushReduce() {
  if (!waiting_) return;
  const Waiting w = *waiting_;
  waiting_.reset();
  const std::size_t before = reduces_.size();
  Reduce(*w.unit, *w.of, w.after);
  // Whole gradients wait until they are scattered: what goes on between shard groups is a part of them.
  std::size_t last = before;
  for (std::size_t i = before; i < reduces_.size(); ++i) {
    if (reduces_[i].groups != GroupKind::kReplica) last = i;
  }
  if (reduces_.size() > before)
    Take(reduces_[last], true, MemoryKind::kCommunication, *w.unit,
         -w.unit->TrainedParameters() * s_.stack->gradient_exchange_bytes);
}

// Which units' collectives may run beside compute: those whose turn comes while the share dp_overlap of all is not used up.
void StageEmitter::DecideOverlap() {
  double total = 0;
  for (const Chunk& chunk : units_.chunks) {
    for (const Unit& unit : chunk.units) total += unit.TrainedParameters();
  }
  double used = 0;
  const auto decide = [&](const Chunk& chunk) {
    std::vector<bool> beside(chunk.units.size(), false);
    for (std::size_t i = chunk.units.size(); i-- > 0;) {  // backward order
      if (chunk.units[i].TrainedParameters() <= 0) continue;
      used += chunk.units[i].TrainedParameters();
      beside[i] = used <= s_.stack->dp_overlap * total + 0.5;
    }
    return beside;
  };
  overlapped_.resize(units_.chunks.size());
  for (std::size_t c = units_.chunks.size(); c-- > 0;) overlapped_[c] = decide(units_.chunks[c]);
  // An encoder in bubbles has a share of its own: its backwards end before the backbone's.
  total = used = 0;
  for (const Unit& unit : units_.bubbles.units) total += unit.TrainedParameters();
  overlapped_.push_back(decide(units_.bubbles));
}

// Of what is listed by chunk, bubbles last.
std::size_t StageEmitter::PlaceOf(const Cursor& at) const {
  return at.chunk == &units_.bubbles ? units_.chunks.size()
                                     : static_cast<std::size_t>(at.pass.chunk);
}

bool StageEmitter::Overlapped(const Cursor& at, std::size_t index) const {
  return overlapped_[PlaceOf(at)][index];
}

// ZeRO-1 and -2: the parameters that the optimizers of the step before updated, gathered while the
// first forward runs. What may not overlap is gathered before anything runs.
void StageEmitter::GatherParameters() {
  std::vector<std::pair<const Chunk*, const ChunkCommunication*>> all;
  for (std::size_t c = 0; c < units_.chunks.size(); ++c)
    all.emplace_back(&units_.chunks[c], &communication_.chunks[c]);
  all.emplace_back(&units_.bubbles, &communication_.bubbles);
  gathered_.clear();
  gather_beside_.clear();
  for (const auto& [chunk, said] : all) {
    gathered_.emplace_back(chunk->units.size());
    gather_beside_.emplace_back(chunk->units.size());
  }
  if (s_.plan.sharding != Sharding::kZero1 && s_.plan.sharding != Sharding::kZero2) return;
  Wave last_alone;
  // A gather slows nothing down while the host still prepares the step, or while compute waits for
  // data or for those that run alone.
  Amount queued, idle_until = tape_.Number(s_.stack->step_overhead_s + s_.data_stall_s);
  const auto gather_unit = [&](std::size_t c, std::size_t i, bool overlapped) {
    const Unit& unit = all[c].first->units[i];
    const UnitCommunication& of = all[c].second->units[i];
    for (const CommId comm : {of.gather, of.gather_experts}) {
      const Amount all_s = Talk(comm);
      if (all_s.s <= 0) continue;
      gathered_[c][i] = AddDp(OpKind::kParameterGather, unit, comm, Wave{});
      queued = tape_.Plus(queued, all_s);
      if (overlapped) {
        const Amount beside = tape_.Min(tape_.Max(tape_.Minus(queued, idle_until), {}), all_s);
        gather_beside_[c][i] = tape_.Plus(gather_beside_[c][i], beside);
      } else {
        last_alone = gathered_[c][i];
        idle_until = tape_.Max(idle_until, queued);
      }
    }
  };
  const auto gather = [&](bool overlapped) {
    // Encoders come first in the model, and in the warm-up.
    for (std::size_t k = 0; k < all.size(); ++k) {
      const std::size_t c = (k + all.size() - 1) % all.size();
      for (std::size_t i = 0; i < all[c].first->units.size(); ++i) {
        if ((overlapped_[c][i] && s_.plan.overlap.parameter_gather) == overlapped)
          gather_unit(c, i, overlapped);
      }
    }
  };
  gather(false);
  gather(true);
  for (std::vector<Wave>& chunk : gathered_) {
    for (Wave& wave : chunk) {
      if (!wave.Exists()) wave = last_alone;
    }
  }
}

Amount StageEmitter::BesideForward(const Cursor& at, std::size_t index) const {
  const UnitCommunication& of = at.said->units[index];
  if (Gathers()) {
    const bool held = Stays(at.chunk->units[index]) && at.pass.micro_batch != EndsOf(at).forward;
    return held ? Amount{} : tape_.Plus(Talk(of.gather), Talk(of.gather_experts));
  }
  const bool first = Training() && at.pass.micro_batch == EndsOf(at).forward;
  return first ? gather_beside_[PlaceOf(at)][index] : Amount{};
}

Amount StageEmitter::BesideBackward(const Cursor& at, std::size_t index) const {
  const UnitCommunication& of = at.said->units[index];
  const auto reduce = [&] {
    const Amount replicas = tape_.Plus(Talk(of.reduce), Talk(of.reduce_replicas));
    return tape_.Plus(tape_.Plus(replicas, Talk(of.reduce_tokens)), Talk(of.reduce_experts));
  };
  if (Gathers()) {
    const bool reduces = !ReducesOnce() || at.pass.micro_batch == EndsOf(at).last;
    return tape_.Plus(reduces ? reduce() : Amount{},
                      s_.plan.reshard_after_forward
                          ? tape_.Plus(Talk(of.gather), Talk(of.gather_experts))
                          : Amount{});
  }
  const bool now = at.pass.micro_batch == EndsOf(at).last || ReducesEvery();
  return now && s_.plan.overlap.gradient_reduce && Overlapped(at, index) ? reduce() : Amount{};
}

void StageEmitter::Optimize() {
  const Wave last = Earlier(0);
  for (const auto& [unit, of] : late_) Reduce(*unit, *of, last);
  Cursor nowhere;
  nowhere.pass.micro_batch = -1;
  const Unit any;
  std::vector<Wave> stepped;
  if (s_.plan.offload.optimizer > 0) {
    // Gradients go to the host, its cores take the step, parameters come back.
    const double share = s_.plan.offload.optimizer;
    const double parameters = OptimizedParameters(s_, units_, stage_) * share;
    const double bytes =
        parameters * (s_.stack->gradient_exchange_bytes + s_.stack->parameter_exchange_bytes);
    const double adam = HostAdamSeconds(parameters * s_.cluster->gpus_per_node);
    const Wave wave = HostTransfer(nowhere, Lane::kHost, any, bytes + adam * host_bandwidth_, last);
    // The wire carries no more than that; the rest of the time is the host's.
    for (std::size_t c = 0; c < waves_.CountOf(stage_, {}); ++c)
      program_.info[waves_.At(wave, c)].bytes = bytes;
    for (const Wave& reduce : reduces_) waves_.Follow(reduce, wave);
    stepped.push_back(wave);
  }
  if (merge_bytes_ > 0) {
    const Wave merged = waves_.AddKernel(stage_, Lane::kMain, Kind(OpKind::kOptimizer, nowhere),
                                         TrafficWork(merge_bytes_));
    for (const Wave& reduce : reduces_) waves_.Follow(reduce, merged);
  }
  const Wave optimizer = waves_.AddKernel(stage_, Lane::kMain, Kind(OpKind::kOptimizer, nowhere),
                                          TrafficWork(OptimizerKernel(s_, units_, stage_).bytes));
  for (const Wave& reduce : reduces_) waves_.Follow(reduce, optimizer);
  for (const Wave& wave : stepped) waves_.Follow(wave, optimizer);
  const double temporary = OptimizedParameters(s_, units_, stage_) *
                           (1 - s_.plan.offload.optimizer) * s_.stack->optimizer_temporary_bytes;
  Take(optimizer, false, MemoryKind::kWorkspace, any, temporary);
  Take(optimizer, true, MemoryKind::kWorkspace, any, -temporary);
  for (const auto& [unit, bytes] : held_gradients_)
    Take(optimizer, true, MemoryKind::kGradients, *unit, -bytes);
}

}  // namespace aurum
