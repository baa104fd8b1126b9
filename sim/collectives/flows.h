#pragma once

#include <cstddef>
#include <vector>

#include "sim/collectives/algorithm.h"
#include "sim/collectives/group_shape.h"
#include "sim/collectives/steps.h"
#include "sim/collectives/wires.h"

namespace aurum {

// What one algorithm puts on the links, and how long it waits besides: the `flow` level. flows.cc
// has the equations.

// Data that is passed on in pieces goes in pieces of at most this many bytes. Short streams are cut
// finer, into sixteen, but not below kLeastChunkBytes: NCCL halves its chunks in steps from 128 KiB
// to 16 KiB by the size of the call (src/enqueue.cc).
inline constexpr double kChunkBytes = 128 * 1024.0;
inline constexpr double kLeastChunkBytes = 16 * 1024.0;
double ChunkOf(double stream);

// Latency of one step, software included.
struct StepLatencies {
  double intra_s = 0;
  double between_s = 0;    // between domains
  double chunk_bytes = 0;  // of what moves on in pieces; 0 = ChunkOf
};
inline constexpr double kIntraStepSoftware_s = 1.4e-6;
inline constexpr double kNetworkStepSoftware_s = 9.3e-6;
// NVLS: a reduction or multicast through an NVSwitch, and a step of the tree between domains.
// SHARP: a step inside (and per peer), and the way through the network. NCCL 2.27,
// src/graph/tuning.cc (hwLatencies), which counts the software in.
inline constexpr double kNvlsInside_s = 25e-6;
inline constexpr double kNvlsBetween_s = 20.9e-6;
inline constexpr double kSharpInside_s = 3.7e-6;
inline constexpr double kSharpPeer_s = 0.4e-6;
inline constexpr double kSharpBetween_s = 31e-6;
// Peers that an all-to-all of NCCL serves at the same time (assumed): its latency is that of ⌈peers
// / 8⌉ rounds.
inline constexpr int kPeersAtOnce = 8;

// Adds a group's wires. `most_flows` bounds the pairs of a direct algorithm; beyond, pairs between
// domains are sampled. Precondition: the algorithm applies (CheckApplies) and is not kAuto.
void AddFlows(CollectiveAlgorithm algorithm, CollectiveKind kind, double bytes,
              const GroupShape& shape, const Cluster& cluster, std::size_t most_flows,
              WirePlan* plan);

// What passes besides the `flow_s` that the bytes take: step latencies, and the filling of
// pipelines.
double LatencySeconds(CollectiveAlgorithm algorithm, CollectiveKind kind, double bytes,
                      const GroupShape& shape, const Cluster& cluster, const StepLatencies& step,
                      double flow_s);

}  // namespace aurum
