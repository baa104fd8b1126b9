// aurum validate --published RECORDS.json, --encoders ROWS.json: predicted against measured.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/io.h"
#include "cli/version.h"
#include "reports/html.h"
#include "reports/published_island.h"
#include "sim/core/hash.h"
#include "sim/core/text_file.h"
#include "sim/study/encoders.h"
#include "sim/study/published/validation.h"

namespace aurum {
namespace {

std::string PercentIfKnown(const std::optional<double>& share) {
  return share ? ShowPercent(*share) : "–";
}
std::string SignedIfKnown(const std::optional<double>& share) {
  return share ? fmt::format("{:+.1f} %", *share * 100) : "–";
}
std::string PlainIfKnown(const std::optional<double>& value) {
  return value ? fmt::format("{:.2f}", *value) : "–";
}

constexpr std::size_t kWorstRows = 12;
constexpr std::size_t kReasons = 12;

const char* Heading(const std::string& metric) {
  return metric == kIterationMetric ? "step time" : "peak memory";
}

std::string InUnits(const MetricRow& row, double value) {
  return row.metric == kIterationMetric ? ShowSeconds(value) : fmt::format("{:.2f} GiB", value);
}

Table SourceTable(const PublishedReport& report, const std::string& metric) {
  Table table({Heading(metric), "rows", "skipped", "clusters", "mean", "median", "p90", "bias",
               "tau", "mean of clusters", "in 90 % band"},
              "<>>>>>>>>>>");
  const auto line = [&](const std::string& name, const Score& s) {
    if (s.n == 0 && s.skipped == 0) return;
    table.Row({name, std::to_string(s.n), std::to_string(s.skipped), std::to_string(s.clusters),
               PercentIfKnown(s.mape), PercentIfKnown(s.median_ape), PercentIfKnown(s.p90_ape),
               SignedIfKnown(s.bias), PlainIfKnown(s.kendall_tau), PercentIfKnown(s.cluster_mape),
               PercentIfKnown(s.coverage_90)});
  };
  for (const std::string& source : report.Sources()) line(source, report.ScoreOf(metric, source));
  line("all", report.ScoreOf(metric));
  return table;
}

Table WorstTable(const PublishedReport& report) {
  const std::vector<const MetricRow*> rows = WorstFirst(report);
  Table table({"furthest off", "metric", "predicted", "measured", "error", "ends"}, "<<>>>>");
  for (std::size_t i = 0; i < rows.size() && i < kWorstRows; ++i) {
    const MetricRow& r = *rows[i];
    table.Row({r.id, Heading(r.metric), InUnits(r, r.predicted), InUnits(r, r.measured),
               fmt::format("{:+.1f} %", (r.predicted / r.measured - 1) * 100),
               r.low ? InUnits(r, *r.low) + " – " + InUnits(r, *r.high) : ""});
  }
  return table;
}

Table FitsTable(const PublishedReport& report) {
  const FitCounts counts = CountFits(report);
  Table table({"did it fit?", "predicted OOM", "at risk", "fits"}, "<>>>");
  for (const std::size_t reported : {0U, 1U}) {
    table.Row({reported == 0 ? "reported out of memory" : "reported to run",
               std::to_string(counts[reported][0]), std::to_string(counts[reported][1]),
               std::to_string(counts[reported][2])});
  }
  return table;
}

Table SkippedTable(const PublishedReport& report) {
  const auto sorted = SkipReasons(report);
  Table table({"not compared, because", "rows"}, "<>");
  std::int64_t rest = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (i < kReasons)
      table.Row({sorted[i].first, std::to_string(sorted[i].second)});
    else
      rest += sorted[i].second;
  }
  if (rest > 0) {
    table.Row({fmt::format("{} more reasons (--json lists them)", sorted.size() - kReasons),
               std::to_string(rest)});
  }
  return table;
}

std::string Summary(const PublishedReport& report, Format format) {
  std::string out;
  for (const char* metric : {kIterationMetric, kMemoryMetric}) {
    const Score score = report.ScoreOf(metric);
    if (score.n + score.skipped > 0) out += SourceTable(report, metric).As(format) + "\n";
  }
  if (std::any_of(report.rows.begin(), report.rows.end(),
                  [](const MetricRow& row) { return row.skipped.empty(); }))
    out += WorstTable(report).As(format) + "\n";
  if (!report.fits.empty()) out += FitsTable(report).As(format) + "\n";
  if (!report.ranked.empty()) {
    Table table({"measured against each other", "plans", "tau", "predicted order, fastest first"},
                "<>><");
    for (const RankedSet& set : report.ranked) {
      std::vector<std::size_t> order(set.ids.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
      std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return set.predicted_s[a] < set.predicted_s[b];
      });
      std::string names;
      for (const std::size_t i : order)
        names += (names.empty() ? "" : ", ") + set.ids[i].substr(set.ids[i].rfind('/') + 1);
      table.Row({set.set, std::to_string(set.ids.size()), PlainIfKnown(set.kendall_tau), names});
    }
    out += table.As(format) + "\n";
  }
  if (report.choice.groups > 0) {
    out += fmt::format(
        "plan choice within one model and GPU, {} groups: the plan predicted best is {} slower "
        "than "
        "the best measured on average, {} at worst; tau over pairs at least 10 % apart {}\n\n",
        report.choice.groups, PercentIfKnown(report.choice.regret_mean),
        PercentIfKnown(report.choice.regret_worst),
        PlainIfKnown(report.choice.kendall_tau_10_percent));
  }
  if (!SkipReasons(report).empty()) out += SkippedTable(report).As(format) + "\n";
  out += fmt::format("{} records, {} compared, {} not\n", report.records, report.compared,
                     report.records - report.compared);
  return out;
}

