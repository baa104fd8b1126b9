#include "sim/study/reshard.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "sim/collectives/collective.h"
#include "sim/memory/state.h"
#include "sim/plan/rank_groups.h"

namespace aurum {
namespace {

struct Interval {
  double low = 0, high = 0;
  double Length() const { return std::max(high - low, 0.0); }
};
double Common(const Interval& a, const Interval& b) {
  return Interval{std::max(a.low, b.low), std::min(a.high, b.high)}.Length();
}
Interval Part(int index, double parts) { return {index / parts, (index + 1) / parts}; }

// What one GPU holds of one module, as shares of the whole: by depth, by width, by replica.
struct Held {
  Interval depth, width, weights, states;
  double WeightShare() const { return depth.Length() * width.Length() * weights.Length(); }
  double StateShare() const { return depth.Length() * width.Length() * states.Length(); }
};
double CommonWeights(const Held& a, const Held& b) {
  return Common(a.depth, b.depth) * Common(a.width, b.width) * Common(a.weights, b.weights);
}
double CommonStates(const Held& a, const Held& b) {
  return Common(a.depth, b.depth) * Common(a.width, b.width) * Common(a.states, b.states);
}

// By GPU and module.
std::vector<std::vector<Held>> HoldingsOf(const Scenario& s, const Program& program) {
  const std::size_t modules = s.model->modules.size();
  const StateShards shards = ShardsOf(s.plan, *s.stack);
  std::vector<double> depth(modules, 0);  // of the stages before
  std::vector<std::vector<Held>> held(static_cast<std::size_t>(s.cluster->GpuCount()),
                                      std::vector<Held>(modules));
  for (int stage = 0; stage < s.plan.StageCount(); ++stage) {
    const RankClass* first = nullptr;
    for (const RankClass& c : program.classes) {
      if (c.stage == stage && first == nullptr) first = &c;
    }
    const StageLayout layout = LayoutOf(s.plan, static_cast<std::size_t>(stage));
    for (std::size_t k = 0; k < modules; ++k) {
      const ModuleShare& share = first->modules[k];
      const auto all = static_cast<double>(ModuleParameters(s.model->modules[k]));
      const double parts = std::min(s.plan.modules[k].tp, layout.tp);
      const double here =
          all > 0 ? (share.parameters + share.expert_parameters * layout.ep) * parts / all : 0;
      const Interval rows{std::min(depth[k], 1.0), std::min(depth[k] + here, 1.0)};
      depth[k] += here;
      for (int local = 0; local < layout.Width(); ++local) {
        Held& mine = held[static_cast<std::size_t>(layout.first_gpu + local)][k];
        const int slice = local % layout.tp % static_cast<int>(parts);
        const int replica = local / layout.tp;
        mine.depth = rows;
        mine.width = Part(slice, parts);
        mine.weights = Part(replica % static_cast<int>(shards.weights), shards.weights);
        mine.states = Part(replica % static_cast<int>(shards.optimizer), shards.optimizer);
      }
    }
  }
  return held;
}

}  // namespace

Reshard ReshardBetween(const Scenario& from, const Program& from_program, const Scenario& to,
                       const Program& to_program) {
  if (!(from.model->modules == to.model->modules) ||
      from.cluster->GpuCount() != to.cluster->GpuCount()) {
    ThrowInput(772, "a switch of plans between different models or clusters",
               "phases may change plan, workload and what_if; the model and its cluster stay");
  }
  const auto before = HoldingsOf(from, from_program);
  const auto after = HoldingsOf(to, to_program);
  Reshard out;
  for (std::size_t gpu = 0; gpu < after.size(); ++gpu) {
    double bytes = 0;
    for (std::size_t k = 0; k < to.model->modules.size(); ++k) {
      const Held& a = before[gpu][k];
      const Held& b = after[gpu][k];
      const auto all = static_cast<double>(ModuleParameters(to.model->modules[k]));
      bytes += all * to.stack->parameter_exchange_bytes * (b.WeightShare() - CommonWeights(a, b));
      // States of what is frozen in both do not exist.
      if (!to.plan.modules[k].frozen && !from.plan.modules[k].frozen) {
        bytes += all * OptimizerBytes(*to.stack, to.plan.optimizer, to.plan.precision, false) *
                 (b.StateShare() - CommonStates(a, b));
      }
    }
    bytes = std::max(bytes, 0.0);
    out.total_bytes += bytes;
    out.busiest_bytes = std::max(out.busiest_bytes, bytes);
  }
  if (out.busiest_bytes < 1 || after.size() < 2) return out;
  CollectiveOptions options;
  options.network_efficiency = to.stack->network_efficiency;
  options.want_pattern = false;
  RankGroup all(after.size());
  std::iota(all.begin(), all.end(), 0);
  out.seconds = PriceCollective(CollectiveKind::kAllToAll, out.busiest_bytes, {all}, *to.cluster,
                                *to.profile, options)
                    .seconds;
  return out;
}

}  // namespace aurum
