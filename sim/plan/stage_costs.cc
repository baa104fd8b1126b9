#include "sim/plan/stage_costs.h"

#include <algorithm>

#include "sim/plan/host_link.h"

namespace aurum {
namespace {

// The passes of one chunk, by how often its units run.
class Passes {
 public:
  Passes(const Scenario& scenario, const PlanPricer& pricer) : s_(scenario), pricer_(pricer) {}

  void Add(const Unit& unit, const UnitCommunication& of) {
    PassCosts& pass = Of(unit.every);
    const double pieces = unit.pieces;
    const double collectives = InLine(unit, of);
    pass.forward_s += pieces * unit.Forward().Seconds();
    pass.forward_in_line_s += pieces * collectives;
    pass.edge_s = std::max(pass.edge_s, Edge(unit, of));
    if (unit.backward) {
      const KernelCost input =
          unit.first.input_gradient + unit.shared.input_gradient + unit.second.input_gradient;
      pass.backward_s += pieces * input.Seconds();
      pass.weight_s += pieces * WeightGradient(unit);
      pass.backward_in_line_s += pieces * collectives;
      if (unit.recomputed) {
        pass.backward_s += pieces * unit.Forward().Seconds();
        // The last collective of what is formed again is nobody's input.
        if (collectives > 0)
          pass.backward_in_line_s += pieces * (collectives - pricer_.Seconds(of.tp_after));
      } else {
        const KernelCost again = unit.first.again + unit.shared.again + unit.second.again;
        pass.backward_s += pieces * again.Seconds();
      }
    }
    AddMemory(unit, &pass);
  }

  std::vector<PassCosts> Take() && { return std::move(passes_); }

 private:
  PassCosts& Of(int every) {
    for (PassCosts& pass : passes_) {
      if (pass.every == every) return pass;
    }
    passes_.push_back({.every = every});
    return passes_.back();
  }

  static double WeightGradient(const Unit& unit) {
    KernelCost weight =
        unit.first.adapter_gradient + unit.shared.adapter_gradient + unit.second.adapter_gradient;
    if (unit.trained)
      weight +=
          unit.first.weight_gradient + unit.shared.weight_gradient + unit.second.weight_gradient;
    return weight.Seconds();
  }

  // Collectives that the kernels of one pass wait for: each half's, and the experts' exchange.
  double InLine(const Unit& unit, const UnitCommunication& of) const {
    double seconds = 0;
    if (!s_.plan.overlap.tensor_parallel) {
      const double half = pricer_.Seconds(of.tp_before) + pricer_.Seconds(of.tp_after);
      if (unit.tp_collectives) seconds += half;
      if (unit.has_second && unit.tp_collectives_second) seconds += half;
    }
    if (unit.has_second && !s_.plan.overlap.expert_parallel)
      seconds += pricer_.Seconds(of.dispatch) + pricer_.Seconds(of.combine);
    return seconds;
  }

  double Edge(const Unit& unit, const UnitCommunication& of) const {
    return std::min(InLine(unit, of), pricer_.Seconds(of.tp_before) + pricer_.Seconds(of.tp_after) +
                                          pricer_.Seconds(of.dispatch) +
                                          pricer_.Seconds(of.combine));
  }

  void AddMemory(const Unit& unit, PassCosts* pass) const {
    if (!unit.backward) return;
    const double held =
        unit.pieces * (unit.recomputed ? unit.memory.checkpoint_bytes : unit.memory.KeptBytes());
    const double away = unit.logits ? 0 : s_.plan.offload.activations;
    pass->kept_bytes += (1 - away) * held;
    pass->host_bytes += away * held;
  }

  const Scenario& s_;
  const PlanPricer& pricer_;
  std::vector<PassCosts> passes_;
};

}  // namespace

StageCosts CostsOfStage(const Scenario& s, const PlanPricer& pricer, const StageUnits& units,
                        const StageCommunication& communication, std::size_t stage,
                        double host_bandwidth) {
  StageCosts costs;
  costs.rank = MakeRankClass(s, units, stage, 0, pricer, communication);
  for (std::size_t c = 0; c < units.chunks.size(); ++c) {
    const Chunk& chunk = units.chunks[c];
    const ChunkCommunication& said = communication.chunks[c];
    Passes passes(s, pricer);
    for (std::size_t i = 0; i < chunk.units.size(); ++i) passes.Add(chunk.units[i], said.units[i]);
    costs.chunks.push_back({std::move(passes).Take(), pricer.Seconds(said.send_forward),
                            pricer.Seconds(said.send_backward)});
    const bool late = !s.plan.overlap.gradient_reduce && s.plan.sharding <= Sharding::kZero1 &&
                      !s.plan.reduce_every_micro_batch;
    for (const UnitCommunication& of : said.units) {
      if (late) costs.late_reduce_s += pricer.Seconds(of.reduce);
    }
  }
  if (s.plan.offload.optimizer > 0 && host_bandwidth > 0) {
    const double parameters = OptimizedParameters(s, units, stage) * s.plan.offload.optimizer;
    const double bytes =
        parameters * (s.stack->gradient_exchange_bytes + s.stack->parameter_exchange_bytes);
    costs.host_step_s =
        bytes / host_bandwidth + HostAdamSeconds(parameters * s.cluster->gpus_per_node);
  }
  return costs;
}

}  // namespace aurum
