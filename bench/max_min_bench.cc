#include <benchmark/benchmark.h>

#include <random>

#include "bench/fabrics.h"
#include "sim/network/max_min.h"

namespace aurum {
namespace {

// One flow leaves and another comes among `flows` random ones: the step of a flow simulation,
// without its event list.
template <typename Fabric>
void Exchange(benchmark::State& state, const Fabric& fabric, std::uint32_t hosts) {
  std::mt19937 random(7);
  const auto route = [&] {
    const auto src = static_cast<std::uint32_t>(random() % hosts);
    const auto dst = static_cast<std::uint32_t>((src + 1 + random() % (hosts - 1)) % hosts);
    return fabric.Route(src, dst);
  };
  MaxMinSharing sharing(fabric.Capacity());
  std::vector<MaxMinSharing::FlowId> flows;
  for (std::int64_t f = 0; f < state.range(0); ++f)
    flows.push_back(sharing.Add(route(), 1, kNoCap));
  sharing.Solve();
  double looked_at = 0;
  for (auto _ : state) {
    MaxMinSharing::FlowId& flow = flows[random() % flows.size()];
    sharing.Remove(flow);
    flow = sharing.Add(route(), 1, kNoCap);
    looked_at += static_cast<double>(sharing.Solve().size());
  }
  state.SetItemsProcessed(state.iterations());
  state.counters["looked_at"] = looked_at / static_cast<double>(state.iterations());
}
void ExchangeOnStar(benchmark::State& state) { Exchange(state, Star{1024}, 1024); }
BENCHMARK(ExchangeOnStar)->Arg(1000)->Arg(4000)->Unit(benchmark::kMicrosecond);
void ExchangeOnFatTree(benchmark::State& state) { Exchange(state, FatTree{16}, 1024); }
BENCHMARK(ExchangeOnFatTree)->Arg(1000)->Unit(benchmark::kMicrosecond);

// A ring over all hosts: all flows equal, solved at once.
void SolveRing(benchmark::State& state) {
  const Star star{static_cast<std::uint32_t>(state.range(0))};
  const std::vector<double> capacity = star.Capacity();
  MaxMinSharing sharing(capacity);
  std::vector<MaxMinSharing::FlowId> flows;
  for (auto _ : state) {
    for (std::uint32_t h = 0; h < star.hosts; ++h) {
      flows.push_back(sharing.Add(star.Route(h, (h + 1) % star.hosts), 1, kNoCap));
    }
    sharing.Solve();
    for (const auto flow : flows) sharing.Remove(flow);
    flows.clear();
  }
  state.SetItemsProcessed(state.iterations() * star.hosts);
}
BENCHMARK(SolveRing)->Arg(1024)->Arg(16384)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace aurum
