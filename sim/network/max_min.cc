#include "sim/network/max_min.h"

#include <algorithm>
#include <cassert>
#include <functional>

namespace aurum {

// Progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2): raise the level of all flows
// together; the first limit met (a link whose share is used up, or a flow's cap) fixes the flows it
// limits; go on with the rest. A link's share, spare / open weight, only grows when flows are fixed
// at a level below it, so a heap of shares may be stale on the low side only: a popped share is
// recomputed and pushed back if it has grown. O(hops · log links).
//
// Solving everything at each change is what makes flow simulators slow; a change usually reaches
// few flows. The insight: "every flow is at its cap or has a saturated link where its level is
// maximal" not only follows from max-min fairness, it characterises it. So solve a small set of
// *members* on the capacity that the others leave, then look at the certificates on the touched
// links alone:
//   - members at first: new flows, and flows whose bottleneck is a link that gained or lost a flow;
//   - another flow joins if its bottleneck is touched and is no longer saturated, or a member now
//   has a higher level there;
//   - or if a member has its bottleneck here and the other flow's level is higher than the
//   member's;
//   - repeat until none joins. Then all certificates hold, and the rates are *the* max-min rates.
// Example: links of capacity 1; flows A on {x}, B on {x, y}, C on {y}, D on {z}. All of A, B, C run
// at 1/2. A leaves: B was limited by x, so B is a member; y leaves it 1/2, no more: B stays at 1/2
// with bottleneck y; C's certificate holds; D was never looked at. Cost: the crossings of the
// touched links, a few rounds.

namespace {

// Relative slack of "saturated" and "higher": far above rounding, far below any share that matters.
constexpr double kSlack = 1e-9;

}  // namespace

bool IsMaxMinFair(std::span<const double> capacity, std::span<const SharingFlow> flows,
                  std::span<const double> rates, double tolerance, std::string* why) {
  assert(flows.size() == rates.size());
  const auto fail = [&](const std::string& message) {
    if (why != nullptr) *why = message;
    return false;
  };
  std::vector<double> load(capacity.size(), 0), top_level(capacity.size(), 0);
  for (std::size_t f = 0; f < flows.size(); ++f) {
    if (!(rates[f] >= 0)) return fail("flow " + std::to_string(f) + " has no rate");
    if (rates[f] > flows[f].cap_bytes_per_s * (1 + tolerance)) {
      return fail("flow " + std::to_string(f) + " is above its cap");
    }
    for (const std::uint32_t link : flows[f].links) {
      load[link] += rates[f];
      top_level[link] = std::max(top_level[link], rates[f] / flows[f].weight);
    }
  }
  for (std::size_t link = 0; link < capacity.size(); ++link) {
    if (load[link] > capacity[link] * (1 + tolerance)) {
      return fail("link " + std::to_string(link) + " carries " + std::to_string(load[link]) +
                  " of " + std::to_string(capacity[link]) + " B/s");
    }
  }
  for (std::size_t f = 0; f < flows.size(); ++f) {
    if (rates[f] >= flows[f].cap_bytes_per_s * (1 - tolerance)) continue;
    const double level = rates[f] / flows[f].weight;
    const bool limited =
        std::any_of(flows[f].links.begin(), flows[f].links.end(), [&](std::uint32_t link) {
          return load[link] >= capacity[link] * (1 - tolerance) &&
                 level >= top_level[link] * (1 - tolerance);
        });
    if (!limited) return fail("flow " + std::to_string(f) + " is limited by nothing");
  }
  return true;
}

MaxMinSharing::MaxMinSharing(std::span<const double> capacity) : links_(capacity.size()) {
  for (std::size_t link = 0; link < capacity.size(); ++link) {
    links_[link].capacity = capacity[link];
  }
}

MaxMinSharing::FlowId MaxMinSharing::Add(std::span<const LinkId> links, double weight, double cap) {
  assert(weight > 0 && cap > 0 && (!links.empty() || cap < kNoCap));
  FlowId id;
  if (free_.empty()) {
    id = static_cast<FlowId>(flows_.size());
    flows_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  FlowState& flow = flows_[id];
  flow.rate = flow.level = 0;
  flow.weight = weight;
  flow.cap = cap;
  flow.bottleneck = kNowhere;
  flow.member_round = flow.fixed_round = 0;
  flow.hops.clear();
  for (const LinkId link : links) {
    assert(link < links_.size() && links_[link].capacity > 0);
    std::vector<Crossing>& crossings = links_[link].crossings;
    flow.hops.push_back({link, static_cast<std::uint32_t>(crossings.size())});
    crossings.push_back({id, static_cast<std::uint32_t>(flow.hops.size() - 1)});
    MarkDirty(link);
  }
  fresh_.push_back(id);
  ++flow_count_;
  return id;
}

void MaxMinSharing::Remove(FlowId id) {
  FlowState& flow = flows_[id];
  for (const Hop& hop : flow.hops) {
    LinkState& link = links_[hop.link];
    link.load = std::max(0.0, link.load - flow.rate);
    const Crossing moved = link.crossings.back();
    link.crossings[hop.position] = moved;
    flows_[moved.flow].hops[moved.hop].position = hop.position;
    link.crossings.pop_back();
    if (link.crossings.empty()) link.load = 0;
    MarkDirty(hop.link);
  }
  if (flow.bottleneck == kNowhere) std::erase(fresh_, id);
  flow.hops.clear();
  flow.rate = 0;
  free_.push_back(id);
  --flow_count_;
}

void MaxMinSharing::MarkDirty(LinkId link) {
  if (links_[link].dirty) return;
  links_[link].dirty = true;
  dirty_.push_back(link);
}

void MaxMinSharing::Join(FlowId id) {
  if (flows_[id].member_round == round_) return;
  flows_[id].member_round = round_;
  members_.push_back(id);
}

std::span<const MaxMinSharing::FlowId> MaxMinSharing::Solve() {
  ++round_;
  members_.clear();
  for (const FlowId id : fresh_) Join(id);
  fresh_.clear();
  for (const LinkId link : dirty_) {
    for (const Crossing& crossing : links_[link].crossings) {
      if (flows_[crossing.flow].bottleneck == link) Join(crossing.flow);
    }
  }
  std::size_t solved = 0;
  while (solved < members_.size()) {
    solved = members_.size();
    Fill();
    JoinViolated();
  }
  for (const LinkId link : dirty_) links_[link].dirty = false;
  dirty_.clear();
  return members_;
}

void MaxMinSharing::Fill() {
  ++round_;
  touched_.clear();
  heap_.clear();
  for (const FlowId id : members_) {
    FlowState& flow = flows_[id];
    flow.member_round = round_;
    for (const Hop& hop : flow.hops) {
      LinkState& link = links_[hop.link];
      if (link.round != round_) {
        link.round = round_;
        link.spare = link.capacity - link.load;
        link.open = 0;
        link.open_weight = 0;
        touched_.push_back(hop.link);
      }
      link.spare += flow.rate;
      ++link.open;
      link.open_weight += flow.weight;
    }
    if (flow.cap < kNoCap) heap_.emplace_back(flow.cap / flow.weight, id);
  }
  constexpr std::uint64_t kLinkBit = std::uint64_t{1} << 32;  // caps before links at the same level
  const auto share = [](const LinkState& link) {
    return std::max(0.0, link.spare) / link.open_weight;
  };
  for (const LinkId link : touched_) heap_.emplace_back(share(links_[link]), kLinkBit | link);
  std::make_heap(heap_.begin(), heap_.end(), std::greater<>());

  std::size_t open = members_.size();
  const auto fix = [&](FlowId id, double level, double rate, LinkId bottleneck) {
    FlowState& flow = flows_[id];
    flow.fixed_round = round_;
    flow.level = level;
    flow.rate = rate;
    flow.bottleneck = bottleneck;
    --open;
    for (const Hop& hop : flow.hops) {
      LinkState& link = links_[hop.link];
      link.spare -= rate;
      link.open_weight -= flow.weight;
      --link.open;
    }
  };
  while (open > 0) {
    assert(!heap_.empty());
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const auto [level, key] = heap_.back();
    heap_.pop_back();
    if ((key & kLinkBit) == 0) {
      const FlowId id = static_cast<FlowId>(key);
      if (flows_[id].fixed_round != round_) fix(id, level, flows_[id].cap, kAtCap);
      continue;
    }
    const LinkId id = static_cast<LinkId>(key);
    LinkState& link = links_[id];
    if (link.open == 0) continue;
    const double now = share(link);
    if (now > level * (1 + 1e-12)) {
      heap_.emplace_back(now, key);
      std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
      continue;
    }
    for (const Crossing& crossing : link.crossings) {
      const FlowState& flow = flows_[crossing.flow];
      if (flow.member_round == round_ && flow.fixed_round != round_) {
        fix(crossing.flow, level, level * flow.weight, id);
      }
    }
  }
}

// Adds to the members the flows whose certificate the new rates break, or whose level breaks a
// member's.
void MaxMinSharing::JoinViolated() {
  for (const LinkId id : touched_) {
    LinkState& link = links_[id];
    double load = 0;
    double top_member = 0;                // highest level of a member
    double lowest_limited_here = kNoCap;  // lowest level of a member that has its bottleneck here
    bool others = false;
    for (const Crossing& crossing : link.crossings) {
      const FlowState& flow = flows_[crossing.flow];
      load += flow.rate;
      // Not fixed in this round: not a member, or joined a moment ago and solved in the next round.
      if (flow.fixed_round != round_) {
        others = true;
        continue;
      }
      top_member = std::max(top_member, flow.level);
      if (flow.bottleneck == id) lowest_limited_here = std::min(lowest_limited_here, flow.level);
    }
    link.load = load;
    if (!others) continue;
    const bool saturated = load >= link.capacity * (1 - kSlack);
    for (const Crossing& crossing : link.crossings) {
      const FlowState& flow = flows_[crossing.flow];
      if (flow.member_round == round_) continue;
      const bool own_broken =
          flow.bottleneck == id && (!saturated || flow.level < top_member * (1 - kSlack));
      const bool breaks_member = flow.level > lowest_limited_here * (1 + kSlack);
      if (own_broken || breaks_member) Join(crossing.flow);
    }
  }
}

std::vector<double> MaxMinRates(std::span<const double> capacity,
                                std::span<const SharingFlow> flows) {
  MaxMinSharing sharing(capacity);
  for (const SharingFlow& flow : flows) sharing.Add(flow.links, flow.weight, flow.cap_bytes_per_s);
  sharing.Solve();
  std::vector<double> rates;
  rates.reserve(flows.size());
  for (MaxMinSharing::FlowId id = 0; id < flows.size(); ++id) rates.push_back(sharing.rate(id));
  return rates;
}

}  // namespace aurum
