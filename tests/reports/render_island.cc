// Writes an island as a report, for the tests of the page: render_island ISLAND.json
// OUT.{html,md,csv}

#include <cstdio>
#include <exception>
#include <string>

#include "reports/csv.h"
#include "reports/html.h"
#include "reports/markdown.h"
#include "sim/core/json.h"
#include "sim/core/text_file.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: render_island ISLAND.json OUT.{html,md,csv}\n", stderr);
    return 2;
  }
  try {
    const aurum::Json island = aurum::ReadJsonFile(argv[1]).root;
    const std::string out = argv[2];
    const std::string text = out.ends_with(".html")  ? aurum::HtmlReport(island)
                             : out.ends_with(".md")  ? aurum::MarkdownReport(island)
                             : out.ends_with(".csv") ? aurum::CsvReport(island)
                                                     : std::string();
    if (text.empty()) return 2;
    aurum::WriteTextFile(out, text);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "render_island: %s\n", error.what());
    return 1;
  }
  return 0;
}
