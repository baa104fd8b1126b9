#include "reports/csv.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/core/json.h"
#include "tests/reports/island_fixture.h"

namespace aurum {
namespace {

// RFC 4180, without its line ends inside quotes being counted as records.
std::vector<std::vector<std::string>> Parse(const std::string& text) {
  std::vector<std::vector<std::string>> rows(1, {""});
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
        rows.back().back() += c;
        ++i;
      } else if (c == '"') {
        quoted = false;
      } else {
        rows.back().back() += c;
      }
    } else if (c == '"') {
      quoted = true;
    } else if (c == ',') {
      rows.back().emplace_back();
    } else if (c == '\n') {
      rows.push_back({""});
    } else {
      rows.back().back() += c;
    }
  }
  rows.pop_back();  // the text ends with a line end
  return rows;
}

std::size_t Column(const std::vector<std::vector<std::string>>& rows, const std::string& name) {
  const auto at = std::find(rows[0].begin(), rows[0].end(), name);
  REQUIRE(at != rows[0].end());
  return static_cast<std::size_t>(at - rows[0].begin());
}

TEST_CASE("a sweep is one row per point, and its terms add up to the formula") {
  const auto rows = Parse(CsvReport(IslandFixture()));
  CHECK(rows.size() == 1 + 4 * 3 * 2 * 2);
  for (const auto& row : rows) CHECK(row.size() == rows[0].size());
  const auto value = [&](std::size_t row, const std::string& name) {
    return std::stod(rows[row][Column(rows, name)]);
  };
  const std::size_t simulated = Column(rows, "simulated_step_time_s");
  std::size_t failed = 0;
  for (std::size_t n = 1; n < rows.size(); ++n) {
    const double sum = value(n, "f_over_b_s") + value(n, "g_over_c_s") + value(n, "alpha_comm_s") +
                       value(n, "beta_p_align_s");
    CHECK(sum == doctest::Approx(value(n, "formula_step_time_s")).epsilon(1e-3));
    CHECK(rows[n][Column(rows, "modality")] == "backbone");
    if (rows[n][simulated].empty()) {
      ++failed;
      CHECK(rows[n][Column(rows, "relative_gap")].empty());
      continue;
    }
    const double gap = value(n, "formula_step_time_s") / value(n, "simulated_step_time_s") - 1;
    CHECK(value(n, "relative_gap") == doctest::Approx(gap).epsilon(1e-3));
    CHECK((rows[n][Column(rows, "reason")] == "inside the boundary") == (std::abs(gap) <= 0.1));
  }
  CHECK(failed == 2);  // one in each of Model B's grids
  // The last axis runs first, and the clusters keep their own axes.
  CHECK(rows[1][Column(rows, "align_ratio")] == "0.5");
  CHECK(rows[2][Column(rows, "align_ratio")] == "1");
  CHECK(rows[1][Column(rows, "comm_bw_gb_per_s")] == "25");
  CHECK(rows.back()[Column(rows, "comm_bw_gb_per_s")] == "200");
}

TEST_CASE("without a sweep every figure is a row with its unit and its interval") {
  Json island = IslandFixture();
  Erase(&island, {"sweep"});
  const auto rows = Parse(CsvReport(island));
  CHECK(rows[0] ==
        std::vector<std::string>{"section", "item", "figure", "value", "unit", "low", "high"});
  const auto has = [&](const std::vector<std::string>& row) {
    return std::find(rows.begin(), rows.end(), row) != rows.end();
  };
  CHECK(has({"verdict", "", "step_time_s", "1", "s", "0.95", "1.06"}));
  CHECK(has({"verdict", "", "peak_gib", "63", "GiB", "61.2", "64.7"}));
  CHECK(has({"time", "", "bubble_s", "0.15", "s", "", ""}));
  CHECK(has({"plans", "dp16 zero-1", "step_time_s", "1.42", "s", "", ""}));
  CHECK(has({"memory", "activations", "largest_gib", "43", "GiB", "", ""}));
  CHECK(has({"sensitivities", "Loader throughput", "value", "212", "samples/s", "", ""}));
  CHECK(has({"validation rows", "t4", "iteration_s relative_error", "-0.13", "1", "", ""}));

  Erase(&island, {"verdict", "time", "plans", "memory", "sensitivities", "validation", "timeline"});
  CHECK(Parse(CsvReport(island)).size() == 1);
}

TEST_CASE("names with commas, quotes and line ends come back as they were") {
  Json island = IslandFixture();
  const std::string hostile = "a,\"b\"\n</script>;=1+1";
  island.Find("sweep")->Find("models")->items()[0].Set("name", hostile);
  const auto rows = Parse(CsvReport(island));
  CHECK(rows.size() == 49);
  CHECK(rows[1][0] == hostile);
}

}  // namespace
}  // namespace aurum
