#include "sim/network/event_loop.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "sim/network/event_heap.h"
#include "sim/network/max_min.h"

namespace aurum {

// How a transfer lives.
//
// Its `duration` already holds what its own flows do to each other, so the loop need not look at
// them until somebody else comes near. Three stages, each exact:
//
//  1. Alone. An op's *nominal* end, start + duration, is put into the event list when it starts.
//  When a transfer's latency
//     is over, the loop asks whether it can meet anyone: for each of its links, is the sum of the
//     most that it and the active transfers there can put on it above the capacity? If nowhere, no
//     shared link can bind; take such links away and the max-min problem falls apart into one
//     problem per transfer, whose solution is the one that `duration` was computed from. The
//     transfer ends at its nominal end, bit for bit what the max-plus pass says, and costs two
//     events however many flows it has.
//  2. Shared. Where a link can be asked for too much, the new transfer and those active on that
//  link put their flows into
//     the sharing solver, with what remains of their bytes. Rates change, completions move.
//  3. Disturbed. Not every shared transfer is slowed. One is disturbed once a flow of it has its
//  bottleneck on a link that
//     carries a flow of another transfer. As long as that never happens, every certificate of its
//     rates names only its own flows and caps, so its rates are those that it has alone, and it
//     still ends at its nominal end exactly.
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
// All events of one instant are drained before rates are solved once: ends first (flows, then ops),
// then starts of flows, by op id within a phase. Cost: O(log ops) per event; a solve touches the
// flows near a change (max_min.h).

namespace {

enum class Mode : std::uint8_t { kIdle, kAlone, kShared };

enum class Phase : std::uint64_t { kNominalEnd = 0, kFlowsStart = 1 };

constexpr std::uint32_t kNone = 0xffffffffU;
// Relative slack when loads are compared with a capacity: loads are sums of rates that were divided
// to fit exactly.
constexpr double kFitSlack = 1e-9;
// A completion less than this after a picosecond is at that picosecond: remaining / rate is good to
// 1e-4 ps at most.
constexpr double kGridSlackPs = 1e-3;

std::uint64_t OrderOf(Phase phase, OpId op) {
  return (static_cast<std::uint64_t>(phase) << 32) | op;
}

struct OpState {
  std::uint32_t waiting = 0;  // predecessors that have not ended
  std::uint32_t live_flows = 0;
  std::uint32_t first_flow = kNone;
  Mode mode = Mode::kIdle;
  bool disturbed = false;
  bool nominal_passed = false;
};

struct FlowRun {
  OpId op = 0;
  std::uint32_t index = 0;                       // in the pattern
  std::uint32_t next = kNone, previous = kNone;  // flows of the same op
  double remaining = 0;                          // bytes, at `since`
  double rate = 0;
  Time since;
};

struct LinkPeak {
  std::uint32_t link;  // dense id
  double peak;         // the most that the pattern can put on it, B/s
};

// A flow that has bytes and a limit, on dense links.
struct UsableFlow {
  std::uint32_t first_link = 0, last_link = 0;  // in flow_links_
  double bytes = 0;
  double weight = 1;
  double cap = kNoCap;
  double most = 0;  // the narrowest of its cap and its links, B/s
};

// [first, last) of one of the loop's arrays.
struct Range {
  std::uint32_t first = 0, last = 0;
};

// What the loop knows of a pattern. Lists are ranges of arrays common to all, since a plan may have a pattern per transfer.
struct PatternState {
  Range flows;  // usable_
  Range peaks;  // peaks_, by link, ascending
  Range
      neighbours;  // neighbours_: patterns with a common link, itself included; empty if the loop is dense
  std::vector<OpId> active;  // ops alone or shared
  double alone_s = -1;       // time of the flows with nobody else; < 0 until asked for
  bool one_phase = false;    // all flows end together when alone
};

class Loop {
 public:
  Loop(const OpGraph& graph, const Fabric& fabric, const EventLoopOptions& options)
      : graph_(graph), dense_(options.share_from_start) {
    BuildSuccessors();
    PreparePatterns(fabric);
  }

