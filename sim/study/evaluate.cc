#include "sim/study/evaluate.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "sim/core/units.h"
#include "sim/plan/pools.h"
#include "sim/plan/uneven.h"
#include "sim/plan/waves.h"
#include "sim/study/budget.h"
#include "sim/study/cost.h"
#include "sim/study/data_report.h"
#include "sim/study/document_head.h"
#include "sim/study/one_step.h"
#include "sim/study/run_id.h"
#include "sim/workload/adapter_routing.h"

namespace aurum {
namespace {

// Wall time is told as an upper bound in steps of 0.1 s: equal inputs then give equal bytes.
double CoarseWall(double seconds) { return std::ceil(std::max(seconds, 1e-9) * 10) / 10; }

Json Header(const std::string& schema, const Evaluation& e, const std::string& tool_version) {
  Json out = Json::Object();
  out.Set("schema", schema);
  out.Set("tool_version", tool_version);
  out.Set("run_id", RunId(e, tool_version));
  out.Set("name", e.scenario.name);
  if (!e.scenario.question.empty()) out.Set("question", e.scenario.question);
  out.Set("inputs", InputsJson(e.scenario.inputs));
  out.Set("warnings", WarningsJson(e.scenario.warnings));
  return out;
}

Json TermJson(const GoldenTerm& term) {
  Json out = Json::Object();
  out.Set("module", term.module);
  out.Set("f_flop", term.flops);
  out.Set("f_forward_only_flop", term.forward_flops);
  out.Set("b_flop_per_s", term.rate_flops_per_s);
  out.Set("g_bytes", term.gradient_bytes);
  out.Set("c_bytes_per_s", term.gradient_bytes_per_s);
  out.Set("f_over_b_s", term.f_over_b_s);
  out.Set("forward_only_over_b_s", term.forward_over_b_s);
  out.Set("g_over_c_s", term.g_over_c_s);
  out.Set("comm_s", term.comm_s);
  out.Set("bubble_s", term.bubble_s);
  return out;
}

Json GoldenJson(const Evaluation& e, const GoldenWeights& weights) {
  const Golden& golden = e.golden;
  Json out = Json::Object();
  const double formula = GoldenSeconds(golden, weights.combine, weights.alpha, weights.beta);
  out.Set("combine", CombineName(weights.combine));
  out.Set("alpha", weights.alpha);
  out.Set("beta", weights.beta);
  out.Set("step_time_s", formula);
  out.Set("simulated_step_time_s", e.StepSeconds());
  out.Set("relative_gap", formula / e.StepSeconds() - 1);
  Json all = Json::Object();
  for (const Combine combine : {Combine::kMax, Combine::kSum, Combine::kCriticalPath}) {
    all.Set(CombineName(combine) + "_s",
            GoldenSeconds(golden, combine, weights.alpha, weights.beta));
  }
  out.Set("by_combine", std::move(all));
  Json forward = Json::Object();
  for (const Combine combine : {Combine::kMax, Combine::kSum, Combine::kCriticalPath}) {
    forward.Set(CombineName(combine) + "_s", GoldenSeconds(golden, combine, weights.alpha,
                                                           weights.beta, FlopsReading::kForward));
  }
  out.Set("forward_only", std::move(forward));
  Json terms = Json::Array();
  for (const GoldenTerm& term : golden.terms) terms.Append(TermJson(term));
  out.Set("terms", std::move(terms));
  out.Set("critical_path", TermJson(golden.path));
  out.Set("p_align_s", golden.p_align_s);
  out.Set("p_align_wait_s", golden.align_wait_s);
  out.Set("p_align_move_s", golden.align_move_s);
  if (!golden.bubble.rule.empty()) {
    Json bubble = Json::Object();
    bubble.Set("seconds", golden.bubble.seconds);
    bubble.Set("rule", golden.bubble.rule);
    bubble.Set("closed_form", golden.bubble.closed);
    out.Set("bubble", std::move(bubble));
  }
  out.Set("not_in_formula_s", golden.not_in_formula_s);
  return out;
}

Json TimeJson(const TimeBreakdown& time) {
  Json out = Json::Object();
  out.Set("compute_s", time.compute_s);
  out.Set("exposed_comm_s", time.exposed_comm_s);
  out.Set("bubble_s", time.bubble_s);
  if (time.straggler_wait_s > 0) out.Set("straggler_wait_s", time.straggler_wait_s);
  out.Set("alignment_wait_s", time.alignment_wait_s);
  out.Set("data_wait_s", time.data_wait_s);
  out.Set("optimizer_s", time.optimizer_s);
  return out;
}

Json AlignmentJson(const Evaluation& e) {
  const AlignmentReport& a = e.alignment;
  Json out = Json::Object();
  out.Set("mar", e.AlignRatio());
  out.Set("imposed", e.program.alignment.imposed);
  out.Set("measured_mar", a.ratio);
  out.Set("penalty_s", e.Time().alignment_wait_s);
  out.Set("cross_modal_tokens_per_sample", e.scenario.sample.cross_modal_tokens);
  if (!a.any) return out;
  Json per = Json::Object();
  per.Set("mean_s", a.mean_s);
  per.Set("worst_s", a.worst_s);
  per.Set("worst", a.worst);
  out.Set("per_micro_batch", std::move(per));
  Json modules = Json::Array();
  for (const AlignmentOf& m : a.modules) {
    Json entry = Json::Object();
    entry.Set("module", e.scenario.model->modules[static_cast<std::size_t>(m.module)].name);
    entry.Set("tokens_per_step", m.tokens);
    entry.Set("aligned_share", m.tokens > 0 ? m.aligned / m.tokens : 1);
    entry.Set("elsewhere_share", m.tokens > 0 ? m.elsewhere / m.tokens : 0);
    entry.Set("late_share", m.tokens > 0 ? m.late / m.tokens : 0);
    entry.Set("wait_mean_s", m.wait_mean_s);
    entry.Set("wait_worst_s", m.wait_worst_s);
    entry.Set("move_mean_s", m.move_mean_s);
    entry.Set("move_worst_s", m.move_worst_s);
    modules.Append(std::move(entry));
  }
  out.Set("modules", std::move(modules));
  return out;
}

// What the router gives to every modality's adapter.
Json AdaptersJson(const Scenario& s) {
  Json out = Json::Array();
  for (const AdapterLoad& load : LoadOfAdapters(*s.model, s.workload, s.plan.adapter.misrouted)) {
    Json entry = Json::Object();
    entry.Set("modality", ModalityName(load.modality));
    entry.Set("own_share", load.own_share);
    entry.Set("share", load.share);
    entry.Set("foreign_share", load.foreign_share);
    out.Append(std::move(entry));
  }
  return out;
}

}  // namespace

std::string RankName(const Program& program, int index) {
  const RankClass& c = program.classes[static_cast<std::size_t>(index)];
  if (!c.consecutive || c.name.find("GPU") != std::string::npos)
    return c.name + " (" + c.layers + ")";
  const std::string first = std::to_string(c.first_gpu);
  const std::string gpus = c.count == 1
                               ? "GPU " + first
                               : "GPUs " + first + "-" + std::to_string(c.first_gpu + c.count - 1);
  return c.name + " (" + gpus + ": " + c.layers + ")";
}

std::string LimitName(Limit limit) {
  switch (limit) {
    case Limit::kCompute:
      return "compute";
    case Limit::kNetwork:
      return "network";
    case Limit::kAlignment:
      return "alignment";
    case Limit::kPipeline:
      return "pipeline";
    case Limit::kData:
      return "data";
  }
  return "";
}

std::string CombineName(Combine combine) {
  switch (combine) {
    case Combine::kMax:
      return "max";
    case Combine::kSum:
      return "sum";
    case Combine::kCriticalPath:
      return "critical_path";
  }
  return "";
}

namespace {

// The longest samples decide whether a plan fits, the mean ones how long it takes: memory is that of a
// step whose every micro-batch is the heaviest that may come. Its classes and times are put on those of
// the step that is shown. `scenario`: with all steps that were drawn.
MemoryReport MemoryOfHeaviest(const Scenario& scenario, const Evaluation& e,
                              const LowerOptions& options, Level level) {
  const Scenario heaviest = WithHeaviestSample(scenario);
  const Program program = Lower(heaviest, options);
  const Outcome outcome = Simulate(program, level);
  MemoryReport measured = MeasureMemory(heaviest, program, outcome);
  const double scale = e.outcome.StepSeconds() / std::max(outcome.StepSeconds(), 1e-12);
  for (ClassMemory& memory : measured.classes) {
    for (Time& time : memory.times) time = TimeFromSeconds(Seconds(time) * scale);
    memory.peak_time = TimeFromSeconds(Seconds(memory.peak_time) * scale);
  }
  MemoryReport report = measured;
  report.classes.clear();
  const int heavy = program.classes[static_cast<std::size_t>(measured.heaviest)].stage;
  report.heaviest = -1;
  for (std::size_t c = 0; c < e.program.classes.size(); ++c) {
    const int stage = e.program.classes[c].stage;
    std::size_t like = 0;
    while (program.classes[like].stage != stage) ++like;
    if (stage == heavy) like = static_cast<std::size_t>(measured.heaviest);
    if (stage == heavy && report.heaviest < 0) report.heaviest = static_cast<int>(c);
    report.classes.push_back(measured.classes[like]);
  }
  return report;
}

}  // namespace

Evaluation Evaluate(Scenario scenario, Level level, Fold fold, double epsilon) {
  const auto begin = std::chrono::steady_clock::now();
  Evaluation e;
  e.scenario = std::move(scenario);
  LowerOptions options;
  options.traffic = TrafficOf(level);
  options.fold = fold;
  if (!e.scenario.faults.link_changes.empty() && level == Level::kAnalytic) {
    ThrowInput(
        354, "a fault that begins or ends during the step needs the flow level",
        "--level flow; or remove from_s and until_s. For a report: aurum simulate --level flow "
        "--json -o R.json, then aurum report R.json");
  }
  const auto simulate = [&] {
    if (e.scenario.steps != nullptr) {
      e.data = SimulateData(e.scenario, options, level);
      e.scenario.step = &(*e.scenario.steps)[e.data->typical];
    }
    e.program = Lower(e.scenario, options);
    e.outcome = Simulate(e.program, level, epsilon);
  };
  simulate();
  if (e.outcome.schedule.stalled != kNoOp) {
    ThrowInput(355, "a transfer waits for a link that never comes back",
               "an until_s for every fault with factor 0", ExitCode::kInfeasible);
  }
  if (e.StepSeconds() > kLongestStep) {
    ThrowInput(340, "a step of this scenario would take longer than ten days",
               "faults that leave more of a link, or end earlier", ExitCode::kInfeasible);
  }
  if (e.scenario.workload.loader) {
    e.loader = StallOf(e.scenario, e.data ? e.data->mean_s : e.StepSeconds());
    e.scenario.data_stall_s = e.loader->stall_s;
    if (e.loader->stall_s > 0) simulate();
  }
  if (fold == Fold::kVerify) {
    options.fold = Fold::kOff;
    const Program unfolded = Lower(e.scenario, options);
    e.fold_check =
        CompareFolded(e.program, e.outcome, unfolded, Simulate(unfolded, level, epsilon));
  }
  if (e.scenario.variation.seeds > 0) e.varied = DrawSteps(e.scenario, level);
  if (e.scenario.goodput) {
    const Cluster& cluster = *e.scenario.cluster;
    e.goodput = ExpectedGoodput(*e.scenario.goodput, cluster.GpuCount(), cluster.nodes);
    // A thousand runs, or as many as have a few million events; under fifty, no p99 is told.
    constexpr double kEvents = 4e6;
    const double events =
        1 + e.goodput->interruptions + e.scenario.goodput->days * 86400 / e.goodput->interval_s;
    const int runs = static_cast<int>(std::min(1000.0, kEvents / events));
    if (runs >= 50) {
      e.goodput_samples =
          SampleGoodput(*e.scenario.goodput, cluster.GpuCount(), cluster.nodes, 0, runs);
    }
  }
  e.memory = e.data ? MemoryOfHeaviest(e.scenario, e, options, level)
                    : MeasureMemory(e.scenario, e.program, e.outcome);
  e.alignment = MeasureAlignment(e.program, e.outcome.schedule);
  e.golden = GoldenTerms(e.scenario, e.program);
  e.sync = MeasureGradientSync(e.scenario, e.program, e.outcome.schedule);
  e.sync.exposed_s = e.Time().dp_reduce_s + e.Time().dp_gather_s;
  e.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return e;
}

Evaluation EvaluateOneStep(Scenario scenario, Level level) {
  scenario.variation = {};
  scenario.goodput.reset();
  if (scenario.steps == nullptr || scenario.steps->size() == 1)
    return Evaluate(std::move(scenario), level);
  const Scenario all = scenario;
  scenario.steps = std::make_shared<const std::vector<StepLoads>>(scenario.steps->begin(),
                                                                  scenario.steps->begin() + 1);
  Evaluation e = Evaluate(std::move(scenario), level);
  LowerOptions options;
  options.traffic = TrafficOf(level);
  e.memory = MemoryOfHeaviest(all, e, options, level);
  return e;
}

double TokensPerStep(const Scenario& s) {
  if (s.steps != nullptr) {
    double tokens = 0;
    for (const StepLoads& step : *s.steps) {
      for (const SampleLoad& load : step.micro_batches) tokens += load.real_tokens;
    }
    return tokens / static_cast<double>(s.steps->size());
  }
  return static_cast<double>(s.workload.global_batch_size) *
         (s.sample.real_tokens + static_cast<double>(s.workload.new_tokens));
}

double ModelFlopsPerGpu(const Evaluation& e) {
  double total = 0;
  double gpus = 0;
  for (const RankClass& c : e.program.classes) {
    double flops = 0;
    for (const ModuleShare& share : c.modules) flops += share.model_flops;
    total += flops * c.count;
    gpus += c.count;
  }
  return total * static_cast<double>(e.program.micro_batches) / gpus;
}

double ModelFlopsUtilisation(const Evaluation& e) {
  return ModelFlopsPerGpu(e) / e.StepSeconds() / MeanPeakFlops(e.scenario);
}

Limit WhatLimits(const TimeBreakdown& time) {
  const double compute = time.compute_s + time.optimizer_s;
  Limit limit = Limit::kCompute;
  double most = compute;
  const auto consider = [&](Limit candidate, double seconds) {
    if (seconds > most) {
      most = seconds;
      limit = candidate;
    }
  };
  consider(Limit::kNetwork, time.exposed_comm_s);
  consider(Limit::kAlignment, time.alignment_wait_s);
  consider(Limit::kPipeline, time.bubble_s);
  consider(Limit::kData, time.data_wait_s);
  return limit;
}

Json DiagnosticJson(const Diagnostic& d) {
  Json out = Json::Object();
  out.Set("code", d.CodeName());
  out.Set("message", d.message);
  if (!d.where.file.empty()) out.Set("file", d.where.file);
  if (d.where.line > 0) {
    out.Set("line", d.where.line);
    out.Set("column", d.where.column);
  }
  if (!d.where.pointer.empty()) out.Set("pointer", d.where.pointer);
  if (!d.note.empty()) out.Set("note", d.note);
  if (!d.help.empty()) out.Set("help", d.help);
  return out;
}

Json TensorsJson(const ClassMemory& memory) {
  Json out = Json::Array();
  for (const PeakTensor& tensor : memory.largest) {
    Json entry = Json::Object();
    entry.Set("name", tensor.name);
    entry.Set("unit", tensor.unit);
    entry.Set("module", tensor.module);
    entry.Set("count", tensor.count);
    entry.Set("gib", tensor.bytes / kGiB);
    out.Append(std::move(entry));
  }
  return out;
}

Json ResultJson(const Evaluation& e, const GoldenWeights& weights,
                const std::string& tool_version) {
  const Scenario& s = e.scenario;
  Json out = Header("aurum.result/1", e, tool_version);
  const double step = e.StepSeconds();
  const double gpus = s.cluster->GpuCount();
  const double band = StepBand(s);
  out.Set("level", std::string(LevelName(e.outcome.level)));
  if (e.outcome.schedule.epsilon > 0) out.Set("sharing_epsilon", e.outcome.schedule.epsilon);
  out.Set("gpus", s.cluster->GpuCount());
  out.Set("step_time_s", step);
  out.Set("step_time_low_s", step * (1 - band));
  out.Set("step_time_high_s", step * (1 + band));
  out.Set("error_band", band);
  out.Set("provenance", ProvenanceName(e.program.provenance));
  out.Set("tokens_per_s", TokensPerStep(s) / step);
  out.Set("tokens_per_s_per_gpu", TokensPerStep(s) / step / gpus);
  out.Set("samples_per_s", static_cast<double>(s.workload.global_batch_size) / step);
  if (s.workload.task == Task::kGenerate) {
    out.Set("new_tokens_per_s",
            static_cast<double>(s.workload.global_batch_size * s.workload.new_tokens) / step);
  }
  if (s.target) {
    out.Set("target_steps", s.target->Steps());
    out.Set("time_to_target_s", s.target->Steps() * step);
  }
  if (s.budget) out.Set("budget", BudgetJson(JudgeBudget(e)));
  if (s.prices || s.target) out.Set("cost", CostJson(s, e.data ? e.data->mean_s : step));
  if (s.plan.adapter.per_modality) out.Set("adapters", AdaptersJson(s));
  out.Set("model_tflops_per_gpu", ModelFlopsPerGpu(e) / step / kTera);
  out.Set("mfu", ModelFlopsUtilisation(e));
  out.Set("limit", LimitName(WhatLimits(e.Time())));

  const ClassMemory& heaviest = e.memory.Heaviest();
  out.Set("fits", e.memory.fits);
  out.Set("at_risk", e.memory.at_risk);
  Json memory = Json::Object();
  memory.Set("peak_gib", heaviest.peak_bytes / kGiB);
  memory.Set("peak_low_gib", e.memory.low_bytes / kGiB);
  memory.Set("peak_high_gib", e.memory.high_bytes / kGiB);
  memory.Set("verdict", FitName(e.memory.verdict));
  memory.Set("device_gib", e.memory.device_bytes / kGiB);
  memory.Set("usable_gib", e.memory.usable_bytes / kGiB);
  memory.Set("over_gib", e.memory.over_bytes / kGiB);
  memory.Set("allocated_gib", heaviest.allocated_bytes / kGiB);
  memory.Set("reserved_gib", heaviest.reserved_bytes / kGiB);
  memory.Set("reserved_low_gib", e.memory.reserved_low_bytes / kGiB);
  memory.Set("reserved_high_gib", e.memory.reserved_high_bytes / kGiB);
  memory.Set("host_gib_per_node", e.memory.host_bytes_per_node / kGiB);
  memory.Set("left_bytes", heaviest.left_bytes);
  memory.Set("largest", MemoryComponentName(e.memory.largest));
  Json untold = Json::Array();
  for (const std::string& reason : e.memory.untold) untold.Append(reason);
  memory.Set("untold", std::move(untold));
  memory.Set("rank", RankName(e.program, e.memory.heaviest));
  memory.Set("at", heaviest.at);
  for (int i = 0; i < kMemoryComponents; ++i) {
    memory.Set(MemoryComponentName(static_cast<MemoryComponent>(i)) + "_gib",
               heaviest.at_peak[static_cast<std::size_t>(i)] / kGiB);
  }
  Json by_class = Json::Array();
  for (std::size_t c = 0; c < e.memory.classes.size(); ++c) {
    Json entry = Json::Object();
    entry.Set("rank_class", RankName(e.program, static_cast<int>(c)));
    entry.Set("peak_gib", e.memory.classes[c].peak_bytes / kGiB);
    by_class.Append(std::move(entry));
  }
  memory.Set("by_rank_class", std::move(by_class));
  memory.Set("tensors", TensorsJson(heaviest));
  out.Set("memory", std::move(memory));

  out.Set("time", TimeJson(e.Time()));
  const TimeBreakdown& t = e.Time();
  Json bubbles = Json::Object();
  bubbles.Set("dp_all_gather_s", t.dp_gather_s);
  bubbles.Set("dp_reduce_scatter_s", t.dp_reduce_s);
  bubbles.Set("tp_s", t.tp_s);
  bubbles.Set("cp_s", t.cp_s);
  bubbles.Set("ep_s", t.ep_s);
  bubbles.Set("host_s", t.host_s);
  bubbles.Set("pp_transfer_s", t.pp_transfer_s);
  bubbles.Set("pp_warmup_s", t.pp_warmup_s);
  bubbles.Set("pp_cooldown_s", t.pp_cooldown_s);
  bubbles.Set("pp_other_s", t.pp_other_s);
  out.Set("idle", std::move(bubbles));
  if (e.sync.collectives > 0) {
    Json sync = Json::Object();
    sync.Set("collectives", static_cast<std::int64_t>(e.sync.collectives));
    sync.Set("bytes", e.sync.bytes);
    sync.Set("window_s", e.sync.window_s);
    sync.Set("busy_s", e.sync.busy_s);
    sync.Set("exposed_s", e.sync.exposed_s);
    sync.Set("utilisation", e.sync.Utilisation());
    sync.Set("utilisation_while_busy", e.sync.UtilisationWhileBusy());
    out.Set("gradient_sync", std::move(sync));
  }
  out.Set("compute_slowed_by_communication_s", t.slowed_s);
  out.Set("time_rank", RankName(e.program, e.outcome.busiest_class));
  out.Set("alignment", AlignmentJson(e));
  out.Set("formula", GoldenJson(e, weights));
  Json tokens = Json::Object();
  tokens.Set("backbone_tokens_per_sample", s.sample.backbone_tokens);
  tokens.Set("forward_gflop_per_token",
             e.program.own_flops_per_token * e.program.flops_scale / kGiga);
  tokens.Set("own_forward_gflop_per_token", e.program.own_flops_per_token / kGiga);
  tokens.Set("bus_bandwidth_gb_per_s", e.program.own_bus_bandwidth * e.program.comm_scale / kGiga);
  tokens.Set("own_bus_bandwidth_gb_per_s", e.program.own_bus_bandwidth / kGiga);
  out.Set("axes", std::move(tokens));
  Json plan = Json::Object();
  plan.Set("tp", s.plan.tp);
  plan.Set("pp", s.plan.pp);
  plan.Set("cp", s.plan.cp);
  plan.Set("ep", s.plan.ep);
  plan.Set("vpp", s.plan.vpp);
  plan.Set("schedule", std::string(ScheduleName(s.plan.schedule)));
  plan.Set("dp", s.plan.dp);
  plan.Set("micro_batch_size", s.plan.micro_batch_size);
  plan.Set("micro_batches", s.plan.micro_batches);
  out.Set("plan", std::move(plan));
  out.Set("signature", e.outcome.signature);
  out.Set("ops", static_cast<std::int64_t>(e.program.graph.op_count()));
  if (e.fold_check) {
    Json check = Json::Object();
    check.Set("equal", e.fold_check->equal);
    check.Set("ranks", static_cast<std::int64_t>(e.fold_check->ranks));
    check.Set("kernels", static_cast<std::int64_t>(e.fold_check->kernels));
    if (!e.fold_check->equal) check.Set("difference", e.fold_check->difference);
    out.Set("fold_check", std::move(check));
  }
  if (!s.faults.told.empty()) {
    Json told = Json::Array();
    for (const std::string& line : s.faults.told) told.Append(line);
    out.Set("faults", std::move(told));
  }
  if (e.data) {
    const DataFigures& f = e.data->figures;
    Json data = Json::Object();
    data.Set("steps", static_cast<std::int64_t>(e.data->step_s.size()));
    data.Set("mean_s", e.data->mean_s);
    data.Set("p50_s", e.data->Quantile(0.5));
    data.Set("p99_s", e.data->Quantile(0.99));
    data.Set("min_s", e.data->step_s.front());
    data.Set("max_s", e.data->step_s.back());
    data.Set("tokens_per_sample_mean", f.tokens.mean);
    data.Set("tokens_per_sample_p99", f.tokens.p99);
    data.Set("tokens_per_sample_max", f.tokens.max);
    data.Set("samples_per_step", f.samples_per_step);
    data.Set("padding_share", f.padding_share);
    data.Set("pack_fill", f.pack_fill);
    data.Set("text_only_share", f.text_only_share);
    Json modules = Json::Array();
    for (const DataFigures::ModuleFigures& m : f.modules) {
      Json module = Json::Object();
      module.Set("name", m.name);
      module.Set("imbalance", m.imbalance);
      module.Set("lockstep_imbalance", m.lockstep_imbalance);
      module.Set("moved_tokens_per_step", m.moved_tokens);
      module.Set("padding_share", m.padding_share);
      modules.Append(std::move(module));
    }
    data.Set("modules", std::move(modules));
    out.Set("data", std::move(data));
  }
  AddDataJson(e, &out);
  if (e.varied) {
    Json varied = Json::Object();
    varied.Set("steps", static_cast<std::int64_t>(e.varied->step_s.size()));
    varied.Set("mean_s", e.varied->mean_s);
    varied.Set("p50_s", e.varied->Quantile(0.5));
    varied.Set("p99_s", e.varied->Quantile(0.99));
    varied.Set("min_s", e.varied->step_s.front());
    varied.Set("max_s", e.varied->step_s.back());
    if (e.sync.collectives > 0) {
      varied.Set("gradient_sync_p50_s", e.varied->SyncQuantile(0.5));
      varied.Set("gradient_sync_p99_s", e.varied->SyncQuantile(0.99));
    }
    out.Set("variation", std::move(varied));
  }
  if (e.goodput) {
    constexpr double kDay = 86400;
    const Goodput& g = *e.goodput;
    Json goodput = Json::Object();
    goodput.Set("fraction", g.fraction);
    goodput.Set("training_days", e.scenario.goodput->days);
    goodput.Set("expected_days", g.expected_s / kDay);
    if (e.goodput_samples) {
      goodput.Set("p50_days", e.goodput_samples->p50_s / kDay);
      goodput.Set("p99_days", e.goodput_samples->p99_s / kDay);
    }
    goodput.Set("checkpoint_interval_s", g.interval_s);
    goodput.Set("steps_between_checkpoints", g.interval_s / step);
    goodput.Set("interruptions", g.interruptions);
    goodput.Set("tokens_per_s", TokensPerStep(s) / step * g.fraction);
    goodput.Set("checkpoint_share", g.checkpoint_share);
    goodput.Set("lost_work_share", g.lost_work_share);
    goodput.Set("detection_share", g.detection_share);
    goodput.Set("restart_share", g.restart_share);
    out.Set("goodput", std::move(goodput));
  }
  out.Set("rank_classes", static_cast<std::int64_t>(e.program.classes.size()));
  out.Set("simulation_wall_s", CoarseWall(e.wall_s));
  return out;
}

Json FormulaJson(const Evaluation& e, const GoldenWeights& weights,
                 const std::string& tool_version) {
  Json out = Header("aurum.formula/1", e, tool_version);
  const Json formula = GoldenJson(e, weights);
  for (const auto& [key, value] : formula.members()) out.Set(key, value);
  return out;
}

}  // namespace aurum
