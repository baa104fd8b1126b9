#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sim/collectives/collective.h"

namespace aurum {

// Between a collective that is asked for and its cost: for collective.cc alone.

// What is asked, and how the groups lie.
struct Question {
  CollectiveKind kind;
  double bytes;
  const std::vector<RankGroup>& groups;
  const Cluster& cluster;
  const Profile& profile;
  const CollectiveOptions& options;
  std::vector<GroupShape> shapes;
  int ranks = 0;

  double BytesOnBus() const { return bytes * BusFactor(kind, ranks); }
  // The groups' curve was measured on their own machine.
  bool OverOwnLinks() const {
    const CollectiveEnvelope* envelope = profile.Envelope(kind, ranks);
    return envelope != nullptr && envelope->own_links;
  }
  // Where a measured node can stand for the groups': inside one NVLink domain, or one node of PCIe
  // with peer-to-peer if the profile's device is a PCIe card, or their own machine.
  bool InsideDomains() const {
    const bool own = OverOwnLinks();
    return std::all_of(shapes.begin(), shapes.end(), [&](const GroupShape& shape) {
      return !shape.SeveralDomains() &&
             (own || shape.nvlink || MeasuredPcieBandwidth(profile.device.compute_capability) > 0);
    });
  }
};

Question Ask(CollectiveKind kind, double bytes, const std::vector<RankGroup>& groups,
             const Cluster& cluster, const Profile& profile, const CollectiveOptions& options);

// The wires of all groups under one algorithm, and what follows from them.
struct Estimate {
  explicit Estimate(const Cluster& cluster) : plan(cluster) {}
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kAuto;  // kAuto: measured
  WirePlan plan;
  LinkEfficiency efficiency{};
  std::vector<double> least_s{};  // of the flows, by group
  double envelope_latency_s = 0;  // measured
  Provenance provenance = Provenance::kAssumed;
};

// nullopt where nothing was measured, the groups are not inside domains, or an algorithm is named.
std::optional<Estimate> EstimateByEnvelope(const Question& question);
Estimate EstimateByModel(const Question& question, CollectiveAlgorithm algorithm);
// Of the candidates, the one of least predicted time; ties by their order. E0562.
Estimate BestEstimate(const Question& question);

// Of one group, or of all at once where `group` has no value.
CollectiveCost CostOf(const Question& question, const Estimate& estimate,
                      std::optional<std::size_t> group, bool want_pattern);

void CheckArguments(double bytes, const CollectiveOptions& options);  // asserts
std::string LinkKindLabel(LinkKind kind);
double StepLatency(double route_s, bool over_network);  // with the software's
void Complete(CollectiveCost* cost, double bytes_on_bus, double flow_s);

}  // namespace aurum
