#include "sim/network/max_min.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace aurum {

// Progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2): raise the level of all flows
// together; the first limit met (a link whose share is used up, or a flow's cap) fixes the flows it
// limits; go on with the rest. A link's share, spare / open weight, only grows when flows are fixed
// at a level below it, so limits are met in ascending order of level and a heap of shares may be
// stale on the low side only.
//
// Solving everything at each change is what makes flow simulators slow; a change usually reaches
// few flows. The insight: the filling can start from the last solution. A *settled* flow keeps its
// rate; an *open* one is being filled. At first only new flows are open. Going up in level, a
// settled flow is opened exactly when the filling finds out that it has to change, and always at a
// level that is not above its own, so that everything fixed below stays valid and no second pass is
// needed. A link in the heap stands for one of three questions:
//   - open flows and nobody settled is limited here: they use up what is left at the level spare /
//     open weight. A settled flow that is faster than this has to yield: it is opened, the share
//     grows, the link is asked again later. If there is none, the open flows are fixed.
//   - open flows, and settled ones that are limited here at level y: if the open ones' share is y,
//     they are fixed beside them. If it is less (somebody came), the limited ones yield; if it is
//     more (somebody left), they are opened at y, and rise.
//   - no open flows, but settled ones that are limited here at y while there is room: opened at y.
// Why never too late: a flow's level is at most that of the bottleneck flows on each saturated link
// it crosses, so opening it touches links whose level is still ahead. (If rounding ever makes a
// flow open again and again, all flows are opened at once, which is plain progressive filling.)
//
// Example: links of capacity 1; flows A on {x}, B on {x, y}, C on {y}, D on {z}: A, B, C run at
// 1/2, B limited by x and C by y. A leaves: x has room and B is limited there: opened at level 1/2.
// It crosses y, where C is limited at 1/2 and B's share is 1 - 1/2: B is fixed at 1/2 beside C, and
// its bottleneck is now y. C and D were never touched.
//
// Exactness. Rates, loads and spare capacity are whole units (RateScale), weights whole quanta of
// 2^-32, so every sum is exact and the same in any order. A level is the double nearest to spare /
// open weight, a function of two exact numbers, and a rate is the whole part of level · weight; the
// quotient's rounding cannot lift the sum over a link by a whole unit, so no link is overbooked.
// All limits of exactly one level form a batch, judged on the state before it and applied together.
// So nothing depends on the numbers or order of links and flows, only on what they are: k equal
// flows, or one of multiplicity k in their place, get the same rates to the bit, and twice the
// capacities and caps give twice the rates.
//
// Cost: O(log) per heap entry, one entry per link of an opened flow, and a look at all flows of a
// link when it is met. No allocation once the vectors have grown.
//
// The order of levels in which an update moves is that of the bottleneck structure of Ros-Giralt et
// al. (On the bottleneck structure of congestion-controlled networks, SIGMETRICS 2020).

namespace {

constexpr double kQuantaPerWeight = 4294967296.0;  // 2^32
// Relative slack of "is at its level", "is faster", "has room": above the rounding of a level, below
// any share that matters. Whole units come on top: one for each flow whose rate was rounded down.
constexpr double kSlack = 0x1p-34;
// A flow that is opened more often than this in one Solve is moved by rounding alone.
constexpr std::uint8_t kMostOpenings = 4;

std::int64_t Quanta(double weight) {
  assert(weight > 0 && weight < 0x1p20);
  return std::max(std::int64_t{1},
                  static_cast<std::int64_t>(std::llround(weight * kQuantaPerWeight)));
}

// Where there is anything to share, everybody moves.
std::int64_t RateAt(double level, std::int64_t weight) {
  const std::int64_t least = level > 0 ? 1 : 0;
  return std::max(least, static_cast<std::int64_t>(level * static_cast<double>(weight)));
}

}  // namespace

MaxMinSharing::MaxMinSharing(std::span<const double> capacity, double epsilon)
    : MaxMinSharing(capacity, RateScale(Widest(capacity)), epsilon) {}

