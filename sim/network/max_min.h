#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace aurum {

// Weighted max-min sharing of links by flows with caps of their own. A flow's level is rate /
// weight. Rates are max-min fair if no flow's rate can grow without taking from a flow of a level
// that is not higher.

inline constexpr double kNoCap = std::numeric_limits<double>::infinity();

// A flow as the solver sees it.
struct SharingFlow {
  std::vector<std::uint32_t> links;
  double weight = 1;
  double cap_bytes_per_s = kNoCap;
};

// Is `rates` the max-min allocation? Checks the certificate that characterises it, within the
// relative `tolerance`: no link carries more than its capacity, and every flow is at its cap or
// crosses a saturated link on which no flow has a higher level. `why` (if given) receives the first
// violation. O(hops).
bool IsMaxMinFair(std::span<const double> capacity_bytes_per_s, std::span<const SharingFlow> flows,
                  std::span<const double> rates, double tolerance, std::string* why = nullptr);

// Flows that come and go, and their rates, B/s, recomputed only where a change can have reached.
class MaxMinSharing {
 public:
  using FlowId = std::uint32_t;  // reused after Remove
  using LinkId = std::uint32_t;
  static constexpr LinkId kAtCap = 0xffffffffU;    // bottleneck of a flow whose own cap limits it
  static constexpr LinkId kNowhere = 0xfffffffeU;  // before the first Solve

  explicit MaxMinSharing(std::span<const double> capacity_bytes_per_s);

  // weight > 0, cap > 0; at least one link or a finite cap. The rate is 0 until Solve.
  FlowId Add(std::span<const LinkId> links, double weight, double cap_bytes_per_s);
  void Remove(FlowId flow);

  // Makes the rates max-min fair again. Returns the flows that were looked at: their rate or
  // bottleneck may have changed. The list is valid until the next call, and its order depends on
  // the order of calls alone.
  std::span<const FlowId> Solve();

  double rate(FlowId flow) const { return flows_[flow].rate; }
  LinkId bottleneck(FlowId flow) const { return flows_[flow].bottleneck; }
  std::size_t flow_count() const { return flow_count_; }
  std::size_t link_count() const { return links_.size(); }

  // A flow on a link, and which of the flow's hops this link is.
  struct Crossing {
    FlowId flow;
    std::uint32_t hop;
  };
  std::span<const Crossing> crossings(LinkId link) const { return links_[link].crossings; }

 private:
  struct Hop {
    LinkId link;
    std::uint32_t position;  // in the link's crossings
  };
  struct FlowState {
    double rate = 0, level = 0;
    double weight = 1, cap = kNoCap;
    LinkId bottleneck = kNowhere;
    std::uint32_t member_round = 0;  // == round_: in the set that is being solved
    std::uint32_t fixed_round = 0;   // == round_: has its rate of this round
    std::vector<Hop> hops;
  };
  struct LinkState {
    double capacity = 0;
    double load =
        0;  // sum of rates, renewed whenever the link is solved so that rounding does not pile up
    double spare = 0;  // capacity left to members not yet fixed
    double open_weight = 0;
    std::uint32_t open = 0;  // members not yet fixed
    std::uint32_t round = 0;
    bool dirty = false;
    std::vector<Crossing> crossings;
  };

  void MarkDirty(LinkId link);
  void Join(FlowId flow);
  void Fill();
  void JoinViolated();

  std::vector<LinkState> links_;
  std::vector<FlowState> flows_;
  std::vector<FlowId> free_;
  std::size_t flow_count_ = 0;
  std::uint32_t round_ = 0;
  std::vector<LinkId> dirty_;
  std::vector<FlowId> fresh_, members_;
  std::vector<LinkId> touched_;
  std::vector<std::pair<double, std::uint64_t>> heap_;  // (level, 0 · flow for a cap, 1 · link)
};

// The rates of `flows` when all run at once.
std::vector<double> MaxMinRates(std::span<const double> capacity_bytes_per_s,
                                std::span<const SharingFlow> flows);

}  // namespace aurum
