#pragma once

#include <cstdint>
#include <vector>

namespace aurum {

// SimGrid as the other opinion on flows: its CM02 model, max-min sharing without cross-traffic and
// TCP windows. Built only where libsimgrid is installed. Its flows over a path of latency l weigh
// 1 / l against each other.
struct SimGridNetwork {
  double bytes_per_s = 50e9;
  double link_latency_s = 0;
  std::uint32_t star_hosts = 0;                          // a star of so many hosts; or, if 0,
  std::vector<unsigned> fat_tree_down{}, fat_tree_up{};  // a fat tree: children, parents by level
};

struct SimGridFlow {
  std::uint32_t src = 0, dst = 0;
  double bytes = 0;  // a whole number
};

// How SimGrid (3.32) keeps its solution up to date. kLazy, its default, solves what a change
// touched; after a latency stage it leaves some flows at rates that are not max-min fair (2 % of
// 1,000 random ones on a fat tree of two levels). kFull solves all flows at every event.
enum class SimGridUpdate { kLazy, kFull };

struct SimGridResult {
  std::vector<std::vector<std::uint32_t>> routes;  // by chain, then by flow: SimGrid's links
  std::vector<double> end_s;                       // likewise
  double cpu_s = 0;  // of the simulation, without building network and flows
};

// Chains of flows: all first ones start at once, each other one when the one before has ended. Runs
// in a child process, since a process can have one SimGrid only. Throws std::runtime_error if the
// child fails.
SimGridResult RunSimGrid(const SimGridNetwork& network,
                         const std::vector<std::vector<SimGridFlow>>& chains,
                         SimGridUpdate update = SimGridUpdate::kFull);

}  // namespace aurum
