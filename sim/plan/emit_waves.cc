#include "sim/plan/emit.h"

#include <algorithm>
#include <array>
#include <utility>

#include "sim/plan/pools.h"

// Waves of ops along the front of a pass, and what they take and return.
namespace aurum {

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
  if (s_.step == nullptr || micro_batch < 0 || !follows_load)
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

Work StageEmitter::WorkOf(const Unit& unit, Part part, Half half, const Beside& beside) {
  KernelCost cost = CostOfPart(unit, part, half);
  Work work;
  work.seconds = cost.Seconds() * unit.pieces;
  work.flops = part == Part::kAgain ? 0 : cost.flops * unit.pieces;
  work.slowed_s = s_.stack->overlap_slowdown * std::min(work.seconds, beside.other.s) +
                  s_.stack->tp_overlap_slowdown * std::min(work.seconds, beside.tensor.s);
  if (program_.executable) {
    work.kernels = List(std::move(cost.kernels));
    work.repeats = static_cast<std::uint32_t>(unit.pieces);
  }
  return work;
}

std::uint32_t StageEmitter::List(std::vector<Kernel> kernels) {
  if (!program_.executable || kernels.empty()) return kNoWork;
  // Layers are alike: the lists of the last few units are likely to come again.
  constexpr std::size_t kLookBack = 64;
  const std::size_t size = program_.kernels.size();
  for (std::size_t i = size; i-- > (size > kLookBack ? size - kLookBack : 0);) {
    if (program_.kernels[i] == kernels) return static_cast<std::uint32_t>(i);
  }
  program_.kernels.push_back(std::move(kernels));
  return static_cast<std::uint32_t>(size);
}

// What runs `beside` slows it down.
Wave StageEmitter::Compute(Cursor* at, OpKind kind, std::size_t index, Part part, Half half,
                           const Beside& beside) {
  const Unit& unit = at->chunk->units[index];
  OpInfo info = Kind(kind, *at);
  info.module = static_cast<std::int16_t>(unit.module);
  info.head = unit.head;
  Wave wave;
  Work nominal = WorkOf(unit, part, half, beside);
  CheckClock(nominal.seconds + nominal.slowed_s);
  if (by_class_.empty() || at->pass.micro_batch < 0) {
    nominal.atom = tape_.Kernel({stage_, PlaceOf(*at), index}, part, half, beside.tensor.node,
                                beside.other.node);
    wave = waves_.AddKernel(stage_, Lane::kMain, info, std::array{nominal});
  } else {
    std::vector<Work> each;
    for (const auto& loads : by_class_) {
      const StageUnits& mine = *loads[static_cast<std::size_t>(at->pass.micro_batch)];
      const bool bubbles = at->chunk == &units_.bubbles;
      const Chunk& chunk =
          bubbles ? mine.bubbles : mine.chunks[static_cast<std::size_t>(at->pass.chunk)];
      each.push_back(WorkOf(chunk.units[index], part, half, beside));
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

std::uint32_t StageEmitter::TensorsOf(const Unit& unit, const std::vector<KeptTensor>& tensors) {
  const auto [known, is_new] =
      known_tensors_.try_emplace(&tensors, static_cast<std::uint32_t>(program_.tensors.size()));
  if (is_new)
    program_.tensors.push_back({static_cast<std::int16_t>(unit.module), unit.name, tensors});
  return known->second;
}

void StageEmitter::Take(const Wave& wave, bool at_end, MemoryKind kind, const Unit& unit,
                        double bytes, const std::vector<KeptTensor>* tensors) {
  if (bytes == 0 || s_.step != nullptr) return;
  const std::uint32_t what =
      tensors == nullptr || tensors->empty() ? kNoTensors : TensorsOf(unit, *tensors);
  for (std::size_t c = 0; c < waves_.CountOf(stage_, {}); ++c) {
    program_.memory.push_back({waves_.At(wave, c), at_end,
                               waves_.FirstClass(stage_) + static_cast<std::uint32_t>(c), kind,
                               bytes, what});
  }
}

// Device memory traffic of every class, by its device.
std::vector<Work> StageEmitter::TrafficWork(double bytes) {
  std::vector<Work> each;
  const std::size_t classes = s_.pools.empty() ? 1 : waves_.CountOf(stage_, {});
  Kernel kernel;
  kernel.bytes = bytes;
  for (std::size_t c = 0; c < classes; ++c) {
    const int gpu = program_.classes[waves_.FirstClass(stage_) + c].first_gpu;
    Work work{TrafficSeconds(s_, bytes, ProfileOf(s_, gpu))};
    if (work.seconds > 0) work.kernels = List({kernel});
    if (s_.pools.empty()) work.atom = tape_.Traffic(bytes);
    CheckClock(work.seconds);
    each.push_back(work);
  }
  return each;
}

Wave StageEmitter::HostTransfer(const Cursor& at, Lane lane, const Unit& unit, double bytes,
                                const Wave& after) {
  OpInfo info = Kind(OpKind::kHostTransfer, at);
  info.module = static_cast<std::int16_t>(unit.module);
  info.bytes = bytes;
  Work work{bytes / host_bandwidth_, 0, 0};
  work.atom = tape_.Fixed(work.seconds);
  CheckClock(work.seconds);
  const Wave wave = waves_.AddKernel(stage_, lane, info, std::array{work});
  if (after.Exists()) waves_.Follow(after, wave);
  return wave;
}

}  // namespace aurum
