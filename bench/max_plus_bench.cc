#include <benchmark/benchmark.h>

#include "bench/plans.h"
#include "sim/engine/op_graph.h"

namespace aurum {
namespace {

PlanShape Shape(const benchmark::State& state) {
  return {.batches = static_cast<int>(state.range(0))};
}

// The pass alone: what a sweep pays per point that keeps its shape.
void Evaluate(benchmark::State& state) {
  OpGraph graph;
  BuildPlan(Shape(state), &graph);
  graph.Finish();
  Schedule schedule;
  for (auto _ : state) {
    EvaluateMaxPlus(graph, &schedule);
    benchmark::DoNotOptimize(schedule.makespan);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(graph.op_count()));
  state.counters["ops"] = static_cast<double>(graph.op_count());
}
BENCHMARK(Evaluate)->Arg(4)->Arg(16)->Arg(53)->Arg(1600)->Unit(benchmark::kMicrosecond);

void Finish(benchmark::State& state) {
  OpGraph graph;
  BuildPlan(Shape(state), &graph);
  for (auto _ : state) benchmark::DoNotOptimize(graph.Finish());
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(graph.op_count()));
}
BENCHMARK(Finish)->Arg(16)->Arg(1600)->Unit(benchmark::kMicrosecond);

// A point of a new shape in a sweep: cleared memory, built, ordered, evaluated.
void BuildFinishEvaluate(benchmark::State& state) {
  OpGraph graph;
  Schedule schedule;
  for (auto _ : state) {
    graph.ClearOps();
    BuildPlan(Shape(state), &graph);
    graph.Finish();
    EvaluateMaxPlus(graph, &schedule);
    benchmark::DoNotOptimize(schedule.makespan);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(graph.op_count()));
}
BENCHMARK(BuildFinishEvaluate)->Arg(16)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace aurum
