// Finish times against SimGrid, where libsimgrid is installed: CM02, no cross-traffic.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/network/event_loop.h"

#include "tests/engine/random.h"
#include "tests/network/simgrid_peer.h"

namespace aurum {
namespace {

// Runs the same chains on the routes that SimGrid took.
void CheckFinishTimes(const SimGridNetwork& network,
                      const std::vector<std::vector<SimGridFlow>>& chains, SimGridUpdate update) {
  const SimGridResult peer = RunSimGrid(network, chains, update);
  std::size_t longest = 1;
  std::uint32_t links = 0;
  for (const std::vector<std::uint32_t>& route : peer.routes) {
    longest = std::max(longest, route.size());
    for (const std::uint32_t link : route) links = std::max(links, link + 1);
  }
  OpGraph graph;
  std::size_t i = 0;
  for (const std::vector<SimGridFlow>& chain : chains) {
    const StreamId stream = graph.AddStream();
    for (const SimGridFlow& flow : chain) {
      const std::vector<std::uint32_t>& route = peer.routes[i++];
      const auto hops = static_cast<double>(route.size());
      const Time latency = TimeFromSeconds(hops * network.link_latency_s);
      const double weight = network.link_latency_s > 0 ? static_cast<double>(longest) / hops : 1;
      graph.AddTransfer(stream, latency + TimeFromSeconds(flow.bytes / network.bytes_per_s),
                        latency, graph.AddPattern({{Flow{route, flow.bytes, weight}}}));
    }
  }
  REQUIRE(graph.Finish());
  const Schedule schedule = RunEventLoop(graph, {std::vector<double>(links, network.bytes_per_s)});
  REQUIRE(peer.end_s.size() == graph.op_count());
  for (OpId op = 0; op < graph.op_count(); ++op) {
    // 1e-9 of the time, and the rounding of completions to a picosecond on the way.
    CHECK(std::abs(Seconds(schedule.end[op]) - peer.end_s[op]) <= 1e-9 * peer.end_s[op] + 5e-12);
  }
}

std::vector<std::vector<SimGridFlow>> RandomTraffic(std::uint32_t seed, std::uint32_t hosts,
                                                    std::size_t chains, int length) {
  Random random(seed);
  std::vector<std::vector<SimGridFlow>> made(chains);
  for (std::vector<SimGridFlow>& chain : made) {
    for (int i = 0; i < length; ++i) {
      const std::uint32_t src = random() % hosts;
      const std::uint32_t dst = (src + 1 + random() % (hosts - 1)) % hosts;
      chain.push_back({src, dst, 1e8 + random() % 1'000'000'000});
    }
  }
  return made;
}

TEST_CASE("star: flows at once and chains end when SimGrid's do") {
  CheckFinishTimes({.star_hosts = 32}, RandomTraffic(1, 32, 200, 1), SimGridUpdate::kLazy);
  CheckFinishTimes({.star_hosts = 16}, RandomTraffic(2, 16, 30, 8), SimGridUpdate::kLazy);
  CheckFinishTimes({.star_hosts = 16}, RandomTraffic(3, 16, 30, 8), SimGridUpdate::kFull);
}

TEST_CASE("star with a latency, the same for all: likewise") {
  CheckFinishTimes({.link_latency_s = 1e-5, .star_hosts = 16}, RandomTraffic(4, 16, 100, 1),
                   SimGridUpdate::kFull);
}

TEST_CASE("fat trees of two and three levels: likewise") {
  const SimGridNetwork two{.fat_tree_down = {8, 8}, .fat_tree_up = {1, 8}};
  CheckFinishTimes(two, RandomTraffic(5, 64, 300, 1), SimGridUpdate::kLazy);
  CheckFinishTimes(two, RandomTraffic(6, 64, 40, 6), SimGridUpdate::kLazy);
  const SimGridNetwork three{.fat_tree_down = {4, 4, 8}, .fat_tree_up = {1, 4, 4}};
  CheckFinishTimes(three, RandomTraffic(7, 128, 400, 1), SimGridUpdate::kLazy);
  CheckFinishTimes(three, RandomTraffic(8, 128, 40, 6), SimGridUpdate::kFull);
}

TEST_CASE("flows that weigh as the inverse of their path's latency: likewise") {
  const SimGridNetwork tree{
      .link_latency_s = 500e-9, .fat_tree_down = {8, 8}, .fat_tree_up = {1, 8}};
  CheckFinishTimes(tree, RandomTraffic(9, 64, 300, 1), SimGridUpdate::kFull);
}

TEST_CASE("1,024 hosts under 32 leaves and 32 spines, 1,000 flows of 10 MB: likewise") {
  const SimGridNetwork tree{
      .link_latency_s = 500e-9, .fat_tree_down = {32, 32}, .fat_tree_up = {1, 32}};
  std::vector<std::vector<SimGridFlow>> chains = RandomTraffic(10, 1024, 1000, 1);
  for (std::vector<SimGridFlow>& chain : chains) chain[0].bytes = 10e6;
  CheckFinishTimes(tree, chains, SimGridUpdate::kFull);
}

}  // namespace
}  // namespace aurum
