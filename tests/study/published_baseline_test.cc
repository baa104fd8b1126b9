// The errors that the shipped records are predicted with, against the ones that calibrate/published/errors.json holds:
// nothing that changes a prediction may make a source worse without someone saying so.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "sim/core/json.h"
#include "sim/study/published/validation.h"

namespace aurum {
namespace {

constexpr const char* kStored = "calibrate/published/errors.json";
constexpr const char* kUpdate =
    "if this is meant, ./dev fidelity --update stores the new errors; say why in the commit";
// Points of the mean error that a source may lose: what rounding to 0.1 and other compilers' last
// bits can do is far below, what a reader of the table would ask about is above.
constexpr double kAllowedPoints = 1.0;

struct Line {
  std::string file, metric, source;
  std::int64_t stored_rows = 0, rows = 0;
  double stored_percent = 0, percent = 0;
  bool known = false;

  bool Worse() const { return known && percent > stored_percent + kAllowedPoints + 1e-9; }
  bool Fewer() const { return known && rows < stored_rows; }
};

// Rounded as it is stored, so that an update brings every difference to nothing.
double RoundedPercent(double share) { return std::round(share * 1000) / 10; }

std::vector<Line> LinesOf(const std::string& file, const Json& stored) {
  const std::vector<Record> records =
      ReadRecords(ReadJsonFile("calibrate/published/" + file), nullptr);
  const PublishedReport report =
      Compare(records, PredictAll(records, OpenPublishedSources("."), ".", {}));
  std::vector<Line> lines;
  for (const char* metric : {kIterationMetric, kMemoryMetric}) {
    const Json* sources = stored.Find(metric);
    REQUIRE_MESSAGE(sources != nullptr, kStored << " has no " << metric << " of " << file);
    std::set<std::string> names;
    for (const auto& [name, value] : sources->members()) names.insert(name);
    for (const std::string& name : report.Sources())
      if (report.ScoreOf(metric, name).n > 0) names.insert(name);
    for (const std::string& name : names) {
      Line line{file, metric, name};
      const Score score = report.ScoreOf(metric, name);
      line.rows = score.n;
      line.percent = RoundedPercent(score.mape.value_or(0));
      if (const Json* was = sources->Find(name); was != nullptr) {
        line.known = true;
        line.stored_rows = was->Find("rows")->AsInteger();
        line.stored_percent = was->Find("mean_error_percent")->AsNumber();
      }
      lines.push_back(std::move(line));
    }
  }
  return lines;
}

void Print(const std::vector<Line>& lines) {
  fmt::print("{:18} {:16} {:30} {:>11} {:>7} {:>7} {:>7}\n", "file", "figure", "source", "rows",
             "stored", "now", "change");
  for (const Line& line : lines) {
    const std::string rows = line.known && line.rows != line.stored_rows
                                 ? fmt::format("{} -> {}", line.stored_rows, line.rows)
                                 : std::to_string(line.rows);
    fmt::print("{:18} {:16} {:30} {:>11} {:>7} {:>7.1f} {:>7}{}\n", line.file, line.metric,
               line.source, rows, line.known ? fmt::format("{:.1f}", line.stored_percent) : "-",
               line.percent,
               line.known ? fmt::format("{:+.1f}", line.percent - line.stored_percent) : "new",
               line.Worse()   ? "  WORSE"
               : line.Fewer() ? "  FEWER ROWS"
                              : "");
  }
  std::fflush(stdout);
}

TEST_CASE("no source of the shipped records is predicted worse than stored") {
  const Json stored = ReadJsonFile(kStored).root;
  const Json* files = stored.Find("files");
  REQUIRE(files != nullptr);
  std::set<std::string> names;
  std::vector<Line> lines;
  for (const auto& [file, errors] : files->members()) {
    names.insert(file);
    for (Line& line : LinesOf(file, errors)) lines.push_back(std::move(line));
  }
  CHECK(names == std::set<std::string>{"training.json", "training_mm.json"});
  CHECK(lines.size() > 40);
  Print(lines);
  for (const Line& line : lines) {
    CAPTURE(line.file);
    CAPTURE(line.metric);
    CAPTURE(line.source);
    CHECK_MESSAGE(!line.Worse(), line.stored_percent << " % was stored, " << line.percent
                                                     << " % is predicted now; " << kUpdate);
    CHECK_MESSAGE(!line.Fewer(), line.stored_rows << " rows were compared, " << line.rows
                                                  << " are now; " << kUpdate);
  }
}

}  // namespace
}  // namespace aurum
