#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "bench/fabrics.h"
#include "sim/engine/op_graph.h"

namespace aurum {

// Who sends what to whom; chains run one flow after the other.
struct HostFlow {
  std::uint32_t src = 0, dst = 0;
  double bytes = 0;
};
using Chain = std::vector<HostFlow>;

// FLOWS: 10 MB between random pairs, all at once.
inline std::vector<Chain> RandomFlows(std::uint32_t hosts, std::size_t count) {
  std::mt19937 random(42);
  std::uniform_int_distribution<int> host(0, static_cast<int>(hosts) - 1);
  std::vector<Chain> chains;
  for (std::size_t i = 0; i < count; ++i) {
    const int src = host(random);
    int dst = src;
    while (dst == src) dst = host(random);
    chains.push_back({{static_cast<std::uint32_t>(src), static_cast<std::uint32_t>(dst), 10e6}});
  }
  return chains;
}

// FLOWS: every host to hosts at 10 regular distances.
inline std::vector<Chain> ShiftedFlows(std::uint32_t hosts, std::uint32_t rounds) {
  std::vector<Chain> chains;
  for (std::uint32_t k = 0; k < rounds * hosts; ++k) {
    chains.push_back({{k % hosts, (k % hosts + 1 + k / hosts * 7) % hosts, 10e6}});
  }
  return chains;
}

// CHAINS: random pairs and sizes, 1 … 101 MB.
inline std::vector<Chain> RandomChains(std::uint32_t hosts, std::size_t count, int length) {
  std::mt19937_64 random(7);
  std::vector<Chain> chains(count);
  for (Chain& chain : chains) {
    for (int i = 0; i < length; ++i) {
      const auto src = static_cast<std::uint32_t>(random() % hosts);
      const auto dst = static_cast<std::uint32_t>((src + 1 + random() % (hosts - 1)) % hosts);
      chain.push_back({src, dst, 1e6 + static_cast<double>(random() % 1'000'000) * 100});
    }
  }
  return chains;
}

// The chains as streams of transfers, a pattern each. With a latency per link, a flow weighs
// against others as the inverse of its path's latency (the round-trip bias of TCP, and what SimGrid
// computes).
template <typename Network>
void AddChains(const Network& network, const std::vector<Chain>& chains, double link_latency_s,
               OpGraph* graph) {
  for (const Chain& chain : chains) {
    const StreamId stream = graph->AddStream();
    for (const HostFlow& flow : chain) {
      std::vector<std::uint32_t> route = network.Route(flow.src, flow.dst);
      const double hops = static_cast<double>(route.size());
      const Time latency = TimeFromSeconds(hops * link_latency_s);
      const double weight = link_latency_s > 0 ? 4 / hops : 1;
      const PatternId pattern = graph->AddPattern({{Flow{std::move(route), flow.bytes, weight}}});
      graph->AddTransfer(stream, latency + TimeFromSeconds(flow.bytes / kHostBytesPerSecond),
                         latency, pattern);
    }
  }
  graph->Finish();
}

}  // namespace aurum
