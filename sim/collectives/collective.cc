#include "sim/collectives/collective.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <optional>
#include <utility>

#include "sim/collectives/estimate.h"
#include "sim/core/diagnostic.h"

namespace aurum {

CollectiveCost PriceCollective(CollectiveKind kind, double bytes,
                               const std::vector<RankGroup>& groups, const Cluster& cluster,
                               const Profile& profile, const CollectiveOptions& options) {
  const Question question = Ask(kind, bytes, groups, cluster, profile, options);
  if (question.ranks <= 1) return {.provenance = Provenance::kMeasured};
  return CostOf(question, BestEstimate(question), std::nullopt, options.want_pattern);
}

std::vector<CollectiveCost> PriceGroups(CollectiveKind kind, double bytes,
                                        const std::vector<RankGroup>& groups,
                                        const Cluster& cluster, const Profile& profile,
                                        const CollectiveOptions& options) {
  const Question question = Ask(kind, bytes, groups, cluster, profile, options);
  if (question.ranks <= 1)
    return std::vector<CollectiveCost>(groups.size(), {.provenance = Provenance::kMeasured});
  const Estimate best = BestEstimate(question);
  std::vector<CollectiveCost> costs;
  costs.reserve(groups.size());
  for (std::size_t g = 0; g < groups.size(); ++g)
    costs.push_back(CostOf(question, best, g, options.want_pattern));
  return costs;
}

CollectiveAlgorithm ChooseAlgorithm(CollectiveKind kind, double bytes, const RankGroup& group,
                                    const Cluster& cluster, const Profile& profile,
                                    const CollectiveOptions& options) {
  const std::vector<RankGroup> groups{group};
  const Question question = Ask(kind, bytes, groups, cluster, profile, options);
  if (question.ranks <= 1) return CollectiveAlgorithm::kAuto;
  return BestEstimate(question).algorithm;
}

CollectiveCost PriceAllToAllV(const std::vector<double>& bytes, const RankGroup& group,
                              const Cluster& cluster, const Profile& profile,
                              const CollectiveOptions& options) {
  const std::size_t n = group.size();
  assert(bytes.size() == n * n);
  std::vector<double> sent(n, 0), received(n, 0);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      assert(std::isfinite(bytes[i * n + j]) && bytes[i * n + j] >= 0);
      if (i == j) continue;
      sent[i] += bytes[i * n + j];
      received[j] += bytes[i * n + j];
    }
  }
  if (n <= 1) return {.provenance = Provenance::kMeasured};
  const double busiest = std::max(*std::max_element(sent.begin(), sent.end()),
                                  *std::max_element(received.begin(), received.end()));
  const double rounded = static_cast<double>(n);
  const double equal = busiest * rounded / (rounded - 1);
  const std::vector<RankGroup> groups{group};
  const Question q = Ask(CollectiveKind::kAllToAll, equal, groups, cluster, profile, options);
  if (q.options.algorithm != CollectiveAlgorithm::kAuto &&
      q.options.algorithm != CollectiveAlgorithm::kDirect)
    ThrowInput(562,
               "algorithm \"" + CollectiveAlgorithmName(q.options.algorithm) +
                   "\" cannot do all_to_all with unequal shares",
               "auto or direct");
  Estimate estimate = [&] {
    if (std::optional<Estimate> measured = EstimateByEnvelope(q)) return std::move(*measured);
    Estimate model(cluster);
    model.algorithm = CollectiveAlgorithm::kDirect;
    model.efficiency = EfficiencyOf(model.algorithm, profile, options);
    model.provenance = Weakest(cluster.provenance, Provenance::kDatasheet);
    model.least_s = {0};
    return model;
  }();
  // The wires are the given ones; a measured time stands for as many bytes at the busiest rank.
  const bool measured = estimate.algorithm == CollectiveAlgorithm::kAuto;
  estimate.plan = WirePlan(cluster);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      if (i != j && bytes[i * n + j] > 0) estimate.plan.Add({group[i], group[j], bytes[i * n + j]});
    }
  }
  if (measured) {
    LinkKind ignored = LinkKind::kNvLink;
    const double wires_s = estimate.plan.Seconds({}, &ignored);
    if (wires_s > estimate.least_s[0]) estimate.plan.Scale(estimate.least_s[0] / wires_s);
  }
  return CostOf(q, estimate, std::nullopt, options.want_pattern);
}