  Schedule Run();

 private:
  void BuildSuccessors();
  void PreparePatterns(const Fabric& fabric);
  void FindNeighbours();
  bool Travels(OpId op) const {
    const PatternId pattern = graph_.pattern(op);
    return pattern != kNoPattern &&
           patterns_[pattern].flows.first != patterns_[pattern].flows.last &&
           graph_.duration(op) > graph_.latency(op);
  }

  void StartOp(OpId op);
  void EndOp(OpId op);
  void ReachNominalEnd(OpId op);
  void StartFlows(OpId op);
  void EndFlow(std::uint32_t flow);
  void SolveRates();

  template <typename T>
  static std::span<const T> In(const std::vector<T>& all, Range range) {
    return {all.data() + range.first, all.data() + range.last};
  }
  std::span<const std::uint32_t> LinksOf(const UsableFlow& flow) const {
    return In(flow_links_, {flow.first_link, flow.last_link});
  }

  const std::vector<PatternId>& PatternsThatMeet(PatternId arriving);
  void FindMeeting(PatternId arriving, std::vector<PatternId>* meeting);
  void Share(OpId op);
  void Leave(OpId op);
  void RemoveFlow(std::uint32_t flow);
  bool SharesBottleneck(std::uint32_t flow) const;
  double AloneSeconds(PatternState& pattern);
  double RunAlone(PatternState& pattern, double until_s, std::vector<double>* remaining);

  const OpGraph& graph_;
  std::vector<std::uint32_t> first_successor_;
  std::vector<OpId> successors_;
  std::vector<OpState> ops_;
  std::vector<PatternState> patterns_;
  std::vector<UsableFlow> usable_;
  std::vector<std::uint32_t> flow_links_;
  std::vector<LinkPeak> peaks_;
  std::vector<std::uint32_t>
      active_count_;  // by pattern, active.size(): small enough to stay in cache
  std::vector<PatternId> neighbours_;
  bool dense_ =
      false;  // too many patterns per link to list neighbours: all transfers are shared at once
  std::vector<double> capacity_;           // dense links
  std::vector<std::uint32_t> dense_link_;  // by fabric link
  std::vector<double>
      load_;  // scratch of FindMeeting, by dense link; < 0 = not of the arriving pattern
  std::map<std::vector<std::uint32_t>, std::vector<PatternId>> meetings_;
  std::vector<std::uint32_t> meeting_key_;  // scratch of PatternsThatMeet
  std::vector<PatternId> meeting_;

