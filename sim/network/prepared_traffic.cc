#include "sim/network/prepared_traffic.h"

#include <algorithm>
#include <cassert>

namespace aurum {

namespace {}  // namespace

PreparedTraffic::PreparedTraffic(const OpGraph& graph, const Fabric& fabric)
    : patterns_(graph.pattern_count()) {
  std::vector<bool> used(graph.pattern_count(), false);
  for (OpId op = 0; op < graph.op_count(); ++op) {
    if (graph.pattern(op) != kNoPattern) used[graph.pattern(op)] = true;
  }
  std::size_t flows = 0;
  std::size_t hops = 0;
  for (PatternId id = 0; id < patterns_.size(); ++id) {
    if (!used[id]) continue;
    for (const Flow& flow : graph.traffic(id).flows) {
      ++flows;
      hops += flow.links.size();
      folded_ = folded_ || !flow.crossings.empty();
    }
  }
  flows_.reserve(flows);
  links_.reserve(hops);
  peaks_.reserve(hops);
  dense_link_.assign(fabric.capacity_bytes_per_s.size(), kNoIndex);
  for (PatternId id = 0; id < patterns_.size(); ++id) {
    Pattern& pattern = patterns_[id];
    pattern.first_flow = static_cast<std::uint32_t>(flows_.size());
    if (used[id]) AddFlows(graph.traffic(id), fabric);
    pattern.last_flow = static_cast<std::uint32_t>(flows_.size());
  }
  AddChanges(fabric);
  for (Pattern& pattern : patterns_) {
    pattern.first_peak = static_cast<std::uint32_t>(peaks_.size());
    AddPeaks(&pattern);
    pattern.last_peak = static_cast<std::uint32_t>(peaks_.size());
  }
}

void PreparedTraffic::AddFlows(const TrafficPattern& traffic, const Fabric& fabric) {
  for (const Flow& flow : traffic.flows) {
    assert(flow.crossings.empty() || flow.crossings.size() == flow.links.size());
    const double cap = flow.cap_bytes_per_s > 0 ? flow.cap_bytes_per_s : kNoCap;
    // Nothing to send, or nothing that limits it: over as soon as the latency is.
    if (!(flow.bytes > 0) || (flow.links.empty() && cap == kNoCap)) continue;
    PreparedFlow prepared{.first_hop = static_cast<std::uint32_t>(links_.size()),
                          .bytes = flow.bytes,
                          .weight = flow.weight,
                          .cap_bytes_per_s = cap,
                          .folded = !flow.crossings.empty()};
    for (std::size_t hop = 0; hop < flow.links.size(); ++hop) {
      const std::uint32_t link = flow.links[hop];
      assert(link < dense_link_.size() && fabric.capacity_bytes_per_s[link] > 0);
      if (dense_link_[link] == kNoIndex) {
        dense_link_[link] = static_cast<std::uint32_t>(capacity_.size());
        capacity_.push_back(fabric.capacity_bytes_per_s[link]);
      }
      links_.push_back(dense_link_[link]);
      if (!folded_) continue;
      const Crossings crossings = flow.crossings.empty() ? Crossings{} : flow.crossings[hop];
      assert(crossings.own >= 1 && crossings.own <= crossings.all);
      all_.push_back(crossings.all);
      own_.push_back(crossings.own);
    }
    if (flow.links.empty()) {
      links_.push_back(static_cast<std::uint32_t>(capacity_.size()));
      capacity_.push_back(cap);
      if (folded_) {
        all_.push_back(1);
        own_.push_back(1);
      }
    }
    prepared.last_hop = static_cast<std::uint32_t>(links_.size());
    flows_.push_back(prepared);
  }
}

void PreparedTraffic::AddChanges(const Fabric& fabric) {
  widest_ = capacity_;
  link_changes_ever_.assign(capacity_.size(), false);
  for (const LinkChange& change : fabric.changes) {
    assert(change.link < dense_link_.size() && change.factor >= 0);
    const std::uint32_t link = dense_link_[change.link];
    if (link == kNoIndex) continue;
    link_changes_ever_[link] = true;
    widest_[link] = std::max(widest_[link], capacity_[link] * change.factor);
    link_changes_.push_back({change.at, link, change.factor});
  }
  std::stable_sort(link_changes_.begin(), link_changes_.end(),
                   [](const LinkChange& a, const LinkChange& b) { return a.at < b.at; });
  scale_ = RateScale(Widest(widest_));
  most_.reserve(widest_.size());
  for (const double widest : widest_) most_.push_back(scale_.Units(widest));
}

void PreparedTraffic::AddPeaks(Pattern* pattern) {
  struct Part {
    std::uint32_t link;
    std::uint32_t all;
    std::int64_t most;
    bool several;  // transfers
  };
  thread_local std::vector<Part> parts;
  parts.clear();
  for (std::uint32_t f = pattern->first_flow; f < pattern->last_flow; ++f) {
    const PreparedFlow& flow = flows_[f];
    std::int64_t most = flow.cap_bytes_per_s < kNoCap ? scale_.Units(flow.cap_bytes_per_s)
                                                      : most_[links_[flow.first_hop]];
    for (const std::uint32_t link : links(flow)) most = std::min(most, most_[link]);
    for (std::uint32_t hop = flow.first_hop; hop < flow.last_hop; ++hop) {
      parts.push_back({.link = links_[hop],
                       .all = folded_ ? all_[hop] : 1,
                       .most = most,
                       .several = folded_ && all_[hop] > own_[hop]});
      pattern->changes = pattern->changes || link_changes_ever_[links_[hop]];
    }
  }
  std::sort(parts.begin(), parts.end(),
            [](const Part& a, const Part& b) { return a.link < b.link; });
  for (std::size_t i = 0; i < parts.size();) {
    const std::uint32_t link = parts[i].link;
    const std::int64_t capacity = most_[link];
    std::int64_t sum = 0;
    bool several = false;
    for (; i < parts.size() && parts[i].link == link; ++i) {
      // Past twice the capacity more makes no difference (and might not fit into 64 bits).
      const std::int64_t times = std::min<std::int64_t>(
          parts[i].all, 2 * capacity / std::max<std::int64_t>(1, parts[i].most) + 1);
      sum = std::min(sum + times * parts[i].most, 2 * capacity);
      several = several || parts[i].several;
    }
    peaks_.push_back({link, several ? sum : std::min(sum, capacity)});
  }
}

}  // namespace aurum
