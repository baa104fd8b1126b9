#include "sim/plan/emit.h"

#include <algorithm>
#include <array>

#include "sim/plan/host_link.h"

// A stage's ops
// -------------
// A stage has one stream of kernels and streams of communication beside it. A pass walks the units of
// its chunk. Its data moves along a front: the op that the next one waits for. Communication that may
// run beside compute is a side: it starts at the front, and what follows waits for both.
//
//   Ulysses, tensor parallelism:   front → all-gather → kernels → reduce-scatter → …      (a chain)
//   ring attention:                front → kernels → …     and     front → ring → …       (a side)
//
// Example, a mixture's MLP half under expert parallelism: router and shared expert → dispatch →
// experts → combine; with overlap, dispatch is a side of router and shared expert.
//
// Data parallelism. DDP and ZeRO-1 reduce gradients bucket by bucket during the last micro-batch's
// backward; ZeRO-1 and -2 gather the updated parameters during the first micro-batch's forward (a step
// in steady state: the gather of the step before). The stack's dp_overlap says which share of these
// collectives may run beside compute; the rest runs alone. FSDP gathers every unit before its forward
// and before its backward, `prefetch` units ahead, and reduces its gradients after it, in every
// micro-batch (Zhao et al., "PyTorch FSDP", 2023). Compute beside a collective runs slower by
// overlap_slowdown · the time they share.
//
// All ranks of a stage run the same program, so ops are emitted in waves (waves.h). Two passes that
// run together (DualPipe) advance by turns, unit by unit: what one says runs beside what the other
// computes.
//
// Cost: ops are O(classes · micro-batches · units).
namespace aurum {
StageEmitter::StageEmitter(const Inputs& in, Waves* waves, Program* program, double* total_s)
    : s_(in.scenario),
      context_(in.context),
      pricer_(in.pricer),
      communication_(in.communication),
      units_(in.units),
      by_class_(in.by_class),
      stage_(in.stage),
      host_bandwidth_(in.host_bandwidth),
      waves_(*waves),
      program_(*program),
      total_s_(*total_s) {
  const auto micro = static_cast<std::size_t>(s_.plan.micro_batches);
  table_.forward.assign(units_.chunks.size(), std::vector<Marks>(micro));
  table_.backward = table_.forward;
  table_.encoder_forward.resize(micro);
  table_.encoder_backward.resize(micro);
  DecideOverlap();
}

void StageEmitter::CheckClock(double seconds) {
  total_s_ += seconds;
  if (total_s_ < kLongestStep) return;
  ThrowInput(
      340, "a step of this scenario would take longer than ten days",
      "fewer tokens, images or FLOPs per token, a smaller batch, or faster rates in the profile",
      ExitCode::kInfeasible);
}

// --- waves

// A wave that starts at the front of the data.
void StageEmitter::Attach(Cursor* at, const Wave& wave) {
  if (at->front.Exists()) {
    waves_.Follow(at->front, wave);
  } else {
    at->first.push_back(wave);
  }
}

// A wave that starts there too, waits for the sides, and is the new front.
void StageEmitter::Chain(Cursor* at, const Wave& wave) {
  Attach(at, wave);
  for (const Wave& side : at->sides) waves_.Follow(side, wave);
  at->sides.clear();
  at->front = wave;
}

OpInfo StageEmitter::Kind(OpKind kind, const Cursor& at) const {
  OpInfo info;
  info.kind = kind;
  info.micro_batch = at.pass.micro_batch;
  info.chunk = static_cast<std::int8_t>(at.pass.chunk);
  return info;
}

Wave StageEmitter::Communicate(const Cursor& at, Lane lane, OpKind kind, CommId comm, int module,
                               double times) {
  CheckClock(pricer_.Seconds(comm) * times);
  OpInfo info = Kind(kind, at);
  info.module = static_cast<std::int16_t>(module);
  // Where micro-batches differ, what they say to each other differs as what they compute.
  const int micro_batch = at.pass.micro_batch;
  const bool follows_load =
      kind == OpKind::kTpCollective || kind == OpKind::kContextCollective ||
      kind == OpKind::kExpertCollective || kind == OpKind::kPipelineTransfer ||
      (kind == OpKind::kAlignment && at.said != nullptr && comm != at.said->rebalance);
  if (by_class_.empty() || micro_batch < 0 || !follows_load)
    return waves_.AddCommunication(stage_, lane, info, comm, std::array{times});
  const std::size_t groups = waves_.CountOf(stage_, pricer_.Groups(comm));
  std::vector<double> each(groups, 0);
  const Wave probe{.first = 0, .entry = 0, .stage = stage_, .groups = pricer_.Groups(comm)};
  const std::size_t of_module =
      module < 0 ? s_.model->modules.size() - 1 : static_cast<std::size_t>(module);
  const auto tokens = [&](const StageUnits& units) {
    double bytes = 0;
    for (const Chunk& chunk : units.chunks) {
      for (const Unit& unit : chunk.units) {
        if (unit.module == of_module) bytes += unit.tp_bytes;
      }
    }
    return bytes;
  };
  const double nominal = tokens(units_);
  for (std::size_t c = 0; c < by_class_.size(); ++c) {
    const StageUnits& mine = *by_class_[c][static_cast<std::size_t>(micro_batch)];
    const double share = nominal > 0 ? tokens(mine) / nominal : 1;
    double& group = each[waves_.At(probe, c)];
    group = std::max(group, share * times);
  }
  return waves_.AddCommunication(stage_, lane, info, comm, each);
}

void StageEmitter::ChainCommunication(Cursor* at, Lane lane, OpKind kind, CommId comm,
                                      std::size_t module, double times) {
  if (pricer_.Seconds(comm) <= 0) return;
  Chain(at, Communicate(*at, lane, kind, comm, static_cast<int>(module), times));
}

Work StageEmitter::WorkOf(const Unit& unit, Part part, Half half, double beside_s) const {
  KernelCost cost;
  const auto add = [&](const PassCost& of) {
    switch (part) {
      case Part::kForward:
        cost += of.forward;
        break;
      case Part::kAgain:
        cost += of.forward;
        break;
      case Part::kBackward:
        cost += of.input_gradient;
        if (unit.trained) cost += of.weight_gradient;
        cost += of.adapter_gradient;
        break;
      case Part::kInputGradient:
        cost += of.input_gradient;
        break;
      case Part::kWeightGradient:
        if (unit.trained) cost += of.weight_gradient;
        cost += of.adapter_gradient;
        break;
    }
    if (part == Part::kBackward || part == Part::kInputGradient) {
      KernelCost again = of.again;
      again.flops = 0;  // no model FLOPs
      if (!unit.recomputed) cost += again;
    }
  };
  if (half == Half::kFirst || half == Half::kAll) add(unit.first);
  if (half == Half::kShared || half == Half::kAll) add(unit.shared);
  if (half == Half::kSecond || half == Half::kAll) add(unit.second);
  Work work;
  work.seconds = cost.Seconds() * unit.pieces;
  work.flops = part == Part::kAgain ? 0 : cost.flops * unit.pieces;
  work.slowed_s = s_.stack->overlap_slowdown * std::min(work.seconds, beside_s);
  return work;
}

// `beside_s` of collectives run at the same time and slow it down.
Wave StageEmitter::Compute(Cursor* at, OpKind kind, std::size_t index, Part part, Half half,
                           double beside_s) {
  const Unit& unit = at->chunk->units[index];
  OpInfo info = Kind(kind, *at);
  info.module = static_cast<std::int16_t>(unit.module);
  info.head = unit.head;
  Wave wave;
  const Work nominal = WorkOf(unit, part, half, beside_s);
  CheckClock(nominal.seconds + nominal.slowed_s);
  if (by_class_.empty() || at->pass.micro_batch < 0) {
    wave = waves_.AddKernel(stage_, Lane::kMain, info, std::array{nominal});
  } else {
    std::vector<Work> each;
    for (const auto& loads : by_class_) {
      const StageUnits& mine = *loads[static_cast<std::size_t>(at->pass.micro_batch)];
      const bool bubbles = at->chunk == &units_.bubbles;
      const Chunk& chunk =
          bubbles ? mine.bubbles : mine.chunks[static_cast<std::size_t>(at->pass.chunk)];
      each.push_back(WorkOf(chunk.units[index], part, half, beside_s));
    }
    wave = waves_.AddKernel(stage_, Lane::kMain, info, each);
  }
  if (blocking_.Exists()) waves_.Follow(blocking_, wave);
  blocking_ = {};
  Chain(at, wave);
  return wave;
}

// The main stream moved on.
void StageEmitter::StepCompute(const Wave& wave) {
  computes_.push_front(wave);
  const auto kept = static_cast<std::size_t>(s_.plan.prefetch) + 2;
  if (computes_.size() > kept) computes_.pop_back();
}

// The compute `steps` before the last.
Wave StageEmitter::Earlier(int steps) const {
  const auto at = static_cast<std::size_t>(steps);
  return at < computes_.size() ? computes_[at] : Wave{};
}

// --- data parallelism

Wave StageEmitter::AddDp(OpKind kind, const Unit& unit, CommId comm, const Wave& after) {
  Lane lane = Lane::kDp;
  switch (pricer_.Groups(comm)) {
    case GroupKind::kExpertDp:
      lane = Lane::kExpertDp;
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
  const Wave after = Earlier(s_.plan.prefetch);
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

void StageEmitter::Reduce(const Unit& unit, const UnitCommunication& of, const Wave& after) {
  Wave last;
  for (const CommId comm : {of.reduce, of.reduce_replicas, of.reduce_experts}) {
    if (pricer_.Seconds(comm) <= 0) continue;
    const bool chained = comm == of.reduce_replicas && last.Exists();
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
  // Whole gradients wait for their reduction.
  if (reduces_.size() > before)
    Take(reduces_.back(), true, MemoryKind::kCommunication, *w.unit,
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
    gather_beside_.emplace_back(chunk->units.size(), 0.0);
  }
  if (s_.plan.sharding != Sharding::kZero1 && s_.plan.sharding != Sharding::kZero2) return;
  Wave last_alone;
  // A gather slows nothing down while the host still prepares the step, or while compute waits for those
  // that run alone.
  double queued = 0, idle_until = s_.stack->step_overhead_s;
  const auto gather_unit = [&](std::size_t c, std::size_t i, bool overlapped) {
    const Unit& unit = all[c].first->units[i];
    const UnitCommunication& of = all[c].second->units[i];
    for (const CommId comm : {of.gather, of.gather_experts}) {
      const double seconds = pricer_.Seconds(comm);
      if (seconds <= 0) continue;
      gathered_[c][i] = AddDp(OpKind::kParameterGather, unit, comm, Wave{});
      queued += seconds;
      if (overlapped) {
        gather_beside_[c][i] += std::clamp(queued - idle_until, 0.0, seconds);
      } else {
        last_alone = gathered_[c][i];
        idle_until = std::max(idle_until, queued);
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

double StageEmitter::BesideForward(const Cursor& at, std::size_t index) const {
  const UnitCommunication& of = at.said->units[index];
  if (Gathers()) {
    const bool held = Stays(at.chunk->units[index]) && at.pass.micro_batch != EndsOf(at).forward;
    return held ? 0 : pricer_.Seconds(of.gather) + pricer_.Seconds(of.gather_experts);
  }
  const bool first = Training() && at.pass.micro_batch == EndsOf(at).forward;
  return first ? gather_beside_[PlaceOf(at)][index] : 0;
}

double StageEmitter::BesideBackward(const Cursor& at, std::size_t index) const {
  const UnitCommunication& of = at.said->units[index];
  const double reduce = pricer_.Seconds(of.reduce) + pricer_.Seconds(of.reduce_replicas) +
                        pricer_.Seconds(of.reduce_experts);
  if (Gathers()) {
    const double gather = pricer_.Seconds(of.gather) + pricer_.Seconds(of.gather_experts);
    const bool reduces = !ReducesOnce() || at.pass.micro_batch == EndsOf(at).last;
    return (reduces ? reduce : 0) + (s_.plan.reshard_after_forward ? gather : 0);
  }
  const bool now = at.pass.micro_batch == EndsOf(at).last || s_.plan.sharding == Sharding::kZero2;
  return now && s_.plan.overlap.gradient_reduce && Overlapped(at, index) ? reduce : 0;
}

// --- memory and host transfers

std::uint32_t StageEmitter::TensorsOf(const Unit& unit, const std::vector<KeptTensor>& tensors) {
  const auto [known, is_new] =
      known_tensors_.try_emplace(&tensors, static_cast<std::uint32_t>(program_.tensors.size()));
  if (is_new)
    program_.tensors.push_back({static_cast<std::int16_t>(unit.module), unit.name, tensors});
  return known->second;
}

void StageEmitter::Take(const Wave& wave, bool at_end, MemoryKind kind, const Unit& unit,
                        double bytes, const std::vector<KeptTensor>* tensors) {
  if (bytes == 0 || !by_class_.empty()) return;
  const std::uint32_t what =
      tensors == nullptr || tensors->empty() ? kNoTensors : TensorsOf(unit, *tensors);
  for (std::size_t c = 0; c < waves_.CountOf(stage_, {}); ++c) {
    program_.memory.push_back({waves_.At(wave, c), at_end,
                               waves_.FirstClass(stage_) + static_cast<std::uint32_t>(c), kind,
                               bytes, what});
  }
}

Wave StageEmitter::HostTransfer(const Cursor& at, Lane lane, const Unit& unit, double bytes,
                                const Wave& after) {
  OpInfo info = Kind(OpKind::kHostTransfer, at);
  info.module = static_cast<std::int16_t>(unit.module);
  info.bytes = bytes;
  const Work work{bytes / host_bandwidth_, 0, 0};
  CheckClock(work.seconds);
  const Wave wave = waves_.AddKernel(stage_, lane, info, std::array{work});
  if (after.Exists()) waves_.Follow(after, wave);
  return wave;
}

// --- passes

// An encoder with a larger micro-batch runs forward before the first of the backbone's that it feeds,
// and backward after the last.
bool StageEmitter::Runs(const Unit& unit, int micro_batch, bool backward) const {
  if (unit.every == 1) return true;
  return backward ? micro_batch % unit.every == unit.every - 1 : micro_batch % unit.every == 0;
}

// Forward kernels of a unit, or the same again before its backward, with the communication inside.
void StageEmitter::Halves(Cursor* at, std::size_t index, OpKind kind, Part part, double beside_s,
                          bool last_collective, Wave* begin, Wave* end) {
  const Unit& unit = at->chunk->units[index];
  const UnitCommunication& of = at->said->units[index];
  const Overlap& overlap = s_.plan.overlap;
  const auto note = [&](const Wave& wave) {
    if (!begin->Exists()) {
      *begin = wave;
      Consume(wave);
    }
    *end = wave;
  };
  // The kernels of a half between their tensor-parallel collectives, or with them at their sides.
  const auto tensor_parallel = [&](bool collectives, bool after, auto&& kernels) {
    if (!collectives) {
      kernels(0.0);
    } else if (overlap.tensor_parallel) {
      std::vector<Wave> sides;
      double beside = 0;
      for (const CommId comm : {of.tp_before, after ? of.tp_after : kNoComm}) {
        if (pricer_.Seconds(comm) <= 0) continue;
        beside += pricer_.Seconds(comm);
        sides.push_back(Communicate(*at, Lane::kTp, OpKind::kTpCollective, comm,
                                    static_cast<int>(unit.module)));
        Attach(at, sides.back());
      }
      kernels(beside);
      at->sides.insert(at->sides.end(), sides.begin(), sides.end());
    } else {
      ChainCommunication(at, Lane::kTp, OpKind::kTpCollective, of.tp_before, unit.module);
      kernels(0.0);
      if (after) ChainCommunication(at, Lane::kTp, OpKind::kTpCollective, of.tp_after, unit.module);
    }
  };
  tensor_parallel(unit.tp_collectives, last_collective || unit.has_second, [&](double beside) {
    ChainCommunication(at, Lane::kCp, OpKind::kContextCollective, of.ulysses, unit.module);
    Wave ring;
    if (pricer_.Seconds(of.ring) > 0) {
      ring = Communicate(*at, Lane::kCp, OpKind::kContextCollective, of.ring,
                         static_cast<int>(unit.module));
      if (overlap.context_parallel) {
        Attach(at, ring);
        beside += pricer_.Seconds(of.ring);
      } else {
        Chain(at, ring);
        ring = {};
      }
    }
    note(Compute(at, kind, index, part, Half::kFirst, beside_s + beside));
    if (ring.Exists()) at->sides.push_back(ring);
    ChainCommunication(at, Lane::kCp, OpKind::kContextCollective, of.ulysses, unit.module);
  });
  if (!unit.has_second) return;
  tensor_parallel(unit.tp_collectives_second, last_collective, [&](double beside) {
    const bool mixture = unit.shared.forward.Seconds() > 0;
    Wave dispatch;
    if (mixture && pricer_.Seconds(of.dispatch) > 0 && overlap.expert_parallel) {
      dispatch = Communicate(*at, Lane::kEp, OpKind::kExpertCollective, of.dispatch,
                             static_cast<int>(unit.module));
      Attach(at, dispatch);
    }
    if (mixture) {
      note(Compute(at, kind, index, part, Half::kShared,
                   beside + (dispatch.Exists() ? pricer_.Seconds(of.dispatch) : 0)));
      if (dispatch.Exists()) {
        at->sides.push_back(dispatch);
      } else {
        ChainCommunication(at, Lane::kEp, OpKind::kExpertCollective, of.dispatch, unit.module);
      }
    }
    ChainCommunication(at, Lane::kExpertTp, OpKind::kExpertCollective, of.expert_gather,
                       unit.module);
    note(Compute(at, kind, index, part, Half::kSecond, beside_s + beside));
    ChainCommunication(at, Lane::kExpertTp, OpKind::kExpertCollective, of.expert_reduce,
                       unit.module);
    ChainCommunication(at, Lane::kEp, OpKind::kExpertCollective, of.combine, unit.module);
  });
}

// The way back: halves in reverse; the gradient of a gather is a reduction and the other way round.
void StageEmitter::HalvesBackward(Cursor* at, std::size_t index, Part part, double beside_s,
                                  Wave* begin, Wave* end) {
  const Unit& unit = at->chunk->units[index];
  const UnitCommunication& of = at->said->units[index];
  const Overlap& overlap = s_.plan.overlap;
  const auto note = [&](const Wave& wave) {
    if (!begin->Exists()) {
      *begin = wave;
      Consume(wave);
    }
    *end = wave;
  };
  const auto tensor_parallel = [&](bool collectives, auto&& kernels) {
    if (!collectives) {
      kernels(0.0);
    } else if (overlap.tensor_parallel) {
      std::vector<Wave> sides;
      double beside = 0;
      for (const CommId comm : {of.tp_before, of.tp_after}) {
        if (pricer_.Seconds(comm) <= 0) continue;
        beside += pricer_.Seconds(comm);
        sides.push_back(Communicate(*at, Lane::kTp, OpKind::kTpCollective, comm,
                                    static_cast<int>(unit.module)));
        Attach(at, sides.back());
      }
      kernels(beside);
      at->sides.insert(at->sides.end(), sides.begin(), sides.end());
    } else {
      ChainCommunication(at, Lane::kTp, OpKind::kTpCollective, of.tp_before, unit.module);
      kernels(0.0);
      ChainCommunication(at, Lane::kTp, OpKind::kTpCollective, of.tp_after, unit.module);
    }
  };
  if (unit.has_second) {
    tensor_parallel(unit.tp_collectives_second, [&](double beside) {
      ChainCommunication(at, Lane::kEp, OpKind::kExpertCollective, of.combine, unit.module);
      ChainCommunication(at, Lane::kExpertTp, OpKind::kExpertCollective, of.expert_gather,
                         unit.module);
      note(Compute(at, OpKind::kBackward, index, part, Half::kSecond, beside_s + beside));
      ChainCommunication(at, Lane::kExpertTp, OpKind::kExpertCollective, of.expert_reduce,
                         unit.module);
      const bool mixture = unit.shared.forward.Seconds() > 0;
      Wave dispatch;
      if (mixture && overlap.expert_parallel && pricer_.Seconds(of.dispatch) > 0) {
        dispatch = Communicate(*at, Lane::kEp, OpKind::kExpertCollective, of.dispatch,
                               static_cast<int>(unit.module));
        Attach(at, dispatch);
      } else {
        ChainCommunication(at, Lane::kEp, OpKind::kExpertCollective, of.dispatch, unit.module);
      }
      if (mixture) {
        note(Compute(at, OpKind::kBackward, index, part, Half::kShared,
                     beside + (dispatch.Exists() ? pricer_.Seconds(of.dispatch) : 0)));
      }
      if (dispatch.Exists()) at->sides.push_back(dispatch);
    });
  }
  tensor_parallel(unit.tp_collectives, [&](double beside) {
    ChainCommunication(at, Lane::kCp, OpKind::kContextCollective, of.ulysses, unit.module);
    Wave ring;
    if (pricer_.Seconds(of.ring_backward) > 0) {
      ring = Communicate(*at, Lane::kCp, OpKind::kContextCollective, of.ring_backward,
                         static_cast<int>(unit.module));
      if (overlap.context_parallel) {
        Attach(at, ring);
        beside += pricer_.Seconds(of.ring_backward);
      } else {
        Chain(at, ring);
        ring = {};
      }
    }
    note(Compute(at, OpKind::kBackward, index, part, Half::kFirst, beside_s + beside));
    if (ring.Exists()) at->sides.push_back(ring);
    ChainCommunication(at, Lane::kCp, OpKind::kContextCollective, of.ulysses, unit.module);
  });
}

void StageEmitter::ForwardUnit(Cursor* at, std::size_t index) {
  const Unit& unit = at->chunk->units[index];
  const UnitCommunication& of = at->said->units[index];
  GatherAhead(at, unit, of);
  // Compute waits for activations that left a few units ago, or they would pile up on a slow link.
  if (leaving_.size() >= static_cast<std::size_t>(s_.stack->offload_units)) {
    pending_.push_back(leaving_.front());
    leaving_.pop_front();
  }
  const double parts = unit.has_second ? 2 : 1;
  Wave begin, end;
  const Wave* gathered = nullptr;
  if (Training() && at->pass.micro_batch == EndsOf(*at).forward &&
      gathered_[PlaceOf(*at)][index].Exists())
    gathered = &gathered_[PlaceOf(*at)][index];
  Halves(at, index, OpKind::kForward, Part::kForward, BesideForward(*at, index) / parts,
         /*last_collective=*/true, &begin, &end);
  if (gathered != nullptr) waves_.Follow(*gathered, begin);

  const KeptActivations& memory = unit.memory;
  const double copies = unit.pieces;
  const MemoryKind kind = unit.logits ? MemoryKind::kLogits : MemoryKind::kActivations;
  if (unit.recomputed) {
    Take(begin, false, kind, unit, memory.checkpoint_bytes * copies);
  } else {
    Take(begin, false, kind, unit, memory.KeptBytes() * copies, &memory.kept);
  }
  Take(begin, false, MemoryKind::kWorkspace, unit, memory.work_forward_bytes);
  Take(end, true, MemoryKind::kWorkspace, unit, -memory.work_forward_bytes);
  if (Gathers() && (s_.plan.reshard_after_forward || !unit.backward)) ReturnWindow(end, unit, of);
  const double away = s_.plan.offload.activations;
  if (away > 0 && unit.backward && !unit.logits) {
    const double bytes =
        away * copies * (unit.recomputed ? memory.checkpoint_bytes : memory.KeptBytes());
    if (bytes > 0) {
      const Wave out = HostTransfer(*at, Lane::kHost, unit, bytes, end);
      Take(out, true, kind, unit, -bytes);
      leaving_.push_back(out);
      if (!s_.plan.overlap.offload) at->sides.push_back(out);
    }
  }
  StepCompute(begin);
}

void StageEmitter::BackwardUnit(Cursor* at, std::size_t index, bool whole) {
  const Unit& unit = at->chunk->units[index];
  const UnitCommunication& of = at->said->units[index];
  const KeptActivations& memory = unit.memory;
  const double copies = unit.pieces;
  if (s_.plan.reshard_after_forward) GatherAhead(at, unit, of);
  FlushReduce();
  const MemoryKind kind = unit.logits ? MemoryKind::kLogits : MemoryKind::kActivations;
  const double held = copies * (unit.recomputed ? memory.checkpoint_bytes : memory.KeptBytes());
  Wave begin, end;
  const double away = s_.plan.offload.activations;
  if (away > 0 && !unit.logits && held > 0) {
    const Wave back = HostTransfer(*at, Lane::kHostIn, unit, away * held,
                                   s_.plan.overlap.offload ? Earlier(s_.plan.prefetch) : at->front);
    Take(back, false, kind, unit, away * held);
    pending_.push_back(back);
  }
  const bool again = unit.recomputed;
  const double parts = unit.has_second ? (again ? 4 : 2) : 1;
  const double beside = BesideBackward(*at, index) / parts;
  if (again) {
    // The last layer of its block: all of the block is formed again, each but the last to its end.
    const std::vector<Unit>& units = at->chunk->units;
    const bool closes = index + 1 == units.size() || units[index + 1].layer == nullptr ||
                        units[index + 1].block_start || !units[index + 1].recomputed ||
                        units[index + 1].module != unit.module;
    if (closes) {
      std::size_t first = index;
      while (!units[first].block_start) --first;
      for (std::size_t i = first; i <= index; ++i) {
        Wave from, to;
        Halves(at, i, OpKind::kBackward, Part::kAgain, i == index ? beside : 0, i != index, &from,
               &to);
        Take(from, false, MemoryKind::kWorkspace, units[i], units[i].memory.KeptBytes() * copies,
             &units[i].memory.kept);
        if (i == first) begin = from;
      }
    }
  }
  Wave gradients;
  HalvesBackward(at, index, whole ? Part::kBackward : Part::kInputGradient, beside, &gradients,
                 &end);
  if (!begin.Exists()) begin = gradients;
  const bool in_two = !whole && (unit.trained || unit.parameters.adapters > 0);
  Take(begin, false, MemoryKind::kWorkspace, unit, memory.RecomputedBytes() * copies,
       &memory.recomputed);
  Take(begin, false, MemoryKind::kWorkspace, unit, memory.work_backward_bytes);
  Take(end, true, MemoryKind::kWorkspace, unit, -memory.work_backward_bytes);
  if (!in_two) {
    Take(end, true, MemoryKind::kWorkspace, unit, -memory.RecomputedBytes() * copies,
         &memory.recomputed);
    if (again) {
      Take(end, true, MemoryKind::kWorkspace, unit, -memory.KeptBytes() * copies, &memory.kept);
      Take(end, true, kind, unit, -held);
    } else {
      Take(end, true, kind, unit, -held, &memory.kept);
    }
  }
  if (Gathers() && (!Stays(unit) || at->pass.micro_batch == EndsOf(*at).last))
    ReturnWindow(end, unit, of);
  StepCompute(end);
  if (whole) WeightGradientUnit(at, index);
}

// What follows when a unit's gradients are there; of a backward in two, the kernels as well.
void StageEmitter::WeightGradientUnit(Cursor* at, std::size_t index) {
  const Unit& unit = at->chunk->units[index];
  const UnitCommunication& of = at->said->units[index];
  const bool in_two = at->pass.kind == PassKind::kWeightGradient;
  if (in_two) {
    if (!unit.trained && unit.parameters.adapters <= 0) return;
    FlushReduce();  // of the unit before, or it would be forgotten
    const Wave wave = Compute(at, OpKind::kWeightGradient, index, Part::kWeightGradient, Half::kAll,
                              BesideBackward(*at, index));
    const double copies = unit.pieces;
    const MemoryKind kind = unit.logits ? MemoryKind::kLogits : MemoryKind::kActivations;
    Take(wave, true, MemoryKind::kWorkspace, unit, -unit.memory.RecomputedBytes() * copies,
         &unit.memory.recomputed);
    if (unit.recomputed) {
      Take(wave, true, MemoryKind::kWorkspace, unit, -unit.memory.KeptBytes() * copies,
           &unit.memory.kept);
      Take(wave, true, kind, unit, -unit.memory.checkpoint_bytes * copies);
    } else {
      Take(wave, true, kind, unit, -unit.memory.KeptBytes() * copies, &unit.memory.kept);
    }
    StepCompute(wave);
  }
  const double trained = unit.TrainedParameters();
  if (trained <= 0) return;
  const Wave made = Earlier(0);
  if (!s_.stack->gradients_persist && IsFirstBackward(*at, unit)) {
    const StageLayout layout = LayoutOf(s_.plan, stage_);
    double shards = 1;
    if (Gathers() || s_.plan.sharding == Sharding::kZero2)
      shards = s_.plan.sharding == Sharding::kHsdp ? layout.shard : layout.cp * layout.dp;
    // Beside an embedding or a head, an adapter is a trained copy in the stack's own formats.
    const double adapter_bytes =
        unit.layer == nullptr ? s_.stack->gradient_bytes : s_.stack->adapter_gradient_bytes;
    // Offloaded parameters have their gradients on the host.
    const double bytes = ((unit.trained ? unit.AllParameters() : 0) * s_.stack->gradient_bytes +
                          unit.parameters.adapters * adapter_bytes) *
                         (1 - s_.plan.offload.parameters) / shards;
    Take(made, false, MemoryKind::kGradients, unit, bytes);
    held_gradients_.emplace_back(&unit, bytes);
  }
  const bool reduces = pricer_.Seconds(of.reduce) > 0 || pricer_.Seconds(of.reduce_experts) > 0;
  if (!reduces) return;
  const bool last = at->pass.micro_batch == EndsOf(*at).last;
  if (Gathers()) {
    if (!ReducesOnce() || IsFirstBackward(*at, unit))
      Take(made, false, MemoryKind::kCommunication, unit,
           trained * s_.stack->gradient_exchange_bytes);
    if (!ReducesOnce() || last) waiting_ = Waiting{&unit, &of, made};
  } else if (last || s_.plan.sharding == Sharding::kZero2) {
    if (s_.plan.overlap.gradient_reduce && Overlapped(*at, index)) {
      Reduce(unit, of, made);
    } else if (last) {
      late_.push_back({&unit, &of});
    } else {
      Reduce(unit, of, made);
      blocking_ = reduces_.back();
    }
  }
}

void StageEmitter::Begin(Cursor* at) {
  const bool encoder =
      at->pass.kind == PassKind::kEncoderForward || at->pass.kind == PassKind::kEncoderBackward;
  const auto c = static_cast<std::size_t>(at->pass.chunk);
  at->chunk = encoder ? &units_.bubbles : &units_.chunks[c];
  at->said = encoder ? &communication_.bubbles : &communication_.chunks[c];
  const bool forward =
      at->pass.kind == PassKind::kForward || at->pass.kind == PassKind::kEncoderForward;
  if (forward) return;
  // Where nothing follows in the model, backward turns around at the end of its own forward.
  const auto micro = static_cast<std::size_t>(at->pass.micro_batch);
  if (encoder) return;  // its gradients come from where the model begins
  if (at->pass.kind == PassKind::kWeightGradient) {
    at->front = table_.backward[c][micro].last;
  } else if (at->said->ends) {
    at->front = table_.forward[c][micro].last;
  }
}

bool StageEmitter::StepForward(Cursor* at) {
  const Chunk& chunk = *at->chunk;
  while (at->next < chunk.units.size()) {
    const std::size_t i = at->next++;
    if (chunk.meets && i == chunk.fusion) {
      at->aligned = true;
      ChainCommunication(at, Lane::kAlign, OpKind::kAlignment, at->said->rebalance, 0);
      ChainCommunication(at, Lane::kAlign, OpKind::kAlignment, at->said->alignment.forward, 0);
    }
    if (!Runs(chunk.units[i], at->pass.micro_batch, false)) continue;
    ForwardUnit(at, i);
    return true;
  }
  if (chunk.meets && chunk.fusion == chunk.units.size() && !at->aligned) {
    at->aligned = true;
    ChainCommunication(at, Lane::kAlign, OpKind::kAlignment, at->said->alignment.forward, 0);
  }
  return false;
}

bool StageEmitter::StepBackward(Cursor* at) {
  const Chunk& chunk = *at->chunk;
  const bool weights = at->pass.kind == PassKind::kWeightGradient;
  const bool whole = at->pass.kind != PassKind::kInputGradient && !weights;
  while (at->next < chunk.units.size()) {
    const std::size_t i = chunk.units.size() - 1 - at->next++;
    if (chunk.meets && i < chunk.fusion && !at->aligned && !weights) {
      at->aligned = true;
      ChainCommunication(at, Lane::kAlign, OpKind::kAlignment, at->said->alignment.backward, 0);
      ChainCommunication(at, Lane::kAlign, OpKind::kAlignment, at->said->rebalance, 0);
    }
    if (!chunk.units[i].backward || !Runs(chunk.units[i], at->pass.micro_batch, true)) continue;
    if (weights) {
      WeightGradientUnit(at, i);
    } else {
      BackwardUnit(at, i, whole);
    }
    return true;
  }
  return false;
}

void StageEmitter::EndForward(Cursor* at) {
  const auto micro = static_cast<std::size_t>(at->pass.micro_batch);
  const bool encoder = at->pass.kind == PassKind::kEncoderForward;
  Marks& marks = encoder ? table_.encoder_forward[micro]
                         : table_.forward[static_cast<std::size_t>(at->pass.chunk)][micro];
  marks.first = at->first;
  marks.last = at->front;
  if (pricer_.Seconds(at->said->send_forward) > 0) {
    const GroupKind groups = pricer_.Groups(at->said->send_forward);
    const Lane lane = groups == GroupKind::kForward    ? Lane::kPpForward
                      : groups == GroupKind::kBackward ? Lane::kPpBackward
                                                       : Lane::kPpAround;
    const Wave wave = Communicate(*at, lane, OpKind::kPipelineTransfer, at->said->send_forward, -1);
    Chain(at, wave);
    marks.sent = wave;
    if (!s_.plan.overlap.pipeline) blocking_ = wave;
  }
}

void StageEmitter::EndBackward(Cursor* at) {
  FlushReduce();
  const auto micro = static_cast<std::size_t>(at->pass.micro_batch);
  if (at->pass.kind == PassKind::kWeightGradient) return;
  // FSDP reshards at the end of backward what no backward has touched.
  if (Gathers() && !s_.plan.reshard_after_forward) {
    for (std::size_t i = 0; i < at->chunk->units.size(); ++i) {
      const Unit& unit = at->chunk->units[i];
      if (!unit.backward && Runs(unit, at->pass.micro_batch, true))
        ReturnWindow(Earlier(0), unit, at->said->units[i]);
    }
  }
  const bool encoder = at->pass.kind == PassKind::kEncoderBackward;
  Marks& marks = encoder ? table_.encoder_backward[micro]
                         : table_.backward[static_cast<std::size_t>(at->pass.chunk)][micro];
  marks.first = at->first;
  marks.last = at->front;
  const bool any = at->front.Exists();
  if (any && pricer_.Seconds(at->said->send_backward) > 0) {
    const GroupKind groups = pricer_.Groups(at->said->send_backward);
    const Lane lane = groups == GroupKind::kForward    ? Lane::kPpForward
                      : groups == GroupKind::kBackward ? Lane::kPpBackward
                                                       : Lane::kPpAround;
    const Wave wave =
        Communicate(*at, lane, OpKind::kPipelineTransfer, at->said->send_backward, -1);
    Chain(at, wave);
    marks.sent = wave;
    if (!s_.plan.overlap.pipeline) blocking_ = wave;
  }
}

void StageEmitter::RunPass(const Pass& pass) {
  Cursor at;
  at.pass = pass;
  Begin(&at);
  if (pass.kind == PassKind::kForward || pass.kind == PassKind::kEncoderForward) {
    while (StepForward(&at)) {
    }
    EndForward(&at);
  } else {
    while (StepBackward(&at)) {
    }
    EndBackward(&at);
  }
}

// Two passes by turns.
void StageEmitter::RunPair(const Pass& a, const Pass& b) {
  std::array<Cursor, 2> at;
  at[0].pass = a;
  at[1].pass = b;
  std::array<bool, 2> open{true, true};
  for (Cursor& cursor : at) Begin(&cursor);
  while (open[0] || open[1]) {
    for (std::size_t i = 0; i < 2; ++i) {
      if (!open[i]) continue;
      const bool forward = at[i].pass.kind == PassKind::kForward;
      open[i] = forward ? StepForward(&at[i]) : StepBackward(&at[i]);
      if (open[i]) continue;
      forward ? EndForward(&at[i]) : EndBackward(&at[i]);
    }
  }
}

void StageEmitter::Run(const std::vector<Pass>& passes) {
  Cursor host;
  host.pass.micro_batch = -1;
  const Work work{s_.stack->step_overhead_s, 0, 0};
  CheckClock(work.seconds);
  waves_.AddKernel(stage_, Lane::kMain, Kind(OpKind::kHost, host), std::array{work});
  FindEnds(passes);
  if (!Training()) {
    Generate();
    return;
  }
  GatherParameters();
  for (std::size_t i = 0; i < passes.size(); ++i) {
    if (passes[i].with_next && i + 1 < passes.size()) {
      RunPair(passes[i], passes[i + 1]);
      ++i;
    } else {
      RunPass(passes[i]);
    }
  }
  Optimize();
}

void StageEmitter::FindEnds(const std::vector<Pass>& passes) {
  ends_.assign(units_.chunks.size() + 1, {});
  for (const Pass& pass : passes) {
    const bool encoder =
        pass.kind == PassKind::kEncoderForward || pass.kind == PassKind::kEncoderBackward;
    Ends& ends = ends_[encoder ? units_.chunks.size() : static_cast<std::size_t>(pass.chunk)];
    switch (pass.kind) {
      case PassKind::kForward:
      case PassKind::kEncoderForward:
        if (ends.forward < 0) ends.forward = pass.micro_batch;
        break;
      case PassKind::kInputGradient:
        break;
      default:
        if (ends.first < 0) ends.first = pass.micro_batch;
        ends.last = pass.micro_batch;
        break;
    }
  }
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
  const Work work{OptimizerSeconds(s_, units_, stage_), 0, 0};
  CheckClock(work.seconds);
  const Wave optimizer =
      waves_.AddKernel(stage_, Lane::kMain, Kind(OpKind::kOptimizer, nowhere), std::array{work});
  for (const Wave& reduce : reduces_) waves_.Follow(reduce, optimizer);
  for (const Wave& wave : stepped) waves_.Follow(wave, optimizer);
  const double temporary = OptimizedParameters(s_, units_, stage_) *
                           (1 - s_.plan.offload.optimizer) * s_.stack->optimizer_temporary_bytes;
  Take(optimizer, false, MemoryKind::kWorkspace, any, temporary);
  Take(optimizer, true, MemoryKind::kWorkspace, any, -temporary);
  for (const auto& [unit, bytes] : held_gradients_)
    Take(optimizer, true, MemoryKind::kGradients, *unit, -bytes);
}

// --- generation

void StageEmitter::Generate() {
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(s_.plan.micro_batches); ++i) {
    RunPass({PassKind::kForward, 0, i});
    Decode(i);
  }
}

// One op per new token: all layers and the head, then the tensor-parallel collectives of all layers.
void StageEmitter::Decode(std::int32_t micro_batch) {
  const Module& backbone = s_.model->Backbone();
  const auto sequences = static_cast<double>(s_.plan.micro_batch_size);
  const std::size_t module = s_.model->modules.size() - 1;
  Cursor at;
  at.pass.micro_batch = micro_batch;
  at.front = table_.forward[0][static_cast<std::size_t>(micro_batch)].last;
  const PassCost head =
      CostOfHead(sequences, backbone.hidden, static_cast<double>(backbone.head_vocabulary),
                 s_.plan.tp, context_);
  const CommId reduce = communication_.decode_reduce;
  const double count = 2.0 * backbone.Layers();
  OpInfo info = Kind(OpKind::kDecode, at);
  info.module = static_cast<std::int16_t>(module);
  for (std::int64_t token = 1; token < s_.workload.new_tokens;
       ++token) {  // the first new token comes from the prefill
    KernelCost cost = head.forward;
    const double context_tokens = s_.sample.backbone_tokens + static_cast<double>(token);
    for (const LayerRun& run : backbone.runs) {
      const KernelCost layer = CostOfDecodeLayer(run.layer, backbone.hidden, s_.plan.tp, sequences,
                                                 context_tokens, context_);
      for (int i = 0; i < run.count; ++i) cost += layer;
    }
    cost.memory_s += s_.stack->layer_overhead_s * backbone.Layers();
    CheckClock(cost.Seconds());
    const Work work{cost.Seconds(), 0, cost.flops};
    Chain(&at, waves_.AddKernel(stage_, Lane::kMain, info, std::array{work}));
    if (pricer_.Seconds(reduce) > 0)
      ChainCommunication(&at, Lane::kTp, OpKind::kTpCollective, reduce, module, count);
    for (std::size_t c = 0; c < waves_.CountOf(stage_, {}); ++c) {
      RankClass& rank_class = program_.classes[waves_.FirstClass(stage_) + c];
      ModuleShare& share = rank_class.modules[module];
      share.flops += cost.flops;
      share.forward_flops += cost.flops;
      share.forward_s += cost.Seconds() * rank_class.slowdown;
      share.tp_s += SecondsFor(pricer_, stage_, c, reduce) * count;
    }
  }
}

}  // namespace aurum
