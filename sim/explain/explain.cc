#include "sim/explain/explain.h"

#include <algorithm>
#include <map>
#include <utility>

#include "sim/core/object_reader.h"
#include "sim/explain/findings.h"

namespace aurum {

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
    if (SplitAlternatives(e.scenario).size() > 1) {
      Decision decision = DecideSplit(document, cache, {again.level, options.jobs});
      const auto valid = std::count_if(decision.alternatives.begin(), decision.alternatives.end(),
                                       [](const Alternative& a) { return !a.refused; });
      if (valid > 1) out.encoders = std::move(decision);
    }
  }
  out.findings = MakeFindings(e, out, topics);
  return out;
}

}  // namespace aurum
