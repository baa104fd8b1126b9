#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"
#include "sim/core/json.h"
#include "sim/plan/scenario_file.h"

namespace aurum {

// The only place that prints. Data goes to -o or stdout, narration to stderr.
void WriteOutput(const Options& options, std::string_view text);
// Of another option that names a file. Both refuse to replace what was read (E0205).
void WriteFileOf(const std::string& option, const std::string& path, std::string_view text);
// A result must not replace what it was made from, nor another result: E0205. `written`: option and
// file, "" where it is not given; `inputs` may be names of catalogues, which are no files here.
struct WrittenFile {
  std::string option, path;
};
void RefuseToReplace(const std::vector<std::string>& inputs,
                     const std::vector<WrittenFile>& written);
// The same for the files that a scenario names.
void RefuseToReplace(const Scenario& scenario, const std::vector<WrittenFile>& written);
void Narrate(const Options& options, std::string_view line);
void PrintDiagnostic(const Options& options, const Diagnostic& diagnostic);
void PrintWarnings(const Options& options, const std::vector<Diagnostic>& warnings);

// When the newest input was written, ISO 8601 in UTC: the same inputs give the same bytes, whenever the
// report is made. SOURCE_DATE_EPOCH wins.
std::string DateOf(const std::vector<std::string>& inputs);

// The scenario file with --profile and --set applied, in that order.
JsonDocument OpenScenario(const Options& options, const std::string& file);

// The document with a "run_id": a hash of all the rest, so that whatever is made
// of it can name it. One that has its own stays as it is.
Json WithRunId(Json document);

// Plain text in columns, the first left-aligned, the others as given ('<' or '>'); the header is underlined.
class Table {
 public:
  Table(std::vector<std::string> header, std::string align);
  void Row(std::vector<std::string> cells);
  std::string Text() const;
  std::string Csv() const;
  std::string Markdown() const;
  std::string As(Format format) const;

 private:
  std::vector<std::string> header_;
  std::string align_;
  std::vector<std::vector<std::string>> rows_;
};

// What stands between a table and text below it: of Markdown that would be a row of the table.
std::string Apart(Format format);

// Three significant digits with the unit that suits: "12.3 ms", "4.56 s", "1.20 TB".
std::string ShowSeconds(double seconds);
std::string ShowBytes(double bytes);       // binary: GiB
std::string ShowRate(double bytes_per_s);  // decimal: GB/s
std::string ShowNumber(double value);      // three significant digits, thousands separated
std::string ShowPercent(double share);

}  // namespace aurum
