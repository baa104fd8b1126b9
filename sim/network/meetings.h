#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "sim/engine/op_graph.h"
#include "sim/network/prepared_traffic.h"

namespace aurum {

// Who can get into whose way: keeps the transfers that are on the network and tells, when one comes,
// which of those that were alone until now can be disturbed, or disturb, from now on. That is so
// where a link can be asked for more than its capacity.
class Meetings {
 public:
  Meetings(const OpGraph& graph, const PreparedTraffic& traffic);

  // The op's flows, those of `pattern`, begin. Returns the ops that stop being alone, maybe itself among them; valid
  // until the next call.
  std::span<const OpId> Arrive(OpId op, PatternId pattern);
  void Leave(OpId op, PatternId pattern);

 private:
  __extension__ using WideInt = __int128;  // sums of many peaks of 2^52
  // A load that is above the capacity by less than 2^-30 of it fits: caps that are meant to add up
  // to it are rounded.
  static constexpr int kFitBits = 30;

  void FindNeighbours();
  void ArriveByPattern(OpId op, PatternId pattern);
  void ArriveByLink(OpId op, PatternId pattern);
  const std::vector<PatternId>& PatternsThatMeet(PatternId arriving);
  void FindMeeting(PatternId arriving, std::vector<PatternId>* meeting);
  void Stop(OpId op);
  // The most that all may ask of the link without getting into each other's way.
  WideInt Limit(std::uint32_t link) const {
    return WideInt{traffic_.most(link)} + (traffic_.most(link) >> kFitBits);
  }

  const PreparedTraffic& traffic_;
  bool by_link_ = true;
  std::vector<bool> alone_;  // by op
  std::vector<OpId> met_;

  // By link.
  struct LinkState {
    WideInt load = 0;
    std::uint32_t active = 0;
    std::vector<OpId> alone;  // and some that are so no more
  };
  std::vector<LinkState> links_;

  // By pattern.
  std::vector<std::uint32_t> first_neighbour_;
  std::vector<PatternId> neighbours_;                // with a common link, itself included
  std::vector<bool> crowds_itself_;                  // by pattern: stands for transfers that meet
  std::vector<std::uint32_t> active_count_;          // by pattern: small enough to stay in cache
  std::vector<OpId> first_active_;                   // by pattern
  std::vector<OpId> next_active_, previous_active_;  // by op
  std::vector<WideInt> load_;  // scratch, by link; < 0 = not of the arriving pattern
  std::map<std::vector<std::uint32_t>, std::vector<PatternId>> meetings_;
  std::vector<std::uint32_t> meeting_key_;
  std::vector<PatternId> meeting_;
};

}  // namespace aurum