MaxMinSharing::MaxMinSharing(std::span<const double> capacity, const RateScale& scale,
                             double epsilon)
    : scale_(scale), slack_(std::max(kSlack, epsilon)), links_(capacity.size()) {
  for (std::size_t link = 0; link < capacity.size(); ++link) {
    links_[link].capacity = scale_.Units(capacity[link]);
    links_[link].key = kNoCap;
  }
}

MaxMinSharing::FlowId MaxMinSharing::Add(std::span<const LinkId> links, double weight, double cap,
                                         std::span<const std::uint32_t> multiplicity) {
  assert(cap > 0 && (!links.empty() || cap < kNoCap));
  assert(multiplicity.empty() || multiplicity.size() == links.size());
  if (links.size() >= free_.size()) free_.resize(links.size() + 1);
  std::vector<FlowId>& free = free_[links.size()];
  FlowId id;
  if (free.empty()) {
    id = static_cast<FlowId>(flows_.size());
    flows_.emplace_back();
    flows_[id].first_hop = static_cast<std::uint32_t>(hops_.size());
    flows_[id].hop_count = static_cast<std::uint32_t>(links.size());
    hops_.resize(hops_.size() + links.size());
  } else {
    id = free.back();
    free.pop_back();
  }
  FlowState& flow = flows_[id];
  flow.state = State::kFresh;
  flow.rate = 0;
  flow.weight = Quanta(weight);
  flow.cap = cap < kNoCap ? scale_.Units(cap) : RateScale::kMost;
  flow.bottleneck = kNowhere;
  for (std::uint32_t i = 0; i < links.size(); ++i) {
    assert(links[i] < links_.size());
    LinkState& link = links_[links[i]];
    const std::uint32_t times = multiplicity.empty() ? 1 : multiplicity[i];
    hops_[flow.first_hop + i] = {links[i], static_cast<std::uint32_t>(link.crossings.size()),
                                 times};
    link.crossings.push_back({id, i});
    link.flow_count += times;
  }
  fresh_.push_back(id);
  ++flow_count_;
  return id;
}

void MaxMinSharing::Remove(FlowId id) {
  FlowState& flow = flows_[id];
  for (const Hop& hop : HopsOf(flow)) {
    LinkState& link = links_[hop.link];
    link.load -= flow.rate * hop.multiplicity;
    link.flow_count -= hop.multiplicity;
    if (flow.bottleneck == hop.link) link.limited_weight -= flow.weight * hop.multiplicity;
    const Crossing moved = link.crossings.back();
    link.crossings[hop.position] = moved;
    hops_[flows_[moved.flow].first_hop + moved.hop].position = hop.position;
    link.crossings.pop_back();
    MarkDirty(hop.link);
  }
  flow.state = State::kFree;
  flow.rate = 0;
  flow.bottleneck = kNowhere;
  free_[flow.hop_count].push_back(id);
  --flow_count_;
}

void MaxMinSharing::SetCapacity(LinkId link, double bytes_per_s) {
  links_[link].capacity = scale_.Units(bytes_per_s);
  MarkDirty(link);
}

std::int64_t MaxMinSharing::LoneRate(const RateScale& scale, double narrowest, double weight,
                                     double cap) {
  const std::int64_t quanta = Quanta(weight);
  const double link_level =
      static_cast<double>(scale.Units(narrowest)) / static_cast<double>(quanta);
  if (cap < kNoCap) {
    const std::int64_t cap_units = scale.Units(cap);
    if (static_cast<double>(cap_units) / static_cast<double>(quanta) <= link_level)
      return cap_units;
  }
  return RateAt(link_level, quanta);
}

void MaxMinSharing::MarkDirty(LinkId link) {
  if (links_[link].dirty) return;
  links_[link].dirty = true;
  dirty_.push_back(link);
}

