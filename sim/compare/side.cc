#include "sim/compare/side.h"

#include <cmath>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "sim/compare/substitute.h"
#include "sim/core/diagnostic.h"
#include "sim/plan/scenario_file.h"
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
  const Json* step = document.root.Find("step_time_s");
  if (step == nullptr || !step->IsNumber() || !(step->AsNumber() > 0)) {
    ThrowInput(883, "'" + side.given + "' is a result without its step time",
               "make it with aurum simulate SCENARIO --json");
  }
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
    } else if (const Json own = ResultJson(e, {}, "");
               std::abs(own.Find("step_time_s")->AsNumber() / step->AsNumber() - 1) > 1e-9) {
      // Of a figure that was edited, the scenario's own would be shown in its place.
      side.as_found = "its step time is not the one that its scenario and signature give";
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
