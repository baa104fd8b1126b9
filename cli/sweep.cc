#include <fmt/format.h>

#include <sched.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <thread>

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/io.h"
#include "cli/version.h"
#include "sim/spread/crew.h"
#include "sim/spread/mpi_courier.h"
#include "sim/study/budget.h"
#include "sim/study/design.h"
#include "sim/study/evaluator.h"
#include "sim/study/figures.h"
#include "sim/study/fingerprint.h"
#include "sim/study/sweep.h"

namespace aurum {
namespace {

std::string Duration(double seconds) {
  const long long whole = std::llround(seconds);
  if (whole < 100) return fmt::format("{} s", whole);
  if (whole < 6000) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
}

std::vector<Figure> EvaluatePoint(const JsonDocument& document, Evaluator* evaluator) {
  const Evaluation& e = evaluator->Walk(document);
  if (e.fold_check && !e.fold_check->equal) {
    ThrowInput(770, "folded and unfolded simulation differ: " + e.fold_check->difference,
               "--fold off is right; please report the scenario", ExitCode::kOutsideTolerance);
  }
  if (const std::vector<BudgetLine> budget = JudgeBudget(e); Exceeded(budget)) {
    ThrowInput(656, "the plan exceeds its budget: " + DescribeExceeded(budget),
               "another plan, fewer steps, or a larger budget", ExitCode::kInfeasible);
  }
  return FiguresOf(e);
}

// Reads the scenario once with every value of every axis, the other axes at their first point: what is wrong with a value by itself is
// found without evaluating anything. Of axes that are drawn or walk together, their first points: there one that fails
// is a result of its own, as in the sweep, and the others go on; how many did, and the first of them.
struct Unreadable {
  std::size_t points = 0;
  std::string first;
};
Unreadable CheckEveryValue(const JsonDocument& document, const Design& design, InputCache* cache) {
  constexpr std::size_t kMostValues = 2000;  // of one axis
  const auto read = [&](const JsonDocument& point) {
    try {
      ReadScenario(point, cache);
    } catch (const InputError& error) {
      if (error.exit_code() != ExitCode::kInfeasible)
        throw;  // a plan that does not divide is an answer
    }
  };
  PointCursor cursor(document, design);
  Unreadable failed;
  if (!design.IsGrid()) {
    const std::size_t looked_at = std::min(design.points(), kMostValues);
    for (std::size_t i = 0; i < looked_at; ++i) {
      cursor.MoveTo(i);
      try {
        read(cursor.document());
      } catch (const InputError& error) {
        if (failed.points + 1 == looked_at) throw;  // none of them is a scenario
        if (failed.points++ == 0) failed.first = error.what();
      }
    }
    return failed;
  }
  // The ordinal of a point with one axis away from its first value is that value's index times the sizes of the axes after it.
  const std::vector<Axis>& axes = design.axes();
  std::size_t stride = 1;
  for (std::size_t a = axes.size(); a-- > 0;) {
    for (std::size_t i = 0; i < std::min(axes[a].values.size(), kMostValues); ++i) {
      cursor.MoveTo(i * stride);
      read(cursor.document());
    }
    stride *= axes[a].values.size();
  }
  return failed;
}

Json ValuesJson(const Design& design, std::size_t ordinal) {
  const std::vector<Json> at = design.Values(ordinal);
  Json values = Json::Object();
  for (std::size_t i = 0; i < at.size(); ++i) values.Set(design.axes()[i].path, at[i]);
  return values;
}

Json RowJson(const Design& design, const PointRow& row) {
  Json out = Json::Object();
  out.Set("point", static_cast<std::int64_t>(row.ordinal));
  out.Set("id", row.id.Hex());
  out.Set("status", PointStatusName(row.status));
  out.Set("axes", ValuesJson(design, row.ordinal));
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

// What --set says of a place that an axis sets at every point is of no use: more likely one of the two is a slip.
void WarnOfOverruled(const Options& options, const Design& design) {
  for (const std::string& assignment : options.set) {
    const std::string set = AxisPointer(assignment.substr(0, assignment.find('=')));
    for (const Axis& axis : design.axes()) {
      const std::string varied = AxisPointer(axis.path);
      if (set != varied && !set.starts_with(varied + "/")) continue;
      Diagnostic d;
      d.code = 1752;
      d.warning = true;
      d.message = "--set '" + assignment + "' has no effect: every point sets '" + axis.path + "'";
      d.help = "leave out the one that is not meant";
      PrintDiagnostic(options, d);
    }
  }
}

// A value as a cell of a list of points: what --points reads back as itself.
std::string Cell(const Json& value) {
  if (!value.IsString()) return value.Dump();
  const std::string& text = value.AsString();
  try {
    if (ParseAxisValue(text).IsString() && ParseAxisValue(text).AsString() == text) return text;
  } catch (const InputError&) {
    // In quotes, then.
  }
  return value.Dump();
}

// The points and nothing of their results: the first ones to look at, or all to edit and to give to --points.
void ShowPoints(const Options& options, const JsonDocument& document, const Design& design) {
  constexpr std::size_t kFirst = 10;
  const std::size_t shown =
      options.format == Format::kTable ? std::min(design.points(), kFirst) : design.points();
  if (options.format == Format::kJson || options.format == Format::kJsonLines) {
    const bool lines = options.format == Format::kJsonLines;
    std::string text = lines ? "" : "[\n";
    for (std::size_t i = 0; i < shown; ++i)
      text += ValuesJson(design, i).Dump() + (lines || i + 1 == shown ? "\n" : ",\n");
    WriteOutput(options, text + (lines ? "" : "]\n"));
    return;
  }
  const bool ids = options.format == Format::kTable;
  std::vector<std::string> header;
  if (ids) header = {"point", "id"};
  for (const Axis& axis : design.axes()) header.push_back(axis.path);
  Table table(header, (ids ? "><" : "") + std::string(design.axes().size(), '>'));
  PointCursor cursor(document, design);
  for (std::size_t i = 0; i < shown; ++i) {
    std::vector<std::string> cells;
    if (ids) {
      cursor.MoveTo(i);
      cells = {std::to_string(i), cursor.id().Hex().substr(0, 12)};
    }
    for (const Json& value : design.Values(i)) cells.push_back(Cell(value));
    table.Row(std::move(cells));
  }
  WriteOutput(options, table.As(options.format));
}

// How many threads evaluate in this process: as told, or its share of the processors that it may
// use. A launcher that binds a process to cores says by that how many they are.
int JobsOfRank(const Options& options, int ranks_here) {
  if (options.jobs > 0) return options.jobs;
  const int processors = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  cpu_set_t mine;
  CPU_ZERO(&mine);
  const int bound = sched_getaffinity(0, sizeof mine, &mine) == 0 ? CPU_COUNT(&mine) : processors;
  return std::max(1, std::min(bound, processors / ranks_here));
}

std::string ThisMachine() {
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0) return "a machine";
  return name;
}

CrewOptions CrewOptionsOf(const SpreadCommandLine& spread) {
  CrewOptions crew;
  crew.silence_s = spread.worker_timeout_s;
  crew.beat_s = std::min(1.0, spread.worker_timeout_s / 10);
  return crew;
}

// What every process of a sweep knows: which points, and how one is evaluated.
struct Job {
  JsonDocument document;
  Design design;
  Shard shard;
  InputCache cache;
  std::string level;
  Evaluators evaluators;                   // one a thread
  std::atomic<std::size_t> at_risk = 0;    // of which nobody can tell
  std::atomic<std::size_t> too_large = 0;  // points that have an answer but do not fit the device
  PointEvaluator evaluate;

