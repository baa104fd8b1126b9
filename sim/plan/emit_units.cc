#include "sim/plan/emit.h"

#include <algorithm>
#include <array>

// One unit forward and backward: kernels, the communication inside, and what is kept in between.
namespace aurum {

template <typename Kernels>
void StageEmitter::TensorParallel(Cursor* at, std::size_t index, bool collectives, bool after,
                                  Kernels kernels) {
  const Unit& unit = at->chunk->units[index];
  const UnitCommunication& of = at->said->units[index];
  if (!collectives) {
    kernels(Beside{});
  } else if (s_.plan.overlap.tensor_parallel) {
    std::vector<Wave> sides;
    Beside beside;
    for (const CommId comm : {of.tp_before, after ? of.tp_after : kNoComm}) {
      if (pricer_.Seconds(comm) <= 0) continue;
      beside.tensor = tape_.Plus(beside.tensor, Talk(comm));
      sides.push_back(
          Communicate(*at, Lane::kTp, OpKind::kTpCollective, comm, static_cast<int>(unit.module)));
      Attach(at, sides.back());
    }
    kernels(beside);
    at->sides.insert(at->sides.end(), sides.begin(), sides.end());
  } else {
    ChainCommunication(at, Lane::kTp, OpKind::kTpCollective, of.tp_before, unit.module);
    kernels(Beside{});
    if (after) ChainCommunication(at, Lane::kTp, OpKind::kTpCollective, of.tp_after, unit.module);
  }
}

// Forward kernels of a unit, or the same again before its backward, with the communication inside.
void StageEmitter::Halves(Cursor* at, std::size_t index, OpKind kind, Part part, Amount beside_all,
                          bool last_collective, Wave* begin, Wave* end) {
  const Unit& unit = at->chunk->units[index];
  const UnitCommunication& of = at->said->units[index];
  const Overlap& overlap = s_.plan.overlap;
  const Lane heads = unit.split_tokens ? Lane::kTp : Lane::kCp;
  const auto note = [&](const Wave& wave) {
    if (!begin->Exists()) {
      *begin = wave;
      Consume(wave);
    }
    *end = wave;
  };
  TensorParallel(
      at, index, unit.tp_collectives, last_collective || unit.has_second, [&](Beside beside) {
        if (part == Part::kForward)
          ChainCommunication(at, Lane::kAlign, OpKind::kAlignment, of.features, unit.module);
        ChainCommunication(at, heads, OpKind::kContextCollective, of.ulysses, unit.module);
        Wave ring;
        if (pricer_.Seconds(of.ring) > 0) {
          ring = Communicate(*at, Lane::kCp, OpKind::kContextCollective, of.ring,
                             static_cast<int>(unit.module));
          if (overlap.context_parallel) {
            Attach(at, ring);
            beside = With(beside, Talk(of.ring));
          } else {
            Chain(at, ring);
            ring = {};
          }
        }
        note(Compute(at, kind, index, part, Half::kFirst, With(beside, beside_all)));
        if (ring.Exists()) at->sides.push_back(ring);
        ChainCommunication(at, heads, OpKind::kContextCollective, of.ulysses, unit.module);
      });
  if (!unit.has_second) return;
  TensorParallel(at, index, unit.tp_collectives_second, last_collective, [&](Beside beside) {
    const bool mixture = unit.shared.forward.Seconds() > 0;
    Wave dispatch;
    if (mixture && pricer_.Seconds(of.dispatch) > 0 && overlap.expert_parallel) {
      dispatch = Communicate(*at, Lane::kEp, OpKind::kExpertCollective, of.dispatch,
                             static_cast<int>(unit.module));
      Attach(at, dispatch);
    }
    if (mixture) {
      note(Compute(at, kind, index, part, Half::kShared,
                   With(beside, dispatch.Exists() ? Talk(of.dispatch) : Amount{})));
      if (dispatch.Exists()) {
        at->sides.push_back(dispatch);
      } else {
        ChainCommunication(at, Lane::kEp, OpKind::kExpertCollective, of.dispatch, unit.module);
      }
    }
    ChainCommunication(at, Lane::kExpertTp, OpKind::kExpertCollective, of.expert_gather,
                       unit.module);
    note(Compute(at, kind, index, part, Half::kSecond, With(beside, beside_all)));
    ChainCommunication(at, Lane::kExpertTp, OpKind::kExpertCollective, of.expert_reduce,
                       unit.module);
    ChainCommunication(at, Lane::kEp, OpKind::kExpertCollective, of.combine, unit.module);
  });
}

// The way back: halves in reverse; the gradient of a gather is a reduction and the other way round.
void StageEmitter::HalvesBackward(Cursor* at, std::size_t index, Part part, Amount beside_all,
                                  Wave* begin, Wave* end) {
  const Unit& unit = at->chunk->units[index];
  const UnitCommunication& of = at->said->units[index];
  const Overlap& overlap = s_.plan.overlap;
  const Lane heads = unit.split_tokens ? Lane::kTp : Lane::kCp;
  const auto note = [&](const Wave& wave) {
    if (!begin->Exists()) {
      *begin = wave;
      Consume(wave);
    }
    *end = wave;
  };
  if (unit.has_second) {
    TensorParallel(at, index, unit.tp_collectives_second, true, [&](Beside beside) {
      ChainCommunication(at, Lane::kEp, OpKind::kExpertCollective, of.combine, unit.module);
      ChainCommunication(at, Lane::kExpertTp, OpKind::kExpertCollective, of.expert_gather,
                         unit.module);
      note(Compute(at, OpKind::kBackward, index, part, Half::kSecond, With(beside, beside_all)));
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
                     With(beside, dispatch.Exists() ? Talk(of.dispatch) : Amount{})));
      }
      if (dispatch.Exists()) at->sides.push_back(dispatch);
    });
  }
  TensorParallel(at, index, unit.tp_collectives, true, [&](Beside beside) {
    ChainCommunication(at, heads, OpKind::kContextCollective, of.ulysses, unit.module);
    Wave ring;
    if (pricer_.Seconds(of.ring_backward) > 0) {
      ring = Communicate(*at, Lane::kCp, OpKind::kContextCollective, of.ring_backward,
                         static_cast<int>(unit.module));
      if (overlap.context_parallel) {
        Attach(at, ring);
        beside = With(beside, Talk(of.ring_backward));
      } else {
        Chain(at, ring);
        ring = {};
      }
    }
    note(Compute(at, OpKind::kBackward, index, part, Half::kFirst, With(beside, beside_all)));
    if (ring.Exists()) at->sides.push_back(ring);
    ChainCommunication(at, heads, OpKind::kContextCollective, of.ulysses, unit.module);
  });
}

