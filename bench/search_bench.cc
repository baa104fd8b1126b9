#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>

#include "sim/core/json.h"
#include "sim/core/random.h"
#include "sim/search/search.h"

namespace aurum {
namespace {

// SEARCH: every execution of Calculon's space for GPT-3 175B on 64 A100 accounted for, on all cores.
void Calculon(benchmark::State& state) {
  const JsonDocument document = ReadJsonFile("scenarios/gpt-3-175b-64xa100.json");
  InputCache cache(".");
  const Scenario scenario = ReadScenario(document, &cache);
  const PlanSpace space = CalculonSpace(scenario);
  SearchReport report;
  for (auto _ : state) report = Search(document, space, &cache, {});
  state.counters["search_calculon_s"] = benchmark::Counter(
      1, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["executions"] = static_cast<double>(report.counts.total);
  state.counters["accounted"] = static_cast<double>(report.counts.Accounted());
  state.counters["bounds"] = static_cast<double>(report.bounds);
  state.counters["simulations"] = static_cast<double>(report.simulations);
  state.counters["best_step_s"] = report.best.front().step_s;
}
BENCHMARK(Calculon)
    ->Iterations(1)
    ->Unit(benchmark::kSecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime();

// The same plans drawn at random and simulated one by one: none is better than the one that was found.
void CalculonSample(benchmark::State& state) {
  const JsonDocument document = ReadJsonFile("scenarios/gpt-3-175b-64xa100.json");
  InputCache cache(".");
  const PlanSpace space = CalculonSpace(ReadScenario(document, &cache));
  std::uint64_t drawn = 0, plans = 0, fit = 0;
  double best = INFINITY;
  for (auto _ : state) {
    for (std::uint64_t i = 0; i < 40'000; ++i) {
      ChoiceIndices at;
      for (std::size_t d = 0; d < space.dimensions.size(); ++d)
        at.push_back(RandomBits(1, i, d) % space.dimensions[d].choices.size());
      if (space.StandsFor(at).alike == 0) continue;
      ++drawn;
      JsonDocument changed = document;
      space.Apply(at, &changed);
      try {
        const Evaluation e = Evaluate(ReadScenario(changed, &cache), Level::kAnalytic);
        ++plans;
        if (e.memory.verdict != Fit::kFits) continue;
        ++fit;
        best = std::min(best, e.StepSeconds());
      } catch (const InputError&) {
      }
    }
  }
  state.counters["drawn"] = static_cast<double>(drawn);
  state.counters["plans"] = static_cast<double>(plans);
  state.counters["fit"] = static_cast<double>(fit);
  state.counters["best_sampled_step_s"] = best;
}
BENCHMARK(CalculonSample)->Iterations(1)->Unit(benchmark::kSecond);

}  // namespace
}  // namespace aurum
