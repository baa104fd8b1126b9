#pragma once

#include <vector>

#include "topologies/cluster.h"

namespace aurum {

// How the pairs of a group reach each other: what a rule such as "at most two hops" would pick.
struct HopCensus {
  int pairs = 0;                // ordered, of different GPUs
  int within = 0;               // whose route has at most so many devices, both ends counted
  int gpu_links = 0;            // whose route uses the GPUs' own links (NVLink) alone
  int through_cpu = 0;          // whose route passes a CPU, as copies through shared host memory do
  int over_network = 0;         // whose route leaves the node
  std::vector<int> by_devices;  // [d]: pairs whose route has d devices, ends counted
};

// A graph library's shortest path lists devices, not links: a direct NVLink is a path of two devices, a
// way over an NVSwitch one of three. `most_devices` is what such a rule compares len(path) with.
// O(pairs · hops).
HopCensus CountHops(const Cluster& cluster, const std::vector<int>& gpus, int most_devices);

}  // namespace aurum
