#include "sim/study/variation.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <string>

#include "sim/core/diagnostic.h"
#include "sim/core/random.h"
#include "sim/plan/lower.h"
#include "sim/study/gradient_sync.h"

namespace aurum {
namespace {

// exp(σz − σ²/2), whose mean is 1 and whose coefficient of variation is cv. Durations of kernels and
// transfers are positive and skewed to the right, as a log-normal is.
class Jitter {
 public:
  explicit Jitter(double cv) : variance_(std::log1p(cv * cv)), sigma_(std::sqrt(variance_)) {}
  double Factor(std::uint64_t seed, std::uint64_t rank, std::uint64_t op) const {
    if (sigma_ == 0) return 1;
    return std::exp(sigma_ * RandomNormal(seed, rank, op) - variance_ / 2);
  }

 private:
  double variance_, sigma_;
};

}  // namespace

namespace {

double QuantileOf(const std::vector<double>& ascending, double share) {
  assert(!ascending.empty() && share > 0 && share <= 1);
  const double place = std::ceil(share * static_cast<double>(ascending.size()));
  return ascending[std::max<std::size_t>(static_cast<std::size_t>(place), 1) - 1];
}

}  // namespace

double VariedSteps::Quantile(double share) const { return QuantileOf(step_s, share); }
double VariedSteps::SyncQuantile(double share) const { return QuantileOf(sync_s, share); }

VariedSteps DrawSteps(const Scenario& scenario, Level level) {
  LowerOptions options;
  options.traffic = TrafficOf(level);
  options.fold = Fold::kOff;
  Program program = Lower(scenario, options);
  OpGraph& graph = program.graph;
  std::vector<Time> durations;
  durations.reserve(graph.op_count());
  for (OpId op = 0; op < graph.op_count(); ++op) durations.push_back(graph.duration(op));

  constexpr double kMostDrawn = 3e8;
  const double drawn = static_cast<double>(graph.op_count()) * scenario.variation.seeds;
  if (drawn > kMostDrawn) {
    ThrowInput(
        341,
        std::to_string(scenario.variation.seeds) + " steps of " + std::to_string(graph.op_count()) +
            " operations are too many to draw",
        "at most " +
            std::to_string(static_cast<int>(kMostDrawn / static_cast<double>(graph.op_count()))) +
            " seeds here, or fewer GPUs",
        ExitCode::kInfeasible);
  }
  const Jitter kernel(scenario.variation.kernel_cv);
  const Jitter communication(scenario.variation.communication_cv);
  VariedSteps steps;
  for (int seed = 0; seed < scenario.variation.seeds; ++seed) {
    for (OpId op = 0; op < graph.op_count(); ++op) {
      const OpInfo& info = program.info[op];
      const Jitter& jitter = info.lane == Lane::kMain ? kernel : communication;
      const double factor = jitter.Factor(static_cast<std::uint64_t>(seed), info.rank_class, op);
      const Time varied = TimeFromSeconds(Seconds(durations[op]) * factor);
      graph.SetDuration(op, std::max(varied, graph.latency(op)));
    }
    const Schedule schedule = SimulateSchedule(program, level);
    const Time makespan = schedule.makespan;
    steps.sync_s.push_back(MeasureGradientSync(scenario, program, schedule).window_s);
    steps.step_s.push_back(Seconds(makespan));
    steps.mean_s += Seconds(makespan) / scenario.variation.seeds;
  }
  std::sort(steps.step_s.begin(), steps.step_s.end());
  std::sort(steps.sync_s.begin(), steps.sync_s.end());
  return steps;
}

}  // namespace aurum
