#include "sim/collectives/wires.h"

#include <algorithm>
#include <cassert>
#include <limits>

#include "sim/core/diagnostic.h"

namespace aurum {
namespace {

constexpr std::uint32_t kNoLoad = 0xffffffffU;
// Of the cluster's links, the share whose use makes a table of all of them pay.
constexpr std::size_t kTableAt = 16;

std::size_t Spread(std::uint64_t key) {
  key *= 0x9e3779b97f4a7c15ULL;
  return static_cast<std::size_t>(key ^ (key >> 29));
}

}  // namespace

std::uint32_t KeyNumbers::Of(std::uint64_t key, bool* fresh) {
  if (2 * (count_ + std::size_t{1}) > slots_.size()) Grow();
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = Spread(key) & mask;
  while (slots_[i].number != kFree && slots_[i].key != key) i = (i + 1) & mask;
  *fresh = slots_[i].number == kFree;
  if (*fresh) slots_[i] = {key, count_++};
  return slots_[i].number;
}

void KeyNumbers::Grow() {
  std::vector<Slot> old(std::max<std::size_t>(64, 4 * slots_.size()));
  old.swap(slots_);
  const std::size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.number == kFree) continue;
    std::size_t i = Spread(slot.key) & mask;
    while (slots_[i].number != kFree) i = (i + 1) & mask;
    slots_[i] = slot;
  }
}

double LinkEfficiency::Of(LinkKind kind) const {
  switch (kind) {
    case LinkKind::kNvLink:
    case LinkKind::kXgmi:
      return nvlink;
    case LinkKind::kPcie:
      return pcie;
    case LinkKind::kNetwork:
      return network;
    default:
      return 1;
  }
}

WirePlan::WirePlan(const Cluster& cluster) : cluster_(&cluster), crosses_{false} {}

void WirePlan::StartGroup() {
  first_of_group_.push_back(size());
  crosses_.push_back(false);
}

void WirePlan::Add(const Wire& wire, int phase) {
  assert(wire.src >= 0 && wire.src < cluster_->GpuCount() && wire.dst >= 0 &&
         wire.dst < cluster_->GpuCount());
  if (cluster_->Spreads()) {
    const std::vector<RouteShare> routes = cluster_->Routes(wire.src, wire.dst);
    if (!routes.empty()) {
      for (const RouteShare& route :
           routes)  // A part of a message has a part of its claim on a link.
        AddPath(route.links, wire.bytes * route.share, phase, route.share);
      return;
    }
  }
  const std::vector<int> route = cluster_->Route(wire.src, wire.dst);
  if (route.empty() && wire.src != wire.dst) {
    ThrowInput(560,
               "no route from GPU " + std::to_string(wire.src) + " to GPU " +
                   std::to_string(wire.dst) + " in " + cluster_->name,
               "give the cluster a network, or keep the group inside one node");
  }
  AddPath(route, wire.bytes, phase);
}

std::uint32_t WirePlan::LoadOf(int link, int phase) {
  if (!load_of_link_.empty() && phase == 0) {
    std::uint32_t& at = load_of_link_[static_cast<std::size_t>(link)];
    if (at == kNoLoad) {
      at = static_cast<std::uint32_t>(loads_.size());
      loads_.push_back({link, phase, 0, 0});
    }
    return at;
  }
  bool fresh = false;
  const std::uint32_t number = numbers_.Of(
      (static_cast<std::uint64_t>(phase) << 32) | static_cast<std::uint32_t>(link), &fresh);
  if (fresh) {
    load_of_number_.push_back(static_cast<std::uint32_t>(loads_.size()));
    loads_.push_back({link, phase, 0, 0});
    if (load_of_link_.empty() && loads_.size() > cluster_->links().size() / kTableAt) {
      load_of_link_.assign(cluster_->links().size(), kNoLoad);
      for (std::size_t at = 0; at < loads_.size(); ++at) {
        if (loads_[at].phase == 0)
          load_of_link_[static_cast<std::size_t>(loads_[at].link)] = static_cast<std::uint32_t>(at);
      }
    }
  }
  return load_of_number_[number];
}

void WirePlan::AddPath(std::span<const int> links, double bytes, int phase, double weight) {
  double latency_s = 0;
  bool network = false;
  for (const int id : links) {
    const Link& link = cluster_->links()[id];
    latency_s += link.latency_s;
    network = network || link.kind == LinkKind::kNetwork;
    const std::uint32_t at = LoadOf(id, phase);
    loads_[at].bytes += bytes;
    ++loads_[at].users;
    hops_.push_back(at);
  }
  phases_ = std::max(phases_, phase + 1);
  first_hop_.push_back(hops_.size());
  bytes_.push_back(bytes);
  weight_.push_back(weight);
  latency_.push_back(latency_s);
  network_.push_back(network);
  if (network) crosses_.back() = true;
}

