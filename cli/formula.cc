#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "cli/commands.h"
#include "cli/io.h"
#include "cli/version.h"
#include "real/run_record.h"
#include "reports/text.h"
#include "sim/core/units.h"
#include "sim/study/decide.h"
#include "sim/study/golden_points.h"

namespace aurum {
namespace {

constexpr Combine kCombines[] = {Combine::kMax, Combine::kSum, Combine::kCriticalPath};
constexpr double kTolerance = 0.1;

// The steps of one file: of a sweep's database, every point; of a run record, the step that was
// measured beside the terms of the scenario that was executed.
std::vector<FormulaPoint> StepsOf(const std::string& file, InputCache* cache) {
  if (file.size() < 5 || file.compare(file.size() - 5, 5, ".json") != 0) return PointsOfStore(file);
  const JsonDocument document = ReadJsonFile(file);
  const Json* schema = document.root.Find("schema");
  if (schema == nullptr || !schema->IsString() || schema->AsString() != "aurum.run/1") {
    ThrowInput(741, "'" + file + "' is no run record",
               "what aurum execute writes (docs/schema/run.schema.json), or a database of aurum "
               "sweep");
  }
  const RunRecord record = ReadRunRecord(document);
  if (record.lone_rank >= 0) {
    ThrowInput(743, "'" + file + "' is of one rank that ran alone: its step was not measured",
               "a run of all ranks: aurum execute without --rank");
  }
  if (!(record.step_time_s > 0)) {
    ThrowInput(743, "'" + file + "' has no step time", "aurum execute with at least one step");
  }
  JsonDocument scenario{record.scenario, {{file, ""}}};
  const Evaluation e = Evaluate(ReadScenario(scenario, cache), Level::kAnalytic);
  FormulaPoint point = PointOf(e, ModulesOf(e));
  point.step_s = record.step_time_s;
  return {point};
}

std::string Interval(const GoldenParameter& p) {
  if (!p.value) return "not determined";
  std::string text = fmt::format("{:.3f}", *p.value);
  if (p.low && p.high) text += fmt::format(" [{:.3f}, {:.3f}]", *p.low, *p.high);
  if (p.at_bound) text += ", at its bound";
  return text;
}

struct Fitted {
  Combine combine = Combine::kMax;
  GoldenFit fit;
};

std::vector<Fitted> FitAll(const std::vector<FormulaPoint>& points) {
  std::vector<Fitted> all;
  for (const Combine combine : kCombines) {
    std::vector<GoldenRow> rows;
    for (const FormulaPoint& point : points) rows.push_back(RowOf(point, combine));
    all.push_back({combine, FitGolden(rows, combine)});
  }
  return all;
}

std::string ActiveText(const GoldenFit& fit, const std::vector<std::string>& modules) {
  std::string text;
  for (const auto& [module, count] : ActiveCounts(fit, modules)) {
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", module, count);
  }
  return text;
}

std::string FitText(const Options& options, const Evaluation& e, const std::vector<Fitted>& fits,
                    const std::vector<FormulaPoint>& points) {
  Table table(
      {"combine", "alpha", "beta", "R2", "rms", "worst", "within 10 %", "decided by", "T here"},
      "<<<>>>><>");
  for (const Fitted& f : fits) {
    const double seconds = GoldenSeconds(e.golden, f.combine, f.fit.alpha.value.value_or(1),
                                         f.fit.beta.value.value_or(1));
    table.Row({CombineName(f.combine), Interval(f.fit.alpha), Interval(f.fit.beta),
               f.fit.r2 ? fmt::format("{:.4f}", *f.fit.r2) : "-",
               ShowPercent(f.fit.rms_relative_error), ShowPercent(f.fit.max_relative_error),
               PercentText(f.fit.within_ten_percent, 0), ActiveText(f.fit, points.front().modules),
               fmt::format("{} ({:+.1f} %)", ShowSeconds(seconds),
                           (seconds / e.StepSeconds() - 1) * 100)});
  }
  std::string out = table.As(options.format);
  if (options.format == Format::kCsv) return out;
  std::set<std::string> reasons;
  for (const Fitted& f : fits) {
    for (const GoldenParameter* p : {&f.fit.alpha, &f.fit.beta}) {
      if (!p->reason.empty()) reasons.insert(p->reason);
    }
  }
  out += fmt::format(
      "\nfitted to {} steps; [95 % intervals]. T here: this scenario with the fitted weights, "
      "against its simulation\n",
      points.size());
  for (const std::string& reason : reasons) out += reason + "\n";
  return out;
}

ExitCode FitSteps(const Options& options, const Evaluation& e,
                  const std::vector<std::string>& files, InputCache* cache) {
  std::vector<FormulaPoint> points;
  for (const std::string& file : files) {
    for (FormulaPoint& point : StepsOf(file, cache)) points.push_back(std::move(point));
  }
  JoinModules(&points);
  const std::vector<Fitted> fits = FitAll(points);
  if (options.format != Format::kJson && options.format != Format::kJsonLines) {
    WriteOutput(options, FitText(options, e, fits, points));
    return ExitCode::kOk;
  }
  Json result = FormulaJson(e, options.weights, kToolVersion);
  Json list = Json::Array();
  for (const Fitted& f : fits) {
    Json entry = FitJson(f.fit, f.combine, points.size());
    Json active = Json::Object();
    for (const auto& [module, count] : ActiveCounts(f.fit, points.front().modules))
      active.Set(module, static_cast<std::int64_t>(count));
    if (f.combine == Combine::kMax) entry.Set("active", std::move(active));
    entry.Set("step_time_s", GoldenSeconds(e.golden, f.combine, f.fit.alpha.value.value_or(1),
                                           f.fit.beta.value.value_or(1)));
    list.Append(std::move(entry));
  }
  result.Set("fits", std::move(list));
  WriteOutput(options, result.Dump(options.format == Format::kJson ? 2 : -1) + "\n");
  return ExitCode::kOk;
}

std::string BoundaryText(const Options& options, const BoundaryAxes& axes,
                         const std::vector<BoundaryOf>& all) {
  Table table({"combine", "alpha", "beta", "R2", "within 10 %", "median gap", "90th percentile",
               "holds at", "fails elsewhere, mostly"},
              "<<<>>>><<");
  for (const BoundaryOf& b : all) {
    const FormulaFailure most = b.MostCommon();
    std::string why = "-";
    if (most != FormulaFailure::kNone) {
      why =
          fmt::format("{} ({})", FormulaFailureText(most),
                      PercentText(static_cast<double>(b.failures[static_cast<std::size_t>(most)]) /
                                      static_cast<double>(b.points - b.failures[0]),
                                  0));
    }
    table.Row({CombineName(b.combine), Interval(b.fit.alpha), Interval(b.fit.beta),
               b.fit.r2 ? fmt::format("{:.4f}", *b.fit.r2) : "-", PercentText(b.inside, 0),
               ShowPercent(b.median_gap), ShowPercent(b.p90_gap),
               b.box ? BoxText(axes.grid, *b.box) : "nowhere", why});
  }
  std::string out = table.As(options.format);
  if (options.format == Format::kCsv) return out;
  const BoundaryOf& best = BestOf(all);
  for (std::size_t a = 0; a < 3; ++a) {
    if (axes.grid.values[a].size() < 2) continue;
    Table share({axes.grid.names[a], "within 10 % (" + CombineName(best.combine) + ")"}, ">>");
    for (std::size_t i = 0; i < axes.grid.values[a].size(); ++i)
      share.Row({ShowNumber(axes.grid.values[a][i]), PercentText(best.inside_by_axis[a][i], 0)});
    out += "\n" + share.As(options.format);
  }
  Table reasons({"outside, why", "max", "sum", "critical_path"}, "<>>>");
  for (int i = 1; i < kFormulaFailures; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (std::all_of(all.begin(), all.end(),
                    [&](const BoundaryOf& b) { return b.failures[at] == 0; }))
      continue;
    std::vector<std::string> row{std::string(FormulaFailureText(static_cast<FormulaFailure>(i)))};
    for (const BoundaryOf& b : all) row.push_back(std::to_string(b.failures[at]));
    reasons.Row(row);
  }
  out += "\n" + reasons.As(options.format);
  return out + "\n" + BoundarySentence(axes.grid, all, kTolerance) + "\n";
}

ExitCode FindWhere(const Options& options, const JsonDocument& document, const Evaluation& e,
                   int grid, InputCache* cache) {
  BoundaryAxes axes = AxesAround(document, e, static_cast<std::size_t>(grid));
  RunBoundary(document, cache, options.level, options.jobs, &axes);
  std::vector<BoundaryOf> all;
  for (const Combine combine : kCombines)
    all.push_back(FindBoundary(axes.grid, combine, kTolerance));
  if (options.format != Format::kJson && options.format != Format::kJsonLines) {
    WriteOutput(options, BoundaryText(options, axes, all));
    return ExitCode::kOk;
  }
  Json result = FormulaJson(e, options.weights, kToolVersion);
  Json boundary = Json::Object();
  boundary.Set("tolerance", kTolerance);
  boundary.Set("points", static_cast<std::int64_t>(axes.grid.points.size()));
  boundary.Set("sentence", BoundarySentence(axes.grid, all, kTolerance));
  boundary.Set("combines", BoundaryJson(axes.grid, all));
  result.Set("boundary", std::move(boundary));
  WriteOutput(options, result.Dump(options.format == Format::kJson ? 2 : -1) + "\n");
  return ExitCode::kOk;
}

std::string TermsText(const Options& options, const Evaluation& e) {
  Table terms({"k", "F", "forward", "B", "F/B", "G", "C", "G/C", "Comm", "bubble"}, "<>>>>>>>>>");
  const auto row = [&](const GoldenTerm& t) {
    terms.Row({t.module, ShowNumber(t.flops / kTera) + " TFLOP",
               ShowNumber(t.forward_flops / kTera) + " TFLOP",
               ShowNumber(t.rate_flops_per_s / kTera) + " TFLOP/s", ShowSeconds(t.f_over_b_s),
               ShowBytes(t.gradient_bytes), ShowRate(t.gradient_bytes_per_s),
               ShowSeconds(t.g_over_c_s), ShowSeconds(t.comm_s), ShowSeconds(t.bubble_s)});
  };
  for (const GoldenTerm& term : e.golden.terms) row(term);
  const double alpha = options.weights.alpha, beta = options.weights.beta;
  Table totals({"combine", "T", "against the simulation", "T, F forward only", "against it"},
               "<>>>>");
  const auto against = [&](double seconds) {
    return fmt::format("{:+.1f} %", (seconds / e.StepSeconds() - 1) * 100);
  };
  for (const Combine combine : kCombines) {
    const double seconds = GoldenSeconds(e.golden, combine, alpha, beta);
    const double forward = GoldenSeconds(e.golden, combine, alpha, beta, FlopsReading::kForward);
    totals.Row({CombineName(combine), ShowSeconds(seconds), against(seconds), ShowSeconds(forward),
                against(forward)});
  }
  totals.Row({"simulation", ShowSeconds(e.StepSeconds()), "", "", ""});
  std::string out = terms.As(options.format);
  if (options.format == Format::kCsv) return out;
  const double host = e.scenario.stack->step_overhead_s, stall = e.scenario.data_stall_s;
  out += fmt::format(
      "\nα = {}, β = {}, P_align = {} (wait {}, move {}); the formula leaves out {}: optimizer {}, "
      "host {}",
      alpha, beta, ShowSeconds(e.golden.p_align_s), ShowSeconds(e.golden.align_wait_s),
      ShowSeconds(e.golden.align_move_s), ShowSeconds(e.golden.not_in_formula_s),
      ShowSeconds(e.golden.not_in_formula_s - host - stall), ShowSeconds(host));
  if (stall > 0) out += fmt::format(", wait for data {}", ShowSeconds(stall));
  out += "\n";
  if (!e.golden.bubble.rule.empty())
    out +=
        fmt::format("bubble {}: {}\n", ShowSeconds(e.golden.bubble.seconds), e.golden.bubble.rule);
  return out + "\n" + totals.As(options.format);
}

}  // namespace

ExitCode FormulaCommand(const Options& options, const std::string& file,
                        const FormulaCommandLine& command) {
  if (!command.fit.empty() && command.boundary) {
    ThrowInput(744, "--fit and --boundary each give alpha and beta of their own", "one of them",
               ExitCode::kUsage);
  }
  if (command.grid > 0 && !command.boundary)
    ThrowInput(744, "--grid is of --boundary", "--boundary --grid 8", ExitCode::kUsage);
  const JsonDocument document = OpenScenario(options, file);
  InputCache cache(options.data_root);
  const Evaluation e = Evaluate(ReadScenario(document, &cache), options.level, options.fold);
  PrintWarnings(options, e.scenario.warnings);
  if (const auto left_out = PhasesLeftOut(document, "formula")) PrintWarnings(options, {*left_out});
  if (!command.fit.empty()) return FitSteps(options, e, command.fit, &cache);
  if (command.boundary) return FindWhere(options, document, e, command.grid, &cache);
  if (options.format == Format::kJson || options.format == Format::kJsonLines) {
    const Json result = FormulaJson(e, options.weights, kToolVersion);
    WriteOutput(options, result.Dump(options.format == Format::kJson ? 2 : -1) + "\n");
    return ExitCode::kOk;
  }
  WriteOutput(options, TermsText(options, e));
  return ExitCode::kOk;
}

}  // namespace aurum
