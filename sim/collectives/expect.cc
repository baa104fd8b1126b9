#include "sim/collectives/expect.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <optional>

#include "sim/collectives/envelope.h"
#include "sim/collectives/protocol.h"
#include "sim/core/units.h"

namespace aurum {

namespace {

// The public tables that profiles were fitted on end here (ai-dynamo/aiconfigurator, nccl).
constexpr double kTablesEnd = 512 * kMiB;
// From here on the switch adds: on 8 H100 NCCL 2.28 takes a ring for 1 MiB and NVLS for 9.
constexpr double kNvlsFrom = 4 * kMiB;

// How far a healthy system may lie from the expectation, as factors on busbw. Where the profile was
// measured on such a node: 8 % for large messages, else twice the error that its fit shows on sizes
// held back. Elsewhere the errors of tests/collectives/expect_test.cc, rounded up: 20 % for what
// follows from other sizes of the node; between nodes a quarter for large messages, more for small
// ones, whose time is NICs' and switches' latency.
struct Margin {
  double low, high;
};
Margin MarginOf(const Expectation& at, double holdout, bool between) {
  if (!between && at.basis == "measured table") {
    // Large messages lie within 5 % of the tables (and mostly within 2).
    const double half = at.bytes >= 64 * kMiB ? 0.08 : std::clamp(2 * holdout, 0.1, 0.25);
    return {1 - half, 1 + half};
  }
  if (!between) return {0.8, 1.2};
  if (at.bytes >= 256 * kMiB) return {0.75, 1.2};
  return at.bytes >= 16 * kMiB ? Margin{0.6, 1.4} : Margin{0.4, 1.7};
}

// Which part of the way limits, by the load that the pattern puts on each link.
std::string LimitOf(const CollectiveCost& cost, const LinkEfficiency& efficiency,
                    const GroupShape& shape, const Cluster& cluster) {
  if (cost.bottleneck == LinkKindName(LinkKind::kInterSocket)) return "CPU link";
  if (cost.bottleneck == "measured") return shape.nvlink ? "NVLink" : "PCIe";
  // Where a NIC's PCIe link is as fast as the NIC, the NIC is what is meant.
  const bool pcie = cost.bottleneck == LinkKindName(LinkKind::kPcie);
  if (cost.bottleneck != LinkKindName(LinkKind::kNetwork) && !(pcie && shape.SeveralDomains()))
    return cost.bottleneck;
  double pcie_busy = 0;
  std::vector<std::pair<std::uint32_t, double>> loads;
  for (const Flow& flow : cost.pattern.flows) {
    for (const std::uint32_t link : flow.links) loads.emplace_back(link, flow.bytes);
  }
  std::sort(loads.begin(), loads.end());
  double worst = 0;
  std::uint32_t at = 0;
  for (std::size_t i = 0; i < loads.size();) {
    double bytes = 0;
    const std::uint32_t id = loads[i].first;
    for (; i < loads.size() && loads[i].first == id; ++i) bytes += loads[i].second;
    const Link& link = cluster.links()[id];
    const double busy = bytes / (link.bandwidth_bytes_per_s * efficiency.Of(link.kind));
    if (link.kind == LinkKind::kPcie) pcie_busy = std::max(pcie_busy, busy);
    if (link.kind != LinkKind::kNetwork) continue;
    if (busy <= worst * (1 + 1e-9)) continue;
    worst = busy;
    at = id;
  }
  if (pcie && worst < 0.9 * pcie_busy) return "PCIe";
  if (worst == 0) return "NIC";
  const Link& link = cluster.links()[at];
  const auto is_nic = [&](int vertex) {
    return cluster.vertices()[static_cast<std::size_t>(vertex)].kind == VertexKind::kNic;
  };
  if (!is_nic(link.from) && !is_nic(link.to)) return "spine";
  // Fewer NICs than GPUs, and the group has more GPUs in a node than NICs serve.
  return cluster.nics_per_node < static_cast<int>(shape.most) && !shape.domains.empty() &&
                 cluster.nics_per_node < cluster.gpus_per_node
             ? "rails"
             : "NIC";
}

}  // namespace

CollectiveOptions NcclTestOptions(const Cluster& cluster, const ExpectOptions& options) {
  CollectiveOptions pricing;
  pricing.protocols = true;
  pricing.nvls = options.nvls;
  pricing.network_efficiency = FactsOf(cluster.transport).efficiency;
  pricing.measured_to_bytes = kTablesEnd;
  return pricing;
}

std::vector<Expectation> Expect(CollectiveKind kind, const RankGroup& group,
                                const std::vector<double>& bytes, const Cluster& cluster,
                                const Profile& profile, const ExpectOptions& options) {
  assert(group.size() >= 2);
  CollectiveOptions pricing = NcclTestOptions(cluster, options);
  const GroupShape shape = ShapeOf(group, cluster, 0);
  const int ranks = shape.ranks;
  const bool between = shape.SeveralDomains();
  const double cc = profile.device.compute_capability;
  const bool adds = options.nvls && kind == CollectiveKind::kAllReduce && !between &&
                    NvlsBeatsRing(cc, ranks) &&
                    WhyNot(CollectiveAlgorithm::kNvls, kind, shape, cluster, cc, false).empty();
  const CollectiveEnvelope* table = profile.Envelope(kind, ranks);
  // The largest size's pattern says which link limits, for all sizes.
  std::string limit;
  std::vector<Expectation> all;
  for (const double size : bytes) {
    assert(size > 0);
    pricing.want_pattern = between && limit.empty();
    const CollectiveCost cost = PriceCollective(kind, size, {group}, cluster, profile, pricing);
    if (limit.empty() || !between || cost.bottleneck != LinkKindName(LinkKind::kNetwork)) {
      const CollectiveAlgorithm by = cost.algorithm == "envelope"
                                         ? CollectiveAlgorithm::kRing
                                         : CollectiveAlgorithmByName(cost.algorithm);
      limit = LimitOf(cost, EfficiencyOf(by, profile, pricing), shape, cluster);
    }
    Expectation& at = all.emplace_back();
    at.bytes = size;
    at.seconds = cost.seconds;
    at.algbw_bytes_per_s = size / cost.seconds;
    at.busbw_bytes_per_s = cost.bus_bandwidth_bytes_per_s;
    at.protocol = cost.protocol;
    at.provenance = cost.provenance;
    if (cost.algorithm == "envelope") {
      at.basis =
          table != nullptr && !table->lines.empty() ? "measured table" : "from measured sizes";
      const bool direct = kind == CollectiveKind::kAllToAll || kind == CollectiveKind::kSendRecv;
      at.algorithm = direct ? "direct" : adds && size >= kNvlsFrom ? "nvls" : "ring";
    } else {
      at.basis = "derived";
      at.algorithm = cost.algorithm;
    }
    at.limit = cost.latency_s > 0.5 * cost.seconds               ? "latency"
               : at.algorithm == "nvls" && limit.find("NV") == 0 ? "NVLS"
                                                                 : limit;
    const Margin margin = MarginOf(at, table != nullptr ? table->quality.holdout_mape : 0, between);
    at.busbw_low_bytes_per_s = at.busbw_bytes_per_s * margin.low;
    at.busbw_high_bytes_per_s = at.busbw_bytes_per_s * margin.high;
  }
  return all;
}

std::vector<Expectation> Expect(CollectiveKind kind, int gpus, const std::vector<double>& bytes,
                                const Cluster& cluster, const Profile& profile,
                                const ExpectOptions& options) {
  assert(gpus >= 2 && gpus <= cluster.GpuCount());
  RankGroup group(static_cast<std::size_t>(gpus));
  std::iota(group.begin(), group.end(), 0);
  return Expect(kind, group, bytes, cluster, profile, options);
}

}  // namespace aurum
