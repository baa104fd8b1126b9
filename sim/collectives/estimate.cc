#include "sim/collectives/estimate.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "sim/collectives/envelope.h"
#include "sim/collectives/protocol.h"

namespace aurum {

// Inside one NVLink domain: t = envelope(S) · intra_factor, the bandwidth part scaled by the
// measured node's NVLink rate over the cluster's (envelope.cc for sizes not measured). Otherwise
//
//   t = latency + max( Σ over phases of max over links of bytes on it / (rate · efficiency),
//                      the same bytes at the bandwidth measured inside a domain )
//
// with the bytes of all groups summed on each link; flows.cc says which bytes and what latency. For
// a ring over r ranks with a NIC each that is F·S / min(bus, r · NIC · efficiency). All flows go in
// lock step, so the slowest link sets the rate of all, and each flow is capped at that rate.
//
// Protocols (LL, LL128, Simple) trade latency for bandwidth. Where a profile was measured, its
// envelope of lines is the best of them at each size. Between domains the constants are: latency as
// fitted on training runs, which is near LL's, and bandwidth as Simple's; so sizes around 1 MiB,
// where a library changes from one to the other, come out too fast (tests/collectives/
// measured_test.cc has by how much). CollectiveOptions::protocols prices the three apart (protocol.cc);
// expect.cc uses that.
//
// Constants, and where they are from:
//   - NVLink gives NCCL 20 of 25 GB/s per link (A100), 20.6 (H100), 40.1 of 50 (B200): NCCL,
//   src/graph/topo.h: 0.8;
//   - of that, NVLS reaches 0.85 on Hopper and 0.74 on Blackwell: src/graph/tuning.cc;
//   - PCIe gives 12 of 15.75 GB/s on generation 3 x16 (topo.h): 0.76.

namespace {

constexpr double kNvLinkEfficiency = 0.8;
constexpr double kNvlsHopper = 0.85;
constexpr double kNvlsBlackwell = 0.74;
constexpr double kPcieEfficiency = 0.76;
// Past this many flows of one all-to-all, the partners in other domains are sampled.
constexpr std::size_t kMostDirectFlows = std::size_t{1} << 16;

// The narrowest NVLink on the way, B/s; 0 where there is none.
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
  if (cluster.NvLinkDomainOf(src) < 0) {
    // PCIe: by the narrowest link of the way, which the measured node's x16 were.
    const double measured_pcie = MeasuredPcieBandwidth(profile.device.compute_capability);
    double narrowest = 0;
    for (const int id : cluster.Route(src, dst)) {
      const Link& link = cluster.links()[id];
      if (link.kind != LinkKind::kPcie) continue;
      narrowest = narrowest == 0 ? link.bandwidth_bytes_per_s
                                 : std::min(narrowest, link.bandwidth_bytes_per_s);
    }
    return measured_pcie > 0 && narrowest > 0 ? measured_pcie / narrowest : 1;
  }
  const double measured = options.measured_nvlink_bytes_per_s > 0
                              ? options.measured_nvlink_bytes_per_s
                              : MeasuredNvLinkBandwidth(profile.device.compute_capability);
  const double here = NvLinkBandwidth(cluster, src, dst);
  return measured > 0 && here > 0 ? measured / here : 1;
}

// What an envelope goes by beyond its measurements.
EnvelopeLaw LawOf(const Question& q, double step_s) {
  EnvelopeLaw law;
  law.step_s = step_s;
  if (q.shapes.front().nvlink) {
    law.link_bytes_per_s = q.options.measured_nvlink_bytes_per_s > 0
                               ? q.options.measured_nvlink_bytes_per_s
                               : MeasuredNvLinkBandwidth(q.profile.device.compute_capability);
    law.switches_reduce = q.profile.device.compute_capability >= 9 &&
                          SwitchPorts(q.shapes.front().domains.front(), q.cluster).has_value();
  }
  law.nvls = q.options.nvls;
  law.measured_to_bytes = q.options.measured_to_bytes;
  return law;
}

// What the flows take at least, by the bandwidth measured inside a domain; 0 where nothing was.
double MeasuredInsideSeconds(CollectiveAlgorithm algorithm, CollectiveKind kind, double bytes,
                             const GroupShape& shape, const Cluster& cluster,
                             const Profile& profile, const CollectiveOptions& options) {
  if (!shape.nvlink || !shape.SeveralDomains() || shape.domains.front().size() < 2) return 0;
  const int inside = static_cast<int>(shape.most);
  double on_bus = 0;
  std::optional<double> bus;
  switch (algorithm) {
    case CollectiveAlgorithm::kRing:
    case CollectiveAlgorithm::kPipelined:
      on_bus = bytes * BusFactor(kind, shape.ranks);
      bus = RingBusBandwidth(profile, inside);
      break;
    case CollectiveAlgorithm::kTree:
      on_bus = kind == CollectiveKind::kAllReduce ? 2 * bytes : bytes;
      bus = RingBusBandwidth(profile, inside);
      break;
    case CollectiveAlgorithm::kNvls:
      on_bus = bytes * BusFactor(CollectiveKind::kAllReduce, inside);
      bus = BusBandwidth(profile, CollectiveKind::kAllReduce, inside);
      break;
    default:
      return 0;
  }
  if (!bus) return 0;
  const std::vector<int>& ranks = shape.domains.front();
  return on_bus / *bus * options.intra_factor *
         NvLinkRatio(cluster, profile, options, ranks[0], ranks[1]);
}

// What a library would choose among.
std::vector<CollectiveAlgorithm> Candidates(const Question& q) {
  const auto applies = [&](CollectiveAlgorithm algorithm) {
    return std::all_of(q.shapes.begin(), q.shapes.end(), [&](const GroupShape& shape) {
      return WhyNot(algorithm, q.kind, shape, q.cluster, q.profile.device.compute_capability,
                    q.options.sharp)
          .empty();
    });
  };
  if (q.options.algorithm != CollectiveAlgorithm::kAuto) {
    for (const GroupShape& shape : q.shapes)
      CheckApplies(q.options.algorithm, q.kind, shape, q.cluster,
                   q.profile.device.compute_capability, q.options.sharp);
    return {q.options.algorithm};
  }
  if (q.kind == CollectiveKind::kAllToAll || q.kind == CollectiveKind::kSendRecv)
    return {CollectiveAlgorithm::kDirect};
  std::vector<CollectiveAlgorithm> candidates{CollectiveAlgorithm::kRing};
  // Inside a domain NCCL's tree is a chain: never better.
  const bool between = std::all_of(q.shapes.begin(), q.shapes.end(),
                                   [](const GroupShape& shape) { return shape.SeveralDomains(); });
  if (q.kind != CollectiveKind::kAllReduce || !between) return candidates;
  candidates.push_back(CollectiveAlgorithm::kTree);
  // NCCL has NVLS between domains where a domain is one node: not on NVLinks that join nodes
  // (src/graph/tuning.cc: "MNNVL: NVLS not yet supported").
  const bool one_node = std::all_of(q.shapes.begin(), q.shapes.end(), [&](const GroupShape& shape) {
    return std::all_of(shape.domains.begin(), shape.domains.end(), [&](const auto& domain) {
      return std::all_of(domain.begin(), domain.end(), [&](int gpu) {
        return q.cluster.NodeOf(gpu) == q.cluster.NodeOf(domain.front());
      });
    });
  });
  if (one_node && q.options.nvls && applies(CollectiveAlgorithm::kNvls))
    candidates.push_back(CollectiveAlgorithm::kNvls);
  if (q.options.sharp && applies(CollectiveAlgorithm::kSharp))
    candidates.push_back(CollectiveAlgorithm::kSharp);
  return candidates;
}

}  // namespace

