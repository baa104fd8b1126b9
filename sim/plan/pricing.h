#pragma once

#include <cstddef>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/collectives/collective.h"
#include "sim/plan/program.h"
#include "sim/plan/units.h"

namespace aurum {

// A collective, priced: its time and, at the flow level, its traffic in the graph.
struct Priced {
  double seconds = 0;
  double latency_s = 0;
  double bytes = 0;
  PatternId pattern = kNoPattern;
};

// Collectives before and after each half of a layer under tensor parallelism.
struct TpCollectives {
  Priced before, after;
};

// What data parallelism does with one unit.
struct DpCollectives {
  Priced gather, reduce;
};

// Prices every communication of a plan once, on the GPUs that take part in it. Imposed bandwidth is applied here, and what a
// program says of it (comm_scale, own_bus_bandwidth, alignment, provenance) is written here.
class PlanPricer {
 public:
  // Both must outlive the pricer. `with_traffic` adds the flows to the program's graph.
  PlanPricer(const Scenario& scenario, bool with_traffic, Program* program);

  TpCollectives TensorParallel(const Unit& unit, std::size_t stage);
  DpCollectives DataParallel(const Unit& unit, std::size_t stage);
  // One collective in nccl-tests' size convention, over the stage's data- or tensor-parallel groups; 0 s for groups of one.
  Priced Collective(CollectiveKind kind, double bytes, std::size_t stage, bool data_parallel);
  // From `stage` to the next; `bytes` per GPU.
  Priced Transfer(double bytes, std::size_t stage);
  // Exchange of misaligned tokens before the backbone, and of their gradients after it.
  const Priced& alignment_forward() const { return align_forward_; }
  const Priced& alignment_backward() const { return align_backward_; }

 private:
  // The three kinds of groups of a plan, on the GPUs of one stage. Ranks count tp first, then dp, then pp.
  struct Groups {
    std::vector<RankGroup> tp, dp;
    std::vector<std::pair<int, int>> next;  // this stage's GPU to the next stage's
  };
  static Groups GroupsOfStage(const Plan& plan, int stage);

  bool Training() const { return s_.workload.task == Task::kTrain; }
  void ResolveCommScale();
  void PriceAlignment();
  CollectiveOptions Options(bool data_parallel) const;
  Priced Keep(CollectiveCost cost, double bytes);

  const Scenario& s_;
  bool with_traffic_;
  Program& program_;
  std::vector<Groups> groups_;  // by stage
  std::map<std::tuple<int, double, std::size_t, bool>, Priced> priced_;
  Priced align_forward_, align_backward_;
};

}  // namespace aurum
