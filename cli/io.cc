#include "cli/io.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>
#include "reports/text.h"
#include "sim/core/hash.h"
#include "sim/core/text_file.h"

namespace aurum {
namespace {

// Columns that a text takes on a terminal: code points, which is right for the characters that we print.
std::size_t Width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string ThreeDigits(double value) {
  if (value == 0) return "0";
  const int magnitude = static_cast<int>(std::floor(std::log10(std::abs(value))));
  return fmt::format("{:.{}f}", value, std::max(0, 2 - magnitude));
}

std::string CsvCell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

}  // namespace

void WriteOutput(const Options& options, std::string_view text) {
  if (options.output.empty() || options.output == "-") {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
        std::fflush(stdout) != 0) {
      ThrowInput(204, "cannot write to standard output", "is the disk full, or the reader gone?");
    }
  } else {
    WriteFileOf("-o", options.output, text);
  }
}

void WriteFileOf(const std::string& option, const std::string& path, std::string_view text) {
  if (WasRead(path)) {
    ThrowInput(205, option + " names the input '" + path + "' itself", "write to another file",
               ExitCode::kUsage);
  }
  WriteTextFile(path, text);
}

Json WithRunId(Json document) {
  if (document.Find("run_id") == nullptr) document.Set("run_id", HashText(document.Dump()).Hex());
  return document;
}

void RefuseToReplace(const std::vector<std::string>& inputs,
                     const std::vector<WrittenFile>& written) {
  std::error_code error;
  const auto same = [&](const std::string& a, const std::string& b) {
    return std::filesystem::equivalent(a, b, error) ||
           std::filesystem::weakly_canonical(a, error) ==
               std::filesystem::weakly_canonical(b, error);
  };
  for (std::size_t i = 0; i < written.size(); ++i) {
    const auto& [option, path] = written[i];
    if (path.empty() || path == "-") continue;
    for (const std::string& input : inputs) {
      if (!input.empty() && same(input, path)) {
        ThrowInput(205, option + " names the input '" + input + "' itself", "write to another file",
                   ExitCode::kUsage);
      }
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (!written[j].path.empty() && same(written[j].path, path)) {
        ThrowInput(205, option + " and " + written[j].option + " name one file, '" + path + "'",
                   "write to two files", ExitCode::kUsage);
      }
    }
  }
}

void RefuseToReplace(const Scenario& scenario, const std::vector<WrittenFile>& written) {
  std::vector<std::string> inputs;
  for (const Scenario::Input& input : scenario.inputs) inputs.push_back(input.name);
  RefuseToReplace(inputs, written);
}

std::string DateOf(const std::vector<std::string>& inputs) {
  std::time_t newest = 0;
  if (const char* epoch = std::getenv("SOURCE_DATE_EPOCH"); epoch != nullptr && *epoch != '\0') {
    newest = static_cast<std::time_t>(std::strtoll(epoch, nullptr, 10));
  } else {
    for (const std::string& input : inputs) {
      std::error_code error;
      const auto written = std::filesystem::last_write_time(input, error);
      if (error) continue;
      const auto system = std::chrono::file_clock::to_sys(written);
      newest = std::max(
          newest, std::chrono::system_clock::to_time_t(
                      std::chrono::time_point_cast<std::chrono::system_clock::duration>(system)));
    }
  }
  std::tm utc{};
  gmtime_r(&newest, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

void Narrate(const Options& options, std::string_view line) {
  if (!options.quiet) std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
}

void PrintDiagnostic(const Options& options, const Diagnostic& diagnostic) {
  std::fputs(FormatDiagnostic(diagnostic, options.color_errors).c_str(), stderr);
}

void PrintWarnings(const Options& options, const std::vector<Diagnostic>& warnings) {
  if (options.quiet) return;
  for (const Diagnostic& warning : warnings) PrintDiagnostic(options, warning);
}

JsonDocument OpenScenario(const Options& options, const std::string& file) {
  JsonDocument document = OpenScenarioFile(file);
  if (!document.root.IsObject()) {
    Diagnostic d;
    d.code = 103;
    d.message = "a scenario must be an object, not " + std::string(document.root.TypeName());
    d.where = document.Locate(document.root, "");
    throw InputError(std::move(d));
  }
  if (options.profile)
    SetPath(&document, "profile", Json(*options.profile), "--profile " + *options.profile);
  for (const std::string& assignment : options.set) ApplyOverride(&document, assignment);
  return document;
}

Table::Table(std::vector<std::string> header, std::string align)
    : header_(std::move(header)), align_(std::move(align)) {}

void Table::Row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

std::string Table::Text() const {
  std::vector<std::size_t> widths;
  for (const std::string& cell : header_) widths.push_back(Width(cell));
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Width(row[i]));
  }
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string out;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string pad(widths[i] - Width(cells[i]), ' ');
      if (i > 0) out += "  ";
      out += align_[i] == '>' ? pad + cells[i] : cells[i] + pad;
    }
    return out.substr(0, out.find_last_not_of(' ') + 1) + "\n";
  };
  std::string out;
  const bool titled = std::any_of(header_.begin(), header_.end(),
                                  [](const std::string& cell) { return !cell.empty(); });
  if (titled) {
    out += line(header_);
    std::vector<std::string> rule;
    for (const std::size_t width : widths) rule.emplace_back(width, '-');
    out += line(rule);
  }
  for (const auto& row : rows_) out += line(row);
  return out;
}

