#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/op_graph.h"
#include "sim/network/event_loop.h"
#include "sim/network/max_min.h"

namespace aurum {

// A flow that has bytes and a limit, over dense links.
struct PreparedFlow {
  std::uint32_t first_hop = 0, last_hop = 0;
  double bytes = 0;
  double weight = 1;
  double cap_bytes_per_s = kNoCap;
  bool folded = false;  // has multiplicities
};

// The most that a pattern can put on a link, in units of the scale, as far as it matters to who
// meets whom: what one transfer puts there is at most the link's capacity, what several do is only
// told up to twice the capacity.
struct LinkPeak {
  std::uint32_t link = 0;
  std::int64_t most = 0;
};

// The traffic of a graph in the form that the event loop reads: only patterns that ops use, only
// flows that can be in somebody's way, only links that carry any ("dense" ids), all in arrays
// common to all patterns, since a plan may have a pattern per transfer. A flow that has a cap and
// no link gets a link of that capacity for itself.
class PreparedTraffic {
 public:
  PreparedTraffic(const OpGraph& graph, const Fabric& fabric);

  std::size_t pattern_count() const { return patterns_.size(); }
  std::span<const PreparedFlow> flows(PatternId id) const {
    return {flows_.data() + patterns_[id].first_flow, flows_.data() + patterns_[id].last_flow};
  }
  // Number of flows(id)[0] among the flows of all patterns.
  std::uint32_t first_flow(PatternId id) const { return patterns_[id].first_flow; }
  const PreparedFlow& flow(std::uint32_t number) const { return flows_[number]; }
  std::span<const std::uint32_t> links(const PreparedFlow& flow) const {
    return {links_.data() + flow.first_hop, links_.data() + flow.last_hop};
  }
  // By hop; empty if the flow stands for itself alone.
  std::span<const std::uint32_t> all(const PreparedFlow& flow) const { return Of(flow, all_); }
  std::span<const std::uint32_t> own(const PreparedFlow& flow) const { return Of(flow, own_); }
  // By link, each once.
  std::span<const LinkPeak> peaks(PatternId id) const {
    return {peaks_.data() + patterns_[id].first_peak, peaks_.data() + patterns_[id].last_peak};
  }
  // Crosses a link that changes while the graph runs.
  bool changes(PatternId id) const { return patterns_[id].changes; }

  const RateScale& scale() const { return scale_; }
  std::span<const double> capacity() const { return capacity_; }  // of dense links, B/s, nominal
  // What a dense link carries at most, units.
  std::int64_t most(std::uint32_t link) const { return most_[link]; }
  // By ascending time, on dense links; changes of links that carry nothing are left out.
  std::span<const LinkChange> link_changes() const { return link_changes_; }

 private:
  struct Pattern {
    std::uint32_t first_flow = 0, last_flow = 0;
    std::uint32_t first_peak = 0, last_peak = 0;
    bool changes = false;
  };
  std::span<const std::uint32_t> Of(const PreparedFlow& flow,
                                    const std::vector<std::uint32_t>& by_hop) const {
    if (!flow.folded) return {};
    return {by_hop.data() + flow.first_hop, by_hop.data() + flow.last_hop};
  }
  void AddFlows(const TrafficPattern& traffic, const Fabric& fabric);
  void AddChanges(const Fabric& fabric);
  void AddPeaks(Pattern* pattern);

  std::vector<Pattern> patterns_;
  std::vector<PreparedFlow> flows_;
  std::vector<std::uint32_t> links_, all_,
      own_;  // by hop; all_, own_ empty where nothing is folded
  std::vector<LinkPeak> peaks_;
  std::vector<std::uint32_t> dense_link_;  // by fabric link
  std::vector<double> capacity_;
  std::vector<double> widest_;  // of each dense link at any time, B/s
  std::vector<std::int64_t> most_;
  std::vector<bool> link_changes_ever_;
  std::vector<LinkChange> link_changes_;
  RateScale scale_;
  bool folded_ = false;
};

}  // namespace aurum
