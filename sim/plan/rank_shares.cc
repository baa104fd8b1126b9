#include "sim/plan/rank_shares.h"

#include <algorithm>
#include <string>

#include "sim/plan/gradient_compression.h"
#include "sim/plan/pools.h"

namespace aurum {
namespace {

std::string NameOf(const StageClasses& classes, std::size_t stage, std::size_t c) {
  std::string name = "stage " + std::to_string(stage);
  if (classes.rank.size() == 1) return name;
  if (classes.count[c] > 1) {
    return name + ", " + std::to_string(classes.count[c]) + " GPUs like " +
           std::to_string(classes.rank[c]);
  }
  return name + ", GPU " + std::to_string(classes.rank[c]);
}

// How many GPUs of a replica do the same work of a unit: a replicated encoder's, and on a tensor-parallel
// module what is not cut.
double RepeatsOf(const Scenario& s, const Unit& unit, std::size_t stage) {
  const StageLayout layout = LayoutOf(s.plan, stage);
  const bool cut = unit.layer != nullptr || unit.head;
  if (unit.module + 1 == s.model->modules.size()) return cut ? 1 : layout.tp;
  const ModulePlan& part = s.plan.modules[unit.module];
  if (part.placement == Placement::kColocatedDp) return 1;
  return static_cast<double>(layout.tp) * layout.cp / (cut || unit.split_tokens ? part.tp : 1);
}

// "vision, connector, backbone layers 0-15"
std::string LayersOf(const Scenario& s, const StageUnits& stage) {
  std::string text;
  const auto name = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  const std::size_t backbone = s.model->modules.size() - 1;
  std::vector<bool> named(backbone, false);
  const auto modules = [&](const Chunk& chunk) {
    for (const Unit& unit : chunk.units) {
      if (unit.module == backbone || named[unit.module]) continue;
      named[unit.module] = true;
      name(s.model->modules[unit.module].name);
    }
  };
  for (const Chunk& chunk : stage.chunks) modules(chunk);
  modules(stage.bubbles);
  for (const Chunk& chunk : stage.chunks) {
    if (chunk.last_layer < chunk.first_layer) continue;
    name(s.model->Backbone().name + " layers " + std::to_string(chunk.first_layer) + "-" +
         std::to_string(chunk.last_layer));
  }
  return text;
}

}  // namespace

double SecondsFor(const PlanPricer& pricer, std::size_t stage, std::size_t c, CommId comm) {
  if (comm == kNoComm) return 0;
  const auto kind = static_cast<std::size_t>(pricer.Groups(comm));
  return pricer.Price(comm, pricer.Classes(stage).group_of[kind][c]).seconds;
}

namespace {

// Ranks among which the optimizer's states are sharded.
struct Shards {
  double dense = 1, experts = 1;
};
Shards ShardsOf(const Scenario& s, std::size_t stage) {
  const StageLayout layout = LayoutOf(s.plan, stage);
  Shards shards;
  if (s.plan.sharding == Sharding::kDdp) return shards;
  shards.dense = s.plan.sharding == Sharding::kHsdp ? layout.shard : layout.cp * layout.dp;
  shards.experts = layout.ExpertsApart()
                       ? static_cast<double>(layout.Width()) / (layout.expert_tp * layout.ep)
                       : shards.dense;
  return shards;
}

}  // namespace

double OptimizedParameters(const Scenario& s, const StageUnits& stage, std::size_t number) {
  if (s.workload.task != Task::kTrain) return 0;
  const Shards shards = ShardsOf(s, number);
  double optimized = 0;
  const auto add = [&](const Chunk& chunk) {
    for (const Unit& unit : chunk.units) {
      const UnitParameters& p = unit.parameters;
      optimized += ((unit.trained ? p.dense : 0) + p.adapters) / shards.dense;
      if (unit.trained) optimized += p.experts / shards.experts;
    }
  };
  for (const Chunk& chunk : stage.chunks) add(chunk);
  add(stage.bubbles);
  return optimized;
}

Kernel OptimizerKernel(const Scenario& s, const StageUnits& stage, std::size_t number) {
  Kernel kernel;
  const double parameters = OptimizedParameters(s, stage, number) * (1 - s.plan.offload.optimizer);
  kernel.bytes = parameters * s.stack->optimizer_traffic_bytes;
  // fp16 scales its loss: before the step a pass over all gradients divides them, in place, and looks
  // for infinities (Micikevicius et al. 2018, section 3.2; torch's GradScaler).
  if (s.plan.precision == Precision::kFp16)
    kernel.bytes += 2 * parameters * s.stack->gradient_bytes;
  return kernel;
}

double TrafficSeconds(const Scenario& s, double bytes, const Profile& profile) {
  if (bytes <= 0) return 0;
  Kernel kernel;
  kernel.bytes = bytes;
  return KernelSeconds(kernel, profile, *s.stack) / s.what_if.memory_speedup;
}

double OptimizerSeconds(const Scenario& s, const StageUnits& stage, std::size_t number,
                        const Profile& profile) {
  return TrafficSeconds(s, OptimizerKernel(s, stage, number).bytes, profile);
}

SparseTraffic SparseTrafficOf(const Scenario& s, const PlanPricer& pricer, std::size_t stage,
                              const Unit& unit, const UnitCommunication& of) {
  SparseTraffic traffic;
  const GradientCompression& c = s.plan.modules[unit.module].compression;
  if (!c.Any()) return traffic;
  for (const CommId comm : {of.reduce, of.reduce_experts}) {
    if (pricer.Seconds(comm) <= 0) continue;
    const auto ranks = static_cast<int>(GroupSize(s.plan, stage, pricer.Groups(comm)));
    const double entries = EntriesOf(c, pricer.Bytes(comm), ranks, *s.stack);
    traffic.selection += SelectionTraffic(c, entries);
    traffic.merge += MergeTraffic(c, entries, ranks);
  }
  return traffic;
}

RankClass MakeRankClass(const Scenario& s, const StageUnits& st, std::size_t number,
                        std::size_t index, const PlanPricer& pricer,
                        const StageCommunication& communication) {
  const Plan& plan = s.plan;
  const StageClasses& classes = pricer.Classes(number);
  RankClass c;
  c.name = NameOf(classes, number, index);
  c.stage = static_cast<int>(number);
  c.count = classes.count[index];
  c.first_gpu = classes.rank[index];
  c.consecutive = classes.rank.size() == 1 || c.count == 1;
  if (!s.faults.gpu_slowdown.empty())
    c.slowdown = s.faults.gpu_slowdown[static_cast<std::size_t>(c.first_gpu)];
  c.modules.resize(s.model->modules.size());
  c.layers = LayersOf(s, st);

  const auto seconds_for = [&](CommId comm) { return SecondsFor(pricer, number, index, comm); };
  const auto bytes_of = [&](CommId comm) { return comm == kNoComm ? 0 : pricer.Bytes(comm); };
  const bool fsdp = plan.sharding == Sharding::kFsdp || plan.sharding == Sharding::kHsdp;
  const auto rounds = static_cast<double>(plan.micro_batches);
  const auto add = [&](const Chunk& chunk, const ChunkCommunication& said, double share_of_batch) {
    for (std::size_t i = 0; i < chunk.units.size(); ++i) {
      const Unit& unit = chunk.units[i];
      const UnitCommunication& of = said.units[i];
      ModuleShare& share = c.modules[unit.module];
      const UnitParameters& p = unit.parameters;
      share.parameters += p.dense;
      share.expert_parameters += p.experts;
      share.adapter_parameters += p.adapters;
      share.quantised_parameters += p.quantised;
      share.embedding_parameters += p.embedding;
      share.largest_unit = std::max(share.largest_unit, unit.AllParameters());
      if (unit.layer != nullptr)
        share.largest_layer = std::max(share.largest_layer, unit.AllParameters());
      share.largest_matrix = std::max(share.largest_matrix, p.largest_matrix);
      share.trained = unit.trained;
      // Of one micro-batch of the backbone.
      const double times = share_of_batch * unit.pieces / unit.every;
      const double tp_after = seconds_for(of.tp_after);
      const double half = seconds_for(of.tp_before) + tp_after;
      double tp_pass = half * ((unit.tp_collectives ? 1 : 0) +
                               (unit.has_second && unit.tp_collectives_second ? 1 : 0));
      if (unit.split_tokens) tp_pass += 2 * seconds_for(of.ulysses);
      const KernelCost forward = unit.Forward();
      share.forward_s += forward.Seconds() * times;
      share.forward_flops += forward.flops * times;
      share.flops += forward.flops * times;
      const double useful = times / RepeatsOf(s, unit, number);
      share.model_flops += forward.flops * useful;
      share.tp_s += tp_pass * times;
      share.kv_cache_bytes +=
          unit.kv_cache_bytes *
          (s.sample.backbone_tokens + static_cast<double>(s.workload.new_tokens)) *
          static_cast<double>(plan.micro_batch_size) *
          (unit.module + 1 == s.model->modules.size() ? 1 : 0) *
          (s.workload.task == Task::kGenerate ? 1 : 0);
      if (unit.backward) {
        const KernelCost gradient = unit.Backward();
        const KernelCost again = unit.first.again + unit.shared.again + unit.second.again;
        share.backward_s += (gradient.Seconds() + again.Seconds()) * times;
        share.flops += gradient.flops * times;
        share.model_flops += gradient.flops * useful;
        share.tp_s += tp_pass * times;
        if (unit.recomputed) {
          share.backward_s += forward.Seconds() * times;
          share.tp_s += (tp_pass - (unit.tp_collectives_second ? tp_after : 0)) * times;
        }
      }
      // Passes of this unit in a step; its pieces reduce and gather together.
      const double passes = rounds * share_of_batch / unit.every;
      const bool once = fsdp && plan.StageCount() > 1;  // emit.h, ReducesOnce
      const bool every = plan.sharding == Sharding::kZero2 || plan.reduce_every_micro_batch;
      const double reduced = (fsdp && !once) || every ? passes : 1;
      for (const CommId comm :
           {of.reduce, of.reduce_replicas, of.reduce_tokens, of.reduce_experts}) {
        share.gradient_bytes += bytes_of(comm) * reduced;
        share.gradient_s += seconds_for(comm) * reduced;
      }
      const bool twice = unit.backward && plan.reshard_after_forward;
      const bool stays = once && !plan.reshard_after_forward && unit.backward;
      const double gathers = fsdp && !stays ? passes * (twice ? 2 : 1) : 1;
      share.gather_s += (seconds_for(of.gather) + seconds_for(of.gather_experts)) * gathers;
    }
  };
  for (std::size_t k = 0; k < st.chunks.size(); ++k)
    add(st.chunks[k], communication.chunks[k], plan.schedule == ScheduleKind::kDualPipe ? 0.5 : 1);
  add(st.bubbles, communication.bubbles, 1.0 / plan.pp);
  double sparse_traffic = 0;
  const auto add_sparse = [&](const Chunk& chunk, const ChunkCommunication& said) {
    for (std::size_t i = 0; i < chunk.units.size(); ++i) {
      const SparseTraffic traffic =
          SparseTrafficOf(s, pricer, number, chunk.units[i], said.units[i]);
      sparse_traffic += traffic.selection + traffic.merge;
    }
  };
  for (std::size_t k = 0; k < st.chunks.size(); ++k)
    add_sparse(st.chunks[k], communication.chunks[k]);
  add_sparse(st.bubbles, communication.bubbles);
  const Profile& profile = ProfileOf(s, c.first_gpu);
  c.optimizer_s =
      (OptimizerSeconds(s, st, number, profile) + TrafficSeconds(s, sparse_traffic, profile)) *
      c.slowdown;
  for (ModuleShare& share : c.modules) {
    share.forward_s *= c.slowdown;
    share.backward_s *= c.slowdown;
  }
  for (const ChunkCommunication& chunk : communication.chunks)
    c.transfer_s += 2 * seconds_for(chunk.send_forward);
  return c;
}

}  // namespace aurum
