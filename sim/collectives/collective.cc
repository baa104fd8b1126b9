#include "sim/collectives/collective.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <utility>

#include "sim/collectives/envelope.h"
#include "sim/collectives/wires.h"

namespace aurum {

// Symbols: n ranks in a group, D domains (NVLink domains; without NVLink, nodes) with r ranks of
// the group each, S bytes as nccl-tests counts them, F = BusFactor(kind, n) the bytes on the
// busiest link of a ring per byte of S.
//
// Inside one NVLink domain: t = envelope(S) · intra_factor, the bandwidth part scaled by the
// measured node's NVLink rate over the cluster's (envelope.cc for sizes not measured).
//
// Otherwise a ring. NCCL runs c parallel rings ("channels"), each through all n ranks, each leaving
// a node at another rank, through that rank's own NIC; each carries 1/c of the data. So rank k of a
// domain sends F·S/c to rank k of the next domain, and to its neighbour inside what the rings carry
// that do not leave at it: F·S·(c − 1)/c if one does, F·S if none does. c = r with NVLink, else
// min(r, NICs of the node). Then
//
//   t = latency + max( max over links of bytes on it / (rate · efficiency),  F·S / bus bandwidth
//   measured inside a domain )
//
// with the bytes of all groups summed on each link. For r ranks with a NIC each, that is F·S /
// min(bus, r · NIC · efficiency). All flows of a ring go in lock step, so the slowest link sets the
// rate of all, and each flow is capped at that rate.
//
//   latency = passes · ((n − D) · intra step + D · network step), passes 2 for all-reduce, 1 for
//   the others; all-reduce: or a tree's 2 · ((r − 1) · intra step + log2(D) · network step), if
//   less (NCCL's double binary tree has the ring's bandwidth to within a few percent).
//
// All-to-all sends S/n from each rank to each other one, directly. Send-receive sends S from each
// rank to the next.
//
// Constants, and where they are from:
//   - a ring step took 2 µs inside a node and 12 µs between nodes in the fit of Aurum's op-level
//   model to 202 measured
//     training runs; on the NVLink and same-rail routes that those ran on the links account for 0.6
//     and 2.7 µs (the LL latencies of NCCL, src/graph/tuning.cc), so the rest is software: 1.4
//     and 9.3 µs on top of the route's latency;
//   - NVLink gives NCCL 20 of 25 GB/s per link (A100), 20.6 (H100), 40.1 of 50 (B200): NCCL,
//   src/graph/topo.h: 0.8;
//   - PCIe gives 12 of 15.75 GB/s on generation 3 x16 (same file): 0.76.

namespace {

constexpr double kIntraStepSoftware_s = 1.4e-6;
constexpr double kNetworkStepSoftware_s = 9.3e-6;
constexpr double kNvLinkEfficiency = 0.8;
constexpr double kPcieEfficiency = 0.76;
// Past this many flows of one all-to-all, the partners in other domains are sampled.
constexpr std::size_t kMostDirectFlows = std::size_t{1} << 16;
// Peers that an all-to-all of NCCL serves at the same time (assumed): its latency is that of ⌈peers
// / 8⌉ rounds.
constexpr int kPeersAtOnce = 8;

std::string LinkKindLabel(LinkKind kind) { return std::string(LinkKindName(kind)); }

// A group by its domains, in order of first appearance; inside, in ring order.
std::vector<std::vector<int>> SplitByDomain(const RankGroup& group, const Cluster& cluster) {
  std::vector<std::pair<int, std::vector<int>>> domains;
  for (const int gpu : group) {
    const int domain = cluster.NvLinkDomainOf(gpu);
    // Ranks of a domain mostly stand together: look at the last one first.
    auto found = domains.rbegin();
    while (found != domains.rend() && found->first != domain) ++found;
    if (found == domains.rend()) {
      domains.push_back({domain, {gpu}});
    } else {
      found->second.push_back(gpu);
    }
  }
  std::vector<std::vector<int>> ranks;
  ranks.reserve(domains.size());
  for (auto& domain : domains) ranks.push_back(std::move(domain.second));
  return ranks;
}

// Neighbour to neighbour, S · F on each edge. A broadcast's last rank sends nothing.
void AddRing(const std::vector<int>& ranks, double bytes, bool closed, WirePlan* plan) {
  const std::size_t n = ranks.size();
  for (std::size_t i = 0; i + (closed ? 0 : 1) < n; ++i)
    plan->Add({ranks[i], ranks[(i + 1) % n], bytes});
}

void AddHierarchicalRing(const std::vector<std::vector<int>>& domains, double bytes, bool closed,
                         std::size_t channels, WirePlan* plan) {
  const double per_channel = bytes / static_cast<double>(channels);
  for (std::size_t d = 0; d < domains.size(); ++d) {
    const std::vector<int>& here = domains[d];
    const std::vector<int>& next = domains[(d + 1) % domains.size()];
    const auto exit = [&](const std::vector<int>& ranks, std::size_t channel) {
      return channel * ranks.size() / channels;
    };
    std::vector<bool> leaves(here.size(), false);
    for (std::size_t channel = 0; channel < channels; ++channel) {
      leaves[exit(here, channel)] = true;
      if (!closed && d + 1 == domains.size()) continue;
      plan->Add({here[exit(here, channel)], next[exit(next, channel)], per_channel});
    }
    if (here.size() == 1) continue;
    for (std::size_t i = 0; i < here.size(); ++i) {
      const double carried = per_channel * static_cast<double>(channels - (leaves[i] ? 1 : 0));
      if (carried > 0) plan->Add({here[i], here[(i + 1) % here.size()], carried});
    }
  }
}

// S/n from each to each. Inside a domain every pair. Between domains every pair too, or, where
// `most` flows are too few for that, a sample that stands for the others: (domain + q, rank + s) of
// every (domain, rank) is a permutation, so a few evenly spread (q, s) put on the links what all of
// them do, in fewer flows.
void AddAllToAll(const std::vector<std::vector<int>>& domains, double bytes, std::size_t most,
                 WirePlan* plan) {
  std::size_t n = 0;
  for (const std::vector<int>& ranks : domains) n += ranks.size();
  const double share = bytes / static_cast<double>(n);
  const bool all = n * (n - 1) <= most;
  for (std::size_t d = 0; d < domains.size(); ++d) {
    const std::vector<int>& here = domains[d];
    const std::size_t outside = n - here.size();
    const std::size_t sampled =
        std::clamp<std::size_t>(most / n, 1, std::max<std::size_t>(1, outside));
    for (std::size_t i = 0; i < here.size(); ++i) {
      for (const int peer : here) {
        if (peer != here[i]) plan->Add({here[i], peer, share});
      }
      for (std::size_t q = 1; all && q < domains.size(); ++q) {
        for (const int peer : domains[(d + q) % domains.size()]) plan->Add({here[i], peer, share});
      }
      for (std::size_t k = 0; !all && outside > 0 && k < sampled; ++k) {
        const std::size_t q = 1 + k * (domains.size() - 1) / sampled;
        const std::vector<int>& there = domains[(d + q) % domains.size()];
        plan->Add({here[i], there[(i + k) % there.size()],
                   share * static_cast<double>(outside) / static_cast<double>(sampled)});
      }
    }
  }
}

double StepLatency(const WirePlan& plan, bool over_network) {
  return plan.HighestLatency(over_network) +
         (over_network ? kNetworkStepSoftware_s : kIntraStepSoftware_s);
}

void CheckArguments(double bytes, const CollectiveOptions& options) {
  assert(std::isfinite(bytes) && bytes >= 0);
  assert(options.network_efficiency > 0 && options.intra_factor > 0);
  (void)bytes;
  (void)options;
}

// The narrowest NVLink on the way of the group's first edge, B/s; 0 where there is none.
double NvLinkBandwidth(const Cluster& cluster, int src, int dst) {
  double narrowest = 0;
  for (const int id : cluster.Route(src, dst)) {
    const Link& link = cluster.links()[id];
    if (!IsGpuLink(link.kind)) continue;
    narrowest = narrowest == 0 ? link.bandwidth_bytes_per_s
                               : std::min(narrowest, link.bandwidth_bytes_per_s);
  }
  return narrowest;
}

// How much longer the bandwidth part of an envelope takes on this cluster's NVLink than on the
// measured node's.
double NvLinkRatio(const Cluster& cluster, const Profile& profile, const CollectiveOptions& options,
                   int src, int dst) {
  const double measured = options.measured_nvlink_bytes_per_s > 0
                              ? options.measured_nvlink_bytes_per_s
                              : MeasuredNvLinkBandwidth(profile.device.compute_capability);
  const double here = NvLinkBandwidth(cluster, src, dst);
  return measured > 0 && here > 0 ? measured / here : 1;
}

void Complete(CollectiveCost* cost, double bytes_on_bus, double flow_s) {
  cost->seconds = cost->latency_s + flow_s;
  cost->bus_bandwidth_bytes_per_s = cost->seconds > 0 ? bytes_on_bus / cost->seconds : 0;
}

CollectiveCost PriceInsideDomain(CollectiveKind kind, double bytes,
                                 const std::vector<RankGroup>& groups, const Cluster& cluster,
                                 const Profile& profile, const CollectiveOptions& options,
                                 bool* priced) {
  const int n = static_cast<int>(groups.front().size());
  WirePlan plan(cluster);
  const bool closed = kind != CollectiveKind::kBroadcast;
  const auto add = [&](const RankGroup& group) {
    if (kind == CollectiveKind::kAllToAll) {
      AddAllToAll({group}, bytes, kMostDirectFlows / groups.size(), &plan);
    } else {
      AddRing(group, bytes * BusFactor(kind, n), closed, &plan);
    }
  };
  add(groups.front());
  const std::optional<EnvelopeCost> envelope =
      PriceByEnvelope(profile, kind, n, bytes, StepLatency(plan, false));
  *priced = envelope.has_value();
  if (!envelope) return {};
  CollectiveCost cost;
  cost.algorithm = "envelope";
  cost.bottleneck = "measured";
  cost.provenance = envelope->provenance;
  cost.latency_s = envelope->latency_s * options.intra_factor;
  const double ratio = NvLinkRatio(cluster, profile, options, groups.front()[0], groups.front()[1]);
  double flow_s = envelope->flow_s * options.intra_factor * ratio;
  // In-switch reduction moves fewer bytes than a ring, which is what the wires assume: fit them to
  // the link.
  LinkKind kind_of_bottleneck = LinkKind::kNvLink;
  const double one_group_s = plan.Seconds({}, &kind_of_bottleneck);
  for (std::size_t g = 1; g < groups.size(); ++g) add(groups[g]);
  if (one_group_s > flow_s) plan.Scale(flow_s / one_group_s);
  // Groups that share a rank, or a domain that blocks, slow each other.
  const double all_groups_s = plan.Seconds({}, &kind_of_bottleneck);
  if (all_groups_s > flow_s * (1 + 1e-9)) {
    flow_s = all_groups_s;
    cost.bottleneck = LinkKindLabel(kind_of_bottleneck);
  }
  Complete(&cost, bytes * BusFactor(kind, n), flow_s);
  if (options.want_pattern) cost.pattern = plan.LockStep(flow_s);
  return cost;
}

}  // namespace

double BusFactor(CollectiveKind kind, int ranks) {
  const double n = ranks;
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return 2 * (n - 1) / n;
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllToAll:
      return (n - 1) / n;
    case CollectiveKind::kBroadcast:
    case CollectiveKind::kSendRecv:
      return 1;
  }
  return 1;
}

