#include "sim/study/decide.h"

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/io.h"
#include "cli/version.h"
#include "sim/study/pipeline_cut.h"

namespace aurum {

ExitCode DecideCommand(const Options& options, const std::string& what, const std::string& file,
                       const CutScoreInputs& score) {
  const JsonDocument document = OpenScenario(options, file);
  InputCache cache(options.data_root);
  Decision decision;
  if (what == "cut") {
    CutOptions cut;
    cut.score = score;
    cut.level = options.level;
    cut.jobs = options.jobs;
    decision = DecideCut(document, &cache, cut);
  } else {
    const Scenario scenario = ReadScenario(document, &cache);
    PrintWarnings(options, scenario.warnings);
    decision =
        Decide(what, what == "split" ? SplitAlternatives(scenario) : ExpertAlternatives(scenario),
               document, &cache, {options.level, options.jobs});
  }
  if (options.format == Format::kJson || options.format == Format::kJsonLines) {
    const Json json = DecisionJson(decision, kToolVersion);
    WriteOutput(options, json.Dump(options.format == Format::kJson ? 2 : -1) + "\n");
    return ExitCode::kOk;
  }
  Table table(
      {"alternative", "step", "samples/s", "exposed", "bubble", "memory", "", "against the best"},
      "<>>>>><<");
  std::string refused;
  int valid = 0;
  for (const Alternative& a : decision.alternatives) {
    const std::string name = a.name + (a.as_told ? " (the plan)" : "");
    if (a.refused) {
      refused +=
          fmt::format("no plan: {}\n  {}: {}\n", name, a.refused->CodeName(), a.refused->message);
      if (!a.refused->help.empty()) refused += "  help: " + a.refused->help + "\n";
      continue;
    }
    ++valid;
    table.Row({name, ShowSeconds(a.step_s), ShowNumber(a.samples_per_s),
               ShowSeconds(a.time.exposed_comm_s), ShowSeconds(a.time.bubble_s),
               ShowBytes(a.peak_bytes), FitName(a.verdict), a.why});
  }
  std::string out = table.As(options.format);
  if (options.format != Format::kCsv) {
    if (!refused.empty()) out += "\n" + refused;
    out += "\n" + decision.reason + "\n";
    if (valid > 0) {
      out += "set:";
      for (const std::string& assignment : decision.alternatives.front().set)
        out += " --set '" + assignment + "'";
      out += "\n";
    }
  }
  WriteOutput(options, out);
  return valid > 0 ? ExitCode::kOk : ExitCode::kInfeasible;
}

}  // namespace aurum
