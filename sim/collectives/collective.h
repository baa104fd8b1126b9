#pragma once

#include <string>
#include <vector>

#include "sim/core/provenance.h"
#include "sim/cost/profile.h"
#include "sim/engine/op_graph.h"
#include "topologies/cluster.h"

namespace aurum {

// A group of ranks that take part in one collective: GPU ids in ring order.
using RankGroup = std::vector<int>;

// What a collective takes. With nothing else on the links: `seconds` = latency + the flows of
// `pattern` by max-min.
struct CollectiveCost {
  double seconds = 0;
  double latency_s = 0;
  double bus_bandwidth_bytes_per_s = 0;  // nccl-tests' busbw at this size
  TrafficPattern pattern{};              // of all groups at once; empty if the group has one rank
  std::string algorithm{};   // "envelope", "ring", "ring over PCIe", "hierarchical ring", "direct"
  std::string bottleneck{};  // kind of the limiting link: "NVLink", "PCIe", "network"; "measured"
  Provenance provenance = Provenance::kAssumed;
};

struct CollectiveOptions {
  double network_efficiency = 0.85;  // share of a network link's rate that a collective reaches
  double intra_factor = 1.0;         // in-step over nccl-tests time inside a node
  // NVLink rate of one GPU, B/s each way, of the node that the profile's envelopes were measured
  // on: an envelope's bandwidth part is scaled by its ratio to the cluster's. 0 = by the compute
  // capability (MeasuredNvLinkBandwidth).
  double measured_nvlink_bytes_per_s = 0;
  bool want_pattern = true;  // false: seconds only, `pattern` stays empty
};

// n ranks' share of the buffer that crosses a link per byte of nccl-tests' size: busbw = factor ·
// bytes / seconds.
double BusFactor(CollectiveKind kind, int ranks);

// NVLink rate, B/s each way, of the SXM boards that the public measurements were taken on, by
// compute capability; 0 where that says nothing. Datasheets: A100 (8.0) 600 GB/s, H100 and H200
// (9.0) 900 GB/s, Blackwell (10.x) 1.8 TB/s both ways.
double MeasuredNvLinkBandwidth(double compute_capability);

// Prices `kind` with `bytes` (nccl-tests' size convention, see CollectiveEnvelope) run at the same
// time by all `groups` of equal size ≥ 1, ranks in [0, GpuCount()). Inside one NVLink domain the
// profile's measured envelope decides where it has the group size; elsewhere rings over the
// cluster's routes (collective.cc has the equations). The flows of all groups share links; that
// self-contention is in `seconds`. O(hops of the rings' edges + links of the cluster); all-to-all
// O(ranks² · hops) up to 2^16 flows, past which the pairs between domains are sampled.
CollectiveCost PriceCollective(CollectiveKind kind, double bytes,
                               const std::vector<RankGroup>& groups, const Cluster& cluster,
                               const Profile& profile, const CollectiveOptions& options);

// Point to point: each pair (src, dst) moves `bytes` at the same time; `seconds` is until the last
// has arrived. A pair with itself moves nothing.
CollectiveCost PriceTransfer(double bytes, const std::vector<std::pair<int, int>>& pairs,
                             const Cluster& cluster, const Profile& profile,
                             const CollectiveOptions& options);

}  // namespace aurum
