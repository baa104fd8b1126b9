#include "reports/csv.h"
#include "reports/html.h"
#include "reports/island.h"
#include "reports/markdown.h"

#include "cli/commands.h"
#include "cli/io.h"
#include "cli/version.h"

namespace aurum {
namespace {

bool EndsWith(const std::string& text, const std::string& tail) {
  return text.size() >= tail.size() &&
         text.compare(text.size() - tail.size(), tail.size(), tail) == 0;
}

bool IsDatabase(const std::string& path) {
  if (!EndsWith(path, ".json")) return true;
  return false;
}

// A result carries its scenario; the step that it describes is simulated again and must be the same one.
Json IslandOfFile(const std::string& path, InputCache* cache, const ReportOrigin& origin,
                  const Options& options, std::vector<Diagnostic>* warnings) {
  if (IsDatabase(path)) {
    Json island = StudyIsland(path, cache, origin);
    // Said here too: rows of a CSV file have no place for what is missing among them.
    for (const Json& entry : island.Find("warnings")->items()) {
      if (entry.Find("code")->AsString() != "W1750") continue;
      Diagnostic d;
      d.code = 1750;
      d.warning = true;
      d.message = "'" + path + "': " + entry.Find("text")->AsString();
      d.help =
          "aurum sweep with the same options goes on with what is missing and says what failed";
      warnings->push_back(std::move(d));
    }
    return island;
  }
  JsonDocument document = OpenScenarioFile(path);
  const Json* schema = document.root.Find("schema");
  std::string signature;
  Level level = options.level;
  if (schema != nullptr && schema->IsString() && schema->AsString() == "aurum.result/1") {
    const Json* scenario = document.root.Find("scenario");
    if (scenario == nullptr || !scenario->IsObject())
      ThrowInput(751, "'" + path + "' is a result without its scenario",
                 "make it with aurum simulate SCENARIO --json");
    if (const Json* was = document.root.Find("signature"); was != nullptr && was->IsString())
      signature = was->AsString();
    if (const Json* at = document.root.Find("level"); at != nullptr && at->IsString())
      level = LevelByName(at->AsString()).value_or(level);
    document.root = Json(*scenario);
  }
  const Evaluation e = Evaluate(ReadScenario(document, cache), level, options.fold);
  if (!signature.empty() && signature != e.outcome.signature) {
    Diagnostic d;
    d.code = 1751;
    d.warning = true;
    d.message = "the step of '" + path +
                "' was simulated from other inputs or by another version: its times differ from "
                "the ones shown";
    d.help = "make the result again with aurum simulate";
    warnings->push_back(d);
  }
  return EvaluationIsland(e, document, cache, origin);
}

// Sections of later files are added to the first; what both have stays the first's.
void Join(Json* island, const Json& other) {
  for (const auto& [key, value] : other.members()) {
    if (key == "findings") {
      for (const auto& [section, text] : value.members()) {
        if (island->Find("findings")->Find(section) == nullptr)
          island->Find("findings")->Set(section, text);
      }
    } else if (key == "warnings" || key == "assumptions") {
      for (const Json& item : value.items()) island->Find(key)->Append(item);
    } else if (island->Find(key) == nullptr) {
      island->Set(key, value);
    }
  }
}

}  // namespace

ExitCode ReportCommand(const Options& options, const std::vector<std::string>& inputs) {
  InputCache cache(options.data_root);
  const ReportOrigin origin{kToolVersion, options.command_line, DateOf(inputs)};
  std::vector<Diagnostic> warnings;
  Json island;
  for (const std::string& input : inputs) {
    Json next = IslandOfFile(input, &cache, origin, options, &warnings);
    if (island.IsNull()) {
      island = std::move(next);
    } else {
      Join(&island, next);
    }
  }
  PrintWarnings(options, warnings);
  if (options.format == Format::kJson) {
    WriteOutput(options, island.Dump(2) + "\n");
  } else if (options.format == Format::kMarkdown || options.output.empty() ||
             EndsWith(options.output, ".md")) {
    WriteOutput(options, MarkdownReport(island));
  } else if (options.format == Format::kCsv || EndsWith(options.output, ".csv")) {
    WriteOutput(options, CsvReport(island));
  } else if (EndsWith(options.output, ".html") || EndsWith(options.output, ".htm") ||
             options.output == "/dev/stdout") {
    WriteOutput(options, HtmlReport(island));
  } else {
    ThrowInput(752, "'" + options.output + "' does not say what kind of report to write",
               "end it in .html, .md or .csv, or pass --format", ExitCode::kUsage);
  }
  if (!options.output.empty()) Narrate(options, "report: " + options.output);
  return ExitCode::kOk;
}

}  // namespace aurum
