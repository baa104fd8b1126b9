#include "sim/study/data_steps.h"

#include <algorithm>
#include <cmath>

namespace aurum {

double DataSteps::Quantile(double share) const {
  const auto n = static_cast<double>(step_s.size());
  const auto at = static_cast<std::size_t>(std::max(std::ceil(share * n) - 1, 0.0));
  return step_s[std::min(at, step_s.size() - 1)];
}

DataSteps SimulateData(const Scenario& scenario, const LowerOptions& options, Level level) {
  DataSteps data;
  Scenario drawn = scenario;
  for (const StepLoads& step : *scenario.steps) {
    drawn.step = &step;
    data.step_s.push_back(Seconds(SimulateSchedule(Lower(drawn, options), level).makespan));
    data.mean_s += data.step_s.back() / static_cast<double>(scenario.steps->size());
  }
  for (std::size_t i = 1; i < data.step_s.size(); ++i) {
    if (std::abs(data.step_s[i] - data.mean_s) < std::abs(data.step_s[data.typical] - data.mean_s))
      data.typical = i;
  }
  std::sort(data.step_s.begin(), data.step_s.end());
  data.figures = FiguresOfData(*scenario.model, scenario.workload, *scenario.steps);
  return data;
}

}  // namespace aurum