namespace {

// Between two devices of the node that was calibrated: its send and receive. Null: nobody measured it.
const CollectiveEnvelope* MeasuredTransfer(const Profile& profile, bool over_network) {
  return over_network ? nullptr : profile.Envelope(CollectiveKind::kSendRecv, 2);
}

// Sets what the curve says but for the flow's seconds, which it returns.
double TakeMeasured(const CollectiveEnvelope& measured, double bytes, CollectiveCost* cost) {
  cost->algorithm = "envelope";
  cost->latency_s = EnvelopeSeconds(measured, 0);
  cost->provenance = measured.quality.provenance;
  return EnvelopeSeconds(measured, bytes) - cost->latency_s;
}

}  // namespace

CollectiveCost PriceTransfer(double bytes, const std::vector<std::pair<int, int>>& pairs,
                             const Cluster& cluster, const Profile& profile,
                             const CollectiveOptions& options) {
  CheckArguments(bytes, options);
  const LinkEfficiency efficiency = EfficiencyOf(CollectiveAlgorithm::kDirect, profile, options);
  WirePlan plan(cluster);
  for (const auto& [src, dst] : pairs) {
    if (src != dst) plan.Add({src, dst, bytes});
  }
  if (plan.size() == 0) return {.provenance = Provenance::kMeasured};
  CollectiveCost cost;
  cost.algorithm = CollectiveAlgorithmName(CollectiveAlgorithm::kDirect);
  const bool over_network = plan.AnyCrossesNetwork(0);
  cost.latency_s = StepLatency(plan.HighestLatency(over_network), over_network);
  LinkKind limiting = LinkKind::kNetwork;
  double flow_s = plan.Seconds(efficiency, &limiting);
  cost.bottleneck = LinkKindLabel(limiting);
  cost.provenance = Weakest(cluster.provenance, Provenance::kDatasheet);
  if (const CollectiveEnvelope* measured = MeasuredTransfer(profile, over_network)) {
    // One pair was measured; all together take as much longer as their links say.
    WirePlan alone(cluster);
    for (std::size_t p = 0; alone.size() == 0; ++p) {
      if (pairs[p].first != pairs[p].second) alone.Add({pairs[p].first, pairs[p].second, bytes});
    }
    const double alone_s = alone.Seconds(efficiency, &limiting);
    const double crowd = alone_s > 0 ? std::max(flow_s / alone_s, 1.0) : 1;
    flow_s = TakeMeasured(*measured, bytes, &cost) * crowd;
  }
  Complete(&cost, bytes, flow_s);
  if (options.want_pattern) cost.pattern = plan.Independent(efficiency);
  return cost;
}

std::vector<CollectiveCost> PriceTransfers(double bytes,
                                           const std::vector<std::pair<int, int>>& pairs,
                                           const Cluster& cluster, const Profile& profile,
                                           const CollectiveOptions& options) {
  CheckArguments(bytes, options);
  const LinkEfficiency efficiency = EfficiencyOf(CollectiveAlgorithm::kDirect, profile, options);
  WirePlan plan(cluster);
  for (std::size_t p = 0; p < pairs.size(); ++p) {
    if (p > 0) plan.StartGroup();
    if (pairs[p].first != pairs[p].second) plan.Add({pairs[p].first, pairs[p].second, bytes});
  }
  std::vector<CollectiveCost> costs(pairs.size(), {.provenance = Provenance::kMeasured});
  for (std::size_t p = 0; p < pairs.size(); ++p) {
    if (pairs[p].first == pairs[p].second) continue;
    CollectiveCost& cost = costs[p];
    const bool over_network = plan.AnyCrossesNetwork(p);
    cost.algorithm = CollectiveAlgorithmName(CollectiveAlgorithm::kDirect);
    cost.latency_s = StepLatency(plan.HighestLatency(over_network, p), over_network);
    LinkKind limiting = LinkKind::kNetwork;
    double flow_s = plan.GroupSeconds(p, efficiency, &limiting);
    cost.bottleneck = LinkKindLabel(limiting);
    cost.provenance = Weakest(cluster.provenance, Provenance::kDatasheet);
    if (const CollectiveEnvelope* measured = MeasuredTransfer(profile, over_network))
      flow_s = TakeMeasured(*measured, bytes, &cost);
    Complete(&cost, bytes, flow_s);
    if (options.want_pattern) cost.pattern = plan.GroupLockStep(p, flow_s);
  }
  return costs;
}

}  // namespace aurum