std::span<const MaxMinSharing::FlowId> MaxMinSharing::Solve() {
  ++round_;
  looked_at_.clear();
  all_open_ = false;
  idle_kept_ = 0;
  for (const FlowId id : fresh_) {
    if (flows_[id].state == State::kFresh) Open(id);
  }
  fresh_.clear();
  for (const LinkId id : dirty_) {
    LinkState& link = links_[id];
    link.dirty = false;
    if (!link.pending) {
      link.pending = true;
      pending_.push_back(id);
    }
    if (link.load <= link.capacity) continue;
    // The link became narrower than what runs over it.
    for (const Crossing& crossing : link.crossings) {
      if (flows_[crossing.flow].state == State::kSettled) Open(crossing.flow);
    }
  }
  dirty_.clear();
  for (;;) {
    RenewKeys();
    if (open_ == 0) DropIdleEntries();
    if (heap_.empty()) break;
    const double level = heap_.front().key;
    TakeBatch(level);
    ApplyBatch(level);
  }
  assert(open_ == 0);
  return looked_at_;
}

// Begins to fill the flow anew.
void MaxMinSharing::Open(FlowId id) {
  FlowState& flow = flows_[id];
  if (flow.round != round_) {
    flow.round = round_;
    flow.times_opened = 0;
    looked_at_.push_back(id);
  }
  ++flow.times_opened;
  for (const Hop& hop : HopsOf(flow)) {
    LinkState& link = links_[hop.link];
    link.load -= flow.rate * hop.multiplicity;
    link.open_weight += flow.weight * hop.multiplicity;
    if (flow.bottleneck == hop.link) link.limited_weight -= flow.weight * hop.multiplicity;
    if (link.pending) continue;
    link.pending = true;
    pending_.push_back(hop.link);
  }
  flow.state = State::kOpen;
  flow.rate = 0;
  flow.bottleneck = kNowhere;
  ++open_;
  if (flow.cap < RateScale::kMost || flow.hop_count == 0) {
    Push({static_cast<double>(flow.cap) / static_cast<double>(flow.weight), id, true});
  }
}

void MaxMinSharing::OpenAll() {
  all_open_ = true;
  for (FlowId id = 0; id < flows_.size(); ++id) {
    if (flows_[id].state == State::kSettled) Open(id);
  }
}

void MaxMinSharing::Fix(FlowId id, std::int64_t rate, LinkId bottleneck) {
  FlowState& flow = flows_[id];
  flow.state = State::kSettled;
  flow.rate = rate;
  flow.bottleneck = bottleneck;
  --open_;
  for (const Hop& hop : HopsOf(flow)) {
    LinkState& link = links_[hop.link];
    link.load += rate * hop.multiplicity;
    link.open_weight -= flow.weight * hop.multiplicity;
    if (hop.link == bottleneck) link.limited_weight += flow.weight * hop.multiplicity;
  }
}

// Is the open flows' share that of the flows that are limited here?
bool MaxMinSharing::AtItsLevel(const LinkState& link) const {
  const double fair = link.level * static_cast<double>(link.open_weight);
  return std::abs(static_cast<double>(link.capacity - link.load) - fair) <=
         slack_ * fair + link.flow_count;
}

// The level at which the link has to be looked at; kNoCap = not at all.
double MaxMinSharing::KeyOf(const LinkState& link) const {
  const double spare = static_cast<double>(std::max(std::int64_t{0}, link.capacity - link.load));
  if (link.open_weight > 0) {
    const double share = spare / static_cast<double>(link.open_weight);
    return link.limited_weight == 0 || AtItsLevel(link) ? share : std::min(share, link.level);
  }
  if (link.limited_weight == 0) return kNoCap;
  const double limited = link.level * static_cast<double>(link.limited_weight);
  return spare > slack_ * limited + link.flow_count ? link.level : kNoCap;
}

void MaxMinSharing::Push(const Entry& entry) {
  heap_.push_back(entry);
  std::push_heap(heap_.begin(), heap_.end(),
                 [](const Entry& a, const Entry& b) { return a.key > b.key; });
}

// Links where a flow was opened may have to be looked at earlier.
void MaxMinSharing::RenewKeys() {
  for (const LinkId id : pending_) {
    LinkState& link = links_[id];
    link.pending = false;
    const double key = KeyOf(link);
    if (key >= link.key) continue;
    link.key = key;
    Push({key, id, false});
  }
  pending_.clear();
}

