#include "sim/study/phases.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "sim/core/object_reader.h"
#include "sim/core/units.h"

namespace aurum {
namespace {

struct PhaseSpec {
  std::string name;
  double steps = 0;
  int visits = 1;
  std::vector<std::pair<std::string, Json>> set;
};

constexpr int kMostVisits = 1'000'000;

std::vector<PhaseSpec> ReadPhases(const JsonDocument& document) {
  ObjectReader whole(document, document.root, "");
  std::vector<PhaseSpec> phases;
  for (ObjectReader& reader : whole.Objects("phases")) {
    PhaseSpec phase;
    phase.name = reader.String("name", "phase " + std::to_string(phases.size() + 1));
    if (std::any_of(phase.name.begin(), phase.name.end(),
                    [](unsigned char c) { return c < ' ' || c == 127; }))
      reader.Fail(771, "name", "a phase's name with control characters", "one line of text");
    phase.steps = reader.Number("steps", 0, 1e15);
    phase.visits = static_cast<int>(reader.IntegerOr("visits", 1, 1, kMostVisits));
    if (auto set = reader.ObjectIf("set")) {
      for (const std::string& path : set->Keys()) {
        const std::size_t start = path.starts_with('/') ? 1 : 0;
        const std::string top = path.substr(start, path.find_first_of("./", start) - start);
        const std::vector<std::string> may = {"workload", "plan",  "what_if", "faults",
                                              "profile",  "stack", "prune",   "pools"};
        if (std::find(may.begin(), may.end(), top) == may.end()) {
          set->Fail(771, path, "a phase cannot set '" + path + "'",
                    "phases change workload, plan, what_if, faults, profile, stack, prune and "
                    "pools; another model or cluster is another scenario");
        }
        phase.set.emplace_back(path, set->Value(path));
      }
      set->Finish();
    }
    reader.Finish();
    phases.push_back(std::move(phase));
  }
  for (const char* key : {"target", "variation", "goodput"}) {
    if (!whole.Has(key)) continue;
    whole.Fail(771, key, "'" + std::string(key) + "' beside phases, which have steps of their own",
               "remove it, or the phases");
  }
  if (phases.empty()) {
    whole.Fail(771, "phases", "there are no phases",
               "a list of {\"name\", \"steps\", \"set\": {path: value}}");
  }
  return phases;
}

Evaluation EvaluatePhase(const JsonDocument& document, const PhaseSpec& phase, InputCache* cache,
                         Level level) {
  JsonDocument mine = document;
  for (const auto& [path, value] : phase.set)
    SetPath(&mine, path, value, "phase '" + phase.name + "': " + path);
  try {
    return Evaluate(ReadScenario(mine, cache), level);
  } catch (const InputError& error) {
    Diagnostic d = error.diagnostic();
    d.message = "in phase '" + phase.name + "': " + d.message;
    throw InputError(std::move(d), error.exit_code());
  }
}

// The worst phase of what a step has, and the sum of what time has.
std::vector<BudgetLine> JudgePhases(const std::vector<Evaluation>& phases, double total_s) {
  std::vector<BudgetLine> worst;
  for (const Evaluation& e : phases) {
    const std::vector<BudgetLine> lines = JudgeBudget(e);
    if (worst.empty()) worst = lines;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (lines[i].used > worst[i].used) worst[i] = lines[i];
    }
  }
  for (BudgetLine& line : worst) {
    const double hours = total_s / 3600;
    if (line.item == "hours") {
      line.used = hours;
      line.known = true;
      line.basis = "steps of all phases, and switches between them";
    } else if (line.item == "energy_kwh" && DeviceWatts(phases.front().scenario) > 0) {
      line.known = true;
      line.used = hours * DeviceWatts(phases.front().scenario) / 1000;
      line.basis = "all phases at the devices' power limits";
    }
    line.exceeded = line.known && line.used > line.allowed;
  }
  return worst;
}

}  // namespace

bool HasPhases(const JsonDocument& document) {
  const Json* phases = document.root.Find("phases");
  return phases != nullptr && !phases->IsNull() && !(phases->IsArray() && phases->items().empty());
}

