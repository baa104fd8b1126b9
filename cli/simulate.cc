#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/io.h"
#include "cli/version.h"
#include "sim/core/units.h"
#include "sim/study/point.h"

namespace aurum {
namespace {

std::string Summary(const Evaluation& e, const GoldenWeights& weights, Format format) {
  const Scenario& s = e.scenario;
  const double step = e.StepSeconds();
  const double band = s.profile->error_band;
  const TimeBreakdown& t = e.Time();
  const ClassMemory& m = e.memory.Heaviest();
  const std::string verdict = !e.memory.fits     ? "does NOT fit"
                              : e.memory.at_risk ? "fits, but at risk"
                                                 : "fits";
  Table facts({"", ""}, "<<");
  facts.Row({"model", s.model->name});
  facts.Row({"cluster", fmt::format("{} ({} × {})", s.cluster->name, s.cluster->GpuCount(),
                                    s.cluster->gpu.name)});
  facts.Row({"plan", DescribePlan(s.plan)});
  facts.Row({"", fmt::format("stack {}, {}", s.stack->name, DescribeRecipe(s.plan))});
  facts.Row({"sample",
             fmt::format("{} tokens, {} of them from media; {} samples a step",
                         ShowNumber(s.sample.backbone_tokens),
                         ShowNumber(s.sample.cross_modal_tokens), s.workload.global_batch_size)});
  facts.Row({e.memory.fits ? "step time" : "step time, if it fitted",
             fmt::format("{}  [{} – {}]  ({})", ShowSeconds(step), ShowSeconds(step * (1 - band)),
                         ShowSeconds(step * (1 + band)), ProvenanceName(e.program.provenance))});
  facts.Row({"level", std::string(LevelName(e.outcome.level)) +
                          (e.outcome.schedule.epsilon > 0
                               ? fmt::format(", rates within {} of fair",
                                             ShowPercent(e.outcome.schedule.epsilon))
                               : "") +
                          (e.fold_check ? fmt::format("; folded = unfolded: {} kernels of {} ranks",
                                                      e.fold_check->kernels, e.fold_check->ranks)
                                        : "")});
  for (std::size_t i = 0; i < s.faults.told.size() && i < 6; ++i)
    facts.Row({i == 0 ? "faults" : "", s.faults.told[i]});
  if (s.faults.told.size() > 6)
    facts.Row({"", fmt::format("and {} more", s.faults.told.size() - 6)});
  if (e.goodput) {
    constexpr double kDay = 86400;
    facts.Row(
        {"goodput",
         fmt::format("{} of the time trains: {} days take {}{}, {} "
                     "interruptions, a checkpoint every {}",
                     ShowPercent(e.goodput->fraction), ShowNumber(s.goodput->days),
                     ShowNumber(e.goodput->expected_s / kDay),
                     e.goodput_samples
                         ? fmt::format(" (p99 {})", ShowNumber(e.goodput_samples->p99_s / kDay))
                         : "",
                     ShowNumber(e.goodput->interruptions), ShowSeconds(e.goodput->interval_s))});
  }
  if (e.varied) {
    const auto over = [&](double seconds) {
      return fmt::format("{} ({:+.1f} %)", ShowSeconds(seconds), (seconds / step - 1) * 100);
    };
    facts.Row({"with variation",
               fmt::format("p50 {}, p99 {}, mean {} of {} steps", over(e.varied->Quantile(0.5)),
                           over(e.varied->Quantile(0.99)), over(e.varied->mean_s),
                           e.varied->step_s.size())});
  }
  facts.Row({"throughput",
             fmt::format("{} tokens/s, {} tokens/s per GPU, {} samples/s",
                         ShowNumber(TokensPerStep(s) / step),
                         ShowNumber(TokensPerStep(s) / step / s.cluster->GpuCount()),
                         ShowNumber(static_cast<double>(s.workload.global_batch_size) / step))});
  if (s.workload.task == Task::kGenerate) {
    facts.Row(
        {"generation", fmt::format("{} new tokens/s; the tokens above count the prompt",
                                   ShowNumber(static_cast<double>(s.workload.global_batch_size *
                                                                  s.workload.new_tokens) /
                                              step))});
  }
  facts.Row({"model FLOP/s", fmt::format("{} TFLOP/s per GPU, MFU {}",
                                         ShowNumber(ModelFlopsPerGpu(e) / step / kTera),
                                         ShowPercent(ModelFlopsUtilisation(e)))});
  facts.Row(
      {"memory",
       fmt::format("{} of {} on {}: {}", ShowBytes(m.peak_bytes), ShowBytes(e.memory.device_bytes),
                   e.program.classes[static_cast<std::size_t>(e.memory.heaviest)].name, verdict)});
  facts.Row({"limited by", LimitName(WhatLimits(t))});

  Table time({"where the time goes", "time", "share"}, "<>>");
  const auto row = [&](const std::string& name, double seconds) {
    time.Row({name, ShowSeconds(seconds), ShowPercent(seconds / step)});
  };
  row("compute", t.compute_s);
  if (t.slowed_s > 0.001 * step) row("  of it slowed by hidden communication", t.slowed_s);
  row("exposed communication", t.exposed_comm_s);
  row("pipeline bubble", t.bubble_s);
  if (t.straggler_wait_s > 0) row("wait for a slower rank", t.straggler_wait_s);
  row("alignment wait", t.alignment_wait_s);
  row("host, data", t.data_wait_s);
  row("optimizer", t.optimizer_s);

  Table memory({"memory at the peak (" + m.at + ")", "size"}, "<>");
  for (int i = 0; i < kMemoryComponents; ++i) {
    const double bytes = m.at_peak[static_cast<std::size_t>(i)];
    if (bytes > 0)
      memory.Row({MemoryComponentName(static_cast<MemoryComponent>(i)), ShowBytes(bytes)});
  }

  Table formula({"golden formula, k", "F/B", "G/C", "Comm"}, "<>>>");
  for (const GoldenTerm& term : e.golden.terms) {
    formula.Row({term.module, ShowSeconds(term.f_over_b_s), ShowSeconds(term.g_over_c_s),
                 ShowSeconds(term.comm_s)});
  }
  const double golden = GoldenSeconds(e.golden, weights.combine, weights.alpha, weights.beta);
  std::string out = facts.As(format) + "\n" + time.As(format) + "\n" + memory.As(format) + "\n" +
                    formula.As(format);
  out += fmt::format(
      "\nT = {}_k[F/B + G/C + {}·Comm] + {}·{} = {}  ({:+.1f} % against the simulation)\n",
      CombineName(weights.combine), weights.alpha, weights.beta, ShowSeconds(e.golden.p_align_s),
      ShowSeconds(golden), (golden / step - 1) * 100);
  out += fmt::format("alignment ratio (MAR) {:.3g}{}\n", e.program.alignment.ratio,
                     e.program.alignment.imposed ? ", imposed" : "");
  return out;
}

// One row: the figures of the JSON document that are numbers at its top level.
std::string ResultCsv(const Json& result) {
  std::string header, values;
  for (const auto& [key, value] : result.members()) {
    if (!value.IsNumber() && !value.IsBool()) continue;
    header += (header.empty() ? "" : ",") + key;
    values += (values.empty() ? "" : ",") + value.Dump();
  }
  return header + "\n" + values + "\n";
}

// What would make the plan smaller and is not done yet.
std::string SmallerPlan(const Scenario& s) {
  std::string help;
  const auto add = [&](const std::string& fix) { help += (help.empty() ? "" : ", or ") + fix; };
  if (s.workload.task == Task::kTrain) {
    if (s.plan.sharding != Sharding::kFsdp && s.plan.dp > 1) add("--set plan.sharding=fsdp");
    if (s.plan.recompute.scope != RecomputeScope::kFull) add("--set plan.recompute=full");
  }
  if (s.plan.micro_batch_size > 1)
    add("--set plan.micro_batch_size=" + std::to_string(s.plan.micro_batch_size / 2));
  add(s.plan.dp > 1 ? "a larger tp or pp" : "more GPUs");
  if (s.plan.dp > 1) add("more GPUs");
  return help +
         "; aurum report ranks what each costs. The time is what a step would take if it fitted";
}

}  // namespace

ExitCode SimulateCommand(const Options& options, const std::string& file) {
  const JsonDocument document = OpenScenario(options, file);
  InputCache cache(options.data_root);
  Scenario scenario = ReadScenario(document, &cache);
  if (options.dry_run) {
    PrintWarnings(options, scenario.warnings);
    Narrate(options, "'" + file + "' is valid");
    return ExitCode::kOk;
  }
  const Evaluation e = Evaluate(std::move(scenario), options.level, options.fold, options.epsilon);
  PrintWarnings(options, e.scenario.warnings);
  Json result = ResultJson(e, options.weights, kToolVersion);
  result.Set("scenario", WithoutSweep(document.root));
  switch (options.format) {
    case Format::kJson:
      WriteOutput(options, result.Dump(2) + "\n");
      break;
    case Format::kJsonLines:
      WriteOutput(options, result.Dump() + "\n");
      break;
    case Format::kCsv:
      WriteOutput(options, ResultCsv(result));
      break;
    default:
      WriteOutput(options, Summary(e, options.weights, options.format));
      break;
  }
  if (e.fold_check && !e.fold_check->equal) {
    Diagnostic d;
    d.code = 770;
    d.message = "folded and unfolded simulation differ: " + e.fold_check->difference;
    d.help = "--fold off is right; please report the scenario";
    PrintDiagnostic(options, d);
    return ExitCode::kOutsideTolerance;
  }
  if (!e.memory.fits) {
    Diagnostic d;
    d.code = 401;
    d.message =
        fmt::format("the plan does not fit: {} of {} on {}, at {}",
                    ShowBytes(e.memory.Heaviest().peak_bytes), ShowBytes(e.memory.device_bytes),
                    e.program.classes[static_cast<std::size_t>(e.memory.heaviest)].name,
                    e.memory.Heaviest().at);
    d.help = SmallerPlan(e.scenario);
    PrintDiagnostic(options, d);
    return ExitCode::kInfeasible;
  }
  return ExitCode::kOk;
}

ExitCode FormulaCommand(const Options& options, const std::string& file) {
  const JsonDocument document = OpenScenario(options, file);
  InputCache cache(options.data_root);
  const Evaluation e = Evaluate(ReadScenario(document, &cache), options.level, options.fold);
  PrintWarnings(options, e.scenario.warnings);
  const Json result = FormulaJson(e, options.weights, kToolVersion);
  if (options.format == Format::kJson || options.format == Format::kJsonLines) {
    WriteOutput(options, result.Dump(options.format == Format::kJson ? 2 : -1) + "\n");
    return ExitCode::kOk;
  }
  Table terms({"k", "F", "B", "F/B", "G", "C", "G/C", "Comm"}, "<>>>>>>>");
  const auto row = [&](const GoldenTerm& t) {
    terms.Row({t.module, ShowNumber(t.flops / kTera) + " TFLOP",
               ShowNumber(t.rate_flops_per_s / kTera) + " TFLOP/s", ShowSeconds(t.f_over_b_s),
               ShowBytes(t.gradient_bytes), ShowRate(t.gradient_bytes_per_s),
               ShowSeconds(t.g_over_c_s), ShowSeconds(t.comm_s)});
  };
  for (const GoldenTerm& term : e.golden.terms) row(term);
  Table totals({"combine", "T", "against the simulation"}, "<>>");
  for (const Combine combine : {Combine::kMax, Combine::kSum, Combine::kCriticalPath}) {
    const double seconds =
        GoldenSeconds(e.golden, combine, options.weights.alpha, options.weights.beta);
    totals.Row({CombineName(combine), ShowSeconds(seconds),
                fmt::format("{:+.1f} %", (seconds / e.StepSeconds() - 1) * 100)});
  }
  totals.Row({"simulation", ShowSeconds(e.StepSeconds()), ""});
  std::string out = terms.As(options.format);
  if (options.format != Format::kCsv) {
    out += fmt::format(
        "\nα = {}, β = {}, P_align = {}; optimizer and host, which the formula leaves out: {}\n\n",
        options.weights.alpha, options.weights.beta, ShowSeconds(e.golden.p_align_s),
        ShowSeconds(e.golden.not_in_formula_s));
    out += totals.As(options.format);
  }
  WriteOutput(options, out);
  return ExitCode::kOk;
}

}  // namespace aurum
