#pragma once

#include <cstdint>
#include <vector>

namespace aurum {

inline constexpr double kHostBytesPerSecond = 50e9;

// n hosts at one crossbar: link 2h goes up from host h, 2h + 1 down to it.
struct Star {
  std::uint32_t hosts;
  std::vector<double> Capacity() const {
    return std::vector<double>(2 * hosts, kHostBytesPerSecond);
  }
  std::vector<std::uint32_t> Route(std::uint32_t src, std::uint32_t dst) const {
    return {2 * src, 2 * dst + 1};
  }
};

// Leaf switches with `down` hosts each under as many spines; the spine is chosen by the destination.
struct LeafSpine {
  std::uint32_t leaves = 32, down = 32;
  std::uint32_t hosts() const { return leaves * down; }
  // Host links, then leaf–spine links by (leaf, spine): each has two directions, up first.
  std::vector<double> Capacity() const {
    return std::vector<double>(4 * hosts(), kHostBytesPerSecond);
  }
  std::vector<std::uint32_t> Route(std::uint32_t src, std::uint32_t dst) const {
    const std::uint32_t n = hosts(), spine = dst % down;
    if (src / down == dst / down) return {2 * src, 2 * dst + 1};
    return {2 * src, 2 * n + 2 * (src / down * down + spine),
            2 * n + 2 * (dst / down * down + spine) + 1, 2 * dst + 1};
  }
};

// A fat tree of three levels with switches of k ports, k³/4 hosts, full bisection. The way up is
// chosen by the destination (D-mod-k), so that the way down is a tree per destination.
struct FatTree {
  std::uint32_t k;
  std::uint32_t half() const { return k / 2; }
  std::uint32_t hosts() const { return k * half() * half(); }
  // Host links, then edge–aggregation links by (edge switch, port), then aggregation–core links by
  // (aggregation, port): each level has one link per host and direction.
  std::vector<double> Capacity() const {
    return std::vector<double>(6 * hosts(), kHostBytesPerSecond);
  }
  std::vector<std::uint32_t> Route(std::uint32_t src, std::uint32_t dst) const {
    const std::uint32_t n = hosts(), h = half();
    const std::uint32_t edge_src = src / h, edge_dst = dst / h, pod_src = edge_src / h,
                        pod_dst = edge_dst / h;
    std::vector<std::uint32_t> links{2 * src};
    const std::uint32_t up1 = dst % h, up2 = (dst / h) % h;  // ports by destination
    if (edge_src != edge_dst) {
      links.push_back(2 * n + 2 * (edge_src * h + up1));
      if (pod_src != pod_dst) {
        links.push_back(4 * n + 2 * ((pod_src * h + up1) * h + up2));
        links.push_back(4 * n + 2 * ((pod_dst * h + up1) * h + up2) + 1);
      }
      links.push_back(2 * n + 2 * (edge_dst * h + up1) + 1);
    }
    links.push_back(2 * dst + 1);
    return links;
  }
};

}  // namespace aurum
