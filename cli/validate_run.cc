// aurum validate SCENARIO --measured RUN.json: a prediction beside one execution of the same plan.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "cli/commands.h"
#include "cli/io.h"
#include "cli/version.h"
#include "real/compare_run.h"
#include "real/op_names.h"
#include "reports/html.h"
#include "reports/run_island.h"
#include "reports/text.h"
#include "sim/core/hash.h"
#include "sim/core/text_file.h"
#include "sim/study/evaluate.h"

namespace aurum {
namespace {

std::string Signed(double share) {
  return std::abs(share) < 0.0005 ? "0.0 %" : fmt::format("{:+.1f} %", share * 100);
}

std::string ShowMetric(const RunMetric& metric, double value) {
  if (metric.name.ends_with("_gib")) return fmt::format("{:.3g} GiB", value);
  return metric.name.ends_with("_s") && metric.name != "tokens_per_s" ? ShowSeconds(value)
                                                                      : ShowNumber(value);
}

std::string MetricTitle(const RunMetric& metric) {
  std::string name = metric.name == "step_time_s"       ? "step time"
                     : metric.name == "compute_s"       ? "compute"
                     : metric.name == "peak_memory_gib" ? "peak memory"
                                                        : "tokens/s";
  return metric.of.empty() ? name : name + " (" + metric.of + ")";
}

std::string ClassTitle(const OpClassTime& c) {
  return OpKindName(c.what) + (c.modelled ? ", modelled" : "");
}

std::string Ratio(double predicted, double measured) {
  return predicted > 0 ? fmt::format("{:.2f}", measured / predicted) : "–";
}

// Of a part of the error, for people: gaps and the like have no two sides.
bool HasSides(const ErrorPart& part) {
  return part.kind == ErrorPartKind::kOps || part.kind == ErrorPartKind::kTiming;
}

Json ResultOf(const RunRecord& record, const RunComparison& c, const Executable& predicted,
              double tolerance, bool within) {
  Json out = Json::Object();
  out.Set("schema", "aurum.comparison/1");
  out.Set("tool_version", kToolVersion);
  out.Set("scenario", predicted.scenario.name);
  out.Set("profile", predicted.scenario.profile->name);
  out.Set("within_tolerance", within);
  out.Set("tolerance", tolerance);
  Json& metrics = out.Set("metrics", Json::Object());
  for (const RunMetric& m : c.metrics) {
    Json metric = Json::Object();
    metric.Set("predicted", m.predicted);
    metric.Set("measured", m.measured);
    metric.Set("relative_error", m.RelativeError());
    if (!m.of.empty()) metric.Set("of", m.of);
    metrics.Set(m.name, std::move(metric));
  }
  Json& ops = out.Set("ops", Json::Array());
  for (const ErrorPart& part : c.parts) {
    Json op = Json::Object();
    op.Set("part", ErrorPartName(part.kind));
    op.Set("name", NameOf(part, *predicted.scenario.model));
    if (part.kind == ErrorPartKind::kOps) {
      op.Set("what", OpKindName(part.what));
      op.Set(
          "module",
          part.module < 0
              ? Json()
              : Json(
                    predicted.scenario.model->modules[static_cast<std::size_t>(part.module)].name));
      op.Set("mostly", part.mostly.empty() ? Json() : Json(part.mostly));
      op.Set("count", static_cast<std::int64_t>(part.count));
    }
    if (HasSides(part)) {
      op.Set("predicted_s", part.predicted_s);
      op.Set("measured_s", part.measured_s);
    }
    op.Set("difference_s", part.difference_s);
    op.Set("share_of_error", part.share_of_error);
    ops.Append(std::move(op));
  }
  Json& classes = out.Set("classes", Json::Array());
  for (const OpClassTime& t : c.classes) {
    Json line = Json::Object();
    line.Set("what", OpKindName(t.what));
    line.Set("modelled", t.modelled);
    line.Set("count", static_cast<std::int64_t>(t.count));
    line.Set("predicted_s", t.predicted_s);
    line.Set("measured_s", t.measured_s);
    line.Set("relative_error", t.measured_s > 0 ? Json(t.predicted_s / t.measured_s - 1) : Json());
    line.Set("waiting_s", t.waiting_s);
    line.Set("busiest_rank_predicted_s", t.busiest_predicted_s);
    line.Set("busiest_rank_measured_s", t.busiest_measured_s);
    classes.Append(std::move(line));
  }
  out.Set("busiest_rank", c.busiest_rank);
  Json& run = out.Set("run", Json::Object());
  run.Set("backend", record.backend);
  run.Set("clock", record.clock);
  run.Set("lone_rank", record.lone_rank < 0 ? Json() : Json(record.lone_rank));
  run.Set("ranks", static_cast<std::int64_t>(record.ranks.size()));
  run.Set("device", record.ranks.front().device);
  run.Set("steps", static_cast<std::int64_t>(record.steps_s.size()));
  run.Set("clean_steps", static_cast<std::int64_t>(record.clean_steps_s.size()));
  run.Set("variation", record.variation);
  run.Set("wall_step_time_s", c.wall_step_s > 0 ? Json(c.wall_step_s) : Json());
  run.Set("timed_step_time_s", c.timed_step_s > 0 ? Json(c.timed_step_s) : Json());
  Json& differences = out.Set("scenario_differences", Json::Array());
  for (const std::string& text : c.scenario_differences) differences.Append(text);
  Json& warnings = out.Set("warnings", Json::Array());
  for (const Diagnostic& warning : c.warnings) warnings.Append(DiagnosticJson(warning));
  return out;
}

std::string Csv(const RunComparison& c, const Executable& predicted) {
  Table table({"kind", "name", "count", "predicted", "measured", "relative_error", "difference_s",
               "share_of_error"},
              "<<>>>>>>");
  const auto number = [](double value) { return Json(value).Dump(); };
  for (const RunMetric& m : c.metrics) {
    table.Row({"metric", m.name, "", number(m.predicted), number(m.measured),
               number(m.RelativeError()), "", ""});
  }
  for (const OpClassTime& t : c.classes) {
    table.Row({"class", ClassTitle(t), std::to_string(t.count), number(t.predicted_s),
               number(t.measured_s),
               t.measured_s > 0 ? number(t.predicted_s / t.measured_s - 1) : "",
               number(t.measured_s - t.predicted_s), ""});
  }
  for (const ErrorPart& p : c.parts) {
    const bool sides = HasSides(p);
    table.Row({ErrorPartName(p.kind), NameOf(p, *predicted.scenario.model),
               p.count > 0 ? std::to_string(p.count) : "", sides ? number(p.predicted_s) : "",
               sides ? number(p.measured_s) : "",
               sides && p.measured_s > 0 ? number(p.predicted_s / p.measured_s - 1) : "",
               number(p.difference_s), number(p.share_of_error)});
  }
  return table.Csv();
}

std::string Summary(const RunRecord& record, const RunComparison& c, const Executable& predicted,
                    double tolerance, bool within, Format format) {
  constexpr std::size_t kMostParts = 12;
  Table metrics({record.scenario_name.empty() ? "metric" : record.scenario_name, "predicted",
                 "measured", "error"},
                "<>>>");
  for (const RunMetric& m : c.metrics) {
    metrics.Row({MetricTitle(m), ShowMetric(m, m.predicted), ShowMetric(m, m.measured),
                 Signed(m.RelativeError())});
  }
  if (c.wall_step_s > 0) metrics.Row({"step time, wall clock", "", ShowSeconds(c.wall_step_s), ""});
  std::string out = metrics.As(format) + "\n";
  if (!c.classes.empty()) {
    Table classes({"ops of all ranks", "count", "predicted", "measured", "× predicted", "waiting"},
                  "<>>>>>");
    for (const OpClassTime& t : c.classes) {
      classes.Row({ClassTitle(t), std::to_string(t.count), ShowSeconds(t.predicted_s),
                   ShowSeconds(t.measured_s), Ratio(t.predicted_s, t.measured_s),
                   ShowSeconds(t.waiting_s)});
    }
    out += classes.As(format) + "\n";
  }
  if (!c.parts.empty()) {
    Table parts(
        {"what makes the difference", "ops", "predicted", "measured", "difference", "of the error"},
        "<>>>>>");
    for (std::size_t i = 0; i < c.parts.size() && i < kMostParts; ++i) {
      const ErrorPart& p = c.parts[i];
      const bool sides = HasSides(p);
      parts.Row(
          {NameOf(p, *predicted.scenario.model) + (p.mostly.empty() ? "" : " (" + p.mostly + ")"),
           p.count > 0 ? std::to_string(p.count) : "", sides ? ShowSeconds(p.predicted_s) : "",
           sides ? ShowSeconds(p.measured_s) : "", ShowSeconds(p.difference_s),
           p.share_of_error == 0 ? "" : PercentText(p.share_of_error, 0)});
    }
    out += parts.As(format) + "\n";
  }
  const RunMetric& judged = c.Judged();
  out += fmt::format(
      "{}: the {} is predicted {} off, tolerance {:.3g} %; {} steps on {} ({}), "
      "{} of them undisturbed, varying by {:.1f} %\n",
      within ? "within tolerance" : "outside tolerance",
      judged.name == "compute_s" ? "compute of this rank" : "step", Signed(judged.RelativeError()),
      tolerance * 100, record.steps_s.size(),
      record.ranks.front().device.empty() ? record.backend : record.ranks.front().device,
      record.clock, record.clean_steps_s.size(), record.variation * 100);
  for (const std::string& text : c.scenario_differences)
    out += "not the document that was run: " + text + "\n";
  return out;
}

// The prediction of the run's plan. Where layers are shared out by what they cost, another profile
// shares them out otherwise: the run's split is then the plan, and the profile only prices it.
Executable Predict(const Options& options, const JsonDocument& document, const RunRecord& record,
                   const JsonDocument& run_document, InputCache* cache) {
  Executable predicted =
      PredictRun(ReadScenario(document, cache), options.level, options.epsilon, record.lone_rank);
  if (ShapeOf(predicted.program) == record.shape || !SamePlanDocument(record, document.root))
    return predicted;
  try {
    Scenario scenario = ReadScenario(document, cache);
    scenario.plan = ReadScenario({record.scenario, run_document.sources}, cache).plan;
    return PredictRun(std::move(scenario), options.level, options.epsilon, record.lone_rank);
  } catch (const InputError&) {
    return predicted;  // files of the run that are gone: CheckSamePlan says that the plan differs
  }
}

}  // namespace

ExitCode ValidateRunCommand(const Options& options, const MeasuredCommand& command) {
  const JsonDocument run_document = ReadJsonFile(command.run);
  const RunRecord record = ReadRunRecord(run_document);
  const JsonDocument document = OpenScenario(options, command.scenario);
  InputCache cache(options.data_root);
  const Executable predicted = Predict(options, document, record, run_document, &cache);
  PrintWarnings(options, predicted.scenario.warnings);
  RefuseToReplace(predicted.scenario, {{"-o", options.output}, {"--html", command.html}});
  CheckSamePlan(record, predicted, document.root);
  const RunComparison comparison =
      CompareRun(record, predicted, document.root, TokensPerStep(predicted.scenario));
  PrintWarnings(options, comparison.warnings);
  const double tolerance = command.tolerance.value_or(DefaultTolerance(record.backend));
  const double error = comparison.Judged().RelativeError();
  const bool within = std::abs(error) <= tolerance;

  if (!command.html.empty()) {
    const RunOrigin origin{
        {kToolVersion, options.command_line, DateOf({command.scenario, command.run})},
        command.run,
        HashText(run_document.sources.front().text).Hex(),
        std::string(LevelName(options.level)),
        tolerance};
    WriteTextFile(command.html, HtmlReport(RunIsland(record, comparison, predicted, origin)));
    Narrate(options, "report: " + command.html);
  }
  switch (options.format) {
    case Format::kJson:
    case Format::kJsonLines: {
      Json result = ResultOf(record, comparison, predicted, tolerance, within);
      Json& inputs = result.Set("inputs", Json::Array());
      const auto input = [&](const std::string& role, const std::string& name,
                             const std::string& hash) {
        Json item = Json::Object();
        item.Set("role", role);
        item.Set("name", name);
        item.Set("hash", hash);
        inputs.Append(std::move(item));
      };
      input("run", command.run, HashText(run_document.sources.front().text).Hex());
      input("scenario", command.scenario, HashText(document.root.Dump()).Hex());
      for (const Scenario::Input& used : predicted.scenario.inputs)
        input(used.role, used.name, used.hash);
      WriteOutput(options, WithRunId(result).Dump(options.format == Format::kJson ? 2 : -1) + "\n");
      break;
    }
    case Format::kCsv:
      WriteOutput(options, Csv(comparison, predicted));
      break;
    default:
      WriteOutput(options,
                  Summary(record, comparison, predicted, tolerance, within, options.format));
      break;
  }
  if (within) return ExitCode::kOk;
  Diagnostic d;
  d.code = 980;
  d.message =
      fmt::format("the {} is predicted {} off, beyond {:.3g} %: {}",
                  comparison.Judged().name == "compute_s" ? "compute of this rank" : "step time",
                  Signed(error), tolerance * 100, ExplainError(comparison, predicted));
  d.help = AdviceFor(comparison, record);
  PrintDiagnostic(options, d);
  return ExitCode::kOutsideTolerance;
}

}  // namespace aurum
