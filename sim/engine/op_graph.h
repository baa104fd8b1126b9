#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/core/time.h"

namespace aurum {

using OpId = std::uint32_t;
using StreamId = std::uint32_t;
using PatternId = std::uint32_t;
inline constexpr PatternId kNoPattern = 0xffffffffU;
inline constexpr OpId kNoOp = 0xffffffffU;

// How many flows of one class cross one link, in a folded graph (sim/network/fold.h).
struct Crossings {
  std::uint32_t all = 1;  // of all transfers that the op stands for
  std::uint32_t own = 1;  // of one of them
};

// One flow of a transfer: bytes over a path of links. Several flows run at once; the transfer ends
// when the last has.
struct Flow {
  std::vector<std::uint32_t> links;  // ids of the fabric's links
  double bytes = 0;
  double weight = 1;           // of max-min sharing
  double cap_bytes_per_s = 0;  // the most it can use; 0 = no cap of its own
  // Only in a folded graph, where the flow stands for all flows of its class: by link of `links`,
  // how many of them share that link. Empty: it stands for itself.
  std::vector<Crossings> crossings{};
};

// What a transfer puts on the network. Shared by all ops that do the same.
struct TrafficPattern {
  std::vector<Flow> flows;
};

struct Schedule;

// Operations, the streams they run on and what they wait for. The engine knows nothing else: no
// GPU, model or modality.
//
// An op starts when all its predecessors have ended and the op before it on its stream (in the
// order of AddOp) has ended. `duration` is its whole time when nothing disturbs it. An op with a
// pattern is a transfer: `latency` passes first, then its flows share links with all other
// transfers; alone, latency + flows takes `duration`.
class OpGraph {
 public:
  StreamId AddStream();
  PatternId AddPattern(TrafficPattern pattern);
  OpId AddOp(StreamId stream, Time duration);
  OpId AddTransfer(StreamId stream, Time duration, Time latency, PatternId pattern);
  void AddDependency(OpId before, OpId after);  // both must exist; duplicates are allowed
  // Builds the predecessor lists and a topological order that respects streams. False if there is a
  // cycle: then `cycle` (if given) receives ops on it, and the graph must not be evaluated.
  bool Finish(std::vector<OpId>* cycle = nullptr);

  // For a sweep that builds many graphs: room ahead of time, and an empty graph that keeps its
  // memory. ClearOps() keeps the patterns and their ids, so that points that price the same
  // collectives share them; Clear() drops them too.
  void Reserve(std::size_t ops, std::size_t dependencies);
  void ClearOps();
  void Clear();

  std::size_t op_count() const { return duration_.size(); }
  std::size_t stream_count() const { return stream_count_; }
  Time duration(OpId op) const { return duration_[op]; }
  Time latency(OpId op) const { return latency_[op]; }
  StreamId stream(OpId op) const { return stream_[op]; }
  PatternId pattern(OpId op) const { return pattern_[op]; }
  const TrafficPattern& traffic(PatternId id) const { return patterns_[id]; }
  std::size_t pattern_count() const { return patterns_.size(); }
  // After Finish(). Predecessors include the op before on the same stream.
  std::span<const OpId> predecessors(OpId op) const {
    return {predecessors_.data() + first_predecessor_[op],
            predecessors_.data() + first_predecessor_[op + 1]};
  }
  std::span<const OpId> order() const { return order_; }
  // Changes a duration and keeps the shape, so that Finish() need not run again.
  void SetDuration(OpId op, Time duration) { duration_[op] = duration; }

 private:
  friend void EvaluateMaxPlus(const OpGraph& graph, Schedule* schedule);
  enum class Visit : std::uint8_t { kNew, kOpen, kDone };

  std::vector<Time> duration_, latency_;
  std::vector<StreamId> stream_;
  std::vector<PatternId> pattern_;
  std::vector<TrafficPattern> patterns_;
  std::vector<std::pair<OpId, OpId>> edges_;  // (before, after)
  std::vector<std::uint32_t> first_predecessor_;
  std::vector<OpId> predecessors_, order_;
  std::vector<OpId> stream_last_;      // by stream; kNoOp where the stream is empty
  std::vector<OpId> stream_previous_;  // by op
  std::vector<Visit> visit_;           // of Finish(), kept for its memory
  std::vector<std::pair<OpId, std::uint32_t>> walk_;
  std::size_t stream_count_ = 0;
  bool finished_ = false;
  bool in_order_ = false;  // order_ is 0, 1, 2, …
};

struct Schedule {
  std::vector<Time> start, end;  // by op
  Time makespan;
  OpId stalled = kNoOp;  // the first op that never ends, since a link of it is down for good
  // How far rates may have been from fair ones (EventLoopOptions); 0: exact.
  double epsilon = 0;
};

// Start and end of every op when no transfer disturbs another: one pass in topological order, start
// = max over predecessors' ends. O(ops + dependencies).
Schedule EvaluateMaxPlus(const OpGraph& graph);
// The same into a schedule whose memory is reused.
void EvaluateMaxPlus(const OpGraph& graph, Schedule* schedule);

// A hash over all completions in op order: the functional signature of a plan.
std::string Signature(const Schedule& schedule);

}  // namespace aurum
