#include "sim/search/search.h"

#include <fmt/format.h>

#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/io.h"
#include "cli/rows.h"
#include "cli/version.h"
#include "sim/core/units.h"
#include "sim/launch/launch.h"

namespace aurum {
namespace {

Objective ObjectiveOf(const std::string& name) {
  for (const Objective each :
       {Objective::kThroughput, Objective::kTime, Objective::kCost, Objective::kEnergy}) {
    if (ObjectiveName(each) == name) return each;
  }
  return Objective::kThroughput;
}

std::string Count(std::uint64_t n) {
  std::string digits = std::to_string(n);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

// The plans as a table. Columns that say the same of all of them, as GPUs do on one cluster, are there
// only where they tell plans apart or are what plans are ranked by.
Table PlanTable(const SearchReport& report, const std::vector<FoundPlan>& plans, bool numbered) {
  std::vector<std::size_t> beside;  // dimensions that a plan's words do not tell
  for (std::size_t d = 0; d < report.space.dimensions.size(); ++d) {
    const std::string& path = report.space.dimensions[d].choices.front().set.front().first;
    if (path.rfind("plan", 0) != 0 && path.rfind("/plan", 0) != 0) beside.push_back(d);
  }
  const Objective objective = report.options.objective;
  const bool money = !plans.empty() && plans.front().cost.money_known;
  const bool gpus = std::any_of(plans.begin(), plans.end(), [&](const FoundPlan& plan) {
    return plan.gpus != plans.front().gpus;
  });
  const bool hours = gpus || (objective == Objective::kCost && !money);
  const bool energy = objective == Objective::kEnergy;
  std::vector<std::string> header = {"", "plan", "recipe"};
  std::string align = "<<<";
  for (const std::size_t d : beside) {
    header.push_back(report.space.dimensions[d].name);
    align += '<';
  }
  for (const char* name : {"step", "samples/s", "MFU", "exposed", "bubble", "memory"}) {
    header.emplace_back(name);
    align += '>';
  }
  header.emplace_back("");
  align += '<';
  const auto column = [&](bool there, const char* name) {
    if (!there) return;
    header.emplace_back(name);
    align += '>';
  };
  column(gpus, "GPUs");
  column(hours, "GPU-h/step");
  column(money, "money/step");
  column(energy, "kWh/step");
  header.emplace_back("limited by");
  align += '<';
  Table table(header, align);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const FoundPlan& plan = plans[i];
    std::vector<std::string> row = {numbered ? std::to_string(i + 1) : "", plan.plan, plan.recipe};
    for (const std::size_t d : beside) row.push_back(plan.labels[d]);
    for (const std::string& cell :
         {ShowSeconds(plan.step_s), ShowNumber(plan.samples_per_s), ShowPercent(plan.mfu),
          ShowSeconds(plan.time.exposed_comm_s), ShowSeconds(plan.time.bubble_s),
          ShowBytes(plan.peak_bytes), FitName(plan.verdict)})
      row.push_back(cell);
    if (gpus) row.push_back(std::to_string(plan.gpus));
    if (hours) row.push_back(fmt::format("{:.4g}", plan.cost.gpu_hours));
    if (money) row.push_back(fmt::format("{:.4g}", plan.cost.money));
    if (energy) row.push_back(fmt::format("{:.4g}", plan.cost.energy_kwh));
    row.push_back(LimitName(plan.limit));
    table.Row(row);
  }
  return table;
}

std::string Accounted(const SearchReport& report) {
  const SearchCounts& c = report.counts;
  Table table({"executions of the space", ""}, "<>");
  const auto row = [&](const char* what, std::uint64_t n) {
    if (n > 0) table.Row({what, Count(n)});
  };
  row("all", c.total);
  row("the same plan as another", c.alike);
  row("realised by no placement", c.unplaceable);
  row("no plan: refused by its reader or over budget", c.refused);
  row("state alone does not fit", c.state);
  row("activations do not fit beside it", c.kept);
  row("bounded out", c.bounded);
  row("simulated, do not fit", c.memory);
  row("simulated, fit", c.valued);
  return table.As(Format::kTable);
}

std::string Rejections(const SearchReport& report, bool all) {
  std::string text;
  std::size_t shown = 0;
  for (const RejectedPlans& r : report.rejected) {
    if (!all && shown++ == 8) {
      text += fmt::format("… and {} more reasons (-v)\n", report.rejected.size() - 8);
      break;
    }
    text += fmt::format("{:>12}  {}: {}\n", Count(r.count), r.code, r.reason);
    if (!all) continue;
    std::string example;
    for (std::size_t d = 0; d < r.example.size(); ++d)
      example +=
          fmt::format("{}{} {}", d > 0 ? ", " : "", report.space.dimensions[d].name, r.example[d]);
    text += fmt::format("{:>12}  e.g. {}\n", "", example);
  }
  return text;
}

std::string SetWords(const std::vector<std::string>& set) {
  std::string text = "set:";
  for (const std::string& assignment : set) text += " --set '" + assignment + "'";
  return text;
}

std::string Sentence(const SearchReport& report) {
  if (report.best.empty()) {
    return report.interrupted
               ? "interrupted before a plan was found\n"
               : "no plan of this space fits; the reasons are above. aurum explain --what oom "
                 "ranks what else would make it fit\n";
  }
  const FoundPlan& best = report.best.front();
  std::string text;
  if (report.told && report.told_fits) {
    const double gain = report.told->score / best.score - 1;
    text += gain > 0.0005
                ? fmt::format(
                      "by {} the best is {:.1f} % better than the scenario's own plan ({}, {})\n",
                      ObjectiveName(report.options.objective), 100 * gain, report.told->plan,
                      ShowSeconds(report.told->step_s))
                : std::string("no plan of this space is better than the scenario's own\n");
  } else if (report.told) {
    text += fmt::format("the scenario's own plan ({}) {}\n", report.told->plan,
                        report.told_refused.empty() ? FitName(report.told->verdict) + ": " +
                                                          ShowBytes(report.told->peak_bytes)
                                                    : report.told_refused);
  }
  if (report.at_risk) {
    text += fmt::format(
        "{:.1f} % better still, but at risk of not fitting ({} of {}): {}, {} (--at-risk takes "
        "it)\n",
        100 * (best.score / report.at_risk->score - 1), ShowBytes(report.at_risk->peak_bytes),
        ShowBytes(report.at_risk->usable_bytes), report.at_risk->plan, report.at_risk->recipe);
  }
  if (report.uneven) {
    text +=
        "samples differ: plans were sought for their mean, and the best of them simulated with the "
        "samples as drawn\n";
  }
  if (report.interrupted)
    text += "interrupted: there may be better plans among those that were not looked at\n";
  return text + SetWords(best.set) + "\n";
}

// What the framework has against a plan, if anything.
std::optional<Diagnostic> RefusalBy(const std::string& framework, const Scenario& scenario) {
  try {
    Emit(scenario, *FrameworkByName(framework));
  } catch (const InputError& error) {
    const int code = error.diagnostic().code;
    if (code < 950 || code > 952) throw;
    return error.diagnostic();
  }
  return std::nullopt;
}

// The best plan that the framework can run. The plans that were found come first, each that it cannot run with the
// reason; where it can run none of them, what it can run is searched by itself.
void EmitBest(const Options& options, const JsonDocument& document, const SearchReport& report,
              InputCache* cache, const SearchOptions& searched, const SearchCommandLine& command) {
  if (report.best.empty()) return;
  const auto emit = [&](const FoundPlan& plan) {
    JsonDocument changed = document;
    report.space.Apply(plan.at, &changed);
    const Scenario scenario = ReadScenario(changed, cache);
    if (const auto refused = RefusalBy(command.emit, scenario)) return refused;
    if (command.emit_to.empty()) WriteOutput(options, "\n");
    WriteLaunch(options, scenario, command.emit, command.emit_to);
    return std::optional<Diagnostic>();
  };
  for (std::size_t i = 0; i < report.best.size(); ++i) {
    const auto refused = emit(report.best[i]);
    if (refused) {
      Narrate(options, fmt::format("plan {}: {}", i + 1, refused->message));
      continue;
    }
    Narrate(options, fmt::format("plan {} as {} takes it; {}", i + 1, command.emit,
                                 SetWords(report.best[i].set)));
    return;
  }
  Narrate(options, fmt::format("{} can run none of these {}: searching among those that it can",
                               command.emit, report.best.size()));
  SearchOptions again = searched;
  again.top = 1;
  again.pareto = false;
  again.refuses = [&](const Scenario& scenario) { return RefusalBy(command.emit, scenario); };
  const SearchReport among = Search(document, report.space, cache, again);
  std::string refusals;
  for (const RejectedPlans& r : among.rejected) {
    if (r.code < "E0950" || r.code > "E0952") continue;
    refusals += fmt::format("{} plans that might be better are none for it, such as: {}\n",
                            Count(r.count), r.reason);
  }
  if (!among.best.empty() && !emit(among.best.front())) {
    const FoundPlan& plan = among.best.front();
    Narrate(options,
            fmt::format("{}the best that {} can run: {}; {}; {}, {:.1f} % worse than the best "
                        "by {}; {}",
                        refusals, command.emit, plan.plan, plan.recipe, ShowSeconds(plan.step_s),
                        100 * (plan.score / report.best.front().score - 1),
                        ObjectiveName(searched.objective), SetWords(plan.set)));
    return;
  }
  if (among.interrupted) return;
  ThrowInput(877,
             "no plan of this space that fits is one that " + command.emit + " can run" +
                 (refusals.empty() ? "" : ": " + refusals.substr(0, refusals.size() - 1)),
             "another framework, or --keep and --vary for what it can", ExitCode::kInfeasible);
}

// One row a plan: those that were found, then what else is on the front. Columns as in the document.
std::string PlansCsv(const SearchReport& report) {
  const Json document = SearchJson(report, kToolVersion);
  std::vector<Json> rows;
  const auto add = [&](const Json& plan, Json rank) {
    Json row = Json::Object();
    row.Set("rank", std::move(rank));
    for (const auto& [key, value] : plan.members()) row.Set(key, value);
    rows.push_back(std::move(row));
  };
  const std::vector<Json>& best = document.Find("best")->items();
  for (std::size_t i = 0; i < best.size(); ++i)
    add(best[i], Json(static_cast<std::int64_t>(i + 1)));
  for (const Json& plan : document.Find("front")->items()) {
    const bool there = std::any_of(best.begin(), best.end(), [&](const Json& other) {
      return other.Find("choices")->Dump() == plan.Find("choices")->Dump();
    });
    if (!there) add(plan, Json());
  }
  return CsvOfRows(rows, {"rank", "plan", "recipe", "set", "step_time_s"});
}

}  // namespace

ExitCode SearchCommand(const Options& options, const std::string& file,
                       const SearchCommandLine& command) {
  const JsonDocument document = OpenScenario(options, file);
  InputCache cache(options.data_root);
  const Scenario scenario = ReadScenario(document, &cache);
  PlanSpace space;
  if (command.space == "auto") {
    space = DefaultSpace(scenario);
  } else if (command.space == "calculon") {
    space = CalculonSpace(scenario);
  } else {
    space = ReadSpace(document, scenario);
  }
  for (const std::string& name : command.keep) Keep(name, &space);
  for (const std::string& assignment : command.vary) Vary(assignment, &space);
  CheckChoices(document, space, &cache);
  if (options.dry_run) {
    std::string text = fmt::format("{} combinations of {} dimensions\n",
                                   Count(space.Combinations()), space.dimensions.size());
    for (const Dimension& d : space.dimensions) {
      text += "  " + d.name + ":";
      for (const Choice& choice : d.choices) text += " " + choice.label;
      text += "\n";
    }
    WriteOutput(options, text);
    return ExitCode::kOk;
  }
  if (!command.emit.empty() && command.emit_to.empty() &&
      (options.format != Format::kTable || !options.output.empty())) {
    ThrowInput(878, "--emit has no place to put its files beside this output", "--emit-to FOLDER",
               ExitCode::kUsage);
  }
  SearchOptions search;
  search.objective = ObjectiveOf(command.objective);
  search.top = static_cast<std::size_t>(command.top);
  search.pareto = command.pareto;
  search.accept_at_risk = command.at_risk;
  search.level = options.level;
  search.jobs = options.jobs;
  search.stop = StopOnInterrupt();
  const bool terminal = options.progress && isatty(STDERR_FILENO) != 0;
  search.progress = [&](std::uint64_t done, std::uint64_t all, std::uint64_t simulated) {
    if (!terminal) return;
    std::fprintf(stderr, "\r%s of %s groups looked at, %s plans simulated   ", Count(done).c_str(),
                 Count(all).c_str(), Count(simulated).c_str());
    std::fflush(stderr);
  };
  const auto start = std::chrono::steady_clock::now();
  const SearchReport report = Search(document, space, &cache, search);
  const double wall =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (terminal) std::fputs("\n", stderr);
  if (search.objective == Objective::kCost && !scenario.prices)
    Narrate(options, "the scenario has no prices: cost is counted in GPU-hours");
  Narrate(options, fmt::format("{} executions in {:.1f} s: {} bounds, {} steps simulated",
                               Count(report.counts.total), wall, Count(report.bounds),
                               Count(report.simulations)));
  if (options.format == Format::kJson || options.format == Format::kJsonLines) {
    const Json json = WithRunId(SearchJson(report, kToolVersion));
    WriteOutput(options, json.Dump(options.format == Format::kJson ? 2 : -1) + "\n");
  } else {
    std::string out;
    if (options.format == Format::kCsv) {
      out = PlansCsv(report);
    } else {
      if (!report.best.empty()) out = PlanTable(report, report.best, true).As(options.format);
      if (!report.front.empty()) {
        out += fmt::format("\n{} of time, memory, GPUs, cost and energy\n",
                           command.pareto ? "the Pareto front"
                                          : "of the plans that were simulated, the Pareto front");
        out += PlanTable(report, report.front, false).As(options.format);
      }
      out += "\n" + Accounted(report) + "\n" + Rejections(report, options.verbose) + "\n" +
             Sentence(report);
    }
    WriteOutput(options, out);
  }
  if (!command.emit.empty()) EmitBest(options, document, report, &cache, search, command);
  if (report.interrupted) return ExitCode::kInterrupted;
  return report.best.empty() ? ExitCode::kInfeasible : ExitCode::kOk;
}

}  // namespace aurum
