#include "sim/plan/alignment.h"

#include <algorithm>
#include <map>

namespace aurum {
namespace {

// When the consumer could have started without the tokens: when its own stream was free, and what else
// it waits for was there. What itself waits for the tokens' arrival does not count.
Time FreeWithout(const Program& program, const Schedule& schedule, const FusionPoint& point) {
  Time free{0};
  for (const OpId before : program.graph.predecessors(point.consumer)) {
    const bool own_stream = program.graph.stream(before) == program.graph.stream(point.consumer);
    if (!own_stream) {
      if (before == point.arrival) continue;
      const auto waits_for = program.graph.predecessors(before);
      if (std::find(waits_for.begin(), waits_for.end(), point.arrival) != waits_for.end()) continue;
    }
    free = std::max(free, schedule.end[before]);
  }
  return free;
}

struct Cost {
  double wait_s = 0, move_s = 0;
  double Seconds() const { return wait_s + move_s; }
};

}  // namespace

AlignmentReport MeasureAlignment(const Program& program, const Schedule& schedule) {
  AlignmentReport report;
  const auto micro = static_cast<std::size_t>(program.micro_batches);
  std::map<std::int16_t, AlignmentOf> modules;
  std::map<std::int16_t, std::vector<Cost>> costs;
  report.micro_batch.resize(micro);
  for (const FusionPoint& point : program.fusion) {
    const double count = program.classes[point.rank_class].count;
    const Time free = FreeWithout(program, schedule, point);
    const Time made = schedule.end[point.producer];
    const Time here = std::max(made, schedule.end[point.arrival]);
    Cost cost;
    if (made > free) cost.wait_s = Seconds(made - free);
    if (here > std::max(made, free)) cost.move_s = Seconds(here - std::max(made, free));

    AlignmentOf& module = modules[point.module];
    module.module = point.module;
    const double tokens = count * point.tokens, own = tokens * point.own_share;
    module.tokens += tokens;
    module.elsewhere += tokens - own;
    (made > free ? module.late : module.aligned) += own;
    std::vector<Cost>& of = costs[point.module];
    of.resize(micro);
    Cost& worst = of[static_cast<std::size_t>(point.micro_batch)];
    if (cost.Seconds() > worst.Seconds()) worst = cost;
    AlignmentOfMicroBatch& all = report.micro_batch[static_cast<std::size_t>(point.micro_batch)];
    if (cost.Seconds() > all.Seconds()) all = {cost.wait_s, cost.move_s};
  }
  double aligned = 0;
  for (auto& [number, module] : modules) {
    const auto n = static_cast<double>(micro);
    for (const Cost& cost : costs[number]) {
      module.wait_mean_s += cost.wait_s / n;
      module.move_mean_s += cost.move_s / n;
      module.wait_worst_s = std::max(module.wait_worst_s, cost.wait_s);
      module.move_worst_s = std::max(module.move_worst_s, cost.move_s);
    }
    report.tokens += module.tokens;
    aligned += module.aligned;
    report.modules.push_back(module);
  }
  report.any = report.tokens > 0;
  if (report.any) report.ratio = aligned / report.tokens;
  for (std::size_t i = 0; i < micro; ++i) {
    const double seconds = report.micro_batch[i].Seconds();
    report.mean_s += seconds / static_cast<double>(micro);
    if (report.worst < 0 || seconds > report.worst_s) {
      report.worst = static_cast<int>(i);
      report.worst_s = seconds;
    }
  }
  if (!report.any) report.worst = -1;
  return report;
}

}  // namespace aurum