std::string LinkKindLabel(LinkKind kind) { return std::string(LinkKindName(kind)); }

double StepLatency(double route_s, bool over_network) {
  return route_s + (over_network ? kNetworkStepSoftware_s : kIntraStepSoftware_s);
}

void CheckArguments(double bytes, const CollectiveOptions& options) {
  assert(std::isfinite(bytes) && bytes >= 0);
  assert(options.network_efficiency > 0 && options.intra_factor > 0 && options.channels >= 0);
  (void)bytes;
  (void)options;
}

void Complete(CollectiveCost* cost, double bytes_on_bus, double flow_s) {
  cost->seconds = cost->latency_s + flow_s;
  cost->bus_bandwidth_bytes_per_s = cost->seconds > 0 ? bytes_on_bus / cost->seconds : 0;
}

Question Ask(CollectiveKind kind, double bytes, const std::vector<RankGroup>& groups,
             const Cluster& cluster, const Profile& profile, const CollectiveOptions& options) {
  CheckArguments(bytes, options);
  Question question{kind, bytes, groups, cluster, profile, options, {}, 0};
  question.ranks = groups.empty() ? 0 : static_cast<int>(groups.front().size());
  if (question.ranks <= 1) return question;
  question.shapes.reserve(groups.size());
  for (const RankGroup& group : groups) {
    assert(group.size() == groups.front().size());
    question.shapes.push_back(ShapeOf(group, cluster, options.channels));
  }
  return question;
}