std::string Csv(const PublishedReport& report) {
  const auto quoted = [](const std::string& text) {
    std::string out = "\"";
    for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
    return out + "\"";
  };
  std::string out =
      "id,metric,source,cluster,quality,predicted,measured,relative_error,low,high,skipped\n";
  const auto number = [](double value) { return Json(value).Dump(); };
  for (const MetricRow& r : report.rows) {
    out += quoted(r.id) + "," + r.metric + "," + quoted(r.source) + "," + quoted(r.cluster) + "," +
           r.quality + ",";
    if (r.skipped.empty()) {
      out += number(r.predicted) + "," + number(r.measured) + "," +
             number(r.predicted / r.measured - 1) + "," + (r.low ? number(*r.low) : "") + "," +
             (r.high ? number(*r.high) : "") + ",\n";
    } else {
      out += ",,,,," + quoted(r.skipped) + "\n";
    }
  }
  return out;
}

// The documents that one record's prediction is made of.
ExitCode Show(const Options& options, const std::vector<Record>& records,
              const PublishedSources& sources, const std::string& id) {
  std::vector<std::string> ids;
  for (const Record& record : records) {
    ids.push_back(record.facts.id);
    if (record.facts.id != id) continue;
    const Translation t = ToScenario(record.facts, sources, options.data_root);
    Json out = Json::Object();
    out.Set("id", id);
    if (!t.skip.empty()) {
      out.Set("skipped", t.skip);
    } else {
      Json assumed = Json::Array();
      for (const std::string& note : t.assumed) assumed.Append(note);
      out.Set("assumed", std::move(assumed));
      out.Set("memory_level", MemoryLevelName(t.level));
      out.Set("scenario", t.scenario);
      if (!t.model.IsNull()) out.Set("model", t.model);
      if (!t.cluster.IsNull()) out.Set("cluster", t.cluster);
      Json ends = Json::Array();
      for (const Json& end : t.ends) ends.Append(end);
      out.Set("ends", std::move(ends));
    }
    WriteOutput(options, out.Dump(options.format == Format::kJsonLines ? -1 : 2) + "\n");
    return ExitCode::kOk;
  }
  const std::string nearest = NearestName(id, ids);
  ThrowInput(866, "no record '" + id + "' in this file",
             nearest.empty() ? "--json lists every id" : "did you mean '" + nearest + "'?",
             ExitCode::kUsage);
}

// Vision encoders: per card and kind, nothing fitted.
ExitCode ValidateEncoders(const Options& options, const std::string& file) {
  const std::vector<EncoderRow> rows = PredictEncoders(ReadJsonFile(file), options.data_root);
  const std::vector<EncoderScore> scores = ScoreEncoders(rows);
  if (options.format == Format::kJson || options.format == Format::kJsonLines) {
    Json out = Json::Object();
    out.Set("schema", "aurum.encoders/1");
    out.Set("tool_version", kToolVersion);
    Json& by_card = out.Set("scores", Json::Array());
    for (const EncoderScore& s : scores) {
      Json score = Json::Object();
      score.Set("gpu", s.gpu);
      score.Set("kind", s.kind);
      score.Set("compared", s.compared);
      score.Set("skipped", s.skipped);
      if (s.compared > 0) {
        score.Set("mean_error", s.mape);
        score.Set("median_error", s.median_ape);
        score.Set("bias", s.bias);
      }
      by_card.Append(std::move(score));
    }
    Json& all = out.Set("rows", Json::Array());
    for (const EncoderRow& r : rows) {
      Json row = Json::Object();
      row.Set("id", r.id);
      if (!r.skipped.empty()) {
        row.Set("skipped", r.skipped);
      } else {
        row.Set("profile", r.profile);
        row.Set("predicted_s", r.predicted_s);
        row.Set("measured_s", r.measured_s);
        row.Set("gmacs", r.our_gmacs);
      }
      all.Append(std::move(row));
    }
    WriteOutput(options, WithRunId(out).Dump(options.format == Format::kJson ? 2 : -1) + "\n");
    return ExitCode::kOk;
  }
  Table table({"card", "kind", "rows", "skipped", "mean", "median", "bias"}, "<<>>>>>");
  std::map<std::string, std::int64_t> reasons;
  for (const EncoderScore& s : scores) {
    const bool any = s.compared > 0;
    table.Row({s.gpu, s.kind, std::to_string(s.compared), std::to_string(s.skipped),
               any ? PercentIfKnown(s.mape) : "–", any ? PercentIfKnown(s.median_ape) : "–",
               any ? SignedIfKnown(s.bias) : "–"});
  }
  for (const EncoderRow& row : rows)
    if (!row.skipped.empty()) ++reasons[row.skipped];
  Table skipped({"not compared, because", "rows"}, "<>");
  for (const auto& [reason, count] : reasons) skipped.Row({reason, std::to_string(count)});
  WriteOutput(options, table.As(options.format) + "\n" + skipped.As(options.format));
  return ExitCode::kOk;
}

