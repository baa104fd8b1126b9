#pragma once

#include <string>
#include <vector>

#include "sim/collectives/collective.h"

namespace aurum {

// What nccl-tests should show on a cluster: `aurum topology --expect`.

struct Expectation {
  double bytes = 0;  // as nccl-tests prints the size
  double seconds = 0;
  double algbw_bytes_per_s = 0;  // bytes / seconds
  double busbw_bytes_per_s = 0;  // algbw · BusFactor
  // Within which a healthy system's busbw lies: expect.cc.
  double busbw_low_bytes_per_s = 0, busbw_high_bytes_per_s = 0;
  std::string algorithm;  // "ring", "nvls", "tree", "direct"
  std::string protocol;   // "LL", "LL128", "Simple"; empty where it was measured with the rest
  // What holds it back: "latency", "NVLink", "NVLS", "PCIe", "CPU link", "NIC", "rails", "spine"
  std::string limit;
  std::string basis;  // "measured table", "from measured sizes", "derived"
  Provenance provenance = Provenance::kAssumed;
};

struct ExpectOptions {
  bool nvls = true;  // false: NCCL_NVLS_ENABLE=0, or a type that NVSwitches do not add
};

// Ranks 0 … gpus - 1, node after node, as nccl-tests numbers them. 2 ≤ gpus ≤ GpuCount(), bytes > 0
// each. The result is in the order of `bytes`; busbw never falls by more than protocols make it.
std::vector<Expectation> Expect(CollectiveKind kind, int gpus, const std::vector<double>& bytes,
                                const Cluster& cluster, const Profile& profile,
                                const ExpectOptions& options);
// For any group.
std::vector<Expectation> Expect(CollectiveKind kind, const RankGroup& group,
                                const std::vector<double>& bytes, const Cluster& cluster,
                                const Profile& profile, const ExpectOptions& options);

// The options under which Expect prices: protocols, the transport's share of the NICs, and the sizes
// to which public tables go.
CollectiveOptions NcclTestOptions(const Cluster& cluster, const ExpectOptions& options);

}  // namespace aurum
