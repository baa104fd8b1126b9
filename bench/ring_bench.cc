#include <benchmark/benchmark.h>

#include "sim/collectives/chunk.h"
#include "sim/core/units.h"

namespace aurum {
namespace {

// RING: an all-reduce of 1 GiB on range(0) ranks, 50e9 B/s and 500 ns a hop, every step of every
// rank; range(1): folded. Building the program is part of it. The counters are seconds of CPU, and
// the simulated milliseconds.
void Ring(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0));
  const Fold fold = state.range(1) != 0 ? Fold::kOn : Fold::kOff;
  Time makespan{};
  std::uint64_t items = 0;
  std::size_t classes = 0;
  for (auto _ : state) {
    const ChunkProgram ring =
        BuildUniformRing(CollectiveKind::kAllReduce, kGiB, ranks, 50e9, {500'000});
    const ChunkRun run = RunChunks(ring, fold);
    makespan = run.makespan;
    items = run.items;
    classes = run.lane_classes;
  }
  const std::string name =
      "ring_" + std::to_string(ranks) + (fold == Fold::kOn ? "_folded_s" : "_unfolded_s");
  state.counters[name] = benchmark::Counter(
      1, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["simulated_ms"] = Seconds(makespan) * 1e3;
  state.counters["lane_classes"] = static_cast<double>(classes);
  state.SetItemsProcessed(static_cast<std::int64_t>(items) *
                          static_cast<std::int64_t>(state.iterations()));
}
BENCHMARK(Ring)
    ->Args({512, 0})
    ->Args({512, 1})
    ->Args({1024, 0})
    ->Args({1024, 1})
    ->Args({4096, 0})
    ->Args({4096, 1})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace aurum
