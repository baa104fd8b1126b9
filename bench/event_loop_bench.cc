#include "sim/network/event_loop.h"

#include <benchmark/benchmark.h>

#include <random>

#include "bench/fabrics.h"
#include "bench/plans.h"
#include "bench/traffic.h"

namespace aurum {
namespace {

void Report(benchmark::State& state, std::size_t completions) {
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(completions));
  state.counters["ops"] = static_cast<double>(completions);
}

// A lowered plan of 10,000 ops, half of them collectives of 8 ranks on links of their own: nothing
// meets.
void PlanWithoutContention(benchmark::State& state) {
  OpGraph graph;
  PlanShape shape;
  Fabric fabric{std::vector<double>(8 * shape.stages, 450e9)};
  for (int s = 0; s < shape.stages; ++s) {
    TrafficPattern ring;
    for (std::uint32_t rank = 0; rank < 8; ++rank) {
      ring.flows.push_back({{static_cast<std::uint32_t>(8 * s) + rank}, 295e3 * 0.37, 1, 370e9});
    }
    shape.collective.push_back(graph.AddPattern(ring));
  }
  BuildPlan(shape, &graph);
  graph.Finish();
  for (auto _ : state) benchmark::DoNotOptimize(RunEventLoop(graph, fabric).makespan);
  Report(state, graph.op_count());
}
BENCHMARK(PlanWithoutContention)->Unit(benchmark::kMillisecond);

// Closed loops: `chains` sequences of `length` transfers of random sizes between random hosts; the
// next starts when the one before has ended.
template <typename Network>
void Chains(benchmark::State& state, const Network& network, std::uint32_t hosts, int length) {
  const Fabric fabric{network.Capacity()};
  OpGraph graph;
  AddChains(network, RandomChains(hosts, static_cast<std::size_t>(state.range(0)), length), 0,
            &graph);
  for (auto _ : state) benchmark::DoNotOptimize(RunEventLoop(graph, fabric).makespan);
  Report(state, graph.op_count());
}
void ChainsOnStar(benchmark::State& state) { Chains(state, Star{1024}, 1024, 20); }
BENCHMARK(ChainsOnStar)->Arg(1000)->Unit(benchmark::kMillisecond);
void ChainsOnFatTree(benchmark::State& state) { Chains(state, FatTree{16}, 1024, 10); }
BENCHMARK(ChainsOnFatTree)->Arg(1000)->Unit(benchmark::kMillisecond);

// Independent flows of 10 MB, all at once, between random hosts of a fat tree.
void FlowsOnFatTree(benchmark::State& state) {
  std::mt19937 random(42);
  const FatTree tree{16};
  const Fabric fabric{tree.Capacity()};
  OpGraph graph;
  for (std::int64_t f = 0; f < state.range(0); ++f) {
    const auto src = static_cast<std::uint32_t>(random() % tree.hosts());
    const auto dst =
        static_cast<std::uint32_t>((src + 1 + random() % (tree.hosts() - 1)) % tree.hosts());
    const PatternId pattern = graph.AddPattern({{Flow{tree.Route(src, dst), 10e6}}});
    graph.AddTransfer(graph.AddStream(), TimeFromSeconds(10e6 / kHostBytesPerSecond), {0}, pattern);
  }
  graph.Finish();
  for (auto _ : state) benchmark::DoNotOptimize(RunEventLoop(graph, fabric).makespan);
  Report(state, graph.op_count());
}
BENCHMARK(FlowsOnFatTree)->Arg(1000)->Arg(4000)->Arg(16000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace aurum