// Refuses a page that cannot be written before the predictions, which take a while, are made.
void CheckPage(const PublishedCommand& command) {
  if (command.html.empty()) return;
  const std::filesystem::path page = command.html;
  std::error_code error;
  if (!command.encoders.empty() || !command.show.empty()) {
    ThrowInput(1, "--html is a page of a whole comparison of --published",
               command.show.empty() ? "leave out --html" : "leave out --show or --html",
               ExitCode::kUsage);
  }
  const std::filesystem::path folder = page.parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder, error)) {
    ThrowInput(204,
               "cannot write '" + command.html + "': there is no folder '" + folder.string() + "'",
               "make the folder, or name another one");
  }
}

}  // namespace

ExitCode ValidateCommand(const Options& options, const PublishedCommand& command) {
  CheckPage(command);
  if (!command.encoders.empty()) return ValidateEncoders(options, command.encoders);
  const JsonDocument document = ReadJsonFile(command.records);
  const std::filesystem::path beside =
      std::filesystem::path(command.records).parent_path() / "megatron_ci_args.json";
  std::error_code error;
  std::optional<JsonDocument> arguments;
  if (std::filesystem::exists(beside, error)) arguments = ReadJsonFile(beside.string());
  const std::vector<Record> records = ReadRecords(document, arguments ? &*arguments : nullptr);
  const PublishedSources sources = OpenPublishedSources(options.data_root);
  if (!command.show.empty()) return Show(options, records, sources, command.show);

  PublishedOptions run;
  run.jobs = options.jobs;
  run.level = options.level;
  run.stop = StopOnInterrupt();
  const bool progress = options.progress && isatty(STDERR_FILENO) != 0;
  if (progress) {
    run.progress = [&](std::size_t done, std::size_t total) {
      std::fprintf(stderr, "\r%zu of %zu records", done, total);
    };
  }
  const std::vector<PredictedRecord> predictions =
      PredictAll(records, sources, options.data_root, run);
  EndOnInterrupt();
  if (progress) std::fprintf(stderr, "\r\033[K");
  if (*run.stop) return ExitCode::kInterrupted;

  const PublishedReport report = Compare(records, predictions);
  const std::string records_hash = HashText(document.root.Dump()).Hex();
  if (!command.html.empty()) {
    const PublishedOrigin origin{{kToolVersion, options.command_line, DateOf({command.records})},
                                 command.records,
                                 records_hash,
                                 sources.hash,
                                 std::string(LevelName(options.level))};
    WriteTextFile(command.html, HtmlReport(PublishedIsland(report, origin)));
    Narrate(options, "report: " + command.html);
  }
  Json result = PublishedJson(report, kToolVersion);
  Json inputs = Json::Array();
  const auto input = [&](const char* role, const std::string& name, const std::string& hash) {
    Json item = Json::Object();
    item.Set("role", role);
    item.Set("name", name);
    item.Set("hash", hash);
    inputs.Append(std::move(item));
  };
  input("records", command.records, records_hash);
  input("sources", "calibrate/published/sources.json", sources.hash);
  result.Set("inputs", std::move(inputs));
  switch (options.format) {
    case Format::kJson:
      WriteOutput(options, WithRunId(result).Dump(2) + "\n");
      break;
    case Format::kJsonLines:
      WriteOutput(options, WithRunId(result).Dump() + "\n");
      break;
    case Format::kCsv:
      WriteOutput(options, Csv(report));
      break;
    default:
      WriteOutput(options, Summary(report, options.format));
      break;
  }
  if (!command.tolerance) return ExitCode::kOk;
  std::string outside;
  for (const std::string& source : report.Sources()) {
    for (const char* metric : {kIterationMetric, kMemoryMetric}) {
      const Score score = report.ScoreOf(metric, source);
      if (score.mape.value_or(0) > *command.tolerance) {
        outside += (outside.empty() ? "" : ", ") + source + " " + Heading(metric) + " " +
                   PercentIfKnown(score.mape);
      }
    }
  }
  if (outside.empty()) return ExitCode::kOk;
  Diagnostic d;
  d.code = 865;
  d.message =
      fmt::format("the mean error exceeds {}: {}", PercentIfKnown(command.tolerance), outside);
  d.help = "the rows furthest off are listed; a larger --tolerance accepts them";
  PrintDiagnostic(options, d);
  return ExitCode::kOutsideTolerance;
}

}  // namespace aurum
