#include "sim/memory/memory.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>
#include <tuple>

#include "sim/core/units.h"
#include "sim/plan/pools.h"

// Peak = max over rank classes of max over moments, never a sum of maxima:
//
//   lasting:   weights, optimizer states, gradients in buffers that persist, windows and workspaces
//              that stay, KV cache (state.cc)
//   moving:    the takes and returns that the lowering left in the program, at the times when their
//              ops ran: kept activations, logits, gathered parameters, gradients, recomputation
//   loading:   before the step, the whole checkpoint beside the GPU's share, where a stack loads so
//   reserved:  allocated + fragmentation · moving: a caching allocator wastes what changes size
//   device:    reserved + context + communicators
//
// Example: 1F1B keeps min(m, p − s) micro-batches alive on stage s, and that comes out of the events
// by itself; so does what interleaving adds, and what offload takes away.
// Cost: O(events log events). Korthikanti et al. 2022 for kept bytes; Rajbhandari et al. 2020 (ZeRO)
// for what is sharded; the memory study for moments: peak over moments against the sum of maxima
// halves the error of fine-tuning rows.
namespace aurum {
namespace {

double& Part(ClassMemory& memory, MemoryComponent component) {
  return memory.at_peak[static_cast<std::size_t>(component)];
}

std::string Describe(const Scenario& scenario, const OpInfo& info) {
  std::string what;
  switch (info.kind) {
    case OpKind::kForward:
      what = "forward";
      break;
    case OpKind::kBackward:
    case OpKind::kWeightGradient:
      what = "backward";
      break;
    case OpKind::kDecode:
      what = "decode";
      break;
    case OpKind::kOptimizer:
      what = "optimizer step";
      break;
    case OpKind::kParameterGather:
      what = "parameter gather";
      break;
    case OpKind::kGradientReduce:
      what = "gradient reduction";
      break;
    default:
      what = "step";
      break;
  }
  if (info.micro_batch >= 0) what += " of micro-batch " + std::to_string(info.micro_batch);
  if (info.module >= 0)
    what +=
        ", " +
        (info.head ? "head" : scenario.model->modules[static_cast<std::size_t>(info.module)].name);
  return what;
}

constexpr int kMoving = 5;  // kinds of MemoryKind
constexpr std::array<MemoryComponent, kMoving> kComponentOf = {
    MemoryComponent::kActivations, MemoryComponent::kLogits, MemoryComponent::kCommunication,
    MemoryComponent::kGradients, MemoryComponent::kWorkspace};

std::vector<double>& SeriesOf(ClassMemory& memory, int kind) {
  switch (static_cast<MemoryKind>(kind)) {
    case MemoryKind::kActivations:
      return memory.activations;
    case MemoryKind::kLogits:
      return memory.logits;
    case MemoryKind::kCommunication:
      return memory.communication;
    case MemoryKind::kGradients:
      return memory.gradients;
    case MemoryKind::kWorkspace:
      return memory.workspace;
  }
  return memory.activations;
}

// By time; at equal times what is returned goes first, then the order of the program.
struct Placed {
  // Twice the time in picoseconds, and one more for what takes: returns go first. A step is far from
  // half of what 64 bits hold (kLongestStep).
  std::int64_t key = 0;
  std::uint32_t index = 0;  // of Program::memory
  Time when() const { return Time{key >> 1}; }
};
std::vector<Placed> InOrder(const Program& program, const Outcome& outcome) {
  std::vector<Placed> order;
  order.reserve(program.memory.size());
  for (std::size_t i = 0; i < program.memory.size(); ++i) {
    const MemoryEvent& event = program.memory[i];
    const Time when =
        event.at_end ? outcome.schedule.end[event.op] : outcome.schedule.start[event.op];
    order.push_back({2 * when.ps + (event.bytes > 0 ? 1 : 0), static_cast<std::uint32_t>(i)});
  }
  std::sort(order.begin(), order.end(), [](const Placed& a, const Placed& b) {
    return a.key != b.key ? a.key < b.key : a.index < b.index;
  });
  return order;
}

struct Moving {
  std::array<double, kMoving> now{}, at_peak{};
  double peak = -1;
  std::size_t peak_place = 0;  // in the order of events, one past the event
  OpId peak_op = 0;
};

// What is live after the first `place` events of a class, by name.
std::vector<PeakTensor> Largest(const Scenario& s, const Program& program,
                                const std::vector<Placed>& order, std::uint32_t rank_class,
                                std::size_t place) {
  std::vector<double> live(program.tensors.size(), 0.0);
  for (std::size_t i = 0; i < place; ++i) {
    const MemoryEvent& event = program.memory[order[i].index];
    if (event.rank_class == rank_class && event.tensors != kNoTensors)
      live[event.tensors] += event.bytes;
  }
  std::map<std::tuple<std::int16_t, std::string, std::string>, PeakTensor> by_name;
  for (std::size_t i = 0; i < live.size(); ++i) {
    const TensorSet& set = program.tensors[i];
    double one = 0;
    for (const KeptTensor& tensor : set.tensors) one += tensor.bytes;
    if (one <= 0 || live[i] < 0.5) continue;
    const double count = live[i] / one;
    for (const KeptTensor& tensor : set.tensors) {
      PeakTensor& sum = by_name[{set.module, set.unit, tensor.name}];
      sum.name = tensor.name;
      sum.unit = set.unit;
      sum.module =
          set.module < 0 ? "" : s.model->modules[static_cast<std::size_t>(set.module)].name;
      sum.count += count;
      sum.bytes += count * tensor.bytes;
    }
  }
  std::vector<PeakTensor> largest;
  for (auto& [key, tensor] : by_name) largest.push_back(std::move(tensor));
  std::stable_sort(largest.begin(), largest.end(),
                   [](const PeakTensor& a, const PeakTensor& b) { return a.bytes > b.bytes; });
  if (largest.size() > 10) largest.resize(10);
  return largest;
}

bool HasExperts(const Model& model) {
  for (const LayerRun& run : model.Backbone().runs) {
    if (run.layer.mlp.experts > 0) return true;
  }
  return false;
}

// What a GPU shows beyond what its allocator holds: context, communicators, and what nobody placed.
double BesideReserved(const Scenario& s, const LastingMemory& lasting) {
  const Stack& stack = *s.stack;
  return stack.runtime_bytes + (s.cluster->GpuCount() > 1 ? stack.communicator_bytes : 0) +
         stack.state_margin * (lasting.weights + lasting.gradients + lasting.optimizer);
}

double FragmentationShare(const Scenario& s) {
  return HasExperts(*s.model) ? s.stack->expert_fragmentation : s.stack->fragmentation;
}

void FillClass(const Scenario& s, const LastingMemory& lasting, const Moving& moving,
               ClassMemory* memory) {
  const Stack& stack = *s.stack;
  ClassMemory& m = *memory;
  const bool loading =
      lasting.loading > 0 && lasting.loading > lasting.weights + lasting.gradients +
                                                   lasting.optimizer + lasting.communication +
                                                   lasting.workspace + std::max(moving.peak, 0.0);
  m.loading_bytes = lasting.loading;
  m.host_bytes = lasting.host;
  double moves = 0;
  if (loading) {
    m.at = "loading";
    m.peak_time = Time{};
    Part(m, MemoryComponent::kWorkspace) = stack.workspace_bytes;
    Part(m, MemoryComponent::kWeights) = lasting.loading - stack.workspace_bytes;
  } else {
    Part(m, MemoryComponent::kWeights) = lasting.weights;
    Part(m, MemoryComponent::kGradients) = lasting.gradients;
    Part(m, MemoryComponent::kOptimizer) = lasting.optimizer;
    Part(m, MemoryComponent::kCommunication) = lasting.communication;
    Part(m, MemoryComponent::kWorkspace) = lasting.workspace;
    Part(m, MemoryComponent::kKvCache) = lasting.kv_cache;
    for (int kind = 0; kind < kMoving; ++kind) {
      const double bytes = moving.at_peak[static_cast<std::size_t>(kind)];
      Part(m, kComponentOf[static_cast<std::size_t>(kind)]) += bytes;
      moves += bytes;
    }
  }
  for (const double bytes : m.at_peak) m.allocated_bytes += bytes;
  m.reserved_bytes = m.allocated_bytes + FragmentationShare(s) * moves;
  m.peak_bytes = m.reserved_bytes + BesideReserved(s, lasting);
  Part(m, MemoryComponent::kRuntime) = m.peak_bytes - m.allocated_bytes;
}

// What nobody said, and what it may add to the peak.
double Untold(const Scenario& s, const ClassMemory& heaviest, std::vector<std::string>* reasons) {
  double more = 0;
  if (s.workload.task == Task::kTrain && s.plan.expert_imbalance == 1 && !s.plan.routing) {
    double experts = 0;
    for (const PeakTensor& tensor : heaviest.largest) {
      if (tensor.name.starts_with("experts'")) experts += tensor.bytes;
    }
    if (experts > 0) {
      more += 0.5 * experts;
      reasons->emplace_back(
          "routing is taken as even; the busiest GPU of public runs has about 1.5 times its share "
          "of tokens (expert_imbalance)");
    }
  }
  return more;
}

}  // namespace

std::string MemoryComponentName(MemoryComponent component) {
  switch (component) {
    case MemoryComponent::kWeights:
      return "weights";
    case MemoryComponent::kGradients:
      return "gradients";
    case MemoryComponent::kOptimizer:
      return "optimizer";
    case MemoryComponent::kActivations:
      return "activations";
    case MemoryComponent::kLogits:
      return "logits";
    case MemoryComponent::kCommunication:
      return "communication";
    case MemoryComponent::kWorkspace:
      return "workspace";
    case MemoryComponent::kKvCache:
      return "kv_cache";
    case MemoryComponent::kRuntime:
      return "runtime";
  }
  return "";
}

std::string FitName(Fit fit) {
  switch (fit) {
    case Fit::kFits:
      return "fits";
    case Fit::kAtRisk:
      return "at risk";
    case Fit::kDoesNotFit:
      return "does not fit";
  }
  return "";
}

double UsableBytes(double card_bytes) {
  const double kept = std::clamp(0.25 * kGiB + 0.007 * card_bytes, 0.5 * kGiB, kGiB);
  return std::max(card_bytes - kept, 0.0);
}

double PeakOf(const Scenario& s, const LastingMemory& lasting, double moving_bytes) {
  return lasting.weights + lasting.gradients + lasting.optimizer + lasting.communication +
         lasting.workspace + lasting.kv_cache + moving_bytes * (1 + FragmentationShare(s)) +
         BesideReserved(s, lasting);
}

MemoryReport MeasureMemory(const Scenario& s, const Program& program, const Outcome& outcome) {
  MemoryReport report;
  report.device_bytes = s.cluster->gpu.memory_bytes;
  report.usable_bytes = UsableBytes(report.device_bytes);
  report.classes.resize(program.classes.size());

  const auto order = InOrder(program, outcome);
  std::vector<Moving> moving(program.classes.size());
  for (std::size_t place = 0; place < order.size(); ++place) {
    const Time when = order[place].when();
    const MemoryEvent& event = program.memory[order[place].index];
    Moving& m = moving[event.rank_class];
    ClassMemory& memory = report.classes[event.rank_class];
    m.now[static_cast<std::size_t>(event.kind)] += event.bytes;
    if (memory.times.empty() || memory.times.back() != when) {
      memory.times.push_back(when);
      for (int kind = 0; kind < kMoving; ++kind) SeriesOf(memory, kind).push_back(0);
    }
    double total = 0;
    for (int kind = 0; kind < kMoving; ++kind) {
      // Sums of takes and returns round; what is there is never less than nothing.
      const double bytes = std::max(m.now[static_cast<std::size_t>(kind)], 0.0);
      SeriesOf(memory, kind).back() = bytes;
      total += bytes;
    }
    if (total > m.peak) {
      m.peak = total;
      m.peak_place = place + 1;
      m.at_peak = m.now;
      memory.peak_time = when;
      m.peak_op = event.op;
    }
  }

  for (std::size_t c = 0; c < program.classes.size(); ++c) {
    ClassMemory& memory = report.classes[c];
    Moving& m = moving[c];
    for (double& bytes : m.at_peak) bytes = std::max(bytes, 0.0);
    for (const double bytes : m.now) memory.left_bytes += bytes;
    if (std::abs(memory.left_bytes) < 1) memory.left_bytes = 0;  // sums of doubles round
    memory.at = m.peak < 0 ? "whole step" : Describe(s, program.info[m.peak_op]);
    FillClass(s, LastingOf(s, program.classes[c]), m, &memory);
    memory.largest = Largest(s, program, order, static_cast<std::uint32_t>(c), m.peak_place);
    const double gpus = s.cluster->gpus_per_node;
    report.host_bytes_per_node = std::max(report.host_bytes_per_node, memory.host_bytes * gpus);
    // The fullest device, where devices differ.
    const auto fullness = [&](std::size_t of) {
      return report.classes[of].peak_bytes / DeviceMemory(s, program.classes[of].first_gpu);
    };
    if (fullness(c) > fullness(static_cast<std::size_t>(report.heaviest)))
      report.heaviest = static_cast<int>(c);
  }

  const ClassMemory& heaviest = report.Heaviest();
  report.device_bytes =
      DeviceMemory(s, program.classes[static_cast<std::size_t>(report.heaviest)].first_gpu);
  report.usable_bytes = UsableBytes(report.device_bytes);
  const double band = s.stack->band_share * heaviest.allocated_bytes;
  const double more = Untold(s, heaviest, &report.untold);
  report.low_bytes = heaviest.peak_bytes - band;
  report.high_bytes = heaviest.peak_bytes + band + more;
  report.reserved_low_bytes = heaviest.reserved_bytes - band;
  report.reserved_high_bytes = heaviest.reserved_bytes + band + more;
  report.over_bytes = std::max(heaviest.peak_bytes - report.usable_bytes, 0.0);
  if (heaviest.peak_bytes > kFailsAbove * report.usable_bytes) {
    report.verdict = Fit::kDoesNotFit;
  } else if (heaviest.peak_bytes >= kFitsBelow * report.usable_bytes) {
    report.verdict = Fit::kAtRisk;
  }
  report.fits = report.verdict != Fit::kDoesNotFit;
  report.at_risk = report.verdict == Fit::kAtRisk;
  for (int i = 0; i < kMemoryComponents; ++i) {
    if (heaviest.at_peak[static_cast<std::size_t>(i)] >
        heaviest.at_peak[static_cast<std::size_t>(report.largest)])
      report.largest = static_cast<MemoryComponent>(i);
  }
  return report;
}

}  // namespace aurum
