// FLOWS and CHAINS side by side with SimGrid, on the same routes; without libsimgrid, Aurum alone.
//
// SimGrid's default update (kLazy) is the one that is raced first (ratio_vs_simgrid). After a
// latency stage some of its completion times are not those of max-min sharing
// (tests/network/simgrid_peer.h), so times are compared with kFull, which is raced too.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <string>
#include <vector>

#include "bench/fabrics.h"
#include "bench/traffic.h"
#include "sim/network/event_loop.h"
#ifdef AURUM_WITH_SIMGRID
#include "tests/network/simgrid_peer.h"
#endif

namespace aurum {
namespace {

constexpr double kLinkLatency = 500e-9;

double CpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

struct Case {
  std::string key;  // of its counters
  std::vector<Chain> chains;
  double link_latency_s = 0;
#ifdef AURUM_WITH_SIMGRID
  SimGridNetwork network{};
#endif
};

#ifdef AURUM_WITH_SIMGRID
// Do our routes share links exactly where SimGrid's do?
template <typename Network>
bool SameRoutes(const Network& network, const Case& c, const SimGridResult& peer) {
  constexpr std::uint32_t kUnknown = 0xffffffffU;
  std::vector<std::uint32_t> theirs(network.Capacity().size(), kUnknown), ours;
  std::size_t i = 0;
  for (const Chain& chain : c.chains) {
    for (const HostFlow& flow : chain) {
      const std::vector<std::uint32_t> route = network.Route(flow.src, flow.dst);
      const std::vector<std::uint32_t>& other = peer.routes[i++];
      if (route.size() != other.size()) return false;
      for (std::size_t hop = 0; hop < route.size(); ++hop) {
        if (ours.size() <= other[hop]) ours.resize(other[hop] + 1, kUnknown);
        if (theirs[route[hop]] == kUnknown) theirs[route[hop]] = other[hop];
        if (ours[other[hop]] == kUnknown) ours[other[hop]] = route[hop];
        if (theirs[route[hop]] != other[hop] || ours[other[hop]] != route[hop]) return false;
      }
    }
  }
  return true;
}

template <typename Network>
void Compare(const Network& network, const Case& c, const Schedule& schedule, double aurum_s,
             benchmark::State* state) {
  std::vector<std::vector<SimGridFlow>> chains;
  for (const Chain& chain : c.chains) {
    std::vector<SimGridFlow>& added = chains.emplace_back();
    for (const HostFlow& flow : chain) added.push_back({flow.src, flow.dst, flow.bytes});
  }
  const SimGridResult lazy = RunSimGrid(c.network, chains, SimGridUpdate::kLazy);
  const SimGridResult full = RunSimGrid(c.network, chains, SimGridUpdate::kFull);
  if (!SameRoutes(network, c, lazy)) {
    state->SkipWithError("SimGrid takes other routes");
    return;
  }
  const auto difference = [](double a, double b) { return std::abs(a / b - 1); };
  double mean = 0, full_mean = 0, makespan = 0, full_makespan = 0, lazy_makespan = 0, lazy_mean = 0;
  for (std::size_t i = 0; i < full.end_s.size(); ++i) {
    const double end = Seconds(schedule.end[i]);
    mean += end;
    full_mean += full.end_s[i];
    lazy_mean += lazy.end_s[i];
    makespan = std::max(makespan, end);
    full_makespan = std::max(full_makespan, full.end_s[i]);
    lazy_makespan = std::max(lazy_makespan, lazy.end_s[i]);
  }
  const auto report = [&](const std::string& name, double value) {
    state->counters[c.key + "_" + name] = value;
  };
  report("ratio_vs_simgrid", lazy.cpu_s / aurum_s);
  report("ratio_vs_simgrid_full", full.cpu_s / aurum_s);
  report("simgrid_s", lazy.cpu_s);
  report("makespan_rel_error", difference(makespan, full_makespan));
  report("mean_rel_error", difference(mean, full_mean));
  report("makespan_rel_error_vs_lazy", difference(makespan, lazy_makespan));
  report("mean_rel_error_vs_lazy", difference(mean, lazy_mean));
}
#endif

template <typename Network>
void Run(benchmark::State& state, const Network& network, const Case& c, bool compare) {
  const Fabric fabric{network.Capacity()};
  OpGraph graph;
  AddChains(network, c.chains, c.link_latency_s, &graph);
  Schedule schedule;
  std::vector<double> seconds;
  for (auto _ : state) {
    const double begin = CpuSeconds();
    schedule = RunEventLoop(graph, fabric);
    seconds.push_back(CpuSeconds() - begin);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(graph.op_count()));
  state.counters[c.key + "_aurum_s"] = Median(seconds);
  state.counters[c.key + "_completions_per_s"] =
      static_cast<double>(graph.op_count()) / Median(seconds);
  state.counters[c.key + "_makespan_ms"] = Seconds(schedule.makespan) * 1e3;
#ifdef AURUM_WITH_SIMGRID
  if (compare) Compare(network, c, schedule, Median(seconds), &state);
#else
  (void)compare;
#endif
}

// 10 MB between pairs of 1,024 hosts under 32 leaves and 32 spines.
void Flows(benchmark::State& state) {
  const LeafSpine network;
  Case c{.key = "flows_" + std::to_string(state.range(0)),
         .chains = RandomFlows(network.hosts(), static_cast<std::size_t>(state.range(0))),
         .link_latency_s = kLinkLatency};
#ifdef AURUM_WITH_SIMGRID
  c.network = {.link_latency_s = kLinkLatency, .fat_tree_down = {32, 32}, .fat_tree_up = {1, 32}};
#endif
  Run(state, network, c, state.range(0) <= 4000);
}
// SimGrid runs once per benchmark: the library must not search for an iteration count.
BENCHMARK(Flows)->Arg(1000)->Arg(2000)->Arg(4000)->Iterations(15)->Unit(benchmark::kMillisecond);
BENCHMARK(Flows)->Arg(8000)->Arg(16000)->Iterations(3)->Unit(benchmark::kMillisecond);

// The same pairs without latency, so that all flows weigh the same: how cost grows with their
// number. (Above, flows inside a leaf weigh twice as much; they end early, and then very many rates
// do change: 7,600 in all for 4,000 flows, 860,000 for 16,000.)
void FlowsOfOneWeight(benchmark::State& state) {
  const LeafSpine network;
  const Case c{.key = "flows_of_one_weight_" + std::to_string(state.range(0)),
               .chains = RandomFlows(network.hosts(), static_cast<std::size_t>(state.range(0)))};
  Run(state, network, c, false);
  const auto flows = static_cast<double>(state.range(0));
  state.counters[c.key + "_ns_per_f_log_f"] =
      state.counters[c.key + "_aurum_s"].value * 1e9 / (flows * std::log2(flows));
}
BENCHMARK(FlowsOfOneWeight)
    ->Arg(1000)
    ->Arg(4000)
    ->Arg(16000)
    ->Arg(64000)
    ->Iterations(7)
    ->Unit(benchmark::kMillisecond);

void Shifts(benchmark::State& state) {
  const LeafSpine network;
  Case c{.key = "flows_shifts",
         .chains = ShiftedFlows(network.hosts(), 10),
         .link_latency_s = kLinkLatency};
#ifdef AURUM_WITH_SIMGRID
  c.network = {.link_latency_s = kLinkLatency, .fat_tree_down = {32, 32}, .fat_tree_up = {1, 32}};
#endif
  Run(state, network, c, true);
}
BENCHMARK(Shifts)->Iterations(5)->Unit(benchmark::kMillisecond);

void ChainsOnStar(benchmark::State& state) {
  const Star network{1024};
  Case c{.key = "chains_star",
         .chains = RandomChains(1024, 1000, static_cast<int>(state.range(0)))};
#ifdef AURUM_WITH_SIMGRID
  c.network = {.star_hosts = 1024};
#endif
  Run(state, network, c, true);
}
BENCHMARK(ChainsOnStar)->Arg(4)->Iterations(9)->Unit(benchmark::kMillisecond);

void ChainsOnFatTree(benchmark::State& state) {
  const FatTree network{16};
  Case c{.key = "chains_fat_tree",
         .chains = RandomChains(1024, 1000, static_cast<int>(state.range(0)))};
#ifdef AURUM_WITH_SIMGRID
  c.network = {.fat_tree_down = {8, 8, 16}, .fat_tree_up = {1, 8, 8}};
#endif
  Run(state, network, c, true);
}
BENCHMARK(ChainsOnFatTree)->Arg(3)->Iterations(9)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace aurum
