#pragma once

#include <string>
#include <vector>

#include "sim/monitor/exposition.h"
#include "sim/monitor/rules.h"
#include "sim/monitor/step_record.h"
#include "sim/study/evaluate.h"

namespace aurum {

// What `aurum monitor --prometheus` writes: the ratios, the level of every signal, what is
// undetermined, and how well the log reads. Ratios that are not known are NaN.
std::vector<Metric> MonitorMetrics(const Monitor& monitor, const StepReader& reader);

// What `aurum simulate --prometheus` writes: times, memory, rates and the busy split of a result, by
// the conventions' base units (seconds, bytes, ratios). Every family has the run's id as a label of
// aurum_run_info alone, so that a dashboard joins on the scenario's name.
std::vector<Metric> ResultMetrics(const Evaluation& evaluation, const std::string& tool_version);

}  // namespace aurum
