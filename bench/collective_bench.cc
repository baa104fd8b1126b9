#include "sim/collectives/collective.h"

#include <benchmark/benchmark.h>

namespace aurum {
namespace {

std::vector<RankGroup> Strided(int gpus, int size, int stride) {
  std::vector<RankGroup> groups;
  for (int block = 0; block < gpus; block += size * stride) {
    for (int s = 0; s < stride; ++s) {
      RankGroup& group = groups.emplace_back();
      for (int i = 0; i < size; ++i) group.push_back(block + s + i * stride);
    }
  }
  return groups;
}

// All groups of 16,384 GPUs at once; range(0): ranks per group, range(1): their stride, range(2):
// with the pattern.
void Price(benchmark::State& state, CollectiveKind kind) {
  const Cluster cluster = ReadCluster(OpenCluster("16384xh100-ndr", "."));
  Profile profile;
  const auto groups =
      Strided(16384, static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        PriceCollective(kind, 1e9, groups, cluster, profile, {.want_pattern = state.range(2) != 0})
            .seconds);
  }
}
void PriceRing(benchmark::State& state) { Price(state, CollectiveKind::kAllReduce); }
BENCHMARK(PriceRing)
    ->Args({8, 1, 0})
    ->Args({128, 128, 0})
    ->Args({16384, 1, 0})
    ->Args({16384, 1, 1})
    ->Unit(benchmark::kMillisecond);
void PriceAllToAll(benchmark::State& state) { Price(state, CollectiveKind::kAllToAll); }
BENCHMARK(PriceAllToAll)->Args({64, 1, 0})->Unit(benchmark::kMillisecond);

// One group of the cluster by itself, with its flows: what lowering does for each group at the flow
// level. range(0): ranks, range(1): their stride.
void PriceOneGroup(benchmark::State& state) {
  const Cluster cluster = ReadCluster(OpenCluster("16384xh100-ndr", "."));
  Profile profile;
  const auto groups = Strided(static_cast<int>(state.range(0) * state.range(1)),
                              static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  const std::vector<RankGroup> one{groups.front()};
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        PriceCollective(CollectiveKind::kReduceScatter, 1e9, one, cluster, profile, {}).seconds);
  }
}
BENCHMARK(PriceOneGroup)
    ->Args({8, 1})
    ->Args({8, 8})
    ->Args({128, 128})
    ->Args({1024, 1})
    ->Unit(benchmark::kMicrosecond);

// A price for each of the groups of 128 of 16,384 GPUs, all at once.
void PriceEachGroup(benchmark::State& state) {
  const Cluster cluster = ReadCluster(OpenCluster("16384xh100-ndr", "."));
  Profile profile;
  const auto groups = Strided(16384, 128, 128);
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        PriceGroups(CollectiveKind::kReduceScatter, 1e9, groups, cluster, profile, {}).size());
  }
}
BENCHMARK(PriceEachGroup)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace aurum
