#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/json.h"
#include "sim/study/evaluate.h"

namespace aurum {

// Claims of the literature, computed again. A claim is data (scenarios/articles/claims/*.json): what
// is said, where, with which figure, and the numbers that it rests on. What Aurum makes of it is a
// function of those numbers and of a scenario, looked up by the claim's id. Nothing that is computed
// here stands in the file, and no claimed figure stands in the code.

enum class Verdict {
  kHolds,      // the recomputed figure is within the claim's tolerance
  kRefuted,    // it is not
  kUndefined,  // the claim has no meaning that could be computed: a unit, a definition is missing
  kInput,      // it is about what a simulation of time takes as given: accuracy, steps to converge
};
std::string_view VerdictName(Verdict verdict);  // "holds", "refuted", "undefined", "input"

struct Claim {
  std::string row;                      // "A15": of the table in docs/articles.md
  std::string id;                       // "A15.formula"
  std::string text;                     // the claim in one sentence
  std::string where;                    // "golden formula, 4.1": article and section
  std::string scenario;                 // file below the data root; "": arithmetic alone
  double claimed = 0;                   // the figure that is claimed
  std::string unit;                     // "%", "GPUs", "×", ...
  double tolerance = 0;                 // relative, of `claimed`
  std::map<std::string, double> given;  // numbers that the claim rests on, by name
  // The article does not print the figure: it follows from what it says, or from its silence.
  bool implied = false;
  SourceLocation place;  // of the claim in its file
};

struct Recomputed {
  double value = 0;     // in the claim's unit
  std::string formula;  // how it came about, with its numbers: "8 · 600 / (200 + 150) = 13"
  std::string remark;   // what the reader should know: why the two differ, what would be right
  // Told where the figure alone does not decide: by default |value − claimed| ≤ tolerance·|claimed|.
  std::optional<Verdict> verdict{};
};

// What a computation may use.
class AuditContext {
 public:
  // Catalogues and scenario files lie below `data_root`.
  explicit AuditContext(std::string data_root);
  const std::string& data_root() const { return data_root_; }
  InputCache* cache() { return &cache_; }

  // The document of a scenario file below the data root, with overrides as of --set.
  JsonDocument Document(const std::string& file, const std::vector<std::string>& set = {}) const;
  Scenario Read(const std::string& file, const std::vector<std::string>& set = {});
  // The same scenario is simulated once. Infeasible ones throw (InputError, ExitCode::kInfeasible).
  const Evaluation& Run(const std::string& file, const std::vector<std::string>& set = {},
                        Level level = Level::kAnalytic);
  // The number of the diagnostic that reading or simulating throws (386 for E0386); 0 if it runs.
  int Refusal(const std::string& file, const std::vector<std::string>& set = {});

 private:
  std::string data_root_;
  InputCache cache_;
  std::map<std::string, std::shared_ptr<const Evaluation>> known_;
};

// One claim's inputs, with what is asked for by name checked: E0790 where `given` lacks it.
struct AuditInput {
  const Claim& claim;
  AuditContext& context;
  double Given(std::string_view name) const;
  // Of the claim's own scenario. E0790 where it names none.
  const Evaluation& Run(const std::vector<std::string>& set = {}) const;
};
using Computation = std::function<Recomputed(const AuditInput&)>;
using Computations = std::map<std::string, Computation>;  // by claim id

struct AuditLine {
  Claim claim;
  Recomputed recomputed;
  Verdict verdict = Verdict::kUndefined;
};

// The claims of one file. E0791 an unknown id; E01xx.
std::vector<Claim> ReadClaims(const JsonDocument& document, const Computations& known);
// All files below scenarios/articles/claims, by row (A1 … A22, B1 … B20) and then in file order.
std::vector<Claim> AllClaims(const std::string& data_root, const Computations& known);
Verdict Judge(const Claim& claim, const Recomputed& recomputed);
AuditLine Audit(const Claim& claim, const Computations& known, AuditContext* context);

// The document of `audit --json`.
Json AuditJson(const std::vector<AuditLine>& lines, const std::string& tool_version);

}  // namespace aurum
