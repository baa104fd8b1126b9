#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/collectives/algorithm.h"
#include "sim/collectives/flows.h"
#include "sim/collectives/group_shape.h"
#include "sim/core/provenance.h"
#include "sim/cost/profile.h"
#include "sim/engine/op_graph.h"
#include "topologies/cluster.h"

namespace aurum {

// What a collective takes. With nothing else on the links: `seconds` = latency + the flows of
// `pattern` by max-min.
struct CollectiveCost {
  double seconds = 0;
  double latency_s = 0;
  double bus_bandwidth_bytes_per_s = 0;  // nccl-tests' busbw at this size
  TrafficPattern pattern{};              // empty if the group has one rank
  std::string algorithm{};   // "envelope" where it was measured, else CollectiveAlgorithmName
  std::string protocol{};    // "LL", "LL128" or "Simple" where the options choose one
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
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kAuto;
  int channels = 0;    // parallel rings or trees between domains; 0 = by the group (ShapeOf)
  bool sharp = false;  // the network's switches reduce
  // Price LL, LL128 and Simple and the cluster's transport as NCCL does (protocol.h), and take the
  // best; false: one set of step latencies for all sizes, as fitted on training steps.
  bool protocols = false;
  bool nvls = true;  // false: switched off, or a type that NVSwitches do not add (int8)
  // Sizes up to which the profile's envelopes were measured. Beyond, all-reduce, all-gather and
  // reduce-scatter go on at the rate that NCCL plans with where the last line is near it
  // (envelope.cc). 0 = the last line goes on for ever.
  double measured_to_bytes = 0;
};

// NVLink rate, B/s each way, of the SXM boards that the public measurements were taken on, by
// compute capability; 0 where that says nothing. Datasheets: A100 (8.0) 600 GB/s, H100 and H200
// (9.0) 900 GB/s, Blackwell (10.x) 1.8 TB/s both ways.
double MeasuredNvLinkBandwidth(double compute_capability);

// The same of PCIe cards, one GPU's x16: Ada (8.9) 31.5 GB/s, Blackwell workstation (12.x) 63; 0
// elsewhere.
double MeasuredPcieBandwidth(double compute_capability);

// Prices `kind` with `bytes` (nccl-tests' size convention, see CollectiveEnvelope) run at the same
// time by all `groups` of equal size ≥ 1, ranks in [0, GpuCount()). The flows of all groups share
// links; that self-contention is in `seconds`, which is the slowest group's.
//
// Automatic choice: inside one NVLink domain the profile's measured envelope decides where it has
// the kind, since it already is the best of a real library's algorithms and protocols. Elsewhere
// the least predicted time among those that NCCL has: ring; for all-reduce between domains also
// tree, NVLS where switches reduce, SHARP where the options say so; direct for all-to-all and
// send-receive. The others are taken by name alone. E0562 where a named one does not apply.
//
// O(hops of the flows), whatever the size of the cluster; all-to-all O(ranks² · hops) up to 2^16
// flows, past which the pairs between domains are sampled.
CollectiveCost PriceCollective(CollectiveKind kind, double bytes,
                               const std::vector<RankGroup>& groups, const Cluster& cluster,
                               const Profile& profile, const CollectiveOptions& options);

// The same, one cost for each group, in order: the time until it has ended, with the bytes of all
// groups on the links that it crosses, and its own flows. All use one algorithm. The longest is
// PriceCollective's where groups lie alike.
std::vector<CollectiveCost> PriceGroups(CollectiveKind kind, double bytes,
                                        const std::vector<RankGroup>& groups,
                                        const Cluster& cluster, const Profile& profile,
                                        const CollectiveOptions& options);

// All-to-all with unequal shares: bytes[i · n + j] from rank i to rank j of the group, the diagonal
// ignored. Inside a measured NVLink domain as an equal all-to-all of the busiest rank's bytes.
CollectiveCost PriceAllToAllV(const std::vector<double>& bytes, const RankGroup& group,
                              const Cluster& cluster, const Profile& profile,
                              const CollectiveOptions& options);

// Point to point: each pair (src, dst) moves `bytes` at the same time; `seconds` is until the last
// has arrived. A pair with itself moves nothing.
CollectiveCost PriceTransfer(double bytes, const std::vector<std::pair<int, int>>& pairs,
                             const Cluster& cluster, const Profile& profile,
                             const CollectiveOptions& options);
// The same, one cost for each pair, with the bytes of all pairs on the links that it crosses.
std::vector<CollectiveCost> PriceTransfers(double bytes,
                                           const std::vector<std::pair<int, int>>& pairs,
                                           const Cluster& cluster, const Profile& profile,
                                           const CollectiveOptions& options);

// The algorithm that PriceCollective would take for one group; kAuto where the measured envelope
// decides.
CollectiveAlgorithm ChooseAlgorithm(CollectiveKind kind, double bytes, const RankGroup& group,
                                    const Cluster& cluster, const Profile& profile,
                                    const CollectiveOptions& options);

// The share of each kind of link's rate that an algorithm reaches.
LinkEfficiency EfficiencyOf(CollectiveAlgorithm algorithm, const Profile& profile,
                            const CollectiveOptions& options);

}  // namespace aurum
