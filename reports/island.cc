#include "reports/island.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "reports/text.h"
#include "reports/timeline.h"
#include "sim/core/units.h"
#include "sim/study/fixes.h"
#include "sim/study/run_id.h"

namespace aurum {
namespace {

constexpr double kConfidence = 0.9;
constexpr std::size_t kMemorySamples = 400;

double Round(double value) { return RoundSignificant(value, 4); }
double Seconds6(double seconds) { return RoundSignificant(seconds, 6); }

std::string ShowTime(double seconds) {
  if (seconds >= 1) return fmt::format("{:.2f} s", seconds);
  return fmt::format("{:.1f} ms", seconds * 1e3);
}

Json BreakdownJson(const TimeBreakdown& time) {
  Json out = Json::Object();
  out.Set("compute_s", Seconds6(time.compute_s));
  out.Set("exposed_comm_s", Seconds6(time.exposed_comm_s));
  out.Set("bubble_s", Seconds6(time.bubble_s));
  if (time.straggler_wait_s > 0) out.Set("straggler_wait_s", Seconds6(time.straggler_wait_s));
  out.Set("alignment_wait_s", Seconds6(time.alignment_wait_s));
  out.Set("data_wait_s", Seconds6(time.data_wait_s));
  out.Set("optimizer_s", Seconds6(time.optimizer_s));
  return out;
}

double PartOf(const TimeBreakdown& t, Limit limit) {
  switch (limit) {
    case Limit::kCompute:
      return t.compute_s + t.optimizer_s;
    case Limit::kNetwork:
      return t.exposed_comm_s;
    case Limit::kAlignment:
      return t.alignment_wait_s;
    case Limit::kPipeline:
      return t.bubble_s;
    case Limit::kData:
      return t.data_wait_s;
  }
  return 0;
}

Json VerdictJson(const Evaluation& e) {
  const double step = e.StepSeconds(), band = StepBand(e.scenario);
  const ClassMemory& heaviest = e.memory.Heaviest();
  const Limit limit = WhatLimits(e.Time());
  Json out = Json::Object();
  out.Set("fits", e.memory.fits);
  out.Set("verdict", FitName(e.memory.verdict));
  out.Set("peak_gib", Round(heaviest.peak_bytes / kGiB));
  out.Set("peak_low_gib", Round(e.memory.low_bytes / kGiB));
  out.Set("peak_high_gib", Round(e.memory.high_bytes / kGiB));
  out.Set("device_usable_gib", Round(e.memory.usable_bytes / kGiB));
  out.Set("heaviest_rank", e.program.classes[static_cast<std::size_t>(e.memory.heaviest)].name);
  out.Set("step_time_s", Seconds6(step));
  out.Set("step_time_low_s", Seconds6(step * (1 - band)));
  out.Set("step_time_high_s", Seconds6(step * (1 + band)));
  out.Set("tokens_per_s", Round(TokensPerStep(e.scenario) / step));
  out.Set("tokens_per_s_per_gpu",
          Round(TokensPerStep(e.scenario) / step / e.scenario.cluster->GpuCount()));
  out.Set("samples_per_s",
          Round(static_cast<double>(e.scenario.workload.global_batch_size) / step));
  out.Set("mfu", Round(ModelFlopsUtilisation(e)));
  out.Set("limiting_resource", LimitName(limit));
  out.Set("limiting_detail",
          fmt::format("{:.0f} % of the step on {}", 100 * PartOf(e.Time(), limit) / step,
                      e.program.classes[static_cast<std::size_t>(e.outcome.busiest_class)].name));
  return out;
}

// The page's table of fixes; it ranks them itself, so a plan that fits has them too.
Json FixTableJson(const Evaluation& e, const JsonDocument& document, InputCache* cache) {
  FixOptions options;
  options.though_fits = true;
  Json out = Json::Array();
  for (const Fix& fix : SearchFixes(e, document, cache, options).fixes) {
    std::string set;
    for (const std::string& word : fix.set) set += (set.empty() ? "" : " --set ") + word;
    const std::string then = fix.verdict == Fit::kFits     ? "fits"
                             : fix.verdict == Fit::kAtRisk ? "at risk"
                                                           : "still does not fit";
    Json json = Json::Object();
    json.Set("fix", fix.what);
    json.Set("set", set);
    json.Set("saves_gib", Round(fix.saves_bytes / kGiB));
    json.Set("step_time_delta_s", Seconds6(fix.step_delta_s));
    json.Set("note", fix.caution.empty() ? then : then + "; " + fix.caution);
    out.Append(std::move(json));
  }
  return out;
}

// The heaviest class's memory over the step. `moving[k][t]`: bytes of a component that moves.
struct MemoryOverTime {
  std::vector<double> times;
  std::map<MemoryComponent, std::vector<double>> moving;
  std::map<MemoryComponent, double> moving_at_peak;
};

MemoryOverTime OverTime(const ClassMemory& memory, double step_s) {
  const std::vector<std::pair<MemoryComponent, const std::vector<double>*>> series = {
      {MemoryComponent::kActivations, &memory.activations},
      {MemoryComponent::kLogits, &memory.logits},
      {MemoryComponent::kCommunication, &memory.communication},
      {MemoryComponent::kGradients, &memory.gradients},
      {MemoryComponent::kWorkspace, &memory.workspace}};
  MemoryOverTime out;
  const std::size_t n = memory.times.size();
  const auto total = [&](std::size_t i) {
    double bytes = 0;
    for (const auto& [component, values] : series) bytes += (*values)[i];
    return bytes;
  };
  std::size_t peak = 0;
  for (std::size_t i = 1; i < n; ++i) {
    if (total(i) > total(peak)) peak = i;
  }
  // Before anything was taken, and where the peak is not one of the step (loading), nothing moves.
  if (n == 0 || memory.at == "loading") {
    out.times = {0, Seconds6(step_s)};
    return out;
  }
  // As many samples as a page can carry; a sample keeps the largest total of the events that it stands for.
  const std::size_t stride = std::max<std::size_t>(1, (n + kMemorySamples - 1) / kMemorySamples);
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < n; i += stride) {
    std::size_t best = i;
    for (std::size_t j = i; j < std::min(n, i + stride); ++j) {
      if (total(j) > total(best)) best = j;
    }
    kept.push_back(best);
  }
  const bool from_start = memory.times[kept.front()] == Time{0};
  if (!from_start) out.times.push_back(0);
  for (const std::size_t i : kept) out.times.push_back(Seconds6(Seconds(memory.times[i])));
  out.times.push_back(Seconds6(step_s));
  for (const auto& [component, values] : series) {
    std::vector<double>& bytes = out.moving[component];
    if (!from_start) bytes.push_back(0);
    for (const std::size_t i : kept) bytes.push_back((*values)[i]);
    bytes.push_back(bytes.back());
    out.moving_at_peak[component] = (*values)[peak];
  }
  return out;
}

Json MemoryJson(const Evaluation& e, const JsonDocument& document, InputCache* cache) {
  const ClassMemory& memory = e.memory.Heaviest();
  const MemoryOverTime over = OverTime(memory, e.StepSeconds());
  Json components = Json::Array();
  for (int i = 0; i < kMemoryComponents; ++i) {
    const auto component = static_cast<MemoryComponent>(i);
    const double at_peak = memory.at_peak[static_cast<std::size_t>(i)];
    const auto moving = over.moving.find(component);
    std::vector<double> gib;
    double most = 0;
    for (std::size_t t = 0; t < over.times.size(); ++t) {
      double bytes = at_peak;
      if (moving != over.moving.end())
        bytes += moving->second[t] - over.moving_at_peak.at(component);
      // The difference of equal sums may round below nothing.
      gib.push_back(Round(std::max(bytes, 0.0) / kGiB));
      most = std::max(most, gib.back());
    }
    if (most <= 0) continue;
    Json entry = Json::Object();
    entry.Set("name", MemoryComponentName(component));
    entry.Set("gib", Json::Numbers(gib));
    components.Append(std::move(entry));
  }
  Json out = Json::Object();
  out.Set("rank", e.program.classes[static_cast<std::size_t>(e.memory.heaviest)].name);
  out.Set("device_gib", Round(e.memory.device_bytes / kGiB));
  out.Set("usable_gib", Round(e.memory.usable_bytes / kGiB));
  out.Set("t_s", Json::Numbers(over.times));
  out.Set("components", std::move(components));
  Json peak = Json::Object();
  peak.Set("t_s", Seconds6(Seconds(memory.peak_time)));
  peak.Set("gib", Round(memory.peak_bytes / kGiB));
  peak.Set("low_gib", Round(e.memory.low_bytes / kGiB));
  peak.Set("high_gib", Round(e.memory.high_bytes / kGiB));
  peak.Set("at", memory.at);
  out.Set("peak", std::move(peak));
  Json tensors = TensorsJson(memory);
  for (Json& tensor : tensors.items()) {
    for (const char* figure : {"count", "gib"})
      tensor.Set(figure, Round(tensor.Find(figure)->AsNumber()));
  }
  out.Set("tensors", std::move(tensors));
  out.Set("fixes", FixTableJson(e, document, cache));
  return out;
}

// What 10 % more and 10 % less of each resource does to the step.
Json SensitivitiesJson(const Evaluation& e, const JsonDocument& document, InputCache* cache) {
  Json out = Json::Array();
  const auto add = [&](const std::string& resource, double value, const std::string& unit,
                       const std::string& path, double up, double down) {
    const auto more = EvaluateWith(document, path, Json(up), cache, e.outcome.level);
    const auto less = EvaluateWith(document, path, Json(down), cache, e.outcome.level);
    if (!more || !less) return;
    Json json = Json::Object();
    json.Set("resource", resource);
    json.Set("value", Round(value));
    json.Set("unit", unit);
    json.Set("step_time_delta_up_s", Seconds6(more->StepSeconds() - e.StepSeconds()));
    json.Set("step_time_delta_down_s", Seconds6(less->StepSeconds() - e.StepSeconds()));
    json.Set("provenance", ProvenanceName(e.program.provenance));
    json.Set("note", "simulated again with 10 % more and 10 % less");
    out.Append(std::move(json));
  };
  const double flops = e.program.own_flops_per_token * e.program.flops_scale / kGiga;
  // 10 % more FLOP/s is the same work in 1/1.1 of the kernel time.
  add("GPU FLOP/s", e.scenario.profile->device.peak_bf16_flops / kTera, "TFLOP/s",
      "what_if.flops_gflop_per_token", flops / 1.1, flops / 0.9);
  double nvlink = 0, pcie = 0, network = 0;
  for (const Link& link : e.scenario.cluster->links()) {
    double& most = link.kind == LinkKind::kNvLink    ? nvlink
                   : link.kind == LinkKind::kNetwork ? network
                                                     : pcie;
    most = std::max(most, link.bandwidth_bytes_per_s);
  }
  const WhatIf& w = e.scenario.what_if;
  if (e.scenario.cluster->GpuCount() > 1) {
    if (nvlink > 0)
      add("NVLink", nvlink / kGiga, "GB/s", "what_if.nvlink_factor", w.nvlink_factor * 1.1,
          w.nvlink_factor * 0.9);
    if (pcie > 0)
      add("PCIe", pcie / kGiga, "GB/s", "what_if.pcie_factor", w.pcie_factor * 1.1,
          w.pcie_factor * 0.9);
    if (network > 0 && e.scenario.cluster->nodes > 1)
      add("network", network / kGiga, "GB/s", "what_if.network_factor", w.network_factor * 1.1,
          w.network_factor * 0.9);
  }
  return out;
}

Json Facts(const Evaluation& e) {
  const Scenario& s = e.scenario;
  Json facts = Json::Array();
  const auto fact = [&](const char* name, const std::string& text) {
    facts.Append(Json::Array({Json(name), Json(text)}));
  };
  fact("Model", fmt::format("{}, {:.2f} B parameters", s.model->name,
                            static_cast<double>(ModelParameters(*s.model)) / 1e9));
  fact("Cluster",
       fmt::format("{}: {} × {}", s.cluster->name, s.cluster->GpuCount(), s.cluster->gpu.name));
  fact("Profile", fmt::format("{} ({})", s.profile->name, ProvenanceName(s.profile->provenance)));
  fact("Stack", s.stack->name);
  fact("Plan", DescribePlan(s.plan));
  if (const std::string encoders = DescribeEncoders(s.plan, *s.model); !encoders.empty())
    fact("Encoders", encoders);
  if (e.data) {
    fact("Samples differ",
         fmt::format("{} drawn steps: mean {:.3g} s, p50 {:.3g} s, p99 {:.3g} s; {:.1f} % padding",
                     e.data->step_s.size(), e.data->mean_s, e.data->Quantile(0.5),
                     e.data->Quantile(0.99), 100 * e.data->figures.padding_share));
  }
  fact("Sample", fmt::format("{:.0f} tokens, {:.0f} of them from media", s.sample.backbone_tokens,
                             s.sample.cross_modal_tokens));
  const std::map<Level, const char*> levels = {
      {Level::kAnalytic, "analytic: max-plus, collectives undisturbed"},
      {Level::kFlow, "flow: events with max-min sharing of links"},
      {Level::kAuto, "auto: flows share links where they meet"},
      {Level::kChunk, "chunk: every step of every channel shares links"}};
  fact("Level", levels.at(e.outcome.level));
  for (const std::string& line : s.faults.told) fact("Fault", line);
  if (e.varied) {
    fact("Variation", fmt::format("of {} drawn steps p50 {}, p99 {}, mean {}",
                                  e.varied->step_s.size(), ShowTime(e.varied->Quantile(0.5)),
                                  ShowTime(e.varied->Quantile(0.99)), ShowTime(e.varied->mean_s)));
  }
  if (e.goodput) {
    constexpr double kDay = 86400;
    fact("Goodput",
         fmt::format(
             "{:.1f} % of the time trains: {:g} days take {:.1f}{}, {:.0f} "
             "interruptions, a checkpoint every {:.0f} min",
             100 * e.goodput->fraction, s.goodput->days, e.goodput->expected_s / kDay,
             e.goodput_samples ? fmt::format(" (p99 {:.1f})", e.goodput_samples->p99_s / kDay) : "",
             e.goodput->interruptions, e.goodput->interval_s / 60));
  }
  fact("Signature", e.outcome.signature);
  return facts;
}

}  // namespace

