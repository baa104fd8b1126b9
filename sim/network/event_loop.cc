#include "sim/network/event_loop.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/network/alone.h"
#include "sim/network/event_heap.h"
#include "sim/network/max_min.h"
#include "sim/network/meetings.h"
#include "sim/network/prepared_traffic.h"
#include "sim/network/radix_heap.h"

namespace aurum {

// How a transfer lives.
//
// Its `duration` already holds what its own flows do to each other, so the loop need not look at
// them until somebody else comes near. Three stages, each exact:
//
//  1. Alone. An op's *nominal* end, start + duration, is put into the event list when it starts.
//     When a transfer's latency is over, the loop asks whether it can meet anyone (meetings.h): for
//     each of its links, is the sum of the most that it and the active transfers there can put on
//     it above the capacity? If nowhere, no shared link can bind; take such links away and the
//     max-min problem falls apart into one problem per transfer, whose solution is the one that
//     `duration` was computed from. The transfer ends at its nominal end, bit for bit what the
//     max-plus pass says, and costs two events however many flows it has.
//  2. Shared. Where a link can be asked for too much, the new transfer and those active on that
//     link put their flows into the sharing solver, with what remains of their bytes. Rates change,
//     completions move.
//  3. Disturbed. Not every shared transfer is slowed. One is disturbed once a flow of it has its
//     bottleneck on a link that carries a flow of another transfer, or whose capacity is not the
//     nominal one, or crosses a link that is wider than that. As long as that never happens, every
//     certificate of its rates names only its own flows, caps and nominal links, and would hold if
//     it were alone, so its rates are those that it has alone, and it still ends at its nominal end
//     exactly.
//
// A disturbed transfer ends when its last flow has, and never before its nominal end (sharing can
// speed up one flow of a transfer by slowing another; a transfer as a whole does not gain). If the
// caller's duration is not latency + flows (a straggler, a measured factor), bytes are stretched by
// the ratio, so that alone it takes its duration.
//
// Example: two transfers of 1 GB on one link of 1 GB/s, starting 0.5 s apart. The first runs alone
// until 0.5 s; then both get 0.5 GB/s; the first has 0.5 GB left and ends at 1.5 s; the second then
// has 0.5 GB left at full rate and ends at 2 s.
//
// Links that change. A transfer that crosses a link that changes at any time is shared from its
// start. A flow over a link that is down has rate 0 and no completion.
//
// Order. All events of one instant are drained, phase by phase, before rates are solved, once:
//   1. flows end            (they make room)
//   2. ops reach their nominal end   (a transfer that ends now meets nobody who comes now)
//   3. links change
//   4. flows start
//   5. rates are solved     (and completions that fall on this instant begin it anew)
// Within a phase the order makes no difference: loads are exact sums and all decisions are taken on
// the whole of them, so no numbering of ops, flows or links can change a time. The same is why a
// folded graph gives the times of the unfolded one: the solver treats a flow of multiplicity k as k
// flows, Meetings counts peaks of all that a flow stands for, AloneRun those of one transfer, and a
// bottleneck is shared with another transfer where Crossings::all > own.
//
// Cost: an op's events are never moved, so they live in a radix heap (bench/event_list_bench.cc);
// completions move with every change of rate and live in an indexed 4-ary heap. A solve touches the
// flows near a change (max_min.h). After warm-up nothing is allocated.

namespace {

enum class Mode : std::uint8_t { kIdle, kAlone, kShared };

// What an event of the list is; the order of events at one time is (kind, op).
enum class Kind : std::uint64_t { kNominalEnd = 0, kFlowsStart = 1 };

// A completion less than this after a picosecond is at that picosecond: remaining / rate is good to
// 1e-4 ps at most.
constexpr double kGridSlackPs = 1e-3;

std::uint64_t OrderOf(Kind kind, OpId op) { return (static_cast<std::uint64_t>(kind) << 32) | op; }

// All that the loop reads of an op, together, since ops come in no order that memory likes.
struct OpState {
  Time duration, latency;
  PatternId pattern = kNoPattern;     // kNoPattern too if its flows are in nobody's way
  std::uint32_t first_successor = 0;  // in successors_; the next op's is the end
  std::uint32_t waiting = 0;          // predecessors that have not ended
  std::uint32_t live_flows = 0;
  std::uint32_t first_flow = kNoIndex;
  Mode mode = Mode::kIdle;
  bool disturbed = false;
  bool nominal_passed = false;
};

struct FlowRun {
  double remaining = 0;  // bytes, at `since`
  Time since;
  std::int64_t rate = 0;  // units
  OpId op = 0;
  std::uint32_t number = 0;                            // PreparedTraffic::flow
  std::uint32_t next = kNoIndex, previous = kNoIndex;  // flows of the same op
};

class Loop {
 public:
  Loop(const OpGraph& graph, const Fabric& fabric, const EventLoopOptions& options)
      : graph_(graph),
        share_from_start_(options.share_from_start),
        traffic_(graph, fabric),
        meetings_(graph, traffic_),
        alone_(traffic_),
        sharing_(traffic_.capacity(), traffic_.scale(), options.epsilon),
        factor_(traffic_.capacity().size(), 1),
        crowd_(traffic_.capacity().size()) {
    schedule_.epsilon = options.epsilon;
    BuildOps();
  }

