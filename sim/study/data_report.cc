#include "sim/study/data_report.h"

#include <algorithm>
#include <cstdio>

#include "sim/core/units.h"

namespace aurum {
namespace {

std::string Printed(double value, const char* format = "%.3g") {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}
std::string Percent(double share) { return Printed(100 * share) + " %"; }

bool HasExperts(const Model& model) {
  return std::any_of(model.Backbone().runs.begin(), model.Backbone().runs.end(),
                     [](const LayerRun& run) { return run.layer.mlp.experts > 0; });
}

}  // namespace

std::optional<ExpertFigures> FiguresOfExperts(const Evaluation& e) {
  const Scenario& s = e.scenario;
  const Plan& plan = s.plan;
  if (!HasExperts(*s.model) || (plan.ep == 1 && !plan.routing)) return std::nullopt;
  ExpertFigures figures;
  figures.imbalance = plan.expert_imbalance;
  figures.dropped_share = plan.dropped_tokens;
  // An op stands for `instances` groups of ep GPUs each.
  const double gpus = s.cluster->GpuCount();
  for (OpId op = 0; op < e.program.info.size(); ++op) {
    const OpInfo& info = e.program.info[op];
    if (info.lane != Lane::kEp) continue;
    const double share = info.instances * static_cast<double>(plan.ep) / gpus;
    figures.all_to_all_bytes += info.bytes * share;
    figures.all_to_all_s +=
        Seconds(e.outcome.schedule.end[op] - e.outcome.schedule.start[op]) * share;
  }
  figures.share = figures.all_to_all_s / e.StepSeconds();
  figures.exposed_s = e.Time().ep_s;
  return figures;
}

double PaddingShare(const Evaluation& e) {
  if (e.data) return e.data->figures.padding_share;
  const SampleLoad& sample = e.scenario.sample;
  return sample.backbone_tokens > 0 ? 1 - sample.real_tokens / sample.backbone_tokens : 0;
}

double FlopsPerUsefulToken(const Evaluation& e) {
  return ModelFlopsPerGpu(e) * e.scenario.cluster->GpuCount() / TokensPerStep(e.scenario);
}

void AddDataJson(const Evaluation& e, Json* result) {
  Json useful = Json::Object();
  useful.Set("padding_share", PaddingShare(e));
  useful.Set("gflop_per_useful_token", FlopsPerUsefulToken(e) / kGiga);
  result->Set("useful", std::move(useful));
  if (const auto experts = FiguresOfExperts(e)) {
    Json out = Json::Object();
    out.Set("imbalance", experts->imbalance);
    out.Set("dropped_share", experts->dropped_share);
    out.Set("all_to_all_gb_per_gpu", experts->all_to_all_bytes / kGiga);
    out.Set("all_to_all_s", experts->all_to_all_s);
    out.Set("all_to_all_share", experts->share);
    out.Set("exposed_s", experts->exposed_s);
    result->Set("experts", std::move(out));
  }
  if (e.loader) {
    const LoaderStall& loader = *e.loader;
    Json out = Json::Object();
    out.Set("load_s", loader.load_s);
    out.Set("read_s", loader.batch.read_s);
    out.Set("decode_s", loader.batch.decode_s);
    out.Set("copy_s", loader.batch.copy_s);
    out.Set("step_without_s", loader.step_s);
    out.Set("stall_s", loader.stall_s);
    out.Set("stall_share", loader.stall_s / e.StepSeconds());
    out.Set("read_gb_per_step", loader.batch.read_bytes / kGiga);
    out.Set("read_gb_per_s_needed", loader.read_gb_per_s_needed);
    result->Set("loader", std::move(out));
  }
}

std::vector<std::pair<std::string, std::string>> DescribeData(const Evaluation& e) {
  std::vector<std::pair<std::string, std::string>> facts;
  if (const auto experts = FiguresOfExperts(e)) {
    facts.emplace_back("experts", "busiest rank × " + Printed(experts->imbalance) + ", " +
                                      Percent(experts->dropped_share) +
                                      " of the choices dropped; all-to-all " +
                                      Printed(experts->all_to_all_bytes / kGiga) + " GB a GPU, " +
                                      Percent(experts->share) + " of the step");
  }
  if (e.loader) {
    const LoaderStall& loader = *e.loader;
    facts.emplace_back(
        "loader", "a batch takes " + Printed(loader.load_s) + " s (read " +
                      Printed(loader.batch.read_s) + ", decode " + Printed(loader.batch.decode_s) +
                      ", copy " + Printed(loader.batch.copy_s) + "), the step without it " +
                      Printed(loader.step_s) + " s: it waits " + Printed(loader.stall_s) + " s, " +
                      Percent(loader.stall_s / e.StepSeconds()));
  }
  return facts;
}

}  // namespace aurum