  std::vector<FlowRun> flows_;  // by the solver's flow id
  MaxMinSharing sharing_{std::span<const double>{}};
  MaxMinSharing alone_sharing_{std::span<const double>{}};
  EventHeap<OpId> events_;
  IndexedEventHeap completions_;
  bool rates_stale_ = false;
  Time now_;
  Schedule schedule_;
};

void Loop::BuildSuccessors() {
  const std::size_t n = graph_.op_count();
  ops_.resize(n);
  first_successor_.assign(n + 2, 0);
  for (OpId op = 0; op < n; ++op) {
    const std::span<const OpId> before = graph_.predecessors(op);
    ops_[op].waiting = static_cast<std::uint32_t>(before.size());
    for (const OpId predecessor : before) ++first_successor_[predecessor + 2];
  }
  for (std::size_t i = 2; i < n + 2; ++i) first_successor_[i] += first_successor_[i - 1];
  successors_.resize(first_successor_[n + 1]);
  for (OpId op = 0; op < n; ++op) {
    for (const OpId predecessor : graph_.predecessors(op)) {
      successors_[first_successor_[predecessor + 1]++] = op;
    }
  }
}

void Loop::PreparePatterns(const Fabric& fabric) {
  patterns_.resize(graph_.pattern_count());
  active_count_.resize(graph_.pattern_count());
  std::vector<bool> used(graph_.pattern_count(), false);
  for (OpId op = 0; op < graph_.op_count(); ++op) {
    if (graph_.pattern(op) != kNoPattern) used[graph_.pattern(op)] = true;
  }
  dense_link_.assign(fabric.capacity_bytes_per_s.size(), kNone);
  for (PatternId id = 0; id < patterns_.size(); ++id) {
    if (!used[id]) continue;
    PatternState& pattern = patterns_[id];
    pattern.flows.first = static_cast<std::uint32_t>(usable_.size());
    pattern.peaks.first = static_cast<std::uint32_t>(peaks_.size());
    for (const Flow& flow : graph_.traffic(id).flows) {
      UsableFlow usable{
          .first_link = static_cast<std::uint32_t>(flow_links_.size()),
          .last_link = static_cast<std::uint32_t>(flow_links_.size() + flow.links.size()),
          .bytes = flow.bytes,
          .weight = flow.weight,
          .cap = flow.cap_bytes_per_s > 0 ? flow.cap_bytes_per_s : kNoCap,
          .most = kNoCap};
      usable.most = usable.cap;
      for (const std::uint32_t link : flow.links) {
        assert(link < dense_link_.size() && fabric.capacity_bytes_per_s[link] > 0);
        usable.most = std::min(usable.most, fabric.capacity_bytes_per_s[link]);
      }
      // Nothing to send, or nothing that limits it: over as soon as the latency is.
      if (!(flow.bytes > 0) || usable.most == kNoCap) continue;
      for (const std::uint32_t link : flow.links) {
        if (dense_link_[link] == kNone) {
          dense_link_[link] = static_cast<std::uint32_t>(capacity_.size());
          capacity_.push_back(fabric.capacity_bytes_per_s[link]);
        }
        flow_links_.push_back(dense_link_[link]);
        peaks_.push_back({dense_link_[link], usable.most});
      }
      usable_.push_back(usable);
    }
    pattern.flows.last = static_cast<std::uint32_t>(usable_.size());
    const auto begin = peaks_.begin() + pattern.peaks.first;
    std::stable_sort(begin, peaks_.end(),
                     [](const LinkPeak& a, const LinkPeak& b) { return a.link < b.link; });
    auto kept = begin;  // past the last link that is summed up
    for (auto peak = begin; peak != peaks_.end(); ++peak) {
      if (kept != begin && (kept - 1)->link == peak->link) {
        (kept - 1)->peak += peak->peak;
      } else {
        *kept++ = *peak;
      }
    }
    peaks_.erase(kept, peaks_.end());
    for (auto peak = begin; peak != peaks_.end(); ++peak) {
      peak->peak = std::min(peak->peak, capacity_[peak->link]);
    }
    pattern.peaks.last = static_cast<std::uint32_t>(peaks_.size());
  }
  load_.assign(capacity_.size(), -1);
  FindNeighbours();
  sharing_ = MaxMinSharing(capacity_);
}

void Loop::FindNeighbours() {
  if (dense_) return;
  std::vector<std::uint32_t> first(capacity_.size() + 2, 0);
  for (const LinkPeak& peak : peaks_) ++first[peak.link + 2];
  std::size_t pairs = 0;
  std::size_t crossings = 0;
  for (std::size_t i = 2; i < first.size(); ++i) {
    pairs += std::size_t{first[i]} * first[i];
    crossings += first[i];
    first[i] += first[i - 1];
  }
  // Past this many pairs per crossing, listing neighbours costs more than sharing from the start.
  constexpr std::size_t kPairsPerCrossing = 64;
  if (pairs > kPairsPerCrossing * (crossings + 1024)) {
    dense_ = true;
    return;
  }
  std::vector<PatternId> on_link(crossings);
  for (PatternId id = 0; id < patterns_.size(); ++id) {
    for (const LinkPeak& peak : In(peaks_, patterns_[id].peaks))
      on_link[first[peak.link + 1]++] = id;
  }
  std::vector<PatternId> seen_by(patterns_.size(), kNoPattern);
  for (PatternId id = 0; id < patterns_.size(); ++id) {
    PatternState& pattern = patterns_[id];
    pattern.neighbours.first = static_cast<std::uint32_t>(neighbours_.size());
    for (const LinkPeak& peak : In(peaks_, pattern.peaks)) {
      for (std::uint32_t i = first[peak.link]; i < first[peak.link + 1]; ++i) {
        if (seen_by[on_link[i]] == id) continue;
        seen_by[on_link[i]] = id;
        neighbours_.push_back(on_link[i]);
      }
    }
    pattern.neighbours.last = static_cast<std::uint32_t>(neighbours_.size());
  }
}

Schedule Loop::Run() {
  const std::size_t n = graph_.op_count();
  schedule_.start.resize(n);
  schedule_.end.resize(n);
  for (OpId op = 0; op < n; ++op) {
    if (ops_[op].waiting == 0) StartOp(op);
  }
  while (!events_.empty() || !completions_.empty()) {
    now_ = kTimeMax;
    if (!events_.empty()) now_ = events_.top().time;
    if (!completions_.empty()) now_ = std::min(now_, completions_.top_time());
    for (;;) {
      if (!completions_.empty() && completions_.top_time() == now_) {
        EndFlow(completions_.top_slot());
      } else if (!events_.empty() && events_.top().time == now_) {
        const EventHeap<OpId>::Event event = events_.Pop();
        if (event.order >> 32 == static_cast<std::uint64_t>(Phase::kNominalEnd)) {
          ReachNominalEnd(event.payload);
        } else {
          StartFlows(event.payload);
        }
      } else if (rates_stale_) {
        SolveRates();
      } else {
        break;
      }
    }
  }
  schedule_.makespan = {0};
  for (const Time end : schedule_.end) schedule_.makespan = std::max(schedule_.makespan, end);
  return std::move(schedule_);
}

void Loop::StartOp(OpId op) {
  schedule_.start[op] = now_;
  events_.Push({now_ + graph_.duration(op), OrderOf(Phase::kNominalEnd, op), op});
  if (Travels(op)) events_.Push({now_ + graph_.latency(op), OrderOf(Phase::kFlowsStart, op), op});
}

void Loop::EndOp(OpId op) {
  schedule_.end[op] = now_;
  if (ops_[op].mode != Mode::kIdle) Leave(op);
  for (std::uint32_t i = first_successor_[op]; i < first_successor_[op + 1]; ++i) {
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

void Loop::StartFlows(OpId op) {
  const PatternId id = graph_.pattern(op);
  ops_[op].mode = Mode::kAlone;
  if (dense_) {
    Share(op);
    return;
  }
  const std::vector<PatternId>& meeting = PatternsThatMeet(id);
  patterns_[id].active.push_back(op);
  ++active_count_[id];
  for (const PatternId met : meeting) {
    for (const OpId other : patterns_[met].active) {
      if (ops_[other].mode == Mode::kAlone) Share(other);
    }
  }
}

// The patterns that must share if a transfer of `arriving` starts now: those active on a link that
// could be asked for more than its capacity, and `arriving` itself; empty if there is no such link.
const std::vector<PatternId>& Loop::PatternsThatMeet(PatternId arriving) {
  std::vector<std::uint32_t>& key = meeting_key_;
  key.assign(1, arriving);
  std::size_t work = patterns_[arriving].peaks.last - patterns_[arriving].peaks.first;
  for (const PatternId id : In(neighbours_, patterns_[arriving].neighbours)) {
    if (active_count_[id] == 0) continue;
    key.push_back(id);
    key.push_back(active_count_[id]);
    work += patterns_[id].peaks.last - patterns_[id].peaks.first;
  }
  meeting_.clear();
  if (key.size() == 1) return meeting_;
  // Big patterns meet in the same few combinations again and again (every micro-batch); small ones are quicker to redo.
  constexpr std::size_t kWorthRemembering = 256;
  constexpr std::size_t kMostRemembered = 4096;
  if (work < kWorthRemembering) {
    FindMeeting(arriving, &meeting_);
    return meeting_;
  }
  const auto found = meetings_.find(key);
  if (found != meetings_.end()) return found->second;
  if (meetings_.size() >= kMostRemembered) meetings_.clear();
  std::vector<PatternId>& remembered = meetings_[key];
  FindMeeting(arriving, &remembered);
  return remembered;
}

// Works on meeting_key_: (arriving, then each active neighbour and how many ops of it are active).
void Loop::FindMeeting(PatternId arriving, std::vector<PatternId>* meeting) {
  const std::span<const LinkPeak> own = In(peaks_, patterns_[arriving].peaks);
  for (const LinkPeak& peak : own) load_[peak.link] = peak.peak;
  for (std::size_t i = 1; i < meeting_key_.size(); i += 2) {
    const double count = meeting_key_[i + 1];
    for (const LinkPeak& peak : In(peaks_, patterns_[meeting_key_[i]].peaks)) {
      if (load_[peak.link] >= 0) load_[peak.link] += count * peak.peak;
    }
  }
  const auto overloaded = [&](const LinkPeak& peak) {
    return load_[peak.link] > capacity_[peak.link] * (1 + kFitSlack);
  };
  if (std::any_of(own.begin(), own.end(), overloaded)) {
    meeting->push_back(arriving);
    for (std::size_t i = 1; i < meeting_key_.size(); i += 2) {
      const std::span<const LinkPeak> peaks = In(peaks_, patterns_[meeting_key_[i]].peaks);
      if (meeting_key_[i] != arriving && std::any_of(peaks.begin(), peaks.end(), overloaded)) {
        meeting->push_back(meeting_key_[i]);
      }
    }
  }
  for (const LinkPeak& peak : own) load_[peak.link] = -1;
}

// Puts an active transfer's flows into the solver with what remains of their bytes.
void Loop::Share(OpId op) {
  PatternState& pattern = patterns_[graph_.pattern(op)];
  const double alone_s = AloneSeconds(pattern);
  const double nominal_s = Seconds(graph_.duration(op) - graph_.latency(op));
  // Within the rounding of a duration to a picosecond, bytes are what the pattern says.
  const double stretch = std::abs(nominal_s - alone_s) <= 1e-12 ? 1 : nominal_s / alone_s;
  const double elapsed_s = Seconds(now_ - schedule_.start[op] - graph_.latency(op)) / stretch;
  std::vector<double> remaining;
  if (elapsed_s > 0 && !pattern.one_phase) RunAlone(pattern, elapsed_s, &remaining);

  OpState& state = ops_[op];
  state.mode = Mode::kShared;
  const std::span<const UsableFlow> flows = In(usable_, pattern.flows);
  for (std::size_t i = 0; i < flows.size(); ++i) {
    const UsableFlow& flow = flows[i];
    double bytes = flow.bytes;
    if (elapsed_s > 0) {
      bytes = pattern.one_phase ? bytes * std::max(0.0, 1 - elapsed_s / alone_s) : remaining[i];
    }
    if (bytes <= 0) continue;
    const std::uint32_t id = sharing_.Add(LinksOf(flow), flow.weight, flow.cap);
    if (id >= flows_.size()) flows_.resize(id + 1);
    flows_[id] = {.op = op,
                  .index = static_cast<std::uint32_t>(i),
                  .next = state.first_flow,
                  .previous = kNone,
                  .remaining = bytes * stretch,
                  .rate = 0,
                  .since = now_};
    if (state.first_flow != kNone) flows_[state.first_flow].previous = id;
    state.first_flow = id;
    ++state.live_flows;
  }
  rates_stale_ = true;
}

// The op has ended: nothing of it is on the network any more.
void Loop::Leave(OpId op) {
  while (ops_[op].first_flow != kNone) RemoveFlow(ops_[op].first_flow);
  ops_[op].mode = Mode::kIdle;
  if (dense_) return;
  std::erase(patterns_[graph_.pattern(op)].active, op);
  --active_count_[graph_.pattern(op)];
}

void Loop::RemoveFlow(std::uint32_t id) {
  const FlowRun& flow = flows_[id];
  OpState& state = ops_[flow.op];
  if (flow.previous == kNone) {
    state.first_flow = flow.next;
  } else {
    flows_[flow.previous].next = flow.next;
  }
  if (flow.next != kNone) flows_[flow.next].previous = flow.previous;
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
  for (const std::uint32_t id : sharing_.Solve()) {
    FlowRun& flow = flows_[id];
    OpState& state = ops_[flow.op];
    if (!state.disturbed && SharesBottleneck(id)) state.disturbed = true;
    const double rate = sharing_.rate(id);
    if (rate == flow.rate) continue;
    flow.remaining = std::max(0.0, flow.remaining - flow.rate * Seconds(now_ - flow.since));
    flow.rate = rate;
    flow.since = now_;
    const double left_ps = std::ceil(flow.remaining / rate * kPicosecondsPerSecond - kGridSlackPs);
    assert(left_ps < 9.2e18);
    completions_.Set(id, now_ + Time{static_cast<std::int64_t>(std::max(0.0, left_ps))},
                     (std::uint64_t{flow.op} << 32) | flow.index);
  }
}

bool Loop::SharesBottleneck(std::uint32_t id) const {
  const std::uint32_t link = sharing_.bottleneck(id);
  if (link == MaxMinSharing::kAtCap) return false;
  for (const MaxMinSharing::Crossing& crossing : sharing_.crossings(link)) {
    if (flows_[crossing.flow].op != flows_[id].op) return true;
  }
  return false;
}

double Loop::AloneSeconds(PatternState& pattern) {
  if (pattern.alone_s >= 0) return pattern.alone_s;
  if (pattern.flows.last - pattern.flows.first == 1) {
    const UsableFlow& flow = usable_[pattern.flows.first];
    pattern.one_phase = true;
    return pattern.alone_s = flow.bytes / flow.most;
  }
  return pattern.alone_s = RunAlone(pattern, std::numeric_limits<double>::infinity(), nullptr);
}

// The pattern's flows with nobody else, up to `until_s`: the time reached, and the bytes left by
// flow. O(flows) per phase, and as many phases as there are distinct ends.
double Loop::RunAlone(PatternState& pattern, double until_s, std::vector<double>* remaining) {
  if (alone_sharing_.link_count() != capacity_.size()) alone_sharing_ = MaxMinSharing(capacity_);
  const std::span<const UsableFlow> flows = In(usable_, pattern.flows);
  struct Open {
    std::size_t index;
    MaxMinSharing::FlowId id;
  };
  std::vector<Open> open;
  std::vector<double> left(flows.size());
  for (std::size_t i = 0; i < left.size(); ++i) {
    left[i] = flows[i].bytes;
    open.push_back({i, alone_sharing_.Add(LinksOf(flows[i]), flows[i].weight, flows[i].cap)});
  }
  double reached_s = 0;
  int phases = 0;
  while (!open.empty()) {
    alone_sharing_.Solve();
    double step_s = until_s - reached_s;
    for (const Open& flow : open) {
      step_s = std::min(step_s, left[flow.index] / alone_sharing_.rate(flow.id));
    }
    const bool stop = step_s >= until_s - reached_s;
    reached_s += step_s;
    ++phases;
    std::erase_if(open, [&](const Open& flow) {
      const double rate = alone_sharing_.rate(flow.id);
      // Ends that differ by rounding alone are one end.
      const bool done = left[flow.index] <= rate * (step_s + 1e-12 * reached_s);
      left[flow.index] = done ? 0 : left[flow.index] - rate * step_s;
      if (done) alone_sharing_.Remove(flow.id);
      return done;
    });
    if (stop) break;
  }
  for (const Open& flow : open) alone_sharing_.Remove(flow.id);
  if (until_s == std::numeric_limits<double>::infinity()) pattern.one_phase = phases == 1;
  if (remaining != nullptr) *remaining = std::move(left);
  return reached_s;
}

}  // namespace

Schedule RunEventLoop(const OpGraph& graph, const Fabric& fabric, const EventLoopOptions& options) {
  return Loop(graph, fabric, options).Run();
}

}  // namespace aurum
