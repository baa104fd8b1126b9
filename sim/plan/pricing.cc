#include "sim/plan/pricing.h"

#include <algorithm>

namespace aurum {
namespace {

constexpr double kValueBytes = 2;  // of an activation

}  // namespace

PlanPricer::PlanPricer(const Scenario& scenario, bool with_traffic, Program* program)
    : s_(scenario), with_traffic_(with_traffic), program_(*program) {
  for (int p = 0; p < s_.plan.pp; ++p) groups_.push_back(GroupsOfStage(s_.plan, p));
  ResolveCommScale();
  PriceAlignment();
}

PlanPricer::Groups PlanPricer::GroupsOfStage(const Plan& plan, int stage) {
  Groups groups;
  const int base = stage * plan.tp * plan.dp;
  for (int d = 0; d < plan.dp; ++d) {
    RankGroup group;
    for (int t = 0; t < plan.tp; ++t) group.push_back(base + d * plan.tp + t);
    groups.tp.push_back(std::move(group));
  }
  for (int t = 0; t < plan.tp; ++t) {
    RankGroup group;
    for (int d = 0; d < plan.dp; ++d) group.push_back(base + d * plan.tp + t);
    groups.dp.push_back(std::move(group));
  }
  if (stage + 1 < plan.pp) {
    for (int i = 0; i < plan.tp * plan.dp; ++i)
      groups.next.emplace_back(base + i, base + plan.tp * plan.dp + i);
  }
  return groups;
}

// Imposing a bus bandwidth scales every link alike. Scaling bandwidth by f is moving 1/f of the bytes.
void PlanPricer::ResolveCommScale() {
  const bool use_dp = s_.plan.dp > 1;
  const auto& groups = use_dp ? groups_[0].dp : groups_[0].tp;
  if (groups.front().size() < 2) {
    if (s_.plan.pp < 2) return;
  }
  constexpr double kProbe = 1 << 30;
  CollectiveOptions options = Options(true);
  CollectiveCost cost;
  if (groups.front().size() >= 2) {
    cost = PriceCollective(CollectiveKind::kAllReduce, kProbe, groups, *s_.cluster, *s_.profile,
                           options);
  } else {
    cost = PriceTransfer(kProbe, groups_[0].next, *s_.cluster, *s_.profile, options);
    cost.bus_bandwidth_bytes_per_s = kProbe / cost.seconds;
  }
  program_.own_bus_bandwidth = cost.bus_bandwidth_bytes_per_s;
  if (s_.what_if.comm_bw_bytes_per_s)
    program_.comm_scale = *s_.what_if.comm_bw_bytes_per_s / program_.own_bus_bandwidth;
}

CollectiveOptions PlanPricer::Options(bool data_parallel) const {
  CollectiveOptions options;
  options.network_efficiency = s_.stack->network_efficiency;
  options.intra_factor = data_parallel ? 1 : s_.stack->tp_communication_factor;
  options.want_pattern = with_traffic_;
  return options;
}

Priced PlanPricer::Keep(CollectiveCost cost, double bytes) {
  program_.provenance = Weakest(program_.provenance, cost.provenance);
  Priced priced{cost.seconds, cost.latency_s, bytes, kNoPattern};
  if (with_traffic_ && !cost.pattern.flows.empty())
    priced.pattern = program_.graph.AddPattern(std::move(cost.pattern));
  return priced;
}

Priced PlanPricer::Collective(CollectiveKind kind, double bytes, std::size_t stage,
                              bool data_parallel) {
  const auto key = std::make_tuple(static_cast<int>(kind), bytes, stage, data_parallel);
  if (const auto found = priced_.find(key); found != priced_.end()) return found->second;
  const auto& groups = data_parallel ? groups_[stage].dp : groups_[stage].tp;
  Priced priced;
  if (groups.front().size() > 1 && bytes > 0) {
    priced = Keep(PriceCollective(kind, bytes / program_.comm_scale, groups, *s_.cluster,
                                  *s_.profile, Options(data_parallel)),
                  bytes);
  }
  priced_.emplace(key, priced);
  return priced;
}

Priced PlanPricer::Transfer(double bytes, std::size_t stage) {
  return Keep(PriceTransfer(bytes / program_.comm_scale, groups_[stage].next, *s_.cluster,
                            *s_.profile, Options(true)),
              bytes);
}

// Tokens that encoders hand to the backbone. Naturally: with colocated_dp each tensor-parallel rank produced 1/tp of them.
// Imposed: the stated share sits on the wrong replica and crosses the data-parallel group (or the tp group if there is no other).
void PlanPricer::PriceAlignment() {
  Alignment& a = program_.alignment;
  a.tokens_per_micro_batch =
      s_.sample.cross_modal_tokens * static_cast<double>(s_.plan.micro_batch_size);
  if (a.tokens_per_micro_batch <= 0 || s_.model->task == ModelTask::kContrastive) return;
  const double token_bytes = s_.model->Backbone().hidden * kValueBytes;
  bool colocated = false;
  bool backward = false;
  const std::vector<bool> flows = Training() ? ModulesWithBackward(*s_.model, s_.plan)
                                             : std::vector<bool>(s_.model->modules.size(), false);
  for (std::size_t i = 0; i + 1 < s_.model->modules.size(); ++i) {
    colocated =
        colocated || (s_.plan.modules[i].placement == Placement::kColocatedDp && s_.plan.tp > 1);
    backward = backward || flows[i];
  }
  const double natural = colocated ? 1.0 / s_.plan.tp : 1.0;
  a.imposed = s_.what_if.align_ratio.has_value();
  a.ratio = s_.what_if.align_ratio.value_or(natural);
  a.bytes_per_micro_batch = (1 - a.ratio) * a.tokens_per_micro_batch * token_bytes;
  if (a.bytes_per_micro_batch <= 0) return;
  if (a.imposed) {
    align_forward_ =
        Collective(CollectiveKind::kAllToAll, a.bytes_per_micro_batch, 0, s_.plan.dp > 1);
  } else if (s_.plan.sequence_parallel) {
    align_forward_ = Collective(CollectiveKind::kAllToAll,
                                a.tokens_per_micro_batch * token_bytes / s_.plan.tp, 0, false);
  } else {
    align_forward_ =
        Collective(CollectiveKind::kAllGather, a.tokens_per_micro_batch * token_bytes, 0, false);
  }
  if (backward) align_backward_ = align_forward_;
  a.seconds_per_micro_batch = align_forward_.seconds + align_backward_.seconds;
}

TpCollectives PlanPricer::TensorParallel(const Unit& unit, std::size_t stage) {
  TpCollectives tp;
  if (!unit.tp_collectives) return tp;
  const bool backbone = unit.module + 1 == s_.model->modules.size();
  if (backbone && s_.plan.sequence_parallel) {
    tp.before = Collective(CollectiveKind::kAllGather, unit.tp_bytes, stage, false);
    tp.after = Collective(CollectiveKind::kReduceScatter, unit.tp_bytes, stage, false);
  } else {
    tp.after = Collective(CollectiveKind::kAllReduce, unit.tp_bytes, stage, false);
  }
  return tp;
}

DpCollectives PlanPricer::DataParallel(const Unit& unit, std::size_t stage) {
  DpCollectives dp;
  if (!Training() || s_.plan.dp == 1 || unit.parameters <= 0) return dp;
  const double gradients = unit.parameters * s_.stack->gradient_exchange_bytes;
  const double weights = unit.parameters * s_.stack->parameter_exchange_bytes;
  switch (s_.plan.sharding) {
    case Sharding::kDdp:
      if (unit.trained) dp.reduce = Collective(CollectiveKind::kAllReduce, gradients, stage, true);
      break;
    case Sharding::kZero1:
      if (unit.trained) {
        dp.reduce = Collective(CollectiveKind::kReduceScatter, gradients, stage, true);
        dp.gather = Collective(CollectiveKind::kAllGather, weights, stage, true);
      }
      break;
    case Sharding::kFsdp:
      if (unit.trained)
        dp.reduce = Collective(CollectiveKind::kReduceScatter, gradients, stage, true);
      dp.gather = Collective(CollectiveKind::kAllGather, weights, stage, true);
      break;
  }
  return dp;
}

}  // namespace aurum
