#include "sim/plan/emit.h"

#include <algorithm>
#include <array>

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
// The class is in five files: this one walks passes, emit_units.cc runs a unit, emit_waves.cc puts ops and
// memory events, emit_sharding.cc is data parallelism and the optimizer, emit_decode.cc generation.
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
      total_s_(*total_s),
      tape_(in.tape) {
  const auto micro = static_cast<std::size_t>(s_.plan.micro_batches);
  table_.forward.assign(units_.chunks.size(), std::vector<Marks>(micro));
  table_.backward = table_.forward;
  table_.encoder_forward.resize(micro);
  table_.encoder_backward.resize(micro);
  fusion_.assign(units_.chunks.size(), std::vector<Fusion>(micro));
  made_.resize(units_.chunks.size() + 1);
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

// An encoder with a larger micro-batch runs forward before the first of the backbone's that it feeds,
// and backward after the last.
bool StageEmitter::Runs(const Unit& unit, int micro_batch, bool backward) const {
  if (unit.every == 1) return true;
  return backward ? micro_batch % unit.every == unit.every - 1 : micro_batch % unit.every == 0;
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
      const Wave before = at->front;
      ChainCommunication(at, Lane::kAlign, OpKind::kAlignment, at->said->rebalance, 0);
      ChainCommunication(at, Lane::kAlign, OpKind::kAlignment, at->said->alignment.forward, 0);
      if (at->front.first != before.first) at->moved = at->front;
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

// Where the alignment of modalities is measured (alignment.h): which kernels make tokens, and which
// take them.
void StageEmitter::NoteModules(const Cursor& at, std::size_t index, const Wave& begin,
                               const Wave& end) {
  const Unit& unit = at.chunk->units[index];
  const auto micro = static_cast<std::size_t>(at.pass.micro_batch);
  const std::size_t backbone = s_.model->modules.size() - 1;
  if (unit.module == backbone) {
    if (at.chunk->meets && index == at.chunk->fusion)
      fusion_[static_cast<std::size_t>(at.pass.chunk)][micro] = {begin, at.moved};
    return;
  }
  std::vector<std::vector<Made>>& here = made_[PlaceOf(at)];
  if (here.empty()) here.resize(backbone);
  if (here[unit.module].empty()) here[unit.module].resize(table_.encoder_forward.size());
  Made& made = here[unit.module][micro];
  if (!made.first.Exists()) made.first = begin;
  made.last = end;
}

const StageEmitter::Made* StageEmitter::MadeIn(std::size_t chunk, std::size_t module,
                                               std::size_t micro_batch) const {
  const std::vector<std::vector<Made>>& here = made_[chunk];
  if (here.empty() || here[module].empty()) return nullptr;
  const std::int64_t every =
      std::max<std::int64_t>(1, s_.plan.EncoderMicroBatch(module) / s_.plan.micro_batch_size);
  const Made& made = here[module][micro_batch - micro_batch % static_cast<std::size_t>(every)];
  return made.last.Exists() ? &made : nullptr;
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

Work StageEmitter::HostWork(double seconds) {
  Work work{seconds};
  work.atom = tape_.Fixed(seconds);
  if (seconds > 0) {
    Kernel kernel;
    kernel.kind = KernelKind::kHost;
    kernel.host_s = seconds;
    work.kernels = List({kernel});
  }
  CheckClock(seconds);
  return work;
}

// Every stage: the first has no inputs, the last no labels, and those between would wait for them.
void StageEmitter::WaitForData(const Cursor& host) {
  if (s_.data_stall_s <= 0) return;
  waves_.AddKernel(stage_, Lane::kMain, Kind(OpKind::kHost, host),
                   std::array{HostWork(s_.data_stall_s)});
}

void StageEmitter::Run(const std::vector<Pass>& passes) {
  Cursor host;
  host.pass.micro_batch = -1;
  const Work work = HostWork(s_.stack->step_overhead_s);
  waves_.AddKernel(stage_, Lane::kMain, Kind(OpKind::kHost, host), std::array{work});
  WaitForData(host);
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

}  // namespace aurum
