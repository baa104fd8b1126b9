#include "sim/memory/memory.h"

#include <algorithm>
#include <tuple>

// Peak = max over rank classes of max over moments, never a sum of maxima:
//
//   constant:  weights + gradients + optimizer + communication windows (+ KV cache)
//   moving:    activations from the end of a unit's forward to the end of its backward, more while the unit runs (work,
//              recomputation), logits from the head's forward to its backward: the events that the lowering left in the program
//   device:    allocated · (1 + fragmentation) + context
//
// Example: 1F1B keeps min(m, p − s) micro-batches alive on stage s, and that comes out of the events by itself.
// Cost: O(events log events). Korthikanti et al. 2022 for kept bytes; Rajbhandari et al. 2020 (ZeRO) for what is sharded.
namespace aurum {
namespace {

// 90 % of predictions of peak memory with a fully told plan lie within this of the measured bytes (allocator level). From the
// spread over published Megatron, SimuMax and BLOOM peaks of component models of this kind.
constexpr double kBand = 0.10;

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
      what = "backward";
      break;
    case OpKind::kDecode:
      what = "decode";
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

void Constants(const Scenario& s, const RankClass& c, ClassMemory* memory) {
  const Stack& stack = *s.stack;
  const bool training = s.workload.task == Task::kTrain;
  const double shard_weights = training && s.plan.sharding == Sharding::kFsdp ? s.plan.dp : 1;
  const double shard_optimizer = s.plan.sharding == Sharding::kDdp ? 1 : s.plan.dp;
  double largest = 0, largest_trained = 0;
  for (const ModuleShare& share : c.modules) {
    // Frozen and served weights are kept in the compute precision, whatever the stack trains in.
    Part(*memory, MemoryComponent::kWeights) +=
        share.parameters * (share.trained ? stack.weight_bytes : BytesOf(StorageType(s.plan.precision))) /
        shard_weights;
    if (share.trained) {
      Part(*memory, MemoryComponent::kGradients) +=
          share.parameters * stack.gradient_bytes / shard_weights;
      Part(*memory, MemoryComponent::kOptimizer) +=
          share.parameters * stack.optimizer_bytes / shard_optimizer;
      largest_trained = std::max(largest_trained, share.largest_unit);
      // A cached gradient of one layer that fused accumulation never reads, but keeps.
      Part(*memory, MemoryComponent::kGradients) += share.largest_unit * stack.dummy_gradient_bytes;
    }
    largest = std::max(largest, share.largest_unit);
    Part(*memory, MemoryComponent::kKvCache) += share.kv_cache_bytes;
  }
  if (training && s.plan.sharding == Sharding::kFsdp && s.plan.dp > 1) {
    // The unit that runs and the one that is gathered ahead, and one unit's whole gradients before they are reduced.
    Part(*memory, MemoryComponent::kCommunication) +=
        2 * largest * stack.parameter_exchange_bytes +
        largest_trained * stack.gradient_exchange_bytes;
  }
  if (training && s.plan.pp > 1) {
    // A receive buffer in each direction.
    const double shard = s.plan.sequence_parallel ? s.plan.tp : 1;
    Part(*memory, MemoryComponent::kCommunication) +=
        2 * BytesOf(StorageType(s.plan.precision)) * s.sample.backbone_tokens *
        static_cast<double>(s.plan.micro_batch_size) * s.model->Backbone().hidden / shard;
  }
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
    case MemoryComponent::kKvCache:
      return "kv_cache";
    case MemoryComponent::kRuntime:
      return "runtime";
  }
  return "";
}

MemoryReport MeasureMemory(const Scenario& s, const Program& program, const Outcome& outcome) {
  MemoryReport report;
  report.device_bytes = s.cluster->gpu.memory_bytes;
  report.classes.resize(program.classes.size());
  for (std::size_t c = 0; c < program.classes.size(); ++c)
    Constants(s, program.classes[c], &report.classes[c]);

  // By time; at equal times what is returned goes first, then the order of the program.
  std::vector<std::tuple<Time, bool, std::size_t>> order;
  order.reserve(program.memory.size());
  for (std::size_t i = 0; i < program.memory.size(); ++i) {
    const MemoryEvent& event = program.memory[i];
    const Time when =
        event.at_end ? outcome.schedule.end[event.op] : outcome.schedule.start[event.op];
    order.emplace_back(when, event.bytes > 0, i);
  }
  std::sort(order.begin(), order.end());
  struct Now {
    double activations = 0, logits = 0, communication = 0, peak = -1;
    OpId at = 0;
    bool any = false;
    double peak_activations = 0, peak_logits = 0, peak_communication = 0;
  };
  std::vector<Now> now(program.classes.size());
  for (const auto& [when, takes, index] : order) {
    const MemoryEvent& event = program.memory[index];
    Now& n = now[event.rank_class];
    ClassMemory& memory = report.classes[event.rank_class];
    double& value = event.kind == MemoryKind::kLogits          ? n.logits
                    : event.kind == MemoryKind::kCommunication ? n.communication
                                                               : n.activations;
    value = std::max(value + event.bytes, 0.0);
    if (memory.times.empty() || memory.times.back() != when) {
      memory.times.push_back(when);
      memory.activations.push_back(0);
      memory.logits.push_back(0);
      memory.communication.push_back(0);
    }
    memory.activations.back() = n.activations;
    memory.logits.back() = n.logits;
    memory.communication.back() = n.communication;
    const double total = n.activations + n.logits + n.communication;
    if (total > n.peak) {
      n.peak = total;
      n.at = event.op;
      n.any = true;
      n.peak_activations = n.activations;
      n.peak_logits = n.logits;
      n.peak_communication = n.communication;
      memory.peak_time = when;
    }
  }
  for (std::size_t c = 0; c < program.classes.size(); ++c) {
    ClassMemory& memory = report.classes[c];
    Part(memory, MemoryComponent::kActivations) = now[c].peak_activations;
    Part(memory, MemoryComponent::kLogits) = now[c].peak_logits;
    Part(memory, MemoryComponent::kCommunication) += now[c].peak_communication;
    for (const double bytes : memory.at_peak) memory.allocated_bytes += bytes;
    Part(memory, MemoryComponent::kRuntime) =
        s.stack->runtime_bytes + s.stack->fragmentation * memory.allocated_bytes;
    memory.peak_bytes = memory.allocated_bytes + Part(memory, MemoryComponent::kRuntime);
    memory.at = now[c].any ? Describe(s, program.info[now[c].at]) : "whole step";
    if (memory.peak_bytes > report.classes[static_cast<std::size_t>(report.heaviest)].peak_bytes)
      report.heaviest = static_cast<int>(c);
  }
  const ClassMemory& heaviest = report.Heaviest();
  report.low_bytes = heaviest.peak_bytes - kBand * heaviest.allocated_bytes;
  report.high_bytes = heaviest.peak_bytes + kBand * heaviest.allocated_bytes;
  report.fits = heaviest.peak_bytes <= report.device_bytes;
  report.at_risk = report.fits && report.high_bytes > report.device_bytes;
  return report;
}

}  // namespace aurum
