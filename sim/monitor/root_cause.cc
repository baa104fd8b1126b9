#include "sim/monitor/root_cause.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <set>

#include "sim/core/diagnostic.h"

namespace aurum {
namespace {

constexpr std::string_view kNames[] = {"none",       "slow_gpu",     "sick_link", "retransmissions",
                                       "data_stall", "misalignment", "more_work"};

void Require(bool holds, const std::string& what) {
  if (!holds)
    ThrowInput(784, what,
               "\"ranks\": [{\"rank\": 0, \"compute_s\": …}, …] in every record, one entry a rank");
}

// Of an even number of values the larger middle one.
double UpperMedian(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// The value that a tenth of all exceed.
double High(std::vector<double> values) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) * 9 / 10);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

template <typename Function>
void ForEachPart(RankTimes* to, const RankTimes& from, Function function) {
  function(&to->compute_s, from.compute_s);
  function(&to->optimizer_s, from.optimizer_s);
  function(&to->tp_s, from.tp_s);
  function(&to->cp_s, from.cp_s);
  function(&to->ep_s, from.ep_s);
  function(&to->dp_s, from.dp_s);
  function(&to->pp_s, from.pp_s);
  function(&to->host_s, from.host_s);
  function(&to->bubble_s, from.bubble_s);
  function(&to->straggler_wait_s, from.straggler_wait_s);
  function(&to->alignment_wait_s, from.alignment_wait_s);
  function(&to->data_wait_s, from.data_wait_s);
}

}  // namespace

std::string_view RootCauseName(RootCause cause) { return kNames[static_cast<int>(cause)]; }

std::string_view RootCauseRemedy(RootCause cause) {
  switch (cause) {
    case RootCause::kNone:
      break;
    case RootCause::kSlowGpu:
      return "take the GPU's node out of the job; then check its clocks, temperature and power cap";
    case RootCause::kSickLink:
      return "check rate, width and error counters of these nodes' NICs, cables and switch ports, "
             "and take the sick NIC or its node out";
    case RootCause::kRetransmissions:
      return "check cables, optics and congestion settings (PFC, ECN) of these nodes' NICs and "
             "switch ports, and take the NIC that resends or its node out";
    case RootCause::kDataStall:
      return "more loader workers, more batches prefetched, faster or nearer storage; "
             "workload.loader of a scenario tells which (aurum simulate)";
    case RootCause::kMisalignment:
      return "place encoders where their tokens are needed and balance media over ranks; the "
             "placement and balance of a plan are compared by aurum sweep";
    case RootCause::kMoreWork:
      return "batches hold more: compare lengths and media of the samples with those of the "
             "baseline's steps";
  }
  return "";
}

StepRecord MeanOf(const std::vector<StepRecord>& records) {
  assert(!records.empty());
  StepRecord mean = records.back();
  const auto count = static_cast<double>(records.size());
  double seconds = 0, mar = 0, with_mar = 0;
  for (RankTimes& rank : mean.ranks) {
    const RankTimes zero{};
    ForEachPart(&rank, zero, [](double* to, double from) { *to = from; });
  }
  for (NodeCounters& node : mean.nodes) node.retransmitted_share = 0;
  for (const StepRecord& record : records) {
    Require(record.step_time_s.has_value(), "a step without its time cannot be compared");
    Require(record.ranks.size() == mean.ranks.size(), "steps do not have the same ranks");
    seconds += *record.step_time_s;
    if (record.mar) {
      mar += *record.mar;
      with_mar += 1;
    }
    for (std::size_t r = 0; r < mean.ranks.size(); ++r) {
      Require(record.ranks[r].rank == mean.ranks[r].rank, "ranks stand in another order");
      ForEachPart(&mean.ranks[r], record.ranks[r],
                  [count](double* to, double from) { *to += from / count; });
    }
    for (std::size_t n = 0; n < std::min(mean.nodes.size(), record.nodes.size()); ++n)
      mean.nodes[n].retransmitted_share += record.nodes[n].retransmitted_share / count;
  }
  mean.step_time_s = seconds / count;
  if (with_mar > 0) mean.mar = mar / with_mar;
  return mean;
}

