#include "sim/plan/rank_shares.h"

#include <algorithm>
#include <string>

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

}  // namespace

double SecondsFor(const PlanPricer& pricer, std::size_t stage, std::size_t c, CommId comm) {
  if (comm == kNoComm) return 0;
  const auto kind = static_cast<std::size_t>(pricer.Groups(comm));
  return pricer.Price(comm, pricer.Classes(stage).group_of[kind][c]).seconds;
}

double OptimizerSeconds(const Scenario& s, const Stage& stage) {
  if (s.workload.task != Task::kTrain) return 0;
  double optimized = 0;
  for (const Unit& unit : stage.units) {
    if (unit.trained) optimized += unit.parameters;
  }
  if (optimized <= 0) return 0;
  const double shards = s.plan.sharding == Sharding::kDdp ? 1 : s.plan.dp;
  return s.profile->MemoryBoundSeconds(optimized / shards * s.stack->optimizer_traffic_bytes) *
         s.stack->memory_bound_factor;
}

RankClass MakeRankClass(const Scenario& s, const Stage& st, std::size_t number, std::size_t index,
                        const PlanPricer& pricer, const StageCommunication& communication) {
  const bool training = s.workload.task == Task::kTrain;
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

  if (number == 0) {
    for (std::size_t i = 0; i + 1 < s.model->modules.size(); ++i)
      c.layers += s.model->modules[i].name + ", ";
  }
  c.layers += s.model->Backbone().name + " layers " + std::to_string(st.first_layer) + "-" +
              std::to_string(st.last_layer);
  const auto seconds_for = [&](CommId comm) { return SecondsFor(pricer, number, index, comm); };
  for (std::size_t i = 0; i < st.units.size(); ++i) {
    const Unit& unit = st.units[i];
    ModuleShare& share = c.modules[unit.module];
    share.parameters += unit.parameters;
    share.largest_unit = std::max(share.largest_unit, unit.parameters);
    share.trained = unit.trained;
    const TpCollectives& tp = communication.tp[i];
    const DpCollectives& dp = communication.dp[i];
    const double halves = unit.has_second ? 2 : 1;
    const double tp_after = seconds_for(tp.after);
    const double tp_pass = halves * (seconds_for(tp.before) + tp_after);
    share.forward_s += unit.first.forward.Seconds() + unit.second.forward.Seconds();
    share.forward_flops += unit.first.forward.flops + unit.second.forward.flops;
    share.flops += unit.first.forward.flops + unit.second.forward.flops;
    share.tp_s += tp_pass;
    share.kv_cache_bytes +=
        unit.kv_cache_bytes *
        (s.sample.backbone_tokens + static_cast<double>(s.workload.new_tokens)) *
        static_cast<double>(plan.micro_batch_size) *
        (unit.module + 1 == s.model->modules.size() ? 1 : 0) * (training ? 0 : 1);
    if (unit.backward) {
      KernelCost gradient = unit.first.input_gradient + unit.second.input_gradient;
      if (unit.trained) gradient += unit.first.weight_gradient + unit.second.weight_gradient;
      share.backward_s += gradient.Seconds();
      share.flops += gradient.flops;
      share.tp_s += tp_pass;
      if (plan.recompute == Recompute::kFull && unit.layer != nullptr) {
        share.backward_s += unit.first.forward.Seconds() + unit.second.forward.Seconds();
        share.tp_s += tp_pass - tp_after;
      } else if (plan.recompute == Recompute::kSelective) {
        share.backward_s +=
            unit.first.attention_core.Seconds() + unit.second.attention_core.Seconds();
      }
    }
    const double rounds =
        plan.sharding == Sharding::kFsdp ? static_cast<double>(plan.micro_batches) : 1;
    const auto bytes_of = [&](CommId comm) { return comm == kNoComm ? 0 : pricer.Bytes(comm); };
    share.gradient_bytes += bytes_of(dp.reduce) * rounds;
    share.gradient_s += seconds_for(dp.reduce) * rounds;
    const double gathers = plan.sharding == Sharding::kFsdp ? rounds * (unit.backward ? 2 : 1) : 1;
    share.gather_s += seconds_for(dp.gather) * gathers;
  }
  c.optimizer_s = OptimizerSeconds(s, st) * c.slowdown;
  for (ModuleShare& share : c.modules) {
    share.forward_s *= c.slowdown;
    share.backward_s *= c.slowdown;
  }
  c.transfer_s = 2 * seconds_for(communication.send_forward);
  return c;
}

}  // namespace aurum