std::optional<Estimate> EstimateByEnvelope(const Question& q) {
  if (q.options.algorithm != CollectiveAlgorithm::kAuto || !q.InsideDomains()) return std::nullopt;
  Estimate estimate(q.cluster);
  WirePlan& plan = estimate.plan;
  const CollectiveAlgorithm pattern =
      q.kind == CollectiveKind::kAllToAll || q.kind == CollectiveKind::kSendRecv
          ? CollectiveAlgorithm::kDirect
          : CollectiveAlgorithm::kRing;
  const auto add = [&](const GroupShape& shape) {
    if (q.kind == CollectiveKind::kSendRecv) {
      AddFlows(CollectiveAlgorithm::kRing, q.kind, q.bytes, shape, q.cluster, 0, &plan);
    } else {
      AddFlows(pattern, q.kind, q.bytes, shape, q.cluster, kMostDirectFlows / q.groups.size(),
               &plan);
    }
  };
  add(q.shapes.front());
  const std::optional<EnvelopeCost> envelope =
      PriceByEnvelope(q.profile, q.kind, q.ranks, q.bytes,
                      LawOf(q, StepLatency(plan.HighestLatency(false), false)));
  if (!envelope) return std::nullopt;
  estimate.provenance = envelope->provenance;
  estimate.envelope_latency_s = envelope->latency_s * q.options.intra_factor;
  const RankGroup& first = q.groups.front();
  const double scale =
      q.OverOwnLinks() ? 1 : NvLinkRatio(q.cluster, q.profile, q.options, first[0], first[1]);
  const double flow_s = envelope->flow_s * q.options.intra_factor * scale;
  // In-switch reduction moves fewer bytes than a ring, which is what the wires assume: fit them to
  // the link.
  LinkKind ignored = LinkKind::kNvLink;
  const double one_group_s = plan.Seconds({}, &ignored);
  for (std::size_t g = 1; g < q.shapes.size(); ++g) {
    plan.StartGroup();
    add(q.shapes[g]);
  }
  if (one_group_s > flow_s) plan.Scale(flow_s / one_group_s);
  estimate.least_s.assign(q.shapes.size(), flow_s);
  return estimate;
}

Estimate EstimateByModel(const Question& q, CollectiveAlgorithm algorithm) {
  Estimate estimate(q.cluster);
  estimate.algorithm = algorithm;
  estimate.efficiency = EfficiencyOf(algorithm, q.profile, q.options);
  // Rates of datasheets; the share of them and the step latencies are constants fitted elsewhere.
  estimate.provenance = Weakest(q.cluster.provenance, Provenance::kDatasheet);
  for (std::size_t g = 0; g < q.shapes.size(); ++g) {
    if (g > 0) estimate.plan.StartGroup();
    if (q.kind == CollectiveKind::kSendRecv) {
      // From each to the next in the order that was given, not by domain.
      const RankGroup& group = q.groups[g];
      for (std::size_t i = 0; i < group.size(); ++i)
        estimate.plan.Add({group[i], group[(i + 1) % group.size()], q.bytes});
    } else {
      AddFlows(algorithm, q.kind, q.bytes, q.shapes[g], q.cluster,
               kMostDirectFlows / q.groups.size(), &estimate.plan);
    }
    const bool like_before = g > 0 && q.shapes[g].most == q.shapes[g - 1].most &&
                             q.shapes[g].SeveralDomains() == q.shapes[g - 1].SeveralDomains();
    estimate.least_s.push_back(like_before
                                   ? estimate.least_s.back()
                                   : MeasuredInsideSeconds(algorithm, q.kind, q.bytes, q.shapes[g],
                                                           q.cluster, q.profile, q.options));
  }
  return estimate;
}

