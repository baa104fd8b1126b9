#include "sim/explain/explain.h"

#include <algorithm>
#include <map>
#include <utility>

#include "sim/core/object_reader.h"
#include "sim/explain/findings.h"

namespace aurum {
namespace {

// Every way in which an encoder of several layers can share its work, and every place where it can do it:
// on the backbone's GPUs, spread over stages, in bubbles, on GPUs of its own in place of one of the
// backbone's stages. Empty without such an encoder. What is no plan is told as such by Decide().
std::vector<Alternative> EncoderAlternatives(const Scenario& s) {
  const std::vector<Module>& modules = s.model->modules;
  const auto encodes = [](const Module& module) {
    return module.kind == ModuleKind::kEncoder && module.Layers() > 0;
  };
  if (std::none_of(modules.begin(), modules.end(), encodes)) return {};
  std::vector<Alternative> all = SplitAlternatives(s);
  for (std::size_t i = 0; i + 1 < modules.size() && s.plan.pp > 1; ++i) {
    if (!encodes(modules[i])) continue;
    const ModulePlan& told = s.plan.modules[i];
    const std::string path = "plan." + modules[i].name + ".";
    const auto add = [&](const std::string& name, Placement placement,
                         std::vector<std::string> more) {
      if (told.placement == placement) return;
      Alternative a;
      a.name = modules[i].name + ": " + name;
      a.set = {path + "placement=" + PlacementName(placement)};
      for (std::string& word : more) a.set.push_back(std::move(word));
      all.push_back(std::move(a));
    };
    add("spread over the first stages", Placement::kBalanced, {});
    add("in the pipeline's bubbles", Placement::kInBubbles, {});
    const std::string shorter =
        "plan." + s.model->Backbone().name + ".pp=" + std::to_string(s.plan.pp - 1);
    const std::string tp = std::to_string(s.plan.tp);
    add("on GPUs of its own, tp " + tp, Placement::kOwnRanks,
        {path + "tp=" + tp, path + "pp=1", shorter});
    if (s.plan.tp > 1) {
      add("on GPUs of its own, pp " + tp, Placement::kOwnRanks,
          {path + "tp=1", path + "pp=" + tp, shorter});
    }
  }
  return all;
}

}  // namespace

const std::vector<std::string>& ExplainTopicNames() {
  static const std::vector<std::string> names = {"time",    "memory", "comm",
                                                 "formula", "oom",    "sensitivity"};
  return names;
}

ExplainTopics TopicsOf(const std::vector<std::string>& names) {
  if (names.empty()) return {};
  ExplainTopics topics{false, false, false, false, false, false};
  bool* const flags[] = {&topics.time,    &topics.memory, &topics.comm,
                         &topics.formula, &topics.oom,    &topics.sensitivity};
  const std::vector<std::string>& known = ExplainTopicNames();
  for (const std::string& name : names) {
    const auto found = std::find(known.begin(), known.end(), name);
    if (found == known.end()) {
      const std::string nearest = NearestName(name, known);
      ThrowInput(890, "'" + name + "' is nothing that can be explained",
                 (nearest.empty() ? "" : "did you mean '" + nearest + "'? ") +
                     "--what time, memory, comm, formula, oom or sensitivity; all without it",
                 ExitCode::kUsage);
    }
    *flags[found - known.begin()] = true;
  }
  return topics;
}

Explanation Explain(const Evaluation& e, const JsonDocument& document, InputCache* cache,
                    const ExplainOptions& options) {
  const ExplainTopics& topics = options.topics;
  Explanation out;
  out.rank_class = e.outcome.busiest_class;
  out.parts = SplitTime(e.program, e.outcome.schedule, out.rank_class);
  SensitivityOptions again;
  again.level = e.outcome.level;
  again.jobs = options.jobs;
  if (topics.time) {
    out.work = MakeWorkTree(e, out.rank_class);
    out.path = FindCriticalPath(e.program, e.outcome.schedule);
  }
  if (topics.comm) {
    out.comm = MakeCommTree(e, out.parts, out.rank_class);
    out.links = MeasureLinkLimits(e, document, cache, again);
  }
  if (topics.memory) out.memory = MakeMemoryTree(e);
  if (topics.oom) {
    out.micro_batches = MicroBatchLadder(e, document, cache, again);
    if (e.memory.verdict != Fit::kFits) out.recipes = OtherRecipes(e, document, cache, again);
    FixOptions fixes;
    fixes.most = options.most_fixes;
    fixes.recipes = e.memory.verdict != Fit::kFits;
    out.fixes = SearchFixes(e, document, cache, fixes);
  }
  if (topics.sensitivity) {
    out.sensitivities = MeasureSensitivities(e, document, cache, again);
    out.with_more_memory = FitWith(e.memory, again.factor);
    std::vector<Alternative> places = EncoderAlternatives(e.scenario);
    if (places.size() > 1) {
      out.encoders =
          Decide("split", std::move(places), document, cache, {again.level, options.jobs});
    }
  }
  out.findings = MakeFindings(e, out, topics);
  return out;
}

}  // namespace aurum
