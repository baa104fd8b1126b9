#include "topologies/ways.h"

#include <algorithm>
#include <cassert>

#include "sim/core/rounding.h"

namespace aurum {
namespace {

std::uint64_t Mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// How many of the cables 0 … cables − 1 that are dealt out to `switches` in turn go to switch `which`.
int CablesTo(int which, int cables, int switches) {
  return (cables - which + switches - 1) / switches;
}

bool OtherPod(const Layout& at, const FabricEnds& ends) {
  return at.Pod(ends.src_leaf) != at.Pod(ends.dst_leaf);
}

}  // namespace

FabricWay DModKWay(const Layout& at, const FabricEnds& ends) {
  FabricWay way;
  way.leaf_up = way.leaf_down = ends.dst_slot % at.leaf_up;
  if (OtherPod(at, ends)) {
    // Numbers the destinations that come down this spine, so that they spread over its cables.
    const int ways_per_spine = CeilDivide(at.leaf_up, at.spines_per_pod);
    way.spine_up = way.spine_down =
        (at.PlaceInPod(ends.dst_leaf) * ways_per_spine + way.leaf_up / at.spines_per_pod) %
        at.spine_up;
  }
  return way;
}

FabricWay EcmpWay(const Layout& at, const FabricEnds& ends, std::uint64_t flow) {
  FabricWay way;
  way.leaf_up = HashedChoice(flow, 0, at.leaf_up);
  const int spine = way.leaf_up % at.spines_per_pod;
  if (OtherPod(at, ends)) {
    way.spine_up = HashedChoice(flow, 1, at.spine_up);
    const int core = way.spine_up % at.cores_per_group;
    way.spine_down =
        core +
        at.cores_per_group * HashedChoice(flow, 2, CablesTo(core, at.spine_up, at.cores_per_group));
  }
  way.leaf_down = spine + at.spines_per_pod *
                              HashedChoice(flow, 3, CablesTo(spine, at.leaf_up, at.spines_per_pod));
  return way;
}

std::vector<FabricWay> AdaptiveWays(const Layout& at, const FabricEnds& ends, int most) {
  assert(most >= 1);
  // A cable down is taken with the cable up of its number, so equal shares up are equal shares down.
  const FabricWay first = DModKWay(at, ends);
  const int above = OtherPod(at, ends) ? at.spine_up : 1;
  const std::int64_t all = std::int64_t{at.leaf_up} * above;
  const std::int64_t taken = std::min<std::int64_t>(all, most);
  std::vector<FabricWay> ways;
  ways.reserve(static_cast<std::size_t>(taken));
  for (std::int64_t i = 0; i < taken; ++i) {
    FabricWay way;
    way.leaf_up = (first.leaf_up + static_cast<int>(i * at.leaf_up / taken)) % at.leaf_up;
    way.leaf_down = way.leaf_up;
    way.spine_up = way.spine_down = (first.spine_up + static_cast<int>(i % above)) % above;
    ways.push_back(way);
  }
  return ways;
}

std::uint64_t FlowHash(std::uint64_t seed, int src_gpu, int dst_gpu, std::uint32_t flow_label) {
  const std::uint64_t ends = (std::uint64_t{static_cast<std::uint32_t>(src_gpu)} << 32) |
                             static_cast<std::uint32_t>(dst_gpu);
  return Mix(Mix(Mix(seed) ^ ends) ^ flow_label);
}

int HashedChoice(std::uint64_t flow, int level, int n) {
  assert(n >= 1);
  // The high 32 bits of a 32 by 32 bit product: uniform to 2⁻³² · n.
  const std::uint64_t bits = Mix(flow ^ Mix(static_cast<std::uint64_t>(level) + 1)) >> 32;
  return static_cast<int>((bits * static_cast<std::uint64_t>(n)) >> 32);
}

}  // namespace aurum