Json EvaluationIsland(const Evaluation& e, const JsonDocument& document, InputCache* cache,
                      const ReportOrigin& origin) {
  const Scenario& s = e.scenario;
  const double step = e.StepSeconds();
  const TimeBreakdown& t = e.Time();
  const ClassMemory& heaviest = e.memory.Heaviest();
  const Limit limit = WhatLimits(t);
  Json island = Json::Object();
  island.Set("schema", "aurum.report/1");
  island.Set("tool_version", origin.tool_version);
  island.Set("run_id", RunId(e, origin.tool_version));
  island.Set("generated_at", origin.generated_at);
  island.Set("title", s.name.empty() ? s.model->name + " on " + s.cluster->name : s.name);
  island.Set("question", s.question.empty() ? "How long is a step, does it fit, and what limits it?"
                                            : s.question);
  const std::string memory_words =
      fmt::format("{:.1f} of {:.1f} usable GiB", Round(heaviest.peak_bytes / kGiB),
                  e.memory.usable_bytes / kGiB);
  const std::string fit_words = e.memory.verdict == Fit::kDoesNotFit ? "It does not fit: "
                                : e.memory.verdict == Fit::kAtRisk ? "Whether it fits is at risk: "
                                                                   : "It fits: ";
  island.Set("answer",
             fmt::format("{}{} on {}. {} {}, and {} limits it.", fit_words, memory_words,
                         e.program.classes[static_cast<std::size_t>(e.memory.heaviest)].name,
                         e.memory.fits ? "A step takes" : "If it fitted, a step would take",
                         ShowTime(step), LimitName(limit)));
  island.Set("confidence", kConfidence);
  island.Set("hardware", fmt::format("{} × {} ({})", s.cluster->GpuCount(), s.cluster->gpu.name,
                                     s.cluster->name));
  island.Set("command", origin.command);
  island.Set("facts", Facts(e));
  Json findings = Json::Object();
  const double comm = t.exposed_comm_s + t.alignment_wait_s;
  findings.Set(
      "timeline",
      fmt::format("On {}, {:.0f} % of the step is compute, {:.1f} % waits for communication, "
                  "{:.1f} % is pipeline bubble{} and {:.1f} % waits for another modality's tokens.",
                  e.program.classes[static_cast<std::size_t>(e.outcome.busiest_class)].name,
                  100 * t.compute_s / step, 100 * t.exposed_comm_s / step, 100 * t.bubble_s / step,
                  t.straggler_wait_s > 0
                      ? fmt::format(", {:.1f} % waits for a slower GPU of the stage",
                                    100 * t.straggler_wait_s / step)
                      : "",
                  100 * t.alignment_wait_s / step));
  findings.Set("memory",
               fmt::format("The peak comes at {}; the largest part is {}, {:.0f} % of it.",
                           heaviest.at, MemoryComponentName(e.memory.largest),
                           100 * heaviest.at_peak[static_cast<std::size_t>(e.memory.largest)] /
                               heaviest.peak_bytes));
  findings.Set(
      "sensitivity",
      comm / step < 0.05
          ? fmt::format(
                "Faster links buy little here: {:.1f} % of the step is exposed communication.",
                100 * comm / step)
          : fmt::format("{:.0f} % of the step is exposed communication.", 100 * comm / step));
  island.Set("findings", std::move(findings));
  island.Set("verdict", VerdictJson(e));
  island.Set("time", BreakdownJson(t));
  island.Set("timeline", TimelineJson(e));
  island.Set("memory", MemoryJson(e, document, cache));
  island.Set("sensitivities", SensitivitiesJson(e, document, cache));
  Json warnings = Json::Array();
  for (const Diagnostic& warning : s.warnings) {
    Json entry = Json::Object();
    entry.Set("code", warning.CodeName());
    entry.Set("text", warning.message + (warning.help.empty() ? "" : ". " + warning.help));
    entry.Set("where", warning.where.pointer);
    warnings.Append(std::move(entry));
  }
  island.Set("warnings", std::move(warnings));
  Json assumptions = Json::Array();
  const auto assume = [&](const std::string& what, const std::string& value,
                          Provenance provenance) {
    Json entry = Json::Object();
    entry.Set("what", what);
    entry.Set("value", value);
    entry.Set("provenance", ProvenanceName(provenance));
    assumptions.Append(std::move(entry));
  };
  assume("kernel and collective costs", s.profile->name + ": " + s.profile->description,
         s.profile->provenance);
  assume("training GEMMs against short bursts",
         fmt::format("× {:.2f} ({})", s.profile->sustained_factor, s.profile->sustained_source),
         Provenance::kCalibrated);
  assume("software stack", s.stack->name + ": " + s.stack->description, s.stack->provenance);
  assume("links of the cluster", s.cluster->source, s.cluster->provenance);
  for (const std::string& line : s.model->assumed) assume("model", line, Provenance::kAssumed);
  island.Set("assumptions", std::move(assumptions));
  return island;
}

}  // namespace aurum
