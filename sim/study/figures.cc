#include "sim/study/figures.h"

#include "sim/core/units.h"
#include "sim/study/data_report.h"

namespace aurum {

std::vector<Figure> FiguresOf(const Evaluation& e) {
  std::vector<Figure> figures;
  const auto add = [&](std::string name, double value) {
    figures.push_back({std::move(name), value});
  };
  const Scenario& s = e.scenario;
  const double step = e.StepSeconds();
  const TimeBreakdown& t = e.Time();
  add("step_time_s", step);
  add("tokens_per_s", TokensPerStep(s) / step);
  add("tokens_per_s_per_gpu", TokensPerStep(s) / step / s.cluster->GpuCount());
  add("samples_per_s", static_cast<double>(s.workload.global_batch_size) / step);
  if (s.target) add("time_to_target_s", s.target->Steps() * step);
  add("model_tflops_per_gpu", ModelFlopsPerGpu(e) / step / kTera);
  add("mfu", ModelFlopsUtilisation(e));
  add("peak_gib", e.memory.Heaviest().peak_bytes / kGiB);
  add("device_gib", e.memory.device_bytes / kGiB);
  add("fits", e.memory.fits ? 1 : 0);
  add("at_risk", e.memory.at_risk ? 1 : 0);
  add("error_band", StepBand(s));
  figures.push_back({"provenance", std::string(ProvenanceName(e.program.provenance))});
  add("compute_s", t.compute_s);
  add("compute_slowed_by_communication_s", t.slowed_s);
  add("exposed_comm_s", t.exposed_comm_s);
  add("bubble_s", t.bubble_s);
  add("straggler_wait_s", t.straggler_wait_s);
  add("alignment_wait_s", t.alignment_wait_s);
  add("data_wait_s", t.data_wait_s);
  add("optimizer_s", t.optimizer_s);
  add("dp_reduce_s", t.dp_reduce_s);
  add("dp_gather_s", t.dp_gather_s);
  figures.push_back({"limit", LimitName(WhatLimits(t))});
  add("mar", e.AlignRatio());
  add("gflop_per_token", e.program.own_flops_per_token * e.program.flops_scale / kGiga);
  add("gflop_per_useful_token", FlopsPerUsefulToken(e) / kGiga);
  add("padding_share", PaddingShare(e));
  if (const auto experts = FiguresOfExperts(e)) {
    add("expert_imbalance", experts->imbalance);
    add("dropped_share", experts->dropped_share);
    add("all_to_all_s", experts->all_to_all_s);
    add("all_to_all_gb_per_gpu", experts->all_to_all_bytes / kGiga);
  }
  if (e.loader) add("load_s", e.loader->load_s);
  add("bus_bandwidth_gb_per_s", e.program.own_bus_bandwidth * e.program.comm_scale / kGiga);
  const Golden& golden = e.golden;
  for (const Combine combine : {Combine::kMax, Combine::kSum, Combine::kCriticalPath}) {
    add("formula_" + CombineName(combine) + "_s", GoldenSeconds(golden, combine, 1, 1));
  }
  add("p_align_s", golden.p_align_s);
  add("not_in_formula_s", golden.not_in_formula_s);
  add("path_f_over_b_s", golden.path.f_over_b_s);
  add("path_g_over_c_s", golden.path.g_over_c_s);
  add("path_comm_s", golden.path.comm_s);
  add("path_bubble_s", golden.path.bubble_s);
  if (e.varied) {
    add("variation_mean_s", e.varied->mean_s);
    add("variation_p50_s", e.varied->Quantile(0.5));
    add("variation_p99_s", e.varied->Quantile(0.99));
  }
  if (e.goodput) {
    constexpr double kDay = 86400;
    add("goodput", e.goodput->fraction);
    add("goodput_tokens_per_s", TokensPerStep(s) / step * e.goodput->fraction);
    add("training_days_expected", e.goodput->expected_s / kDay);
    if (e.goodput_samples) add("training_days_p99", e.goodput_samples->p99_s / kDay);
    add("checkpoint_interval_s", e.goodput->interval_s);
  }
  for (const GoldenTerm& term : golden.terms) {
    add("f_over_b_s." + term.module, term.f_over_b_s);
    add("g_over_c_s." + term.module, term.g_over_c_s);
    add("comm_s." + term.module, term.comm_s);
    add("bubble_s." + term.module, term.bubble_s);
  }
  return figures;
}

}  // namespace aurum