std::pair<std::size_t, std::size_t> WirePlan::WiresOf(std::size_t group) const {
  return {first_of_group_[group],
          group + 1 < first_of_group_.size() ? first_of_group_[group + 1] : size()};
}

double WirePlan::HighestLatency(bool over_network) const {
  double highest = 0;
  for (std::size_t group = 0; group < group_count(); ++group)
    highest = std::max(highest, HighestLatency(over_network, group));
  return highest;
}

double WirePlan::HighestLatency(bool over_network, std::size_t group) const {
  const auto [first, end] = WiresOf(group);
  double highest = 0;
  for (std::size_t wire = first; wire < end; ++wire) {
    if (network_[wire] == over_network) highest = std::max(highest, latency_[wire]);
  }
  return highest;
}

template <typename Visit>
double WirePlan::SumOfPhases(Visit each, const LinkEfficiency& efficiency,
                             LinkKind* bottleneck) const {
  struct Phase {
    double seconds = 0;
    int link = -1;
  };
  std::vector<Phase> phases(static_cast<std::size_t>(phases_));
  each([&](const Load& load) {
    if (load.bytes <= 0) return;
    const Link& link = cluster_->links()[load.link];
    const double seconds = load.bytes / (link.bandwidth_bytes_per_s * efficiency.Of(link.kind));
    Phase& phase = phases[static_cast<std::size_t>(load.phase)];
    // A link of the fabric has bytes of several wires, summed in another order: rounding must not
    // choose the name. Among equals it is the lowest id's.
    const bool longer = seconds > phase.seconds * (1 + 1e-12);
    const bool equal = !longer && seconds >= phase.seconds * (1 - 1e-12);
    if (longer || (equal && load.link < phase.link)) phase = {seconds, load.link};
  });
  double sum = 0, longest = 0;
  for (const Phase& phase : phases) {
    sum += phase.seconds;
    if (phase.seconds <= longest) continue;
    longest = phase.seconds;
    *bottleneck = cluster_->links()[phase.link].kind;
  }
  return sum;
}

double WirePlan::Seconds(const LinkEfficiency& efficiency, LinkKind* bottleneck) const {
  return SumOfPhases(
      [&](auto visit) {
        for (const Load& load : loads_) visit(load);
      },
      efficiency, bottleneck);
}

double WirePlan::GroupSeconds(std::size_t group, const LinkEfficiency& efficiency,
                              LinkKind* bottleneck) const {
  const auto [first, end] = WiresOf(group);
  return SumOfPhases(
      [&](auto visit) {
        for (std::size_t hop = first_hop_[first]; hop < first_hop_[end]; ++hop)
          visit(loads_[hops_[hop]]);
      },
      efficiency, bottleneck);
}

void WirePlan::Scale(double factor) {
  for (double& bytes : bytes_) bytes *= factor;
  for (Load& load : loads_) load.bytes *= factor;
}

Flow WirePlan::FlowOf(std::size_t wire, double cap) const {
  Flow flow{.links = {}, .bytes = bytes_[wire], .weight = weight_[wire], .cap_bytes_per_s = cap};
  for (const std::uint32_t at : Loads(wire))
    flow.links.push_back(static_cast<std::uint32_t>(loads_[at].link));
  return flow;
}

TrafficPattern WirePlan::LockStep(double seconds) const {
  TrafficPattern pattern;
  if (seconds <= 0) return pattern;
  pattern.flows.reserve(size());
  for (std::size_t wire = 0; wire < size(); ++wire) {
    if (bytes_[wire] > 0) pattern.flows.push_back(FlowOf(wire, bytes_[wire] / seconds));
  }
  return pattern;
}

TrafficPattern WirePlan::GroupLockStep(std::size_t group, double seconds) const {
  TrafficPattern pattern;
  if (seconds <= 0) return pattern;
  const auto [first, end] = WiresOf(group);
  pattern.flows.reserve(end - first);
  for (std::size_t wire = first; wire < end; ++wire) {
    if (bytes_[wire] > 0) pattern.flows.push_back(FlowOf(wire, bytes_[wire] / seconds));
  }
  return pattern;
}

TrafficPattern WirePlan::Independent(const LinkEfficiency& efficiency) const {
  TrafficPattern pattern;
  pattern.flows.reserve(size());
  for (std::size_t wire = 0; wire < size(); ++wire) {
    if (bytes_[wire] <= 0) continue;
    double rate = std::numeric_limits<double>::infinity();
    for (const std::uint32_t at : Loads(wire)) {
      const Link& link = cluster_->links()[loads_[at].link];
      const double most = link.bandwidth_bytes_per_s * efficiency.Of(link.kind);
      rate = std::min(rate, cluster_->Spreads() ? most * bytes_[wire] / loads_[at].bytes
                                                : most / loads_[at].users);
    }
    pattern.flows.push_back(FlowOf(wire, rate));
  }
  return pattern;
}

}  // namespace aurum
