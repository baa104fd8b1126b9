#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "sim/core/json.h"
#include "sim/study/evaluator.h"
#include "sim/study/figures.h"
#include "sim/study/point.h"
#include "sim/study/store.h"
#include "sim/study/sweep.h"

namespace aurum {
namespace {

// `count` values from low to high, evenly in their logarithm.
std::vector<Json> Logarithmic(double low, double high, int count) {
  std::vector<Json> values;
  for (int i = 0; i < count; ++i)
    values.emplace_back(low * std::pow(high / low, static_cast<double>(i) / (count - 1)));
  return values;
}

std::vector<Json> Linear(double low, double high, int count) {
  std::vector<Json> values;
  for (int i = 0; i < count; ++i)
    values.emplace_back(low + (high - low) * static_cast<double>(i) / (count - 1));
  return values;
}

// SWEEP's axes: three models, and count³ points of what the golden formula is about.
std::vector<Axis> GoldenAxes(int count) {
  return {{"model", {"llava-1.6-7b", "qwen-vl", "fuyu-8b"}},
          {"what_if.flops_gflop_per_token", Logarithmic(2, 200, count)},
          {"what_if.comm_bw_gb_per_s", Logarithmic(1, 1000, count)},
          {"what_if.align_ratio", Linear(0, 1, count)}};
}

// Walks the points of a study in order, again and again; `walked` and `retimed` per point.
void Points(benchmark::State& state, const std::string& file, const std::vector<Axis>& axes) {
  InputCache cache(".");
  PointCursor cursor(ReadJsonFile(file), axes);
  Evaluator evaluator(&cache, Level::kAnalytic);
  const std::size_t points = CheckAxes(axes);
  std::size_t at = 0, figures = 0;
  // The first two points of a plan are walked from its beginning: not what a sweep of thousands is about.
  for (; at < 2; ++at) {
    cursor.MoveTo(at);
    evaluator.Walk(cursor.document());
  }
  for (auto _ : state) {
    cursor.MoveTo(at);
    figures += FiguresOf(evaluator.Walk(cursor.document())).size();
    at = (at + 1) % points;
  }
  state.SetItemsProcessed(state.iterations());
  const auto done = static_cast<double>(state.iterations());
  state.counters["retimed"] = static_cast<double>(evaluator.counts().retimed) / done;
  state.counters["figures"] = static_cast<double>(figures) / done;
}

// SWEEP without storing.
void GoldenPoints(benchmark::State& state) {
  Points(state, "scenarios/golden-sweep.json", GoldenAxes(40));
}
BENCHMARK(GoldenPoints)->Unit(benchmark::kMicrosecond);

// SWEEP as `aurum sweep -j 1` runs it: evaluated by one thread, stored by another. Both threads' CPU
// time counts.
void GoldenStored(benchmark::State& state) {
  const JsonDocument scenario = ReadJsonFile("scenarios/golden-sweep.json");
  const std::vector<Axis> axes = GoldenAxes(static_cast<int>(state.range(0)));
  const std::string file = std::filesystem::temp_directory_path() / "aurum_sweep_bench.db";
  std::size_t points = 0;
  for (auto _ : state) {
    std::remove(file.c_str());
    InputCache cache(".");
    Evaluators evaluators(&cache, Level::kAnalytic);
    Study study{scenario, axes, "bench", "analytic", {}};
    Store store = Store::Open(file, study);
    SweepOptions options;
    options.jobs = 1;
    points +=
        RunSweep(
            scenario, axes,
            [&](const JsonDocument& point) { return FiguresOf(evaluators.Mine().Walk(point)); },
            options, &store)
            .evaluated;
  }
  std::remove(file.c_str());
  state.SetItemsProcessed(static_cast<std::int64_t>(points));
}
BENCHMARK(GoldenStored)->Arg(20)->MeasureProcessCPUTime()->Unit(benchmark::kMillisecond);

// PLAN within a sweep: GPT-3 175B on 64 A100, tp 8, pp 8, with another rate of kernels at every point.
void PlanPoints(benchmark::State& state) {
  Points(state, "scenarios/gpt-3-175b-64xa100.json",
         {{"what_if.comm_bw_gb_per_s", Logarithmic(1, 1000, 30)},
          {"what_if.gemm_speedup", Logarithmic(0.5, 4, 30)}});
}
BENCHMARK(PlanPoints)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace aurum
