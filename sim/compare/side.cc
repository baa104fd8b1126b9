#include "sim/compare/side.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "sim/compare/fail_if.h"
#include "sim/compare/substitute.h"
#include "sim/core/diagnostic.h"
#include "sim/plan/scenario_file.h"
#include "sim/plan/waves.h"
#include "sim/study/decide.h"

namespace aurum {
namespace {

constexpr const char* kComparable =
    "a scenario, a result of aurum simulate --json, a cluster, or a database of aurum sweep";

bool IsSqlite(const std::string& path) {
  constexpr char kMagic[] = "SQLite format 3";  // with its zero: 16 bytes
  char head[sizeof kMagic] = {};
  std::ifstream file(path, std::ios::binary);
  file.read(head, sizeof head);
  return file.gcount() == sizeof head && std::memcmp(head, kMagic, sizeof head) == 0;
}

std::string TextAt(const Json& object, std::string_view key) {
  const Json* value = object.Find(key);
  return value != nullptr && value->IsString() ? value->AsString() : std::string();
}

constexpr const char* kMadeBy = "make it with aurum simulate SCENARIO --json";

// What a comparison counts with: a step that picoseconds can hold, and amounts whose sums are numbers.
void CheckFigures(const std::string& given, const Json& result, const NamedFigures& figures) {
  constexpr double kShortestStep = 1e-12;
  constexpr double kRounding = 1e-6;  // seconds: what is left of something that is nothing
  constexpr double kMostMemory = 1e21;
  const Json* step = result.Find("step_time_s");
  if (step == nullptr || !step->IsNumber() || !(step->AsNumber() > 0))
    ThrowInput(883, "'" + given + "' is a result without its step time", kMadeBy);
  for (const auto& [name, value] : figures) {
    double least = -kMostMemory, most = kMostMemory;
    if (name == "step_time_s") {
      least = kShortestStep;
      most = kLongestStep;
    } else if (name.starts_with("time.") || name.starts_with("idle.") ||
               name == "compute_slowed_by_communication_s") {
      least = -kRounding;
      most = kLongestStep;
    } else if (!name.starts_with("memory.")) {
      continue;
    }
    if (value >= least && value <= most) continue;
    ThrowInput(883,
               "'" + given + "' says " + name + " = " + Json(value).Dump() + ", which no step has",
               kMadeBy);
  }
}

// The first of a result's figures that its scenario gives another value, "" where none does: with the
// same signature it was edited, or its version counted otherwise.
std::string OtherFigure(const NamedFigures& told, const Evaluation& e) {
  constexpr double kSame = 1e-9;  // of a figure that went through a text
  const NamedFigures own = FiguresOfResult(ResultJson(e, {}, ""));
  for (const auto& [name, value] : told) {
    if (name != "step_time_s" && name != "fits" && name != "at_risk" &&
        !name.starts_with("time.") && !name.starts_with("idle.") && !name.starts_with("memory."))
      continue;
    for (const auto& [other, now] : own) {
      if (other != name) continue;
      if (std::abs(value - now) > kSame * std::abs(now)) return name;
      break;
    }
  }
  return "";
}

}  // namespace

GivenKind KindOfGiven(const std::string& given, InputCache* cache) {
  std::error_code error;
  const std::filesystem::path path = given;
  if (!std::filesystem::exists(path, error)) {
    // Names of catalogues have no folder and no ending: the rest was meant as a file, and reading it says so.
    const std::string ending = path.extension().string();
    if (path.has_parent_path() || ending == ".json" || ending == ".db") ReadJsonFile(given);
    cache->GetCluster(given);
    return GivenKind::kCluster;
  }
  if (!std::filesystem::is_directory(path, error) && IsSqlite(given)) return GivenKind::kStore;
  const JsonDocument document = ReadJsonFile(given);
  const std::string schema = TextAt(document.root, "schema");
  if (schema == "aurum.scenario/1") return GivenKind::kScenario;
  if (schema == "aurum.result/1") return GivenKind::kResult;
  if (schema == "aurum.cluster/1") return GivenKind::kCluster;
  ThrowInput(880,
             "'" + given + "' cannot be compared: " +
                 (schema.empty() ? "it says no schema" : "it is a document of " + schema),
             kComparable);
}

Side SideOfScenario(std::string given, JsonDocument document, InputCache* cache, Level level,
                    const std::string& tool_version) {
  Side side;
  side.given = std::move(given);
  Scenario scenario = ReadScenario(document, cache);
  if (const auto left_out = PhasesLeftOut(document, "compare"))
    scenario.warnings.push_back(*left_out);
  side.evaluation = Evaluate(std::move(scenario), level);
  side.result = ResultJson(*side.evaluation, {}, tool_version);
  side.document = std::move(document);
  return side;
}

Side SideOfResult(std::string given, const JsonDocument& document, InputCache* cache) {
  Side side;
  side.given = std::move(given);
  side.result = document.root;
  const NamedFigures figures = FiguresOfResult(side.result);
  CheckFigures(side.given, side.result, figures);
  const Json* scenario = document.root.Find("scenario");
  if (scenario == nullptr || !scenario->IsObject()) {
    side.as_found = "it does not hold its scenario";
    return side;
  }
  JsonDocument inner = document;
  inner.root = Json(*scenario);
  try {
    const Level level = LevelByName(TextAt(document.root, "level")).value_or(Level::kAnalytic);
    Evaluation e = EvaluatePlain(inner, cache, level);
    if (e.outcome.signature != TextAt(document.root, "signature")) {
      side.as_found = "its scenario gives another step now: other inputs, or another version";
    } else if (const std::string other = OtherFigure(figures, e); !other.empty()) {
      side.as_found =
          "its scenario gives another " + other + " now: it was changed, or is of another version";
    } else {
      side.evaluation = std::move(e);
    }
  } catch (const InputError& error) {
    side.as_found = "its scenario cannot be simulated here (" + error.diagnostic().CodeName() + ")";
  }
  side.document = std::move(inner);
  return side;
}

}  // namespace aurum