// Nothing is open: most entries ask about links that nobody waits for.
void MaxMinSharing::DropIdleEntries() {
  if (heap_.size() <= 2 * idle_kept_) return;
  std::erase_if(heap_, [&](const Entry& entry) {
    if (entry.cap) return true;
    LinkState& link = links_[entry.id];
    if (entry.key != link.key) return true;
    if (KeyOf(link) < kNoCap) return false;
    link.key = kNoCap;
    return true;
  });
  std::make_heap(heap_.begin(), heap_.end(),
                 [](const Entry& a, const Entry& b) { return a.key > b.key; });
  idle_kept_ = heap_.size();
}

// Takes all limits of exactly this level out of the heap and finds out what each asks for.
void MaxMinSharing::TakeBatch(double level) {
  ++batch_;
  at_cap_.clear();
  fix_.clear();
  join_.clear();
  while (!heap_.empty() && heap_.front().key == level) {
    std::pop_heap(heap_.begin(), heap_.end(),
                  [](const Entry& a, const Entry& b) { return a.key > b.key; });
    const Entry entry = heap_.back();
    heap_.pop_back();
    if (entry.cap) {
      if (flows_[entry.id].state == State::kOpen) at_cap_.push_back(entry.id);
      continue;
    }
    LinkState& link = links_[entry.id];
    if (link.key != level) continue;  // an older entry of a link that moved
    link.key = KeyOf(link);
    if (link.key > level) {  // shares have grown since
      if (link.key < kNoCap) Push({link.key, entry.id, false});
      continue;
    }
    link.key = kNoCap;
    Judge(entry.id, level);
  }
}

// What the link asks for at this level, on the state before the batch: either settled flows to be
// opened (join_), or its open flows to be fixed (fix_).
void MaxMinSharing::Judge(LinkId id, double level) {
  LinkState& link = links_[id];
  if (link.open_weight == 0 || (link.limited_weight > 0 && !AtItsLevel(link))) {
    if (!all_open_ || link.open_weight == 0) {
      if (all_open_) return;
      for (const Crossing& crossing : link.crossings) {
        if (flows_[crossing.flow].bottleneck == id) join_.push_back(crossing.flow);
      }
      return;
    }
  }
  const std::size_t fixed_before = fix_.size();
  const std::size_t joined_before = join_.size();
  const double faster = level * (1 + slack_);
  for (const Crossing& crossing : link.crossings) {
    const FlowState& flow = flows_[crossing.flow];
    if (flow.state == State::kOpen) {
      fix_.push_back(crossing.flow);
    } else if (flow.bottleneck != id && !all_open_ &&
               static_cast<double>(flow.rate) > faster * static_cast<double>(flow.weight) + 2) {
      join_.push_back(crossing.flow);
    }
  }
  if (join_.size() > joined_before) {
    fix_.resize(fixed_before);
  } else {
    link.batch = batch_;
    if (link.limited_weight == 0) link.level = level;
  }
}

void MaxMinSharing::ApplyBatch(double level) {
  for (const FlowId id : at_cap_) {
    if (flows_[id].state == State::kOpen) Fix(id, flows_[id].cap, kAtCap);
  }
  for (const FlowId id : fix_) {
    const FlowState& flow = flows_[id];
    if (flow.state != State::kOpen) continue;
    LinkId bottleneck = kNowhere;
    for (const Hop& hop : HopsOf(flow)) {
      if (links_[hop.link].batch != batch_) continue;
      bottleneck = hop.link;
      break;
    }
    Fix(id, RateAt(level, flow.weight), bottleneck);
  }
  bool restless = false;
  for (const FlowId id : join_) {
    if (flows_[id].state != State::kSettled) continue;
    Open(id);
    restless = restless || flows_[id].times_opened > kMostOpenings;
  }
  if (restless) OpenAll();
}

std::vector<double> MaxMinRates(std::span<const double> capacity,
                                std::span<const SharingFlow> flows) {
  MaxMinSharing sharing(capacity);
  for (const SharingFlow& flow : flows) {
    sharing.Add(flow.links, flow.weight, flow.cap_bytes_per_s, flow.multiplicity);
  }
  sharing.Solve();
  std::vector<double> rates;
  rates.reserve(flows.size());
  for (MaxMinSharing::FlowId id = 0; id < flows.size(); ++id) rates.push_back(sharing.rate(id));
  return rates;
}

}  // namespace aurum
