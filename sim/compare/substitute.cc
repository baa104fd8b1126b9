#include "sim/compare/substitute.h"

#include <utility>

namespace aurum {
namespace {

Substituted Told(const Evaluation& e) {
  return {e.outcome.schedule.makespan, e.memory.Heaviest().peak_bytes, e.memory.verdict,
          PartsOf(e)};
}

void Apply(const ChangeGroup& group, JsonDocument* document) {
  for (const KeyChange& change : group.changes) ApplyChange(change, true, document);
}

}  // namespace

Evaluation EvaluatePlain(const JsonDocument& document, InputCache* cache, Level level) {
  Scenario scenario = ReadScenario(document, cache);
  scenario.variation.seeds = 0;
  scenario.goodput.reset();
  return Evaluate(std::move(scenario), level);
}

Substitution Substitute(const JsonDocument& a, const Evaluation& of_a, const Evaluation& of_b,
                        const std::vector<KeyChange>& changes, InputCache* cache,
                        const SubstituteOptions& options) {
  Substitution out;
  const Substituted first = Told(of_a), last = Told(of_b);
  std::vector<ChangeGroup> groups = GroupChanges(changes, options.most);
  const auto walk = [&](const JsonDocument& document,
                        std::optional<Diagnostic>* refused) -> std::optional<Substituted> {
    try {
      ++out.simulations;
      return Told(EvaluatePlain(document, cache, options.level));
    } catch (const InputError& error) {
      if (refused != nullptr) *refused = error.diagnostic();
      return std::nullopt;
    }
  };
  // With a single place, A with it is B.
  for (const ChangeGroup& group : groups) {
    AloneChange alone{group, std::nullopt, std::nullopt};
    if (groups.size() == 1) {
      alone.with = last;
    } else {
      JsonDocument document = a;
      Apply(group, &document);
      alone.with = walk(document, &alone.refused);
    }
    if (alone.with) {
      out.alone_sum_ps += alone.with->step.ps - first.step.ps;
      out.alone_sum_bytes += alone.with->peak_bytes - first.peak_bytes;
    }
    out.alone.push_back(std::move(alone));
  }
  out.interaction_ps = last.step.ps - first.step.ps - out.alone_sum_ps;
  out.interaction_bytes = last.peak_bytes - first.peak_bytes - out.alone_sum_bytes;

  JsonDocument document = a;
  Substituted before = first;
  std::vector<ChangeGroup> together;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    Apply(groups[i], &document);
    together.push_back(groups[i]);
    std::optional<Substituted> now;
    if (i + 1 == groups.size()) {
      now = last;
    } else if (i == 0) {
      now = out.alone.front().with;
    } else {
      now = walk(document, nullptr);
    }
    if (!now) continue;
    WalkStep step{std::exchange(together, {}), *now, now->step.ps - before.step.ps,
                  now->peak_bytes - before.peak_bytes, DescribeChange(before.parts, now->parts)};
    out.walk.push_back(std::move(step));
    before = std::move(*now);
  }
  return out;
}

}  // namespace aurum
