#include "sim/monitor/metrics.h"

#include <cmath>
#include <limits>

#include "sim/study/busy_split.h"
#include "sim/study/run_id.h"

namespace aurum {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

Metric Gauge(std::string name, std::string help, std::vector<MetricSample> samples) {
  return {std::move(name), std::move(help), MetricType::kGauge, std::move(samples)};
}
Metric Counter(std::string name, std::string help, std::vector<MetricSample> samples) {
  return {std::move(name), std::move(help), MetricType::kCounter, std::move(samples)};
}

}  // namespace

std::vector<Metric> MonitorMetrics(const Monitor& monitor, const StepReader& reader) {
  std::vector<Metric> out;
  const auto count = [](std::int64_t value) { return static_cast<double>(value); };
  out.push_back(Counter("aurum_monitor_steps_total", "Step records that were read.",
                        {{{}, count(reader.records())}}));
  out.push_back(Counter("aurum_monitor_bad_lines_total", "Lines of the log that are no record.",
                        {{{}, count(reader.bad_lines())}}));
  out.push_back(Gauge("aurum_monitor_mar_ratio",
                      "Aligned over all cross-modal tokens of the last step, over its baseline.",
                      {{{}, monitor.mar().value_or(kUnknown)}}));
  out.push_back(Gauge("aurum_monitor_speed_ratio", "Baseline step time over that of the last step.",
                      {{{}, monitor.asr().value_or(kUnknown)}}));
  out.push_back(Gauge("aurum_monitor_baseline_mar_ratio",
                      "Aligned over all cross-modal tokens in the baseline.",
                      {{{}, monitor.baseline_mar().value_or(kUnknown)}}));
  out.push_back(Gauge("aurum_monitor_baseline_step_time_seconds", "Step time in the baseline.",
                      {{{}, monitor.baseline_step_s().value_or(kUnknown)}}));
  Metric deviation = Gauge("aurum_monitor_deviation_ratio",
                           "What each signal is at, smoothed; of 'opposed', the correlation.", {});
  Metric level = Gauge("aurum_monitor_alarm_level", "0 none, 1 warning, 2 act; by signal.", {});
  Metric unknown = Gauge("aurum_monitor_undetermined",
                         "1 where a signal cannot be told, which is not the same as no alarm.", {});
  Metric raised = Counter("aurum_monitor_alarms_total", "Alarms that were raised; by signal.", {});
  for (int i = 0; i < kSignals; ++i) {
    const auto signal = static_cast<Signal>(i);
    const SignalState& state = monitor.signal(signal);
    const std::vector<std::pair<std::string, std::string>> labels = {
        {"signal", std::string(SignalName(signal))}};
    deviation.samples.push_back({labels, state.value.value_or(kUnknown)});
    level.samples.push_back({labels, static_cast<double>(state.level)});
    unknown.samples.push_back({labels, state.value ? 0.0 : 1.0});
    raised.samples.push_back({labels, count(state.raised)});
  }
  for (Metric* metric : {&deviation, &level, &unknown, &raised}) out.push_back(std::move(*metric));
  return out;
}

std::vector<Metric> ResultMetrics(const Evaluation& e, const std::string& tool_version) {
  std::vector<Metric> out;
  const double step = e.StepSeconds();
  const double gpus = e.scenario.cluster->GpuCount();
  const auto one = [&](const char* name, const char* help, double value) {
    out.push_back(Gauge(name, help, {{{}, value}}));
  };
  out.push_back(Gauge("aurum_run_info", "Which run this is; always 1.",
                      {{{{"run_id", RunId(e, tool_version)},
                         {"scenario", e.scenario.name},
                         {"tool_version", tool_version}},
                        1}}));
  one("aurum_step_time_seconds", "Simulated time of one training step.", step);
  one("aurum_step_time_error_ratio", "Half width of the 90 % interval of the step time.",
      StepBand(e.scenario));
  one("aurum_gpus", "GPUs of the cluster.", gpus);
  one("aurum_tokens_per_second", "Tokens of the backbone, all replicas.",
      TokensPerStep(e.scenario) / step);
  one("aurum_samples_per_second", "Samples of all replicas.",
      static_cast<double>(e.scenario.workload.global_batch_size) / step);
  one("aurum_model_flops_utilisation_ratio", "Model FLOPs over the device's peak.",
      ModelFlopsUtilisation(e));
  one("aurum_alignment_ratio", "Aligned over all cross-modal tokens (MAR).",
      e.program.alignment.ratio);
  one("aurum_memory_fits", "1 if the heaviest rank fits its device.", e.memory.fits ? 1 : 0);
  one("aurum_memory_usable_bytes", "Of a device, what programs can have.", e.memory.usable_bytes);
  Metric memory = Gauge("aurum_memory_peak_bytes", "Peak of one GPU, by class of ranks.", {});
  for (std::size_t c = 0; c < e.memory.classes.size(); ++c) {
    memory.samples.push_back(
        {{{"rank_class", e.program.classes[c].name}}, e.memory.classes[c].peak_bytes});
  }
  out.push_back(std::move(memory));
  Metric time = Gauge("aurum_step_part_seconds",
                      "Where the step of a class of ranks goes; the parts sum to the step.", {});
  for (std::size_t c = 0; c < e.outcome.time.size(); ++c) {
    const TimeBreakdown& t = e.outcome.time[c];
    const auto part = [&](const char* name, double seconds) {
      time.samples.push_back(
          {{{"part", name}, {"rank_class", e.program.classes[c].name}}, seconds});
    };
    part("compute", t.compute_s);
    part("exposed_communication", t.exposed_comm_s);
    part("bubble", t.bubble_s);
    part("straggler_wait", t.straggler_wait_s);
    part("alignment_wait", t.alignment_wait_s);
    part("data_wait", t.data_wait_s);
    part("optimizer", t.optimizer_s);
  }
  out.push_back(std::move(time));
  Metric busy = Gauge("aurum_busy_ratio",
                      "Shares of the step, by class of ranks: bound by compute, bound by memory, "
                      "waiting for communication, idle. They sum to 1.",
                      {});
  const std::vector<BusySplit> split = SplitBusyTime(e);
  for (std::size_t c = 0; c < split.size(); ++c) {
    const auto part = [&](const char* name, double seconds) {
      busy.samples.push_back(
          {{{"bound", name}, {"rank_class", e.program.classes[c].name}}, seconds / step});
    };
    part("compute", split[c].compute_bound_s);
    part("memory", split[c].memory_bound_s);
    part("communication", split[c].communication_s);
    part("idle", split[c].idle_s);
  }
  out.push_back(std::move(busy));
  return out;
}

}  // namespace aurum
