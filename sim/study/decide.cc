#include "sim/study/decide.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <utility>

#include "sim/core/parallel.h"
#include "sim/core/units.h"
#include "sim/plan/rank_groups.h"
#include "sim/plan/split.h"
#include "sim/study/evaluate.h"
#include "sim/study/phases.h"

namespace aurum {
namespace {

std::string Signed(double seconds) {
  char text[40];
  const bool in_seconds = std::abs(seconds) >= 0.9995;
  std::snprintf(text, sizeof text, in_seconds ? "%+.3g s" : "%+.3g ms",
                in_seconds ? seconds : seconds * 1e3);
  return text;
}

// Where one step's seconds differ from another's, the largest part first; parts below a hundredth of
// the difference are not worth a word.
std::string Difference(const Alternative& a, const Alternative& best) {
  struct Part {
    const char* name;
    double TimeBreakdown::*seconds;
  };
  constexpr Part kParts[] = {{"compute", &TimeBreakdown::compute_s},
                             {"tensor-parallel collectives", &TimeBreakdown::tp_s},
                             {"all-to-alls of heads or rings of keys", &TimeBreakdown::cp_s},
                             {"experts' all-to-alls", &TimeBreakdown::ep_s},
                             {"parameter gathers", &TimeBreakdown::dp_gather_s},
                             {"gradient reductions", &TimeBreakdown::dp_reduce_s},
                             {"transfers between stages", &TimeBreakdown::pp_transfer_s},
                             {"pipeline bubbles", &TimeBreakdown::bubble_s},
                             {"waiting for slower ranks", &TimeBreakdown::straggler_wait_s},
                             {"exchange of tokens", &TimeBreakdown::alignment_wait_s},
                             {"optimizer", &TimeBreakdown::optimizer_s}};
  std::vector<std::pair<double, const char*>> parts;
  for (const Part& part : kParts)
    parts.emplace_back(a.time.*part.seconds - best.time.*part.seconds, part.name);
  std::stable_sort(parts.begin(), parts.end(), [](const auto& x, const auto& y) {
    return std::abs(x.first) > std::abs(y.first);
  });
  const double whole = a.step_s - best.step_s;
  std::string text = Signed(whole);
  int told = 0;
  for (const auto& [seconds, name] : parts) {
    if (std::abs(seconds) < std::max(0.01 * std::abs(whole), 1e-7) || told == 3) break;
    text += std::string(told == 0 ? ": " : ", ") + name + " " + Signed(seconds);
    ++told;
  }
  return text;
}

void Simulate(const JsonDocument& document, InputCache* cache, Level level, Alternative* a) {
  try {
    JsonDocument changed = document;
    for (const std::string& assignment : a->set) ApplyOverride(&changed, assignment);
    Scenario scenario = ReadScenario(changed, cache);
    scenario.variation.seeds = 0;  // one step each, as it is without chance
    scenario.goodput.reset();
    const Evaluation e = Evaluate(std::move(scenario), level);
    a->step_s = e.StepSeconds();
    a->samples_per_s = static_cast<double>(e.scenario.workload.global_batch_size) / a->step_s;
    a->peak_bytes = e.memory.Heaviest().peak_bytes;
    a->verdict = e.memory.verdict;
    a->budget = JudgeBudget(e);
    a->time = e.Time();
  } catch (const InputError& error) {
    a->refused = error.diagnostic();
  }
}

int Rank(const Alternative& a) {
  constexpr int kNoFit = 4, kNoPlan = 6;
  if (a.refused) return kNoPlan;
  const int over = Exceeded(a.budget) ? 1 : 0;
  if (a.verdict == Fit::kDoesNotFit) return kNoFit + over;
  return 2 * over + static_cast<int>(a.verdict);
}

// Why `best`, which fits the memory, is taken before `second`, if there is one.
std::string Against(const Alternative& best, const Alternative* second) {
  if (second == nullptr) return "the only one that is a plan";
  if (second->verdict == Fit::kDoesNotFit) return "the only one that fits the memory";
  if (Exceeded(second->budget) && !Exceeded(best.budget)) {
    return "the only one within the budget: " + second->name + " exceeds " +
           DescribeExceeded(second->budget);
  }
  const double saves = 1 - best.step_s / second->step_s;
  if (saves < -5e-4) return "surely fits; " + second->name + " is faster, and at risk";
  if (saves < 5e-4) return "as fast as " + second->name;
  char percent[40];
  std::snprintf(percent, sizeof percent, "%.1f %%", saves * 100);
  return std::string(percent) + " less time than " + second->name + " (" + second->why + ")";
}

std::string Reason(const Decision& decision) {
  std::vector<const Alternative*> valid;
  for (const Alternative& a : decision.alternatives) {
    if (!a.refused) valid.push_back(&a);
  }
  if (valid.empty()) return "none of the alternatives is a plan";
  const Alternative& best = *valid.front();
  // Of several encoders each has a line for the plan as it is: they are one and the same.
  const Alternative* second = nullptr;
  for (std::size_t i = 1; i < valid.size() && second == nullptr; ++i) {
    if (!(best.as_told && valid[i]->as_told)) second = valid[i];
  }
  std::string text = best.name + ": ";
  if (best.as_told && second != nullptr) text += "the plan is the best of them, ";
  if (best.verdict == Fit::kDoesNotFit)
    return text + "none fits the memory, this one is the fastest";
  if (Exceeded(best.budget)) {
    return text + "none is within the budget, this one is the fastest that fits the memory (" +
           DescribeExceeded(best.budget) + ")";
  }
  return text + Against(best, second);
}

bool HasExperts(const Module& module) {
  return std::any_of(module.runs.begin(), module.runs.end(),
                     [](const LayerRun& run) { return run.layer.mlp.experts > 0; });
}

}  // namespace

Decision Decide(std::string what, std::vector<Alternative> alternatives,
                const JsonDocument& document, InputCache* cache, const DecideOptions& options) {
  InParallel(alternatives.size(), options.jobs, [&](std::size_t, std::size_t i) {
    Simulate(document, cache, options.level, &alternatives[i]);
  });

  Decision decision;
  decision.what = std::move(what);
  decision.alternatives = std::move(alternatives);
  std::stable_sort(decision.alternatives.begin(), decision.alternatives.end(),
                   [](const Alternative& a, const Alternative& b) {
                     if (Rank(a) != Rank(b)) return Rank(a) < Rank(b);
                     if (a.refused) return false;
                     return a.step_s != b.step_s ? a.step_s < b.step_s : a.as_told && !b.as_told;
                   });
  for (Alternative& a : decision.alternatives) {
    if (!a.refused && &a != &decision.alternatives.front())
      a.why = Difference(a, decision.alternatives.front());
  }
  decision.reason = Reason(decision);
  return decision;
}

std::vector<Alternative> SplitAlternatives(const Scenario& s) {
  std::vector<Alternative> all;
  for (std::size_t i = 0; i + 1 < s.model->modules.size(); ++i) {
    const Module& module = s.model->modules[i];
    if (module.kind != ModuleKind::kEncoder || module.Layers() == 0) continue;
    const ModulePlan& told = s.plan.modules[i];
    const std::string path = "plan." + module.name + ".";
    const auto add = [&](const std::string& name, Placement placement, int tp, SplitAxis split) {
      Alternative a;
      a.name = module.name + ": " + name;
      a.set = {path + "placement=" + PlacementName(placement), path + "tp=" + std::to_string(tp),
               path + "split=" + SplitAxisName(split)};
      a.as_told = told.placement == placement && told.tp == tp && (tp == 1 || told.split == split);
      all.push_back(std::move(a));
    };
    if (told.placement == Placement::kOwnRanks && told.tp == 1) {
      add("nothing to share, its tp is 1", told.placement, 1, told.split);
      continue;
    }
    if (told.placement == Placement::kOwnRanks) {
      add("heads over its tp " + std::to_string(told.tp), told.placement, told.tp,
          SplitAxis::kHidden);
      add("tokens over its tp " + std::to_string(told.tp), told.placement, told.tp,
          SplitAxis::kTokens);
      continue;
    }
    const int tp = s.plan.tp;
    add("none, every GPU of a replica does all of it", Placement::kFirstStage, 1,
        SplitAxis::kHidden);
    if (tp > 1) {
      add("heads over tp " + std::to_string(tp), Placement::kFirstStage, tp, SplitAxis::kHidden);
      add("tokens over tp " + std::to_string(tp), Placement::kFirstStage, tp, SplitAxis::kTokens);
    }
    if (tp * s.plan.cp > 1)
      add("images dealt over the replica", Placement::kColocatedDp, 1, SplitAxis::kHidden);
    const bool listed = std::any_of(all.begin(), all.end(), [&](const Alternative& a) {
      return a.as_told && a.name.compare(0, module.name.size() + 1, module.name + ":") == 0;
    });
    if (listed) continue;
    Alternative a;
    a.name = module.name + ": " + PlacementName(told.placement);
    if (told.tp > 1) {
      a.name += told.split == SplitAxis::kTokens ? ", tokens over tp " : ", heads over tp ";
      a.name += std::to_string(told.tp);
    }
    a.as_told = true;
    all.push_back(std::move(a));
  }
  if (all.empty()) {
    ThrowInput(768, "'" + s.model->name + "' has no encoder whose split could be decided",
               "aurum decide experts or cut; or a model with an encoder of several layers");
  }
  return all;
}

std::vector<Alternative> ExpertAlternatives(const Scenario& s) {
  const Module& backbone = s.model->Backbone();
  if (!HasExperts(backbone)) {
    ThrowInput(768, "'" + s.model->name + "' has no experts that could be shared out",
               "aurum decide split or cut; or a mixture of experts (aurum list models)");
  }
  int experts = 0;
  for (const LayerRun& run : backbone.runs) experts = std::max(experts, run.layer.mlp.experts);
  const int width = s.plan.tp * s.plan.cp * s.plan.dp;
  std::set<int> sizes{s.plan.ep};
  for (int e = 1; e <= std::min(experts, width); ++e) {
    if (experts % e == 0 || width % e == 0) sizes.insert(e);
  }
  const std::string path = "plan." + backbone.name + ".ep=";
  std::vector<Alternative> all;
  for (const int e : sizes) {
    Alternative a;
    a.name = "ep " + std::to_string(e);
    a.set = {path + std::to_string(e)};
    const bool named = s.plan.expert_parallel_algorithm != CollectiveAlgorithm::kAuto;
    if (named) a.set.emplace_back("plan.collectives.expert_parallel=auto");
    a.as_told = e == s.plan.ep && !named;
    all.push_back(a);
    if (e <= s.cluster->gpus_per_node || e % s.cluster->gpus_per_node != 0) continue;
    a.name += ", all-to-all inside the node, then across";
    a.set = {path + std::to_string(e), "plan.collectives.expert_parallel=hierarchical"};
    a.as_told =
        e == s.plan.ep && s.plan.expert_parallel_algorithm == CollectiveAlgorithm::kHierarchical;
    all.push_back(std::move(a));
  }
  if (std::none_of(all.begin(), all.end(), [](const Alternative& a) { return a.as_told; })) {
    Alternative a;
    a.name = "ep " + std::to_string(s.plan.ep) + ", all-to-all by " +
             CollectiveAlgorithmName(s.plan.expert_parallel_algorithm);
    a.as_told = true;
    all.push_back(std::move(a));
  }
  return all;
}

Decision DecideSplit(const JsonDocument& document, InputCache* cache,
                     const DecideOptions& options) {
  const Scenario s = ReadScenario(document, cache);
  Decision decision = Decide("split", SplitAlternatives(s), document, cache, options);
  const std::string& backbone = s.model->Backbone().name;
  bool beside = false;
  for (std::size_t i = 0; i + 1 < s.model->modules.size(); ++i) {
    const Module& module = s.model->modules[i];
    if (module.kind != ModuleKind::kEncoder || module.Layers() == 0) continue;
    const bool on_own = s.plan.modules[i].placement == Placement::kOwnRanks;
    if (!on_own) beside = true;
    if (on_own && s.plan.modules[i].tp == 1) {
      decision.reason += "; a larger plan." + module.name + ".tp opens heads and tokens over it";
    }
  }
  if (beside && s.plan.tp == 1) {
    decision.reason +=
        "; a larger plan." + backbone + ".tp (here 1) opens heads and tokens over it";
    if (s.plan.cp == 1) decision.reason += ", and images dealt over the replica";
  }
  return decision;
}

std::optional<Diagnostic> PhasesLeftOut(const JsonDocument& document, const std::string& command) {
  if (!HasPhases(document)) return std::nullopt;
  CheckPhases(document);
  Diagnostic d;
  d.code = 1771;
  d.warning = true;
  d.message = "aurum " + command +
              " takes this scenario without its phases: one step as the rest of "
              "it says, and a budget against that step alone";
  d.where = document.Locate(*document.root.Find("phases"), "/phases");
  d.help = "a phase's own values by --set for that phase; aurum simulate walks all of them";
  return d;
}

Json DecisionJson(const Decision& decision, const std::string& tool_version) {
  Json out = Json::Object();
  out.Set("schema", "aurum.decision/1");
  out.Set("tool_version", tool_version);
  out.Set("decision", decision.what);
  out.Set("reason", decision.reason);
  Json list = Json::Array();
  for (const Alternative& a : decision.alternatives) {
    Json entry = Json::Object();
    entry.Set("alternative", a.name);
    Json set = Json::Array();
    for (const std::string& assignment : a.set) set.Append(assignment);
    entry.Set("set", std::move(set));
    entry.Set("as_told", a.as_told);
    if (a.refused) {
      entry.Set("refused", DiagnosticJson(*a.refused));
    } else {
      entry.Set("step_time_s", a.step_s);
      entry.Set("samples_per_s", a.samples_per_s);
      entry.Set("compute_s", a.time.compute_s);
      entry.Set("exposed_comm_s", a.time.exposed_comm_s);
      entry.Set("bubble_s", a.time.bubble_s);
      entry.Set("alignment_wait_s", a.time.alignment_wait_s);
      entry.Set("peak_gib", a.peak_bytes / kGiB);
      entry.Set("verdict", FitName(a.verdict));
      if (!a.budget.empty()) entry.Set("budget", BudgetJson(a.budget));
      if (!a.why.empty()) entry.Set("against_the_best", a.why);
    }
    list.Append(std::move(entry));
  }
  out.Set("alternatives", std::move(list));
  return out;
}

}  // namespace aurum
