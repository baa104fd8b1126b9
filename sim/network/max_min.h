#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "sim/network/rate_scale.h"

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
  // It stands for a class of equal flows: by link of `links`, how many of them cross it. Empty: one
  // each.
  std::vector<std::uint32_t> multiplicity{};
};

// Is `rates` the max-min allocation? Checks the certificate that characterises it, within the
// relative `tolerance`: no link carries more than its capacity, and every flow is at its cap or
// crosses a saturated link on which no flow has a higher level. `why` (if given) receives the first
// violation. O(hops).
bool IsMaxMinFair(std::span<const double> capacity_bytes_per_s, std::span<const SharingFlow> flows,
                  std::span<const double> rates, double tolerance, std::string* why = nullptr);

// Flows that come and go, and their rates, B/s, recomputed only where a change can have reached.
//
// Rates do not depend on the numbers of links and flows, nor on the order of calls between two
// Solves; a flow of multiplicity k gets, to the bit, the rate that each of k such flows would.
class MaxMinSharing {
 public:
  using FlowId = std::uint32_t;  // reused after Remove
  using LinkId = std::uint32_t;
  static constexpr LinkId kAtCap = 0xffffffffU;    // bottleneck of a flow whose own cap limits it
  static constexpr LinkId kNowhere = 0xfffffffeU;  // before the first Solve

  // `epsilon`: how far, relatively, a rate may be from the fair one before it is renewed; 0 = exact
  // but for rounding (2^-34 of a rate, and a unit of RateScale per flow on a link).
  explicit MaxMinSharing(std::span<const double> capacity_bytes_per_s, double epsilon = 0);
  MaxMinSharing(std::span<const double> capacity_bytes_per_s, const RateScale& scale,
                double epsilon);

  // 0 < weight < 2^20, known to 2^-33; cap > 0; at least one link or a finite cap. `multiplicity`
  // as in SharingFlow. The rate is 0 until Solve.
  FlowId Add(std::span<const LinkId> links, double weight, double cap_bytes_per_s,
             std::span<const std::uint32_t> multiplicity = {});
  void Remove(FlowId flow);
  // 0: the link is down, and flows over it stand still. At most the widest link of the scale.
  void SetCapacity(LinkId link, double bytes_per_s);

  // The rate, units, of a flow with nobody else on its links, of which `narrowest` is the narrowest.
  static std::int64_t LoneRate(const RateScale& scale, double narrowest_bytes_per_s, double weight,
                               double cap_bytes_per_s);

  // Makes the rates max-min fair again. Returns the flows that were looked at: their rate or
  // bottleneck may have changed. The list is valid until the next call, and its order depends on
  // the order of calls alone.
  std::span<const FlowId> Solve();

  double rate(FlowId flow) const { return scale_.BytesPerSecond(flows_[flow].rate); }
  std::int64_t rate_units(FlowId flow) const { return flows_[flow].rate; }
  const RateScale& scale() const { return scale_; }
  // Where several links limit a flow at one level: the first of them on its way.
  LinkId bottleneck(FlowId flow) const { return flows_[flow].bottleneck; }
  std::size_t flow_count() const { return flow_count_; }
  std::size_t link_count() const { return links_.size(); }

  // A flow on a link, and which of the flow's hops this link is.
  struct Crossing {
    FlowId flow;
    std::uint32_t hop;
  };
  std::span<const Crossing> crossings(LinkId link) const { return links_[link].crossings; }
  std::uint32_t multiplicity(const Crossing& crossing) const {
    return hops_[flows_[crossing.flow].first_hop + crossing.hop].multiplicity;
  }

 private:
  enum class State : std::uint8_t { kFree, kFresh, kOpen, kSettled };
  struct Hop {
    LinkId link;
    std::uint32_t position;  // in the link's crossings
    std::uint32_t multiplicity;
  };
  struct alignas(64) FlowState {  // one cache line, since Judge reads them in no order
    std::int64_t rate = 0;        // units
    std::int64_t weight = 0;      // quanta
    std::int64_t cap = 0;         // units
    LinkId bottleneck = kNowhere;
    std::uint32_t first_hop = 0, hop_count = 0;  // in hops_
    std::uint32_t round = 0;                     // == round_: looked at
    State state = State::kFree;
    std::uint8_t times_opened = 0;  // in this round
  };
  struct LinkState {
    std::int64_t capacity = 0;
    std::int64_t load = 0;            // of settled flows
    std::int64_t open_weight = 0;     // of open flows
    std::int64_t limited_weight = 0;  // of settled flows whose bottleneck this is
    double level = 0;                 // of those flows
    double key = 0;                   // in the heap; kNoCap: not there
    std::uint32_t flow_count = 0;     // multiplicities of all flows here
    std::uint32_t batch = 0;          // == batch_: fixes its flows in this batch
    bool dirty = false, pending = false;
    std::vector<Crossing> crossings;
  };
  struct Entry {
    double key;
    std::uint32_t id;
    bool cap;  // of a flow; else of a link
  };

  std::span<Hop> HopsOf(const FlowState& flow) {
    return {hops_.data() + flow.first_hop, flow.hop_count};
  }
  void MarkDirty(LinkId link);
  void Open(FlowId flow);
  void OpenAll();
  void Fix(FlowId flow, std::int64_t rate, LinkId bottleneck);
  bool AtItsLevel(const LinkState& link) const;
  double KeyOf(const LinkState& link) const;
  void Push(const Entry& entry);
  void RenewKeys();
  void DropIdleEntries();
  void TakeBatch(double level);
  void Judge(LinkId link, double level);
  void ApplyBatch(double level);

  RateScale scale_;
  double slack_ = 0;
  std::vector<LinkState> links_;
  std::vector<FlowState> flows_;
  std::vector<Hop> hops_;
  std::vector<std::vector<FlowId>> free_;  // by hop count
  std::size_t flow_count_ = 0;
  std::uint32_t round_ = 0, batch_ = 0;
  std::size_t open_ = 0;
  bool all_open_ = false;      // this round opened every flow, so no settled flow is asked again
  std::size_t idle_kept_ = 0;  // entries left by the last DropIdleEntries
  std::vector<LinkId> dirty_, pending_;
  std::vector<FlowId> fresh_, looked_at_;
  std::vector<FlowId> at_cap_, fix_, join_;  // of a batch
  std::vector<Entry> heap_;
};

// The rates of `flows` when all run at once.
std::vector<double> MaxMinRates(std::span<const double> capacity_bytes_per_s,
                                std::span<const SharingFlow> flows);

}  // namespace aurum