double MeasuredNvLinkBandwidth(double compute_capability) {
  if (compute_capability == 8.0) return 300e9;
  if (compute_capability == 9.0) return 450e9;
  if (compute_capability >= 10.0 && compute_capability < 11.0) return 900e9;
  return 0;
}

CollectiveCost PriceCollective(CollectiveKind kind, double bytes,
                               const std::vector<RankGroup>& groups, const Cluster& cluster,
                               const Profile& profile, const CollectiveOptions& options) {
  CheckArguments(bytes, options);
  if (groups.empty() || groups.front().size() <= 1) return {.provenance = Provenance::kMeasured};
  const int n = static_cast<int>(groups.front().size());

  std::vector<std::vector<std::vector<int>>> split;
  split.reserve(groups.size());
  std::size_t most_domains = 0, most_inside = 0;
  for (const RankGroup& group : groups) {
    assert(group.size() == groups.front().size());
    split.push_back(SplitByDomain(group, cluster));
    most_domains = std::max(most_domains, split.back().size());
    for (const std::vector<int>& ranks : split.back())
      most_inside = std::max(most_inside, ranks.size());
  }
  const bool nvlink = cluster.HasNvLink() && cluster.NvLinkDomainOf(groups.front().front()) >= 0;
  if (most_domains == 1 && nvlink) {
    bool priced = false;
    CollectiveCost cost =
        PriceInsideDomain(kind, bytes, groups, cluster, profile, options, &priced);
    if (priced) return cost;
  }

  CollectiveCost cost;
  const double on_bus = bytes * BusFactor(kind, n);
  const LinkEfficiency efficiency{kNvLinkEfficiency, kPcieEfficiency, options.network_efficiency};
  const bool closed = kind != CollectiveKind::kBroadcast;
  const bool direct = kind == CollectiveKind::kAllToAll || kind == CollectiveKind::kSendRecv;
  WirePlan plan(cluster);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::vector<std::vector<int>>& domains = split[g];
    if (kind == CollectiveKind::kAllToAll) {
      AddAllToAll(domains, bytes, kMostDirectFlows / groups.size(), &plan);
    } else if (kind == CollectiveKind::kSendRecv || domains.size() == 1) {
      AddRing(groups[g], on_bus, closed, &plan);
    } else {
      std::size_t channels = domains.front().size();
      for (const std::vector<int>& ranks : domains) channels = std::min(channels, ranks.size());
      if (!nvlink)
        channels = std::min(channels, static_cast<std::size_t>(std::max(1, cluster.nics_per_node)));
      AddHierarchicalRing(domains, on_bus, closed, channels, &plan);
    }
  }

  const double intra_step = StepLatency(plan, false);
  const double network_step = StepLatency(plan, true);
  bool over_network = false;
  for (std::size_t wire = 0; wire < plan.size() && !over_network; ++wire)
    over_network = plan.CrossesNetwork(wire);
  const double between_step = over_network ? network_step : intra_step;
  const double domains = static_cast<double>(most_domains),
               inside = static_cast<double>(most_inside);
  if (kind == CollectiveKind::kSendRecv) {
    cost.latency_s = between_step;
  } else if (kind == CollectiveKind::kAllToAll) {
    cost.latency_s = std::ceil((inside - 1) / kPeersAtOnce) * intra_step +
                     std::ceil((n - inside) / kPeersAtOnce) * between_step;
  } else if (most_domains == 1) {
    const double steps = kind == CollectiveKind::kAllReduce ? 2 * (n - 1) : n - 1;
    cost.latency_s = steps * between_step;
  } else {
    const double ring =
        (n - domains) * intra_step + (closed ? domains : domains - 1) * between_step;
    cost.latency_s =
        kind == CollectiveKind::kAllReduce
            ? 2 * std::min(ring, (inside - 1) * intra_step + std::log2(domains) * between_step)
            : ring;
  }

  LinkKind limiting = LinkKind::kNetwork;
  double flow_s = plan.Seconds(efficiency, &limiting);
  cost.bottleneck = LinkKindLabel(limiting);
  if (nvlink && most_domains > 1 && most_inside > 1 && !direct) {
    const std::vector<int>& ranks = split.front().front();
    const std::optional<double> bus = RingBusBandwidth(profile, static_cast<int>(most_inside));
    if (bus && ranks.size() > 1) {
      const double ratio = NvLinkRatio(cluster, profile, options, ranks[0], ranks[1]);
      const double inside_s = on_bus / *bus * options.intra_factor * ratio;
      if (inside_s > flow_s) {
        flow_s = inside_s;
        cost.bottleneck = LinkKindLabel(LinkKind::kNvLink);
      }
    }
  }
  if (direct) {
    cost.algorithm = "direct";
  } else if (most_domains > 1) {
    cost.algorithm = most_inside > 1 ? "hierarchical ring" : "ring";
  } else {
    cost.algorithm = nvlink ? "ring" : "ring over PCIe";
  }
  // Rates of datasheets; the share of them and the step latencies are constants fitted elsewhere.
  cost.provenance = Weakest(cluster.provenance, Provenance::kDatasheet);
  Complete(&cost, on_bus, flow_s);
  if (options.want_pattern) cost.pattern = plan.LockStep(flow_s);
  return cost;
}

