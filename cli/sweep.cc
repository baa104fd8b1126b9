#include <fmt/format.h>

#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>

#include "cli/commands.h"
#include "cli/io.h"
#include "cli/version.h"
#include "sim/core/hash.h"
#include "sim/study/budget.h"
#include "sim/study/evaluator.h"
#include "sim/study/figures.h"
#include "sim/study/sweep.h"

namespace aurum {
namespace {

std::atomic<bool> g_stop{false};

// The first Ctrl-C ends the sweep in order, the second at once.
// Whoever presses Ctrl-C twice means it; schedulers send SIGTERM to a process and again to its group.
void OnInterrupt(int signal) {
  if (g_stop.exchange(true) && signal == SIGINT) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

std::string Duration(double seconds) {
  const long long whole = std::llround(seconds);
  if (whole < 100) return fmt::format("{} s", whole);
  if (whole < 6000) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
}

// What the results rest on beside the scenario: every catalogue file that a point may name.
std::string Fingerprint(const JsonDocument& scenario, const std::vector<Axis>& axes,
                        InputCache* cache) {
  std::string text;
  const auto add = [&](const std::string& role, const std::string& name) {
    try {
      if (role == "model") text += name + cache->GetModel(name).hash;
      if (role == "cluster") {
        const auto cluster = cache->GetCluster(name);
        text += name + cluster.hash + cache->GetProfile(cluster.value->gpu.profile).hash;
      }
      if (role == "profile") text += name + cache->GetProfile(name).hash;
      if (role == "stack") text += name + cache->GetStack(name).hash;
    } catch (const InputError&) {
      text += name;  // the points that name it will say what is wrong
    }
  };
  for (const std::string role : {"model", "cluster", "profile", "stack"}) {
    if (const Json* value = scenario.root.Find(role); value != nullptr && value->IsString())
      add(role, value->AsString());
    for (const Axis& axis : axes) {
      if (AxisPointer(axis.path) != "/" + role) continue;
      for (const Json& value : axis.values) {
        if (value.IsString()) add(role, value.AsString());
      }
    }
  }
  return HashText(text).Hex();
}

// `too_large` counts points that have an answer but do not fit the device.
std::vector<Figure> EvaluatePoint(const JsonDocument& document, Evaluator* evaluator,
                                  std::atomic<std::size_t>* too_large) {
  const Evaluation& e = evaluator->Walk(document);
  if (e.fold_check && !e.fold_check->equal) {
    ThrowInput(770, "folded and unfolded simulation differ: " + e.fold_check->difference,
               "--fold off is right; please report the scenario", ExitCode::kOutsideTolerance);
  }
  if (const std::vector<BudgetLine> budget = JudgeBudget(e); Exceeded(budget)) {
    ThrowInput(656, "the plan exceeds its budget: " + DescribeExceeded(budget),
               "another plan, fewer steps, or a larger budget", ExitCode::kInfeasible);
  }
  if (!e.memory.fits) ++*too_large;
  return FiguresOf(e);
}

// Reads the scenario once with every value of every axis, the other axes at their first: what is wrong with a value by itself is
// found without evaluating anything.
void CheckEveryValue(const JsonDocument& document, const std::vector<Axis>& axes,
                     InputCache* cache) {
  constexpr std::size_t kMostValues = 2000;  // of one axis
  JsonDocument point = document;
  point.root = WithoutSweep(document.root);
  for (const Axis& axis : axes)
    SetPath(&point, axis.path, axis.values.front(), "axis " + axis.path);
  for (const Axis& axis : axes) {
    for (std::size_t i = 0; i < std::min(axis.values.size(), kMostValues); ++i) {
      SetPath(&point, axis.path, axis.values[i],
              "axis " + axis.path + " = " + axis.values[i].Dump());
      try {
        ReadScenario(point, cache);
      } catch (const InputError& error) {
        if (error.exit_code() != ExitCode::kInfeasible)
          throw;  // a plan that does not divide is an answer
      }
    }
    SetPath(&point, axis.path, axis.values.front(), "axis " + axis.path);
  }
}

Json RowJson(const std::vector<Axis>& axes, const PointRow& row) {
  Json out = Json::Object();
  out.Set("point", static_cast<std::int64_t>(row.ordinal));
  out.Set("id", row.id.Hex());
  out.Set("status", PointStatusName(row.status));
  const std::vector<std::size_t> at = PointIndices(axes, row.ordinal);
  Json values = Json::Object();
  for (std::size_t i = 0; i < axes.size(); ++i) values.Set(axes[i].path, axes[i].values[at[i]]);
  out.Set("axes", std::move(values));
  if (!row.diagnostic.empty()) out.Set("diagnostic", row.diagnostic);
  for (const Figure& figure : row.figures) {
    if (const auto* number = std::get_if<double>(&figure.value)) {
      out.Set(figure.name, *number);
    } else {
      out.Set(figure.name, std::get<std::string>(figure.value));
    }
  }
  return out;
}

}  // namespace

ExitCode SweepCommand(const Options& options, const std::string& file,
                      const std::vector<std::string>& vary) {
  const JsonDocument document = OpenScenario(options, file);
  const std::vector<Axis> axes = SweepAxes(document, vary);
  const std::size_t total = CheckAxes(axes);
  InputCache cache(options.data_root);
  const std::string level(LevelName(options.level));
  if (axes.empty()) {
    ThrowInput(700, "there is nothing to sweep: the scenario has no axes",
               "add \"sweep\": {\"axes\": [...]}, or --vary plan.micro_batch_size=1,2,4");
  }
  if (options.format == Format::kCsv || options.format == Format::kMarkdown) {
    ThrowInput(709, "a sweep writes a database, JSON or JSON lines",
               "-o RUN.db, then aurum report RUN.db -o run.csv", ExitCode::kUsage);
  }
  if (options.dry_run) {
    CheckEveryValue(document, axes, &cache);
    Narrate(options, fmt::format("'{}' has {} points over {} axes", file, total, axes.size()));
    return ExitCode::kOk;
  }
  if (options.output.empty() && options.format == Format::kTable) {
    ThrowInput(708, "a sweep needs somewhere to put its points",
               "-o RUN.db, or --format jsonl for standard output", ExitCode::kUsage);
  }
  SweepOptions run;
  run.jobs = options.jobs;
  run.stop = &g_stop;
  std::signal(SIGINT, OnInterrupt);
  std::signal(SIGTERM, OnInterrupt);
  const bool terminal = options.progress && isatty(STDERR_FILENO) != 0;
  bool shown = false;
  run.progress = [&](const SweepProgress& p) {
    if (!terminal || (p.elapsed_s < 1 && !shown)) return;
    shown = true;
    std::fprintf(stderr, "\r%zu of %zu points (%.0f %%), %zu failed, %s left   ", p.done, p.total,
                 100.0 * static_cast<double>(p.done) / static_cast<double>(p.total), p.failed,
                 Duration(p.eta_s).c_str());
    std::fflush(stderr);
  };
  std::atomic<std::size_t> too_large{0};
  Evaluators evaluators(&cache, options.level, options.fold);
  const PointEvaluator evaluate = [&](const JsonDocument& point) {
    return EvaluatePoint(point, &evaluators.Mine(), &too_large);
  };
  SweepSummary summary;
  if (options.output.empty()) {
    const bool lines = options.format != Format::kJson;
    std::string all;
    run.on_point = [&](const PointRow& row) {
      const Json json = RowJson(axes, row);
      if (lines) {
        WriteOutput(options, json.Dump() + "\n");
      } else {
        all += (all.empty() ? "[\n" : ",\n") + json.Dump();
      }
    };
    summary = RunSweep(document, axes, evaluate, run, nullptr);
    if (!lines) WriteOutput(options, all + "\n]\n");
  } else {
    Study study{document, axes, kToolVersion, level + " " + Fingerprint(document, axes, &cache)};
    Store store = Store::Open(options.output, study);
    summary = RunSweep(document, axes, evaluate, run, &store);
  }
  if (shown) std::fputs("\n", stderr);
  const double rate =
      summary.elapsed_s > 0 ? static_cast<double>(summary.evaluated) / summary.elapsed_s : 0;
  std::string said = fmt::format("{} of {} points: {} ok, {} infeasible, {} failed",
                                 summary.ok + summary.infeasible + summary.failed, summary.total,
                                 summary.ok, summary.infeasible, summary.failed);
  if (summary.evaluated > 0)
    said += fmt::format("; {} evaluated in {} ({:.0f} points/s)", summary.evaluated,
                        Duration(summary.elapsed_s), rate);
  if (too_large > 0) said += fmt::format("; {} of them do not fit in memory", too_large.load());
  if (summary.stored_before > 0)
    said += fmt::format("; {} were there already", summary.stored_before);
  if (!options.output.empty()) said += ", in " + options.output;
  Narrate(options, said);
  if (!summary.first_failure.empty())
    Narrate(options, "the first failure:\n" + summary.first_failure);
  if (summary.interrupted) Narrate(options, "interrupted; the same command goes on from here");
  return summary.exit_code();
}

}  // namespace aurum