  Schedule Run();

 private:
  void BuildOps();
  bool FindNextInstant();
  void RunInstant();
  void NameStalled();
  void StartOp(OpId op);
  void EndOp(OpId op);
  void ReachNominalEnd(OpId op);
  void ChangeLink(const LinkChange& change);
  void StartFlows(OpId op);
  void Share(OpId op);
  void EndFlow(std::uint32_t flow);
  void RemoveFlow(std::uint32_t flow);
  void SolveRates();
  void SetCompletion(std::uint32_t flow);
  bool Disturbs(std::uint32_t link);
  bool IsOverWide(const FlowRun& flow) const;

  const OpGraph& graph_;
  const bool share_from_start_;
  std::vector<OpState> ops_;  // and one past the last
  std::vector<OpId> successors_;
  std::size_t ended_ = 0;

  PreparedTraffic traffic_;
  Meetings meetings_;
  AloneRun alone_;
  MaxMinSharing sharing_;
  std::vector<FlowRun> flows_;  // by the solver's flow id
  std::vector<double> factor_;  // of each link's capacity, now
  std::size_t next_change_ = 0;
  struct Crowd {
    std::uint32_t solve = 0;
    bool disturbs = false;
  };
  std::vector<Crowd> crowd_;  // by link: Disturbs(), as of a solve
  std::uint32_t solves_ = 0;
  bool rates_stale_ = false;

