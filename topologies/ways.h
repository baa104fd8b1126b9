#pragma once

#include <cstdint>
#include <vector>

#include "topologies/layout.h"

namespace aurum {

// Which of the equal ways through a fat tree a flow takes.
//
// Between two leaves there is a choice at every level on the way up, leaf_up cables at the leaf and
// spine_up at the spine, and on the way down between the parallel cables from one switch to the next.
//
// - D-mod-k: the destination's port chooses (layout.h). Shift patterns never collide.
// - ECMP: every switch hashes the flow's header, and all packets of a flow take one way. n flows on k
//   ways are n balls in k bins: of eight flows on eight ways, the most loaded way carries 2.6 on
//   average, and training traffic is few large flows (Gangidi et al., "RDMA over Ethernet for
//   Distributed Training at Meta Scale", SIGCOMM 2024). The hash here is a counter-based random number of (seed, source, destination, flow label,
//   level), so the same document gives the same collisions.
// - Adaptive: packets of one flow are spread over all ways, as InfiniBand's adaptive routing and packet
//   spraying do; in the fluid limit an equal share on each, so nothing collides.
struct FabricWay {
  int leaf_up = 0;     // cable of the source's leaf
  int spine_up = 0;    // cable of the source's spine, to a core
  int spine_down = 0;  // cable of the destination's spine, from the same core
  int leaf_down = 0;   // cable of the destination's leaf, from the same spine of its pod
};

// Between two leaves; the third level matters only where they lie in different pods.
struct FabricEnds {
  int src_leaf = 0;
  int dst_leaf = 0;
  int dst_slot = 0;
};

FabricWay DModKWay(const Layout& at, const FabricEnds& ends);
// `flow` is what the switches hash: see FlowHash.
FabricWay EcmpWay(const Layout& at, const FabricEnds& ends, std::uint64_t flow);
// All ways in equal shares, D-mod-k's first; at most `most`, evenly chosen.
std::vector<FabricWay> AdaptiveWays(const Layout& at, const FabricEnds& ends, int most);

// A hash of the flow, uniform over 64 bits (SplitMix64's mixer: Steele, Lea and Flood, "Fast splittable
// pseudorandom number generators", OOPSLA 2014).
std::uint64_t FlowHash(std::uint64_t seed, int src_gpu, int dst_gpu, std::uint32_t flow_label);
// Uniform in [0, n), for n ≥ 1, from a hash and the level at which it is used.
int HashedChoice(std::uint64_t flow, int level, int n);

}  // namespace aurum
