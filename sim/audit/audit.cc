#include "sim/audit/audit.h"

#include <cmath>
#include <cstdio>
#include <utility>

#include "sim/audit/rows.h"
#include "sim/plan/scenario_file.h"

namespace aurum {

std::string_view VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kHolds:
      return "holds";
    case Verdict::kRefuted:
      return "refuted";
    case Verdict::kUndefined:
      return "undefined";
    case Verdict::kInput:
      return "input";
  }
  return "";
}

AuditContext::AuditContext(std::string data_root)
    : data_root_(std::move(data_root)), cache_(data_root_) {}

JsonDocument AuditContext::Document(const std::string& file,
                                    const std::vector<std::string>& set) const {
  if (file.empty())
    ThrowInput(790, "a claim that is computed on a scenario names none",
               "\"scenario\": a file below the data root");
  JsonDocument document = OpenScenarioFile(data_root_ + "/" + file);
  for (const std::string& assignment : set) ApplyOverride(&document, assignment);
  return document;
}

Scenario AuditContext::Read(const std::string& file, const std::vector<std::string>& set) {
  return ReadScenario(Document(file, set), &cache_);
}

const Evaluation& AuditContext::Run(const std::string& file, const std::vector<std::string>& set,
                                    Level level) {
  std::string key = file + "\n" + std::string(LevelName(level));
  for (const std::string& assignment : set) key += "\n" + assignment;
  std::shared_ptr<const Evaluation>& known = known_[key];
  if (known == nullptr)
    known = std::make_shared<const Evaluation>(Evaluate(Read(file, set), level));
  return *known;
}

int AuditContext::Refusal(const std::string& file, const std::vector<std::string>& set) {
  try {
    Run(file, set);
  } catch (const InputError& error) {
    return error.diagnostic().code;
  }
  return 0;
}

double AuditInput::Given(std::string_view name) const {
  const auto found = claim.given.find(std::string(name));
  if (found != claim.given.end()) return found->second;
  Diagnostic d;
  d.code = 790;
  d.message = "claim " + claim.id + " lacks the number '" + std::string(name) + "'";
  d.where = claim.place;
  d.help = "add it to \"given\"";
  throw InputError(std::move(d));
}

const Evaluation& AuditInput::Run(const std::vector<std::string>& set) const {
  if (!claim.scenario.empty()) return context.Run(claim.scenario, set);
  Diagnostic d;
  d.code = 790;
  d.message = "claim " + claim.id + " is computed on a scenario and names none";
  d.where = claim.place;
  d.help = "\"scenario\": a file below the data root";
  throw InputError(std::move(d));
}

std::string Show(double value) {
  char text[48];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

Verdict HoldsIf(bool holds) { return holds ? Verdict::kHolds : Verdict::kRefuted; }

Verdict Judge(const Claim& claim, const Recomputed& recomputed) {
  if (recomputed.verdict) return *recomputed.verdict;
  // Where 0 is claimed, the tolerance is of the unit itself.
  const double scale = claim.claimed == 0 ? 1 : std::abs(claim.claimed);
  return std::abs(recomputed.value - claim.claimed) <= claim.tolerance * scale ? Verdict::kHolds
                                                                               : Verdict::kRefuted;
}

AuditLine Audit(const Claim& claim, const Computations& known, AuditContext* context) {
  AuditLine line;
  line.claim = claim;
  line.recomputed = known.at(claim.id)(AuditInput{claim, *context});
  line.verdict = Judge(claim, line.recomputed);
  return line;
}

Computations AllComputations() {
  Computations all;
  AddFormulaRows(&all);
  AddParallelRows(&all);
  AddNetworkRows(&all);
  AddDataRows(&all);
  AddRecipeRows(&all);
  AddMonitoringRows(&all);
  return all;
}

Json AuditJson(const std::vector<AuditLine>& lines, const std::string& tool_version) {
  Json out = Json::Object();
  out.Set("schema", "aurum.audit/1");
  out.Set("tool_version", tool_version);
  Json claims = Json::Array();
  for (const AuditLine& line : lines) {
    Json entry = Json::Object();
    entry.Set("row", line.claim.row);
    entry.Set("id", line.claim.id);
    entry.Set("claim", line.claim.text);
    entry.Set("where", line.claim.where);
    entry.Set("claimed", line.claim.claimed);
    entry.Set("recomputed", line.recomputed.value);
    entry.Set("unit", line.claim.unit);
    entry.Set("implied", line.claim.implied);
    entry.Set("tolerance", line.claim.tolerance);
    entry.Set("verdict", std::string(VerdictName(line.verdict)));
    entry.Set("formula", line.recomputed.formula);
    if (!line.recomputed.remark.empty()) entry.Set("remark", line.recomputed.remark);
    entry.Set("scenario", line.claim.scenario);
    claims.Append(std::move(entry));
  }
  out.Set("claims", std::move(claims));
  return out;
}

}  // namespace aurum
