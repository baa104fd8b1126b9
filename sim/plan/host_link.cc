#include "sim/plan/host_link.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <vector>

namespace aurum {
namespace {

// Pinned copies reach about four fifths of the nominal PCIe rate (25 of 31.5 GB/s at generation 4,
// x16): assumed, as is usual of public bandwidth tests.
constexpr double kCopyEfficiency = 0.8;

// Adam in fp32 reads gradient, parameter and two moments and writes three of them and a 16-bit copy:
// 30 B a parameter. Hosts of GPU nodes sustain about 100 GB/s at it: assumed; published CPU-Adam
// figures lie between 0.03 and 0.4 of a host's nominal rate.
constexpr double kHostAdamBytes = 30;
constexpr double kHostAdamBytesPerSecond = 100e9;

bool ToHost(LinkKind kind) { return kind == LinkKind::kPcie || kind == LinkKind::kChipToChip; }

// The links from a GPU to the nearest CPU; empty if there is no way.
std::vector<int> WayToCpu(const Cluster& cluster, const std::vector<std::vector<int>>& out,
                          int gpu) {
  const auto& vertices = cluster.vertices();
  std::vector<int> by(vertices.size(), -1);  // link by which a vertex was reached
  std::vector<bool> seen(vertices.size(), false);
  std::deque<int> queue{gpu};
  seen[static_cast<std::size_t>(gpu)] = true;
  while (!queue.empty()) {
    const int at = queue.front();
    queue.pop_front();
    if (vertices[static_cast<std::size_t>(at)].kind == VertexKind::kCpu) {
      std::vector<int> way;
      for (int v = at; v != gpu;) {
        const int link = by[static_cast<std::size_t>(v)];
        way.push_back(link);
        v = cluster.links()[static_cast<std::size_t>(link)].from;
      }
      return way;
    }
    for (const int link : out[static_cast<std::size_t>(at)]) {
      const int to = cluster.links()[static_cast<std::size_t>(link)].to;
      if (seen[static_cast<std::size_t>(to)]) continue;
      const VertexKind kind = vertices[static_cast<std::size_t>(to)].kind;
      if (kind != VertexKind::kCpu && kind != VertexKind::kPcieSwitch) continue;
      seen[static_cast<std::size_t>(to)] = true;
      by[static_cast<std::size_t>(to)] = link;
      queue.push_back(to);
    }
  }
  return {};
}

}  // namespace

double HostLinkBandwidth(const Cluster& cluster) {
  const auto& links = cluster.links();
  std::vector<std::vector<int>> out(cluster.vertices().size());
  for (std::size_t i = 0; i < links.size(); ++i) {
    const Vertex& from = cluster.vertices()[static_cast<std::size_t>(links[i].from)];
    if (from.node <= 0 && ToHost(links[i].kind))
      out[static_cast<std::size_t>(links[i].from)].push_back(static_cast<int>(i));
  }
  std::vector<int> users(links.size(), 0);
  std::vector<int> first;
  for (int gpu = 0; gpu < cluster.gpus_per_node; ++gpu) {
    const std::vector<int> way = WayToCpu(cluster, out, gpu);
    for (const int link : way) ++users[static_cast<std::size_t>(link)];
    if (gpu == 0) first = way;
  }
  if (first.empty()) return 0;
  double bandwidth = std::numeric_limits<double>::infinity();
  for (const int link : first) {
    const auto at = static_cast<std::size_t>(link);
    bandwidth = std::min(bandwidth, links[at].bandwidth_bytes_per_s / users[at]);
  }
  return bandwidth * kCopyEfficiency;
}

double HostAdamSeconds(double parameters_of_node) {
  return parameters_of_node * kHostAdamBytes / kHostAdamBytesPerSecond;
}

}  // namespace aurum