std::string Table::Csv() const {
  std::string out;
  const auto line = [&](const std::vector<std::string>& cells) {
    for (std::size_t i = 0; i < cells.size(); ++i) out += (i > 0 ? "," : "") + CsvCell(cells[i]);
    out += "\n";
  };
  line(header_);
  for (const auto& row : rows_) line(row);
  return out;
}

std::string Table::Markdown() const {
  std::string out;
  const auto line = [&](const std::vector<std::string>& cells) {
    out += "|";
    for (const std::string& cell : cells) {
      out += " ";
      for (const char c : cell) out += c == '|' ? "\\|" : std::string(1, c);
      out += " |";
    }
    out += "\n";
  };
  line(header_);
  out += "|";
  for (const char align : align_) out += align == '>' ? " ---: |" : " --- |";
  out += "\n";
  for (const auto& row : rows_) line(row);
  return out;
}

std::string Table::As(Format format) const {
  if (format == Format::kCsv) return Csv();
  return format == Format::kMarkdown ? Markdown() : Text();
}

std::string Apart(Format format) { return format == Format::kMarkdown ? "\n" : ""; }

std::string ShowSeconds(double seconds) {
  if (seconds == 0) return "0 s";
  if (std::abs(seconds) >= 2 * 86400) return ThreeDigits(seconds / 86400) + " days";
  if (std::abs(seconds) >= 2 * 3600) return ThreeDigits(seconds / 3600) + " h";
  if (std::abs(seconds) >= 1) return ThreeDigits(seconds) + " s";
  if (std::abs(seconds) >= 1e-3) return ThreeDigits(seconds * 1e3) + " ms";
  return ThreeDigits(seconds * 1e6) + " µs";
}

std::string ShowBytes(double bytes) {
  if (bytes >= 1024.0 * 1024 * 1024 || bytes == 0)
    return ThreeDigits(bytes / (1024.0 * 1024 * 1024)) + " GiB";
  if (bytes >= 1024.0 * 1024) return ThreeDigits(bytes / (1024.0 * 1024)) + " MiB";
  return ThreeDigits(bytes / 1024.0) + " KiB";
}

std::string ShowRate(double bytes_per_s) { return ThreeDigits(bytes_per_s / 1e9) + " GB/s"; }

std::string ShowNumber(double value) {
  if (std::abs(value) < 1000) return ThreeDigits(value);
  const double scale = std::pow(10, std::floor(std::log10(std::abs(value))) - 3);
  std::string digits = fmt::format("{:.0f}", std::round(value / scale) * scale);
  for (std::ptrdiff_t at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > (value < 0 ? 1 : 0);
       at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

std::string ShowPercent(double share) { return PercentText(share); }

}  // namespace aurum