void StageEmitter::ForwardUnit(Cursor* at, std::size_t index) {
  const Unit& unit = at->chunk->units[index];
  const UnitCommunication& of = at->said->units[index];
  CrossBorder(unit);
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
  Halves(at, index, OpKind::kForward, Part::kForward, tape_.Over(BesideForward(*at, index), parts),
         /*last_collective=*/true, &begin, &end);
  if (gathered != nullptr) waves_.Follow(*gathered, begin);
  NoteModules(*at, index, begin, end);

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
  CrossBorder(unit);
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
  const Amount beside = tape_.Over(BesideBackward(*at, index), parts);
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
        Halves(at, i, OpKind::kBackward, Part::kAgain, i == index ? beside : Amount{}, i != index,
               &from, &to);
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
                              Beside{{}, BesideBackward(*at, index)});
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
  const bool reduces = pricer_.Seconds(of.reduce) > 0 || pricer_.Seconds(of.reduce_tokens) > 0 ||
                       pricer_.Seconds(of.reduce_experts) > 0;
  if (!reduces) return;
  const bool last = at->pass.micro_batch == EndsOf(*at).last;
  if (Gathers()) {
    if (!ReducesOnce() || IsFirstBackward(*at, unit))
      Take(made, false, MemoryKind::kCommunication, unit,
           trained * s_.stack->gradient_exchange_bytes);
    if (!ReducesOnce() || last) waiting_ = Waiting{&unit, &of, made};
  } else if (last || ReducesEvery()) {
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

}  // namespace aurum