CollectiveCost PriceTransfer(double bytes, const std::vector<std::pair<int, int>>& pairs,
                             const Cluster& cluster, const Profile& profile,
                             const CollectiveOptions& options) {
  CheckArguments(bytes, options);
  (void)profile;
  const LinkEfficiency efficiency{kNvLinkEfficiency, kPcieEfficiency, options.network_efficiency};
  WirePlan plan(cluster);
  for (const auto& [src, dst] : pairs) {
    if (src != dst) plan.Add({src, dst, bytes});
  }
  if (plan.size() == 0) return {.provenance = Provenance::kMeasured};
  CollectiveCost cost;
  cost.algorithm = "direct";
  bool over_network = false;
  for (std::size_t wire = 0; wire < plan.size() && !over_network; ++wire)
    over_network = plan.CrossesNetwork(wire);
  cost.latency_s = StepLatency(plan, over_network);
  LinkKind limiting = LinkKind::kNetwork;
  const double flow_s = plan.Seconds(efficiency, &limiting);
  cost.bottleneck = LinkKindLabel(limiting);
  cost.provenance = Weakest(cluster.provenance, Provenance::kDatasheet);
  Complete(&cost, bytes, flow_s);
  if (options.want_pattern) cost.pattern = plan.Independent(efficiency);
  return cost;
}

}  // namespace aurum