  RadixHeap<OpId> events_;
  std::vector<OpId> starting_;  // ops whose flows start now
  IndexedEventHeap completions_;
  Time now_;
  Schedule schedule_;
};

void Loop::BuildOps() {
  const std::size_t n = graph_.op_count();
  ops_.resize(n + 1);
  std::size_t count = 0;
  for (OpId op = 0; op < n; ++op) {
    OpState& state = ops_[op];
    state.duration = graph_.duration(op);
    state.latency = graph_.latency(op);
    const PatternId pattern = graph_.pattern(op);
    if (pattern != kNoPattern && !traffic_.flows(pattern).empty() &&
        state.duration > state.latency) {
      state.pattern = pattern;
    }
    const std::span<const OpId> before = graph_.predecessors(op);
    state.waiting = static_cast<std::uint32_t>(before.size());
    count += before.size();
    for (const OpId predecessor : before) ++ops_[predecessor].first_successor;
  }
  // Counts become ends, and ends, filled from the back, begins.
  std::uint32_t end = 0;
  for (OpState& state : ops_) state.first_successor = end += state.first_successor;
  successors_.resize(count);
  for (OpId op = static_cast<OpId>(n); op-- > 0;) {
    for (const OpId predecessor : graph_.predecessors(op)) {
      successors_[--ops_[predecessor].first_successor] = op;
    }
  }
}

Schedule Loop::Run() {
  const std::size_t n = graph_.op_count();
  schedule_.start.assign(n, kTimeMax);
  schedule_.end.assign(n, kTimeMax);
  for (OpId op = 0; op < n; ++op) {
    if (ops_[op].waiting == 0) StartOp(op);
  }
  do {
    RunInstant();
  } while (FindNextInstant());
  if (ended_ < n) NameStalled();
  schedule_.makespan = {0};
  for (const Time end : schedule_.end) schedule_.makespan = std::max(schedule_.makespan, end);
  return std::move(schedule_);
}

bool Loop::FindNextInstant() {
  if (ended_ == graph_.op_count()) return false;
  const std::span<const LinkChange> changes = traffic_.link_changes();
  if (events_.empty() && completions_.empty() && next_change_ == changes.size()) return false;
  now_ = kTimeMax;
  if (!events_.empty()) now_ = events_.top_time();
  if (!completions_.empty()) now_ = std::min(now_, completions_.top_time());
  if (next_change_ < changes.size()) now_ = std::min(now_, changes[next_change_].at);
  return true;
}

void Loop::RunInstant() {
  const std::span<const LinkChange> changes = traffic_.link_changes();
  for (;;) {
    while (!completions_.empty() && completions_.top_time() == now_) {
      EndFlow(completions_.top_slot());
    }
    while (!events_.empty() && events_.top_time() == now_) {
      const RadixHeap<OpId>::Event event = events_.Pop();
      if (event.order >> 32 == static_cast<std::uint64_t>(Kind::kNominalEnd)) {
        ReachNominalEnd(event.payload);
      } else {
        starting_.push_back(event.payload);
      }
    }
    while (next_change_ < changes.size() && changes[next_change_].at <= now_) {
      ChangeLink(changes[next_change_++]);
    }
    for (const OpId op : starting_) StartFlows(op);
    starting_.clear();
    if (!rates_stale_) return;
    SolveRates();
    if (completions_.empty() || completions_.top_time() > now_) return;
  }
}

// Nothing will happen any more, but not all ops have ended.
void Loop::NameStalled() {
  for (OpId op = 0; op < graph_.op_count(); ++op) {
    if (ops_[op].live_flows == 0) continue;
    schedule_.stalled = op;
    return;
  }
  assert(false && "an op waits for nobody and does not end");
}

void Loop::StartOp(OpId op) {
  const OpState& state = ops_[op];
  schedule_.start[op] = now_;
  events_.Push({now_ + state.duration, OrderOf(Kind::kNominalEnd, op), op});
  if (state.pattern == kNoPattern) return;
  if (state.latency == Time{0}) {
    starting_.push_back(op);
  } else {
    events_.Push({now_ + state.latency, OrderOf(Kind::kFlowsStart, op), op});
  }
}

void Loop::EndOp(OpId op) {
  schedule_.end[op] = now_;
  ++ended_;
  OpState& state = ops_[op];
  if (state.mode != Mode::kIdle) {
    while (state.first_flow != kNoIndex) RemoveFlow(state.first_flow);
    state.mode = Mode::kIdle;
    if (!share_from_start_) meetings_.Leave(op, state.pattern);
  }
  const std::uint32_t last = ops_[op + 1].first_successor;
  for (std::uint32_t i = state.first_successor; i < last; ++i) {
    if (--ops_[successors_[i]].waiting == 0) StartOp(successors_[i]);
  }
}

void Loop::ReachNominalEnd(OpId op) {
  OpState& state = ops_[op];
  if (state.mode == Mode::kShared && state.disturbed && state.live_flows > 0) {
    state.nominal_passed = true;
  } else {
    EndOp(op);
  }
}

void Loop::ChangeLink(const LinkChange& change) {
  if (factor_[change.link] == change.factor) return;
  factor_[change.link] = change.factor;
  sharing_.SetCapacity(change.link, traffic_.capacity()[change.link] * change.factor);
  rates_stale_ = true;
}

void Loop::StartFlows(OpId op) {
  ops_[op].mode = Mode::kAlone;
  if (share_from_start_) {
    Share(op);
    return;
  }
  for (const OpId met : meetings_.Arrive(op, ops_[op].pattern)) Share(met);
}

// Puts an active transfer's flows into the solver with what remains of their bytes.
void Loop::Share(OpId op) {
  OpState& state = ops_[op];
  const PatternId pattern = state.pattern;
  const double alone_s = alone_.Seconds(pattern);
  const double nominal_s = Seconds(state.duration - state.latency);
  // Within the rounding of a duration to a picosecond, bytes are what the pattern says.
  const double stretch = std::abs(nominal_s - alone_s) <= 1e-12 ? 1 : nominal_s / alone_s;
  const Time elapsed = now_ - schedule_.start[op] - state.latency;
  const std::span<const double> left = alone_.Left(pattern, Seconds(elapsed) / stretch, alone_s);

  state.mode = Mode::kShared;
  std::uint32_t number = traffic_.first_flow(pattern);
  for (const PreparedFlow& flow : traffic_.flows(pattern)) {
    const double bytes = left[number - traffic_.first_flow(pattern)];
    ++number;
    if (bytes <= 0) continue;
    const std::uint32_t id =
        sharing_.Add(traffic_.links(flow), flow.weight, flow.cap_bytes_per_s, traffic_.all(flow));
    if (id >= flows_.size()) flows_.resize(id + 1);
    flows_[id] = {.remaining = bytes * stretch,
                  .since = now_,
                  .rate = 0,
                  .op = op,
                  .number = number - 1,
                  .next = state.first_flow,
                  .previous = kNoIndex};
    if (state.first_flow != kNoIndex) flows_[state.first_flow].previous = id;
    state.first_flow = id;
    ++state.live_flows;
  }
  rates_stale_ = true;
}

void Loop::RemoveFlow(std::uint32_t id) {
  const FlowRun& flow = flows_[id];
  OpState& state = ops_[flow.op];
  if (flow.previous == kNoIndex) {
    state.first_flow = flow.next;
  } else {
    flows_[flow.previous].next = flow.next;
  }
  if (flow.next != kNoIndex) flows_[flow.next].previous = flow.previous;
  --state.live_flows;
  completions_.Erase(id);
  sharing_.Remove(id);
  rates_stale_ = true;
}

void Loop::EndFlow(std::uint32_t id) {
  const OpId op = flows_[id].op;
  RemoveFlow(id);
  if (ops_[op].live_flows == 0 && ops_[op].nominal_passed) EndOp(op);
}

void Loop::SolveRates() {
  rates_stale_ = false;
  ++solves_;
  for (const std::uint32_t id : sharing_.Solve()) {
    FlowRun& flow = flows_[id];
    OpState& state = ops_[flow.op];
    if (!state.disturbed) {
      const std::uint32_t link = sharing_.bottleneck(id);
      state.disturbed = (link != MaxMinSharing::kAtCap && Disturbs(link)) || IsOverWide(flow);
    }
    const std::int64_t rate = sharing_.rate_units(id);
    if (rate == flow.rate) continue;
    const double moved = sharing_.scale().BytesPerSecond(flow.rate) * Seconds(now_ - flow.since);
    flow.remaining = std::max(0.0, flow.remaining - moved);
    flow.rate = rate;
    flow.since = now_;
    SetCompletion(id);
  }
}

void Loop::SetCompletion(std::uint32_t id) {
  const FlowRun& flow = flows_[id];
  const double left_ps = std::ceil(flow.remaining / sharing_.scale().BytesPerSecond(flow.rate) *
                                       kPicosecondsPerSecond -
                                   kGridSlackPs);
  // Down, or so slow that the clock ends before: no completion.
  if (flow.rate == 0 || !(left_ps < static_cast<double>((kTimeMax - now_).ps))) {
    completions_.Erase(id);
    return;
  }
  completions_.Set(id, now_ + Time{static_cast<std::int64_t>(std::max(0.0, left_ps))},
                   (std::uint64_t{flow.op} << 32) | id);
}

// Does a transfer with its bottleneck on this link not have the rate that it has alone?
bool Loop::Disturbs(std::uint32_t link) {
  Crowd& crowd = crowd_[link];
  if (crowd.solve == solves_) return crowd.disturbs;
  crowd.solve = solves_;
  crowd.disturbs = factor_[link] != 1;
  const std::span<const MaxMinSharing::Crossing> crossings = sharing_.crossings(link);
  for (const MaxMinSharing::Crossing& crossing : crossings) {
    if (crowd.disturbs) break;
    const FlowRun& flow = flows_[crossing.flow];
    const PreparedFlow& prepared = traffic_.flow(flow.number);
    crowd.disturbs = flow.op != flows_[crossings[0].flow].op ||
                     (prepared.folded &&
                      traffic_.all(prepared)[crossing.hop] > traffic_.own(prepared)[crossing.hop]);
  }
  return crowd.disturbs;
}

// Crosses a link that is wider now than what its transfer was priced with.
bool Loop::IsOverWide(const FlowRun& flow) const {
  if (!traffic_.changes(ops_[flow.op].pattern)) return false;
  const std::span<const std::uint32_t> links = traffic_.links(traffic_.flow(flow.number));
  return std::any_of(links.begin(), links.end(),
                     [&](std::uint32_t link) { return factor_[link] > 1; });
}

}  // namespace

Schedule RunEventLoop(const OpGraph& graph, const Fabric& fabric, const EventLoopOptions& options) {
  return Loop(graph, fabric, options).Run();
}

}  // namespace aurum