void CheckPhases(const JsonDocument& document) { ReadPhases(document); }

PhasesResult RunPhases(const JsonDocument& document, InputCache* cache, Level level) {
  const std::vector<PhaseSpec> specs = ReadPhases(document);
  PhasesResult out;
  std::vector<Evaluation> walked;
  int rounds = 0;
  for (const PhaseSpec& spec : specs) {
    walked.push_back(EvaluatePhase(document, spec, cache, level));
    rounds = std::max(rounds, spec.visits);
    const Evaluation& e = walked.back();
    PhaseResult phase;
    phase.name = spec.name;
    phase.steps = spec.steps;
    phase.visits = spec.visits;
    phase.step_s = e.StepSeconds();
    phase.limit = LimitName(WhatLimits(e.Time()));
    phase.fits = e.memory.fits;
    phase.tokens_per_s = TokensPerStep(e.scenario) / phase.step_s;
    for (std::size_t k = 0; k < e.scenario.sample.modules.size(); ++k) {
      if (e.scenario.sample.modules[k].tokens == 0)
        phase.idle.push_back(e.scenario.model->modules[k].name);
    }
    out.phases.push_back(std::move(phase));
  }
  out.name = walked.front().scenario.name;

  // Each distinct way from one phase to another is priced once.
  const std::size_t n = specs.size();
  std::vector<std::optional<Reshard>> ways(n * n);
  std::vector<double> moved(n, 0), busiest(n, 0), seconds(n, 0);
  std::size_t last = 0;
  bool any = false;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < n; ++i) {
      if (round >= specs[i].visits) continue;
      if (any && last != i) {
        std::optional<Reshard>& way = ways[last * n + i];
        if (!way) {
          way = ReshardBetween(walked[last].scenario, walked[last].program, walked[i].scenario,
                               walked[i].program);
        }
        ++out.phases[i].entries;
        moved[i] += way->total_bytes;
        busiest[i] += way->busiest_bytes;
        seconds[i] += way->seconds;
        if (way->total_bytes > 0) ++out.switches;
      }
      last = i;
      any = true;
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    PhaseResult& phase = out.phases[i];
    const double entries = std::max(phase.entries, 1);
    phase.reshard = {moved[i] / entries, busiest[i] / entries, seconds[i] / entries};
    phase.total_s = phase.steps * phase.step_s + seconds[i];
    out.total_s += phase.total_s;
    out.reshard_s += seconds[i];
  }
  out.budget = JudgePhases(walked, out.total_s);
  return out;
}

Json PhasesJson(const PhasesResult& result, const std::string& tool_version) {
  Json out = Json::Object();
  out.Set("schema", "aurum.phases/1");
  out.Set("tool_version", tool_version);
  out.Set("name", result.name);
  out.Set("total_s", result.total_s);
  out.Set("reshard_s", result.reshard_s);
  out.Set("switches", result.switches);
  if (!result.budget.empty()) out.Set("budget", BudgetJson(result.budget));
  Json phases = Json::Array();
  for (const PhaseResult& phase : result.phases) {
    Json entry = Json::Object();
    entry.Set("name", phase.name);
    entry.Set("steps", phase.steps);
    entry.Set("visits", phase.visits);
    entry.Set("step_time_s", phase.step_s);
    entry.Set("tokens_per_s", phase.tokens_per_s);
    entry.Set("limit", phase.limit);
    entry.Set("fits", phase.fits);
    Json idle = Json::Array();
    for (const std::string& module : phase.idle) idle.Append(module);
    entry.Set("idle_modules", std::move(idle));
    entry.Set("entries", phase.entries);
    entry.Set("reshard_s", phase.reshard.seconds);
    entry.Set("reshard_gib", phase.reshard.total_bytes / kGiB);
    entry.Set("total_s", phase.total_s);
    phases.Append(std::move(entry));
  }
  out.Set("phases", std::move(phases));
  return out;
}

}  // namespace aurum
