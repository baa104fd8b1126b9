#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace aurum {

// Exit codes of the command line; a diagnostic says which one its error deserves.
enum class ExitCode {
  kOk = 0,
  kInternal = 1,
  kUsage = 2,
  kInvalidInput = 3,
  kInfeasible = 4,
  kOutsideTolerance = 5,
  kPartial = 6,
  kNoHardware = 7,
  kInterrupted = 130,
};

// Where in the input. line and column count from 1; 0 means unknown. `text` is the source line, for the caret.
struct SourceLocation {
  std::string file;
  int line = 0;
  int column = 0;
  std::string pointer;  // JSON pointer, "" for the whole document
  std::string text;
};

// One numbered message. Codes are stable: docs/diagnostics.md lists them all.
//   E01xx document and schema · E02xx names and files · E03xx plan · E04xx memory · E05xx topology
//   E06xx model and import · E07xx studies and stores · E08xx profiles and calibration · W1xxx warnings
struct Diagnostic {
  int code = 0;
  bool warning = false;
  std::string message;
  SourceLocation where;
  std::string note;  // beside the caret
  std::string help;  // the likely remedy

  std::string CodeName() const;  // "E0312", "W1001"
};

// Like a compiler's: "error[E0312]: message\n  --> file:7:9 (/pointer)\n 7 | text\n   | ^ note\nhelp: …\n".
std::string FormatDiagnostic(const Diagnostic& diagnostic, bool color = false);

// The one exception type: bad input, never a programming error. Thrown anywhere, caught once in cli/.
class InputError : public std::exception {
 public:
  explicit InputError(Diagnostic diagnostic, ExitCode exit_code = ExitCode::kInvalidInput);
  const char* what() const noexcept override { return what_.c_str(); }
  const Diagnostic& diagnostic() const { return diagnostic_; }
  ExitCode exit_code() const { return exit_code_; }

 private:
  Diagnostic diagnostic_;
  ExitCode exit_code_;
  std::string what_;
};

// The candidate nearest to `name` by edit distance if it is near enough to be a typing error, else "".
std::string NearestName(std::string_view name, const std::vector<std::string>& candidates);

// Shorthand for an error without a place in a document.
[[noreturn]] void ThrowInput(int code, std::string message, std::string help = "",
                             ExitCode exit_code = ExitCode::kInvalidInput);

}  // namespace aurum