Diagnosis Diagnose(const StepRecord& healthy, const StepRecord& now, const CauseRules& rules) {
  Require(!healthy.ranks.empty() && !now.ranks.empty(), "the log does not tell the ranks' times");
  Require(healthy.ranks.size() == now.ranks.size(), "steps do not have the same ranks");
  Require(healthy.step_time_s && now.step_time_s, "a step without its time cannot be compared");
  const double before = *healthy.step_time_s;
  const double excess = *now.step_time_s - before;
  Diagnosis out;
  out.excess_share = excess / before;
  if (out.excess_share < rules.least_excess) return out;

  const std::size_t n = now.ranks.size();
  std::vector<double> kernels_ratio(n, 1), data(n), alignment(n), network(n);
  for (std::size_t r = 0; r < n; ++r) {
    const RankTimes& a = healthy.ranks[r];
    const RankTimes& b = now.ranks[r];
    Require(a.rank == b.rank, "ranks stand in another order");
    const double kernels = a.compute_s + a.optimizer_s;
    if (kernels > 0) kernels_ratio[r] = (b.compute_s + b.optimizer_s) / kernels;
    data[r] = b.data_wait_s - a.data_wait_s;
    alignment[r] = b.alignment_wait_s - a.alignment_wait_s;
    network[r] = b.CommunicationSeconds() - a.CommunicationSeconds();
  }
  const double typical = UpperMedian(kernels_ratio);
  const auto slowest = static_cast<std::size_t>(
      std::max_element(kernels_ratio.begin(), kernels_ratio.end()) - kernels_ratio.begin());
  const double skew = kernels_ratio[slowest] - typical;
  double resent = 0;
  for (const NodeCounters& node : now.nodes) resent = std::max(resent, node.retransmitted_share);

  const auto kernels_of = [&](std::size_t r) {
    return healthy.ranks[r].compute_s + healthy.ranks[r].optimizer_s;
  };
  std::vector<double> kernels(n);
  for (std::size_t r = 0; r < n; ++r) kernels[r] = kernels_of(r);
  struct Evidence {
    RootCause cause;
    double seconds;
  };
  const RootCause link =
      resent >= rules.least_resent ? RootCause::kRetransmissions : RootCause::kSickLink;
  const std::array<Evidence, 5> evidence = {{
      {RootCause::kSlowGpu, skew * kernels_of(slowest)},
      {RootCause::kDataStall, Mean(data)},
      {RootCause::kMisalignment, High(alignment)},
      {link, High(network)},
      {RootCause::kMoreWork, (typical - 1) * UpperMedian(kernels)},
  }};
  const Evidence* found = nullptr;
  for (const Evidence& e : evidence) {
    if (e.seconds >= rules.explains * excess) {
      found = &e;
      break;
    }
  }
  if (found == nullptr) {
    found = &*std::max_element(
        evidence.begin(), evidence.end(),
        [](const Evidence& a, const Evidence& b) { return a.seconds < b.seconds; });
  }
  out.cause = found->cause;
  out.explained_share = found->seconds / excess;

  std::set<int> nodes;
  if (out.cause == RootCause::kSlowGpu) {
    for (std::size_t r = 0; r < n; ++r) {
      if (kernels_ratio[r] - typical < skew / 2) continue;
      out.ranks.push_back(now.ranks[r].rank);
      nodes.insert(now.ranks[r].node);
    }
  } else if (out.cause == RootCause::kRetransmissions) {
    for (const NodeCounters& node : now.nodes) {
      if (node.retransmitted_share >= std::max(rules.least_resent, resent / 2))
        nodes.insert(node.node);
    }
  } else if (out.cause == RootCause::kSickLink) {
    // The nodes of the groups that wait most: one of their NICs or links.
    const double most = *std::max_element(network.begin(), network.end());
    for (std::size_t r = 0; r < n; ++r) {
      if (network[r] >= most / 2) nodes.insert(now.ranks[r].node);
    }
  }
  out.nodes.assign(nodes.begin(), nodes.end());
  return out;
}

}  // namespace aurum
