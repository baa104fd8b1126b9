#include "sim/study/decide.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "sim/core/units.h"
#include "sim/plan/rank_groups.h"
#include "sim/plan/split.h"
#include "sim/study/evaluate.h"

namespace aurum {
namespace {

std::string Number(int value) { return std::to_string(value); }

std::string Milliseconds(double seconds) {
  char text[40];
  std::snprintf(text, sizeof text, "%+.3g ms", seconds * 1e3);
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
  std::string text = Milliseconds(whole);
  int told = 0;
  for (const auto& [seconds, name] : parts) {
    if (std::abs(seconds) < std::max(0.01 * std::abs(whole), 1e-7) || told == 3) break;
    text += std::string(told == 0 ? ": " : ", ") + name + " " + Milliseconds(seconds);
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
    a->time = e.Time();
  } catch (const InputError& error) {
    a->refused = error.diagnostic();
  }
}

int Rank(const Alternative& a) { return a.refused ? 3 : static_cast<int>(a.verdict); }

std::string Reason(const Decision& decision) {
  std::vector<const Alternative*> valid;
  for (const Alternative& a : decision.alternatives) {
    if (!a.refused) valid.push_back(&a);
  }
  if (valid.empty()) return "none of the alternatives is a plan";
  const Alternative& best = *valid.front();
  std::string text = best.name;
  if (best.verdict == Fit::kDoesNotFit) {
    text += ": none fits the memory, this one is the fastest";
  } else if (valid.size() == 1) {
    text += ": the only one that is a plan";
  } else if (valid[1]->verdict == Fit::kDoesNotFit) {
    text += ": the only one that fits the memory";
  } else {
    const double saves = 1 - best.step_s / valid[1]->step_s;
    char percent[40];
    std::snprintf(percent, sizeof percent, "%.1f %%", saves * 100);
    text += saves < 5e-4 ? ": as fast as " + valid[1]->name
                         : ": " + std::string(percent) + " less time than " + valid[1]->name +
                               " (" + valid[1]->why + ")";
  }
  return text;
}

bool HasExperts(const Module& module) {
  return std::any_of(module.runs.begin(), module.runs.end(),
                     [](const LayerRun& run) { return run.layer.mlp.experts > 0; });
}

}  // namespace

Decision Decide(std::string what, std::vector<Alternative> alternatives,
                const JsonDocument& document, InputCache* cache, const DecideOptions& options) {
  const std::size_t count = alternatives.size();
  const std::size_t wanted = options.jobs > 0 ? static_cast<std::size_t>(options.jobs)
                                              : std::max(1U, std::thread::hardware_concurrency());
  std::atomic<std::size_t> next{0};
  std::exception_ptr failed;
  std::mutex guard;
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        Simulate(document, cache, options.level, &alternatives[i]);
      } catch (...) {
        const std::lock_guard lock(guard);
        if (!failed) failed = std::current_exception();
      }
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t t = 1; t < std::min(wanted, count); ++t) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  if (failed) std::rethrow_exception(failed);

  Decision decision;
  decision.what = std::move(what);
  decision.alternatives = std::move(alternatives);
  std::stable_sort(decision.alternatives.begin(), decision.alternatives.end(),
                   [](const Alternative& a, const Alternative& b) {
                     if (Rank(a) != Rank(b)) return Rank(a) < Rank(b);
                     return !a.refused && a.step_s < b.step_s;
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
      a.set = {path + "placement=" + PlacementName(placement), path + "tp=" + Number(tp),
               path + "split=" + SplitAxisName(split)};
      a.as_told = told.placement == placement && told.tp == tp && (tp == 1 || told.split == split);
      all.push_back(std::move(a));
    };
    if (told.placement == Placement::kOwnRanks) {
      add("heads over its tp " + Number(told.tp), told.placement, told.tp, SplitAxis::kHidden);
      add("tokens over its tp " + Number(told.tp), told.placement, told.tp, SplitAxis::kTokens);
      continue;
    }
    const int tp = s.plan.tp;
    add("none, every GPU of a replica does all of it", Placement::kFirstStage, 1,
        SplitAxis::kHidden);
    if (tp > 1) {
      add("heads over tp " + Number(tp), Placement::kFirstStage, tp, SplitAxis::kHidden);
      add("tokens over tp " + Number(tp), Placement::kFirstStage, tp, SplitAxis::kTokens);
    }
    if (tp * s.plan.cp > 1)
      add("images dealt over the replica", Placement::kColocatedDp, 1, SplitAxis::kHidden);
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
    a.name = "ep " + Number(e);
    a.set = {path + Number(e)};
    const bool named = s.plan.expert_parallel_algorithm != CollectiveAlgorithm::kAuto;
    if (named) a.set.emplace_back("plan.collectives.expert_parallel=auto");
    a.as_told = e == s.plan.ep && !named;
    all.push_back(a);
    if (e <= s.cluster->gpus_per_node || e % s.cluster->gpus_per_node != 0) continue;
    a.name += ", all-to-all inside the node, then across";
    a.set = {path + Number(e), "plan.collectives.expert_parallel=hierarchical"};
    a.as_told =
        e == s.plan.ep && s.plan.expert_parallel_algorithm == CollectiveAlgorithm::kHierarchical;
    all.push_back(std::move(a));
  }
  return all;
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
      if (!a.why.empty()) entry.Set("against_the_best", a.why);
    }
    list.Append(std::move(entry));
  }
  out.Set("alternatives", std::move(list));
  return out;
}

}  // namespace aurum
