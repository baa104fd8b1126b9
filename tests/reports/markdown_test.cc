#include "reports/markdown.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "sim/core/json.h"
#include "tests/reports/island_fixture.h"

namespace aurum {
namespace {

bool Has(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

// Bars that are neither escaped nor inside code.
std::size_t Bars(const std::string& line) {
  std::size_t n = 0;
  for (std::size_t i = 0; i < line.size(); ++i)
    n += line[i] == '|' && (i == 0 || line[i - 1] != '\\');
  return n;
}

// Every row of a table has as many cells as its head.
void CheckTables(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  std::size_t bars = 0;
  while (std::getline(lines, line)) {
    if (!line.starts_with('|')) {
      bars = 0;
      continue;
    }
    CAPTURE(line);
    if (bars != 0) CHECK(Bars(line) == bars);
    bars = Bars(line);
  }
}

TEST_CASE("a whole island has every section, its figures and their intervals") {
  const std::string text = MarkdownReport(IslandFixture());
  for (const char* heading :
       {"# Does Model A fit on cluster X, and what limits its step?\n", "\n## Verdict\n",
        "\n## Plans compared\n", "\n## One step, op by op\n", "\n## Memory of the heaviest rank\n",
        "\n## Golden-formula sweep\n", "\n## What 10 % more would buy\n",
        "\n## Predicted against measured\n", "\n## Warnings and assumptions\n",
        "\n## Provenance\n"}) {
    CAPTURE(heading);
    CHECK(Has(text, heading));
  }
  CHECK(Has(text, "**synthetic sample data**"));
  CHECK(Has(text, "| Step time | 1.00 s [0.95–1.06] |"));
  CHECK(Has(text, "| pipeline bubbles | 150 ms | 15.0 % |"));
  CHECK_FALSE(Has(text, "data wait"));  // a part of no seconds
  CHECK(Has(text, "| dp16 zero-1 (baseline) | 1.42 s | 0 % | 74.6 GiB | 5,769 |"));
  CHECK(Has(text, "| tp2·pp2·dp4 **best** | 1.00 s [0.95–1.06] | -30 % |"));
  CHECK(Has(text, "| activations | 43.00 | 68.3 % |"));
  CHECK(Has(text,
            "14.6 GFLOP/token, 24.3 GB/s, AlignRatio 0.86 | 1.90 s | 1.80 s | ✓ -5.3 % | 1.25 s | "
            "180 ms | 250 ms | 120 ms | **pipeline** |"));
  CHECK(Has(text, "`aurum report run.db -o report.html`"));
  CHECK(text == MarkdownReport(IslandFixture()));
  CheckTables(text);
}

TEST_CASE("absent sections are left out, with their headings") {
  Json island = IslandFixture();
  Erase(&island, {"verdict", "time", "plans", "timeline", "memory", "validation", "sensitivities"});
  island.Set("warnings", Json::Array());
  island.Set("assumptions", Json::Array());
  const std::string text = MarkdownReport(island);
  CHECK(Has(text, "## Golden-formula sweep"));
  for (const char* heading : {"## Verdict", "## Plans", "## One step", "## Memory", "## What 10",
                              "## Predicted", "## Warnings"}) {
    CAPTURE(heading);
    CHECK_FALSE(Has(text, heading));
  }
  Erase(&island, {"sweep"});
  CHECK_FALSE(Has(MarkdownReport(island), "Golden-formula"));
  CHECK(Has(MarkdownReport(island), "## Provenance"));
}

TEST_CASE("a plan that does not fit, and one at risk, are called so") {
  Json island = IslandFixture();
  island.Find("verdict")->Set("peak_high_gib", 80.0);
  CHECK(Has(MarkdownReport(island), "**! at risk**"));
  island.Find("verdict")->Set("fits", false);
  CHECK(Has(MarkdownReport(island), "**✗ does not fit**"));
  CHECK(Has(MarkdownReport(island), "Step time, if it fitted"));
}

TEST_CASE("hostile text stays text and stays in its cell") {
  CHECK(EscapeForMarkdown("a|b\n<img onerror=x>`c`*d*") ==
        "a\\|b &lt;img onerror=x&gt;\\`c\\`\\*d\\*");
  Json island = IslandFixture();
  const std::string hostile =
      "</script><img src=x onerror=y>\n\n# | `x` [l](javascript:z) $& \xe2\x80\xa8";
  island.Set("question", hostile);
  island.Set("command", "printf '``|``' | tee x\nnext");
  for (Json& row : island.Find("plans")->Find("rows")->items()) row.Set("name", hostile);
  for (Json& fix : island.Find("memory")->Find("fixes")->items()) fix.Set("set", "a=`b|c`");
  for (Json& entry : island.Find("sweep")->Find("models")->items()) entry.Set("name", hostile);
  const std::string text = MarkdownReport(island);
  CHECK_FALSE(Has(text, "<img"));
  CHECK_FALSE(Has(text, "</script"));
  CHECK_FALSE(Has(text, "[l](javascript"));
  CHECK(Has(text, "``` printf '``|``' | tee x next ```"));
  CheckTables(text);
}

}  // namespace
}  // namespace aurum
