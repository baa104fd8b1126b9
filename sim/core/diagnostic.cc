#include "sim/core/diagnostic.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdio>
#include <utility>

namespace aurum {
namespace {

// Optimal string alignment distance: insert, delete, replace, swap neighbours. O(|a|·|b|).
std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

// A source line is shown at most this wide, cut around the caret.
constexpr std::size_t kShownColumns = 120;

}  // namespace

std::string Diagnostic::CodeName() const {
  char buffer[16];
  std::snprintf(buffer, sizeof buffer, "%c%04d", warning ? 'W' : 'E', code);
  return buffer;
}

std::string FormatDiagnostic(const Diagnostic& diagnostic, bool color) {
  Diagnostic d = diagnostic;
  // What a file or a command line contains must not steer the terminal.
  for (std::string* text : {&d.message, &d.note, &d.help, &d.where.file, &d.where.pointer}) {
    for (char& c : *text) {
      if ((static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7f) c = '?';
    }
  }
  const char* bold = color ? "\x1b[1m" : "";
  const char* paint = color ? (d.warning ? "\x1b[1;33m" : "\x1b[1;31m") : "";
  const char* plain = color ? "\x1b[0m" : "";
  std::string out = std::string(paint) + (d.warning ? "warning[" : "error[") + d.CodeName() + "]" +
                    plain + bold + ": " + d.message + plain;
  const SourceLocation& at = d.where;
  if (!at.file.empty()) {
    out += "\n  --> " + at.file;
    if (at.line > 0) out += ":" + std::to_string(at.line) + ":" + std::to_string(at.column);
    if (!at.pointer.empty()) out += " (" + at.pointer + ")";
  } else if (!at.pointer.empty()) {
    out += " (" + at.pointer + ")";
  }
  if (at.line > 0 && !at.text.empty()) {
    std::string text = at.text;
    std::size_t column = at.column > 0 ? static_cast<std::size_t>(at.column) - 1 : 0;
    if (text.size() > kShownColumns) {
      const std::size_t from = column > kShownColumns / 2 ? column - kShownColumns / 2 : 0;
      text = text.substr(from, kShownColumns);
      column -= from;
    }
    for (char& c : text) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
    }
    const std::string number = std::to_string(at.line);
    out += "\n " + number + " | " + text;
    out += "\n " + std::string(number.size(), ' ') + " | " +
           std::string(std::min(column, text.size()), ' ') + "^";
    if (!d.note.empty()) out += " " + d.note;
  } else if (!d.note.empty()) {
    out += "\nnote: " + d.note;
  }
  if (!d.help.empty()) out += "\nhelp: " + d.help;
  out += "\n";
  return out;
}

InputError::InputError(Diagnostic diagnostic, ExitCode exit_code)
    : diagnostic_(std::move(diagnostic)),
      exit_code_(exit_code),
      what_(FormatDiagnostic(diagnostic_)) {}

std::string NearestName(std::string_view name, const std::vector<std::string>& candidates) {
  if (name.size() > 200) return "";
  const std::string wanted = Lower(name);
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = EditDistance(wanted, Lower(candidate));
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

void ThrowInput(int code, std::string message, std::string help, ExitCode exit_code) {
  Diagnostic d;
  d.code = code;
  d.message = std::move(message);
  d.help = std::move(help);
  throw InputError(std::move(d), exit_code);
}

}  // namespace aurum
