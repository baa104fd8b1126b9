#include "sim/study/decide.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/commands.h"
#include "cli/io.h"
#include "cli/version.h"
#include "sim/study/pipeline_cut.h"

namespace aurum {

ExitCode DecideCommand(const Options& options, const std::string& what, const std::string& file,
                       const CutScoreInputs& score) {
  const JsonDocument document = OpenScenario(options, file);
  InputCache cache(options.data_root);
  PrintWarnings(options, ReadScenario(document, &cache).warnings);
  if (const auto left_out = PhasesLeftOut(document, "decide")) PrintWarnings(options, {*left_out});
  Decision decision;
  if (what == "cut") {
    CutOptions cut;
    cut.score = score;
    cut.level = options.level;
    cut.jobs = options.jobs;
    decision = DecideCut(document, &cache, cut);
  } else if (what == "split") {
    decision = DecideSplit(document, &cache, {options.level, options.jobs});
  } else {
    decision = Decide(what, ExpertAlternatives(ReadScenario(document, &cache)), document, &cache,
                      {options.level, options.jobs});
  }
  if (options.format == Format::kJson || options.format == Format::kJsonLines) {
    const Json json = DecisionJson(decision, kToolVersion);
    WriteOutput(options, json.Dump(options.format == Format::kJson ? 2 : -1) + "\n");
    return ExitCode::kOk;
  }
  const bool budget = std::any_of(decision.alternatives.begin(), decision.alternatives.end(),
                                  [](const Alternative& a) { return !a.budget.empty(); });
  std::vector<std::string> header = {"alternative", "step",   "samples/s", "exposed",
                                     "bubble",      "memory", "",          "against the best"};
  if (budget) header.insert(header.end() - 1, "budget");
  Table table(header, budget ? "<>>>>><<<" : "<>>>>><<");
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
    std::vector<std::string> row = {name,
                                    ShowSeconds(a.step_s),
                                    ShowNumber(a.samples_per_s),
                                    ShowSeconds(a.time.exposed_comm_s),
                                    ShowSeconds(a.time.bubble_s),
                                    ShowBytes(a.peak_bytes),
                                    FitName(a.verdict)};
    if (budget)
      row.push_back(Exceeded(a.budget) ? "exceeds " + DescribeExceeded(a.budget) : "within");
    row.push_back(a.why);
    table.Row(row);
  }
  std::string out = table.As(options.format);
  if (options.format != Format::kCsv) {
    if (!refused.empty()) out += "\n" + refused;
    out += "\n" + decision.reason + "\n";
    if (valid > 0 && !decision.alternatives.front().as_told) {  // else there is nothing to change
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
