#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "cli/commands.h"
#include "cli/io.h"
#include "cli/version.h"
#include "sim/audit/rows.h"

namespace aurum {
namespace {

// Where nothing can be computed, or it is an input, a 0 is no figure.
std::string WithUnit(double value, const std::string& unit) {
  return fmt::format("{:.4g}", value) + (unit.empty() ? "" : " " + unit);
}

bool Uncomputed(const AuditLine& line) {
  return line.recomputed.value == 0 &&
         (line.verdict == Verdict::kUndefined || line.verdict == Verdict::kInput);
}

// How a figure came about.
std::string Behind(const AuditLine& line, Format format) {
  const Recomputed& r = line.recomputed;
  const std::string& scenario = line.claim.scenario;
  if (format == Format::kMarkdown) {
    return fmt::format("- **{}** ({}): {}{}{}\n", line.claim.id, line.claim.where, r.formula,
                       r.remark.empty() ? "" : "; " + r.remark,
                       scenario.empty() ? "" : " (`" + scenario + "`)");
  }
  std::string text = fmt::format("{}  ({})\n    {}\n", line.claim.id, line.claim.where, r.formula);
  if (!r.remark.empty()) text += "    " + r.remark + "\n";
  if (!scenario.empty()) text += "    " + scenario + "\n";
  return text;
}

}  // namespace

ExitCode AuditCommand(const Options& options, std::vector<std::string> rows) {
  for (std::string& row : rows) {
    if (!row.empty()) row[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(row[0])));
  }
  const Computations known = AllComputations();
  std::vector<Claim> claims = AllClaims(options.data_root, known);
  const auto asked = [&](const Claim& claim) {
    return rows.empty() || std::any_of(rows.begin(), rows.end(), [&](const std::string& row) {
             return claim.row == row || claim.id == row;
           });
  };
  for (const std::string& row : rows) {
    if (std::any_of(claims.begin(), claims.end(),
                    [&](const Claim& c) { return c.row == row || c.id == row; }))
      continue;
    std::vector<std::string> names;
    for (const Claim& claim : claims) {
      names.push_back(claim.row);
      names.push_back(claim.id);
    }
    const std::string nearest = NearestName(row, names);
    ThrowInput(
        1, "there is no claim '" + row + "'",
        nearest.empty() ? "rows are A1 … A22 and B1 … B20" : "did you mean '" + nearest + "'?",
        ExitCode::kUsage);
  }
  AuditContext context(options.data_root);
  std::vector<AuditLine> lines;
  for (const Claim& claim : claims) {
    if (asked(claim)) lines.push_back(Audit(claim, known, &context));
  }
  if (options.format == Format::kJson || options.format == Format::kJsonLines) {
    const Json json = WithRunId(AuditJson(lines, kToolVersion));
    WriteOutput(options, json.Dump(options.format == Format::kJson ? 2 : -1) + "\n");
    return ExitCode::kOk;
  }
  Table table({"row", "claim", "claimed", "within", "recomputed", "verdict"}, "<<>>><");
  std::string behind;
  int verdicts[4] = {}, implied[4] = {};
  for (const AuditLine& line : lines) {
    ++(line.claim.implied ? implied : verdicts)[static_cast<int>(line.verdict)];
    table.Row({line.claim.row, line.claim.text + (line.claim.implied ? " (implied)" : ""),
               WithUnit(line.claim.claimed, line.claim.unit),
               line.claim.tolerance > 0 ? fmt::format("{:.3g} %", line.claim.tolerance * 100) : "",
               Uncomputed(line) ? "–" : WithUnit(line.recomputed.value, line.claim.unit),
               std::string(VerdictName(line.verdict))});
    behind += Behind(line, options.format);
  }
  std::string out = table.As(options.format);
  if (options.format != Format::kCsv) {
    if (options.verbose || !rows.empty()) out += "\n" + behind;
    const auto tally = [&](const char* what, const int(&of)[4]) {
      return fmt::format(
          "{}: {} in all, {} hold, {} refuted, {} without a meaning that could be computed, {} "
          "about "
          "what a simulation of time takes as given\n",
          what, of[0] + of[1] + of[2] + of[3], of[0], of[1], of[2], of[3]);
    };
    out += "\n" + tally("printed by the articles", verdicts) +
           tally("implied by what they say", implied);
  }
  WriteOutput(options, out);
  return ExitCode::kOk;
}

}  // namespace aurum