CollectiveCost CostOf(const Question& q, const Estimate& estimate, std::optional<std::size_t> group,
                      bool want_pattern) {
  CollectiveCost cost;
  const WirePlan& plan = estimate.plan;
  const bool measured = estimate.algorithm == CollectiveAlgorithm::kAuto;
  cost.algorithm = measured ? "envelope" : CollectiveAlgorithmName(estimate.algorithm);
  cost.provenance = estimate.provenance;
  LinkKind limiting = measured ? LinkKind::kNvLink : LinkKind::kNetwork;
  double flow_s = group ? plan.GroupSeconds(*group, estimate.efficiency, &limiting)
                        : plan.Seconds(estimate.efficiency, &limiting);
  const double least_s = group
                             ? estimate.least_s[*group]
                             : *std::max_element(estimate.least_s.begin(), estimate.least_s.end());
  if (measured) {
    // Groups that share a rank, or a domain that blocks, slow each other.
    const bool slowed = flow_s > least_s * (1 + 1e-9);
    cost.bottleneck = slowed ? LinkKindLabel(limiting) : "measured";
    if (!slowed) flow_s = least_s;
    cost.latency_s = estimate.envelope_latency_s;
  } else {
    cost.bottleneck = LinkKindLabel(least_s > flow_s ? LinkKind::kNvLink : limiting);
    flow_s = std::max(flow_s, least_s);
    const bool protocols = q.options.protocols && HasProtocols(estimate.algorithm);
    const double wires_s = flow_s;
    const auto latency = [&](std::size_t g, double intra_s, double network_s, bool over_network) {
      if (protocols) {
        const ProtocolTime time = BestProtocol(estimate.algorithm, q.kind, q.bytes, q.shapes[g],
                                               q.cluster, q.profile.device.compute_capability,
                                               intra_s, network_s, over_network, wires_s);
        flow_s = std::max(flow_s, time.flow_s);
        cost.protocol = ProtocolName(time.protocol);
        return time.latency_s;
      }
      StepLatencies step;
      step.intra_s = StepLatency(intra_s, false);
      step.between_s = over_network ? StepLatency(network_s, true) : step.intra_s;
      return LatencySeconds(estimate.algorithm, q.kind, q.bytes, q.shapes[g], q.cluster, step,
                            flow_s);
    };
    if (group) {
      cost.latency_s = latency(*group, plan.HighestLatency(false, *group),
                               plan.HighestLatency(true, *group), plan.AnyCrossesNetwork(*group));
    } else {
      const double intra_s = plan.HighestLatency(false), network_s = plan.HighestLatency(true);
      bool over_network = false;
      for (std::size_t g = 0; g < q.shapes.size(); ++g)
        over_network = over_network || plan.AnyCrossesNetwork(g);
      for (std::size_t g = 0; g < q.shapes.size(); ++g) {
        const bool like_before = g > 0 && q.shapes[g].most == q.shapes[g - 1].most &&
                                 q.shapes[g].channels == q.shapes[g - 1].channels &&
                                 q.shapes[g].domains.size() == q.shapes[g - 1].domains.size();
        if (!like_before)
          cost.latency_s = std::max(cost.latency_s, latency(g, intra_s, network_s, over_network));
      }
    }
  }
  Complete(&cost, q.BytesOnBus(), flow_s);
  if (want_pattern)
    cost.pattern = group ? plan.GroupLockStep(*group, flow_s) : plan.LockStep(flow_s);
  return cost;
}

Estimate BestEstimate(const Question& q) {
  if (std::optional<Estimate> measured = EstimateByEnvelope(q)) return std::move(*measured);
  const std::vector<CollectiveAlgorithm> candidates = Candidates(q);
  Estimate best = EstimateByModel(q, candidates.front());
  if (candidates.size() == 1) return best;
  const auto seconds = [&](const Estimate& estimate) {
    return CostOf(q, estimate, std::nullopt, false).seconds;
  };
  double least = seconds(best);
  for (std::size_t c = 1; c < candidates.size(); ++c) {
    Estimate other = EstimateByModel(q, candidates[c]);
    const double other_s = seconds(other);
    if (other_s >= least) continue;
    least = other_s;
    best = std::move(other);
  }
  return best;
}

double MeasuredNvLinkBandwidth(double compute_capability) {
  if (compute_capability == 8.0) return 300e9;
  if (compute_capability == 9.0) return 450e9;
  if (compute_capability >= 10.0 && compute_capability < 11.0) return 900e9;
  return 0;
}

double MeasuredPcieBandwidth(double compute_capability) {
  if (compute_capability == 8.9) return 31.5e9;
  return compute_capability >= 12 ? 63e9 : 0;
}

LinkEfficiency EfficiencyOf(CollectiveAlgorithm algorithm, const Profile& profile,
                            const CollectiveOptions& options) {
  LinkEfficiency efficiency{kNvLinkEfficiency, kPcieEfficiency, options.network_efficiency};
  if (algorithm == CollectiveAlgorithm::kNvls)
    efficiency.nvlink *= profile.device.compute_capability >= 10 ? kNvlsBlackwell : kNvlsHopper;
  return efficiency;
}

}  // namespace aurum
