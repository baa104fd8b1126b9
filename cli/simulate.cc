#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "cli/commands.h"
#include "cli/io.h"
#include "cli/version.h"
#include "reports/pipeline_boxes.h"
#include "reports/trace.h"
#include "sim/core/text_file.h"
#include "sim/core/units.h"
#include "sim/monitor/metrics.h"
#include "sim/plan/pools.h"
#include "sim/study/budget.h"
#include "sim/study/busy_split.h"
#include "sim/study/cost.h"
#include "sim/study/data_report.h"
#include "sim/study/fixes.h"
#include "sim/study/phases.h"
#include "sim/study/point.h"

namespace aurum {
namespace {

constexpr std::size_t kFixesShown = 5;

std::string HeaviestName(const Evaluation& e) {
  return e.program.classes[static_cast<std::size_t>(e.memory.heaviest)].name;
}

// The verdict and what it rests on.
void MemoryFacts(const Evaluation& e, Table* facts) {
  const MemoryReport& report = e.memory;
  const ClassMemory& m = report.Heaviest();
  const std::string margin =
      report.over_bytes > 0
          ? ShowBytes(report.over_bytes) + " too much"
          : ShowBytes(std::max(report.usable_bytes - m.peak_bytes, 0.0)) + " free";
  facts->Row({"memory", fmt::format("{}: {} of {} usable, {}, on {}", FitName(report.verdict),
                                    ShowBytes(m.peak_bytes), ShowBytes(report.usable_bytes), margin,
                                    HeaviestName(e))});
  facts->Row({"", fmt::format("mostly {} ({}); at: {}", MemoryComponentName(report.largest),
                              ShowPercent(m.at_peak[static_cast<std::size_t>(report.largest)] /
                                          m.peak_bytes),
                              m.at)});
  if (report.host_bytes_per_node > 0)
    facts->Row({"host memory", ShowBytes(report.host_bytes_per_node) + " of every node"});
}

// What steps of different samples do, where they differ.
void DataFacts(const Evaluation& e, Table* facts) {
  const DataSteps& data = *e.data;
  const DataFigures& figures = data.figures;
  facts->Row({"steps",
              fmt::format("mean {}, p50 {}, p99 {} of {} drawn; what follows is of the typical one",
                          ShowSeconds(data.mean_s), ShowSeconds(data.Quantile(0.5)),
                          ShowSeconds(data.Quantile(0.99)), data.step_s.size())});
  facts->Row({"data", fmt::format("padding {} of the backbone's tokens, text only {} of the "
                                  "micro-batches; memory is of the heaviest sample",
                                  ShowPercent(figures.padding_share),
                                  ShowPercent(figures.text_only_share))});
  std::string imbalance;
  for (const DataFigures::ModuleFigures& module : figures.modules) {
    imbalance +=
        fmt::format("{}{} × {:.2f}", imbalance.empty() ? "" : ", ", module.name, module.imbalance);
  }
  facts->Row({"", "busiest replica over the mean: " + imbalance});
}

std::string MemoryTables(const Evaluation& e, bool verbose, Format format) {
  const MemoryReport& report = e.memory;
  const ClassMemory& m = report.Heaviest();
  Table memory({"memory at the peak (" + m.at + ")", "size"}, "<>");
  for (int i = 0; i < kMemoryComponents; ++i) {
    const double bytes = m.at_peak[static_cast<std::size_t>(i)];
    if (bytes > 0)
      memory.Row({MemoryComponentName(static_cast<MemoryComponent>(i)), ShowBytes(bytes)});
  }
  // The three figures that tools show: torch's allocated and reserved, and the device's own.
  Table seen({"as tools show it", "GiB", "90 %"}, "<>>");
  const auto row = [&](const char* name, double bytes, double low, double high) {
    seen.Row(
        {name, ShowNumber(bytes / kGiB),
         fmt::format("{} – {}", ShowNumber(std::max(low, 0.0) / kGiB), ShowNumber(high / kGiB))});
  };
  const double below = m.peak_bytes - report.low_bytes, above = report.high_bytes - m.peak_bytes;
  row("allocated", m.allocated_bytes, m.allocated_bytes - below, m.allocated_bytes + above);
  row("reserved", m.reserved_bytes, report.reserved_low_bytes, report.reserved_high_bytes);
  row("device", m.peak_bytes, report.low_bytes, report.high_bytes);
  std::string out = memory.As(format) + "\n" + seen.As(format);
  for (const std::string& reason : report.untold)
    out += Apart(format) + "wider, because " + reason + "\n";
  if (verbose && !m.largest.empty()) {
    Table tensors({"tensors at the peak", "of", "count", "size"}, "<<>>");
    for (const PeakTensor& tensor : m.largest) {
      tensors.Row({tensor.name, tensor.module + (tensor.module.empty() ? "" : ", ") + tensor.unit,
                   fmt::format("{:.4g}", tensor.count), ShowBytes(tensor.bytes)});
    }
    out += "\n" + tensors.As(format);
  }
  return out;
}

std::string FixTable(const FixSearch& search, Format format) {
  if (search.fixes.empty()) {
    return fmt::format(
        "\nNo change of this plan makes it smaller ({} simulated): more GPUs, or GPUs "
        "with more memory.\n",
        search.tried);
  }
  Table table({"fixes, cheapest first", "step", "peak", "then", "change"}, "<>><<");
  std::string cautions;
  for (std::size_t i = 0; i < std::min(search.fixes.size(), kFixesShown); ++i) {
    const Fix& fix = search.fixes[i];
    std::string set;
    for (const std::string& word : fix.set) set += (set.empty() ? "--set " : " --set ") + word;
    const double more = 100 * fix.step_delta_s / (fix.step_s - fix.step_delta_s);
    table.Row({fix.what, fmt::format("{:+.1f} %", std::abs(more) < 0.05 ? 0.0 : more),
               ShowBytes(fix.peak_bytes), FitName(fix.verdict), set});
    if (!fix.caution.empty() && cautions.find(fix.caution) == std::string::npos)
      cautions += fix.set.back() + ": " + fix.caution + "\n";
  }
  return "\n" + table.As(format) + Apart(format) + cautions +
         fmt::format("{} changes simulated, {} of them make it smaller\n", search.tried,
                     search.fixes.size());
}

// What --width says, else what the terminal has, else 100.
int TimelineColumns(const Options& options) {
  if (options.width > 0) return options.width;
  winsize size{};
  if (options.output.empty() && isatty(STDOUT_FILENO) != 0 &&
      ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40)
    return size.ws_col;
  return 100;
}

std::string AlignmentLine(const Evaluation& e) {
  std::string line = fmt::format("alignment ratio (MAR) {:.3g}{}", e.AlignRatio(),
                                 e.program.alignment.imposed ? ", imposed" : ", measured");
  const AlignmentReport& a = e.alignment;
  if (e.program.alignment.imposed && std::abs(a.ratio - e.AlignRatio()) > 5e-4)
    line += fmt::format(" ({:.3g} measured)", a.ratio);
  if (a.worst_s > 0) {
    line +=
        fmt::format("; a micro-batch waits {} for the last modality, at most {} (micro-batch {})",
                    ShowSeconds(a.mean_s), ShowSeconds(a.worst_s), a.worst);
  }
  return line + "\n";
}

// Which devices there are, and how long each kind waits for others.
void PoolFacts(const Evaluation& e, Table* facts) {
  const Scenario& s = e.scenario;
  for (std::size_t pool = 0; pool <= s.pools.size(); ++pool) {
    int gpus = 0;
    double most = 0;
    for (std::size_t c = 0; c < e.program.classes.size(); ++c) {
      const RankClass& of = e.program.classes[c];
      if (PoolOf(s, of.first_gpu) != pool) continue;
      gpus += of.count;
      most = std::max(most, e.outcome.time[c].straggler_wait_s + e.outcome.time[c].exposed_comm_s);
    }
    if (gpus == 0) continue;
    facts->Row({"", fmt::format("{} × {}: at most {} of a step in collectives and waiting for "
                                "slower ranks",
                                gpus, ProfileOfPool(s, pool).device.name,
                                ShowPercent(most / e.StepSeconds()))});
  }
}

// What the reader pays for it.
void CostFacts(const Evaluation& e, Table* facts) {
  const Scenario& s = e.scenario;
  const RunCost step = CostOf(s, e.data ? e.data->mean_s : e.StepSeconds());
  const auto row = [&](const char* name, const RunCost& cost, const char* of) {
    std::string text = cost.money_known
                           ? ShowNumber(cost.money) + " " + s.prices->currency
                           : "not known: a kWh has a price, and no profile tells how many";
    text += fmt::format(" for {}: {} GPU-hours", of, ShowNumber(cost.gpu_hours));
    if (cost.energy_known) text += ", at most " + ShowNumber(cost.energy_kwh) + " kWh";
    facts->Row({name, text});
  };
  row("cost", step, "a step");
  if (s.target) row("", Times(step, s.target->Steps()), "all steps to the target");
}

std::string Summary(const Evaluation& e, const FixSearch& search, const Options& options) {
  const Format format = options.format;
  const GoldenWeights& weights = options.weights;
  const Scenario& s = e.scenario;
  const double step = e.StepSeconds();
  const double band = StepBand(s);
  const TimeBreakdown& t = e.Time();
  Table facts({"", ""}, "<<");
  facts.Row({"model", s.model->name});
  for (const Scenario::Input& input : s.inputs) {
    if (input.role == "prune") facts.Row({"", "pruned: " + input.name});
  }
  facts.Row({"cluster", fmt::format("{} ({} × {})", s.cluster->name, s.cluster->GpuCount(),
                                    s.cluster->gpu.name)});
  if (!s.pools.empty()) PoolFacts(e, &facts);
  facts.Row({"plan", DescribePlan(s.plan)});
  if (const std::string encoders = DescribeEncoders(s.plan, *s.model); !encoders.empty())
    facts.Row({"", encoders});
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
  if (e.data) DataFacts(e, &facts);
  for (const auto& [name, text] : DescribeData(e)) facts.Row({name, text});
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
  if (s.target) {
    facts.Row(
        {"to the target", fmt::format("{} for {} steps", ShowSeconds(s.target->Steps() * step),
                                      ShowNumber(s.target->Steps()))});
  }
  if (s.prices) CostFacts(e, &facts);
  const std::vector<BudgetLine> budget = JudgeBudget(e);
  for (const BudgetLine& line : budget) {
    facts.Row({&line == budget.data() ? "budget" : "",
               line.known
                   ? fmt::format("{} {}: {} of {} {} ({})", line.exceeded ? "exceeded," : "within,",
                                 line.item, ShowNumber(line.used), ShowNumber(line.allowed),
                                 line.unit, line.basis)
                   : fmt::format("not known, {}: {}", line.item, line.basis)});
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
  if (e.sync.collectives > 0) {
    facts.Row({"gradients",
               fmt::format("{} reductions within {}, links {} full while one runs, {} of the whole",
                           e.sync.collectives, ShowSeconds(e.sync.window_s),
                           ShowPercent(e.sync.UtilisationWhileBusy()),
                           ShowPercent(e.sync.Utilisation()))});
    if (e.varied) {
      facts.Row({"", fmt::format("with variation p50 {}, p99 {}",
                                 ShowSeconds(e.varied->SyncQuantile(0.5)),
                                 ShowSeconds(e.varied->SyncQuantile(0.99)))});
    }
  }
  MemoryFacts(e, &facts);
  facts.Row({"limited by", LimitName(WhatLimits(t))});
  if (WhatLimits(t) == Limit::kData) {
    facts.Row({"",
               "more workload.loader.workers, a prefetch above 0, faster storage, or samples "
               "decoded beforehand"});
  }

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

  Table busy(
      {"what GPUs do", "compute-bound", "memory-bound", "communication", "idle", "\"utilisation\""},
      "<>>>>>");
  if (options.verbose) {
    const std::vector<BusySplit> split = SplitBusyTime(e);
    constexpr std::size_t kClassesShown = 16;
    for (std::size_t c = 0; c < std::min(split.size(), kClassesShown); ++c) {
      busy.Row({e.program.classes[c].name, ShowPercent(split[c].compute_bound_s / step),
                ShowPercent(split[c].memory_bound_s / step),
                ShowPercent(split[c].communication_s / step), ShowPercent(split[c].idle_s / step),
                ShowPercent(split[c].Utilisation())});
    }
  }

  Table formula({"golden formula, k", "F/B", "G/C", "Comm"}, "<>>>");
  for (const GoldenTerm& term : e.golden.terms) {
    formula.Row({term.module, ShowSeconds(term.f_over_b_s), ShowSeconds(term.g_over_c_s),
                 ShowSeconds(term.comm_s)});
  }
  const double golden = GoldenSeconds(e.golden, weights.combine, weights.alpha, weights.beta);
  std::string out = facts.As(format) + "\n" + time.As(format) + "\n" +
                    (options.verbose ? busy.As(format) + "\n" : std::string()) +
                    MemoryTables(e, options.verbose, format) + "\n" + formula.As(format);
  out += fmt::format(
      "\nT = {}_k[F/B + G/C + {}·Comm] + {}·{} = {}  ({:+.1f} % against the simulation)\n",
      CombineName(weights.combine), weights.alpha, weights.beta, ShowSeconds(e.golden.p_align_s),
      ShowSeconds(golden), (golden / step - 1) * 100);
  out += AlignmentLine(e);
  if (e.memory.verdict != Fit::kFits) out += FixTable(search, format);
  if (options.timeline) {
    const std::string drawing =
        PipelineText(DrawPipeline(*s.model, e.program, e.outcome, TimelineColumns(options)));
    out += format == Format::kMarkdown ? "\n```\n" + drawing + "```\n" : "\n" + drawing;
  }
  return out;
}

// The first fix in a line, for the message beside the exit code.
std::string Remedy(const FixSearch& search) {
  const bool found = !search.fixes.empty() && search.fixes.front().verdict != Fit::kDoesNotFit;
  std::string help;
  if (found) {
    for (const std::string& word : search.fixes.front().set) help += "--set " + word + " ";
    help += search.fixes.front().verdict == Fit::kFits ? "makes it fit" : "brings it to the edge";
  } else {
    help = fmt::format(
        "none of {} changes that were simulated makes it fit: more GPUs, or GPUs "
        "with more memory",
        search.tried);
  }
  return help + ". The time is what a step would take if it fitted";
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

}  // namespace

namespace {

ExitCode SimulatePhases(const Options& options, const JsonDocument& document, InputCache* cache) {
  if (options.timeline || options.verbose || !options.trace.empty() ||
      !options.prometheus.empty() || options.fold == Fold::kVerify) {
    ThrowInput(
        1, "a scenario with phases has a step for each of them: no one step to draw or trace",
        "--set phases=[] takes the scenario without its phases; a phase's own values go in by "
        "--set too",
        ExitCode::kUsage);
  }
  const PhasesResult result = RunPhases(document, cache, options.level);
  if (options.format == Format::kJson || options.format == Format::kJsonLines) {
    WriteOutput(
        options,
        WithRunId(PhasesJson(result, kToolVersion)).Dump(options.format == Format::kJson ? 2 : -1) +
            "\n");
  } else {
    Table table({"phase", "steps", "a step", "limit", "entries", "moved", "switch", "in all"},
                "<>><>>>>");
    std::string idle;
    for (const PhaseResult& phase : result.phases) {
      table.Row({phase.name, ShowNumber(phase.steps), ShowSeconds(phase.step_s),
                 phase.limit + (phase.fits ? "" : ", does not fit"), std::to_string(phase.entries),
                 ShowBytes(phase.reshard.total_bytes), ShowSeconds(phase.reshard.seconds),
                 ShowSeconds(phase.total_s)});
      for (const std::string& module : phase.idle)
        idle += phase.name + ": '" + module + "' has nothing to do and keeps its memory\n";
    }
    std::string out = table.As(options.format);
    if (options.format != Format::kCsv) {
      out += Apart(options.format) + idle +
             fmt::format("{} in all; {} switches of plans take {} of it\n",
                         ShowSeconds(result.total_s), result.switches,
                         ShowPercent(result.reshard_s / std::max(result.total_s, 1e-12)));
      out +=
          "entries: from another phase; moved: weights and states that come to GPUs without them, "
          "all GPUs, and what that takes, at one entry\n";
      for (const BudgetLine& line : result.budget) {
        out += fmt::format("budget, {}: {} of {} {}{}\n", line.item, ShowNumber(line.used),
                           ShowNumber(line.allowed), line.unit, line.exceeded ? ", exceeded" : "");
      }
    }
    WriteOutput(options, out);
  }
  if (Exceeded(result.budget)) {
    Diagnostic d;
    d.code = 656;
    d.message = "the phases exceed the budget: " + DescribeExceeded(result.budget);
    d.help = "other plans, fewer steps, or a larger budget";
    PrintDiagnostic(options, d);
    return ExitCode::kInfeasible;
  }
  for (const PhaseResult& phase : result.phases) {
    if (phase.fits) continue;
    Diagnostic d;
    d.code = 401;
    d.message = "phase '" + phase.name + "' does not fit";
    d.help =
        "aurum simulate with its values by --set, and no phases, says by how much and what helps";
    PrintDiagnostic(options, d);
    return ExitCode::kInfeasible;
  }
  return ExitCode::kOk;
}

}  // namespace

ExitCode SimulateCommand(const Options& options, const std::string& file) {
  const JsonDocument document = OpenScenario(options, file);
  InputCache cache(options.data_root);
  if (HasPhases(document) && !options.dry_run) return SimulatePhases(options, document, &cache);
  Scenario scenario = ReadScenario(document, &cache);
  RefuseToReplace(
      scenario,
      {{"-o", options.output}, {"--trace", options.trace}, {"--prometheus", options.prometheus}});
  if (options.dry_run) {
    if (HasPhases(document)) CheckPhases(document);
    PrintWarnings(options, scenario.warnings);
    Narrate(options, "'" + file + "' is valid");
    return ExitCode::kOk;
  }
  const Evaluation e = Evaluate(std::move(scenario), options.level, options.fold, options.epsilon);
  PrintWarnings(options, e.scenario.warnings);
  const FixSearch search = SearchFixes(e, document, &cache);
  Json result = ResultJson(e, options.weights, kToolVersion);
  if (options.verbose) result.Set("busy", BusyJson(e));
  if (e.memory.verdict != Fit::kFits) {
    result.Set("fixes", FixesJson(search));
    result.Set("fixes_tried", search.tried);
  }
  result.Set("scenario", WithoutSweep(document.root));
  if (!options.trace.empty())
    WriteFileOf("--trace", options.trace, TraceText(e, kToolVersion, options.command_line));
  if (!options.prometheus.empty())
    WriteFileOf("--prometheus", options.prometheus, Exposition(ResultMetrics(e, kToolVersion)));
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
      WriteOutput(options, Summary(e, search, options));
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
        fmt::format("the plan does not fit: {} of {} usable on {}, at {}",
                    ShowBytes(e.memory.Heaviest().peak_bytes), ShowBytes(e.memory.usable_bytes),
                    HeaviestName(e), e.memory.Heaviest().at);
    d.help = Remedy(search);
    PrintDiagnostic(options, d);
    return ExitCode::kInfeasible;
  }
  if (const std::vector<BudgetLine> budget = JudgeBudget(e); Exceeded(budget)) {
    Diagnostic d;
    d.code = 656;
    d.message = "the plan exceeds its budget: " + DescribeExceeded(budget);
    d.help = "another plan (aurum sweep compares many), fewer steps, or a larger budget";
    PrintDiagnostic(options, d);
    return ExitCode::kInfeasible;
  }
  return ExitCode::kOk;
}

}  // namespace aurum