  Job(const Options& options, const std::string& file, const DesignOptions& designed,
      const SpreadCommandLine& spread)
      : document(OpenScenario(options, file)),
        design(SweepDesign(document, designed)),
        shard(spread.shard.empty() ? Shard{} : ParseShard(spread.shard)),
        cache(options.data_root),
        level(LevelName(options.level)),
        evaluators(&cache, options.level, options.fold) {
    if (design.axes().empty()) {
      ThrowInput(700, "there is nothing to sweep: the scenario has no axes",
                 "add \"sweep\": {\"axes\": [...]}, or --vary plan.micro_batch_size=1,2,4");
    }
    evaluate = [this](const JsonDocument& point) {
      std::vector<Figure> figures = EvaluatePoint(point, &evaluators.Mine());
      CountTooLarge(figures);
      return figures;
    };
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  Study AsStudy() {
    return {document, design, kToolVersion,
            level + " " + StudyFingerprint(document, design, &cache), shard};
  }
  void CountTooLarge(const std::vector<Figure>& figures) {
    for (const Figure& figure : figures) {
      const auto* number = std::get_if<double>(&figure.value);
      if (figure.name == "fits" && number != nullptr && *number == 0) ++too_large;
      if (figure.name == "at_risk" && number != nullptr && *number > 0) ++at_risk;
    }
  }
};

// A process that evaluates points for another one. What is wrong with its input is news for rank 0,
// which has the same input and reports it; only here it may be that a file is missing.
void Serve(const Options& options, const std::string& file, const DesignOptions& designed,
           const SpreadCommandLine& spread, MpiCourier* courier) {
  std::optional<Job> job;
  std::optional<Study> study;
  try {
    if (!options.dry_run) {
      job.emplace(options, file, designed, spread);
      study = job->AsStudy();
    }
  } catch (const InputError& error) {
    RefuseToServe(courier, ThisMachine(), error.diagnostic().message);
  }
  if (!study) {
    AwaitDismissal(courier, StopOnInterrupt());
    return;
  }
  const ServeSummary summary =
      ServeCrew(courier, *study, job->evaluate, JobsOfRank(options, courier->ranks_here()),
                ThisMachine(), StopOnInterrupt(), CrewOptionsOf(spread));
  if (summary.deserted) {
    Narrate(options, fmt::format("rank {} on {}: rank 0 has fallen silent; the same command goes "
                                 "on from what it stored",
                                 courier->rank(), ThisMachine()));
    courier->CloseWithoutAll(static_cast<int>(ExitCode::kInterrupted));
    std::_Exit(static_cast<int>(ExitCode::kInterrupted));
  }
}

// `courier`: of the processes that evaluate with this one, which then have `leader`.
ExitCode Sweep(const Options& options, const std::string& file, const DesignOptions& designed,
               const SpreadCommandLine& spread, MpiCourier* courier,
               std::optional<CrewLeader>* leader) {
  Job job(options, file, designed, spread);
  const JsonDocument& document = job.document;
  const Design& design = job.design;
  WarnOfOverruled(options, design);
  const std::string dropped =
      design.dropped() == 0 ? ""
                            : fmt::format("; {} were there twice and count once", design.dropped());
  if (options.dry_run) {
    const Unreadable unreadable = CheckEveryValue(document, design, &job.cache);
    Narrate(options, fmt::format("'{}' has {} points over {} axes: {}{}", file, design.points(),
                                 design.axes().size(), design.Describe(), dropped));
    if (!job.shard.IsWhole())
      Narrate(options, fmt::format("shard {} has {} of them", ShardName(job.shard),
                                   ShardPoints(job.shard, design.points())));
    if (options.verbose || options.format != Format::kTable) ShowPoints(options, document, design);
    if (unreadable.points == 0) return ExitCode::kOk;
    Narrate(options, fmt::format("{} of them will fail; the first:\n{}", unreadable.points,
                                 unreadable.first));
    return ExitCode::kPartial;
  }
  if (options.format == Format::kCsv || options.format == Format::kMarkdown) {
    ThrowInput(709, "a sweep writes a database, JSON or JSON lines",
               "-o RUN.db, then aurum report RUN.db -o run.csv", ExitCode::kUsage);
  }
  if (options.output.empty() && options.format == Format::kTable) {
    ThrowInput(708, "a sweep needs somewhere to put its points",
               "-o RUN.db, or --format jsonl for standard output", ExitCode::kUsage);
  }
  SweepOptions run;
  run.jobs = options.jobs;
  run.shard = job.shard;
  run.stop = StopOnInterrupt();
  std::signal(SIGXFSZ, SIG_IGN);  // a quota is an error of the write, and then ours (E0726)
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
  const Study study = job.AsStudy();
  if (courier != nullptr) {
    leader->emplace(courier, StudyKey(study), CrewOptionsOf(spread),
                    [&](const std::string& news) { Narrate(options, "mpi: " + news); });
    run.jobs = JobsOfRank(options, courier->ranks_here());
    run.outside_jobs = run.jobs * (courier->size() - 1);
    run.outside = [&](const SweepExchange& exchange) {
      SweepExchange counted = exchange;
      counted.deliver = [&](PointRange range, std::vector<PointRow> rows) {
        for (const PointRow& row : rows) job.CountTooLarge(row.figures);
        exchange.deliver(range, std::move(rows));
      };
      (*leader)->Lead(counted);
    };
  }
  SweepSummary summary;
  if (options.output.empty()) {
    const bool lines = options.format != Format::kJson;
    std::string all;
    run.on_point = [&](const PointRow& row) {
      const Json json = RowJson(design, row);
      if (lines) {
        WriteOutput(options, json.Dump() + "\n");
      } else {
        all += (all.empty() ? "[\n" : ",\n") + json.Dump();
      }
    };
    summary = RunSweep(document, design, job.evaluate, run, nullptr);
    if (!lines) WriteOutput(options, all + "\n]\n");
  } else {
    Store store = Store::Open(options.output, study);
    summary = RunSweep(document, design, job.evaluate, run, &store);
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
  if (job.too_large > 0)
    said += fmt::format("; {} of them do not fit in memory", job.too_large.load());
  if (job.at_risk > 0) said += fmt::format("; {} are at risk of not fitting", job.at_risk.load());
  if (summary.stored_before > 0)
    said += fmt::format("; {} were there already", summary.stored_before);
  if (!options.output.empty()) said += ", in " + options.output;
  said += dropped;
  if (!job.shard.IsWhole()) said = "shard " + ShardName(job.shard) + ": " + said;
  Narrate(options, said);
  if (!summary.first_failure.empty())
    Narrate(options, "the first failure:\n" + summary.first_failure);
  if (summary.interrupted) Narrate(options, "interrupted; the same command goes on from here");
  if (!options.output.empty() && summary.failed > 0 && summary.failed == summary.total) {
    Narrate(options, fmt::format("every point failed: with a scenario that is mended, remove {} or "
                                 "name another file (a database is of one scenario)",
                                 options.output));
  }
  return summary.exit_code();
}

}  // namespace

ExitCode SweepCommand(const Options& options, const std::string& file,
                      const DesignOptions& designed, const SpreadCommandLine& spread) {
  StopOnInterrupt();
  if (spread.mpi == "off" || (spread.mpi == "auto" && RanksStarted() == 1))
    return Sweep(options, file, designed, spread, nullptr, nullptr);
  MpiCourier courier(std::filesystem::read_symlink("/proc/self/exe").parent_path().string());
  if (courier.rank() != 0) {
    Serve(options, file, designed, spread, &courier);
    courier.Close();
    return ExitCode::kOk;  // the run's is that of rank 0
  }
  std::optional<CrewLeader> leader;
  ExitCode code = ExitCode::kInternal;
  std::exception_ptr thrown;
  try {
    code = Sweep(options, file, designed, spread, &courier, &leader);
  } catch (const InputError& error) {
    code = error.exit_code();
    thrown = std::current_exception();
  } catch (...) {
    thrown = std::current_exception();
  }
  DismissCrew(&courier);
  if (leader && !thrown) leader->AwaitGoodbyes();
  if (leader && leader->HasLost()) {
    // This may end the process, so what is to be said is said before.
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const std::exception& error) {
      Narrate(options, error.what());
    }
    courier.CloseWithoutAll(static_cast<int>(code));
  } else {
    courier.Close();
  }
  if (thrown) std::rethrow_exception(thrown);
  return code;
}

}  // namespace aurum
