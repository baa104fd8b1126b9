#pragma once

#include <algorithm>
#include <vector>

#include "sim/plan/simulate.h"

namespace aurum {

// How the time of a rank class is told apart: what an op and a gap of its kernels' stream count as.
// Shared by the simulation of every op and by that of chains of them (retime.h): `Times` tells an op's
// Start() and End().

inline GapCause CommunicationCause(OpKind kind) {
  switch (kind) {
    case OpKind::kTpCollective:
      return GapCause::kTp;
    case OpKind::kParameterGather:
      return GapCause::kDpGather;
    case OpKind::kGradientReduce:
      return GapCause::kDpReduce;
    case OpKind::kAlignment:
      return GapCause::kAlignment;
    case OpKind::kContextCollective:
      return GapCause::kCp;
    case OpKind::kExpertCollective:
      return GapCause::kEp;
    case OpKind::kHostTransfer:
      return GapCause::kHost;
    default:
      return GapCause::kPpTransfer;
  }
}

// Stretches that follow each other with one cause are one.
inline void AppendGap(const Gap& gap, std::vector<Gap>* gaps) {
  if (!gaps->empty() && gaps->back().end == gap.start && gaps->back().cause == gap.cause &&
      gaps->back().micro_batch == gap.micro_batch) {
    gaps->back().end = gap.end;
  } else {
    gaps->push_back(gap);
  }
}

// Walks back from the op that ended a gap, always to the predecessor that ended last: the stretch in
// which a communication ran belongs to it, what lies before belongs to whatever that communication
// waited for. Another stage's compute on the way is a pipeline bubble.
template <typename Times>
class GapSplitter {
 public:
  GapSplitter(const Program& program, const Times& times) : program_(program), times_(times) {}

  void Split(OpId waiting, Time start, Time end, GapCause bubble, std::vector<Gap>* gaps) {
    Find(waiting, start, end, bubble);
    for (std::size_t i = found_.size(); i-- > 0;) AppendGap(found_[i].gap, gaps);
  }
  // The same, with the op that each part is of.
  void Split(OpId waiting, Time start, Time end, GapCause bubble, std::vector<GapPart>* parts) {
    Find(waiting, start, end, bubble);
    parts->insert(parts->end(), found_.rbegin(), found_.rend());
  }

 private:
  // From the last part to the first.
  void Find(OpId waiting, Time start, Time end, GapCause bubble) {
    const int micro_batch = program_.info[waiting].micro_batch;
    const std::uint32_t rank_class = program_.info[waiting].rank_class;
    found_.clear();
    OpId op = waiting;
    Time upper = end;
    while (upper > start) {
      const OpId before = LastToEnd(op, op == waiting);
      const OpInfo& info = program_.info[before];
      if (before == op || (info.lane == Lane::kMain && info.rank_class == rank_class)) {
        found_.push_back(
            {{start, upper, CommunicationCause(program_.info[op].kind), micro_batch}, op});
        break;
      }
      const Time from = std::max(times_.Start(before), start);
      if (info.lane == Lane::kMain) {
        // Another stage computes, or a slower rank of this one; before that it may itself have waited.
        const bool same_stage =
            program_.classes[info.rank_class].stage == program_.classes[rank_class].stage;
        if (from < upper)
          found_.push_back(
              {{from, upper, same_stage ? GapCause::kStraggler : bubble, micro_batch}, before});
      } else if (from < upper) {
        found_.push_back({{from, upper, CommunicationCause(info.kind), micro_batch}, before});
      }
      upper = from;
      op = before;
    }
  }

  // The predecessor whose end let `op` start (ties: the first); `op` itself if it has none. The op that
  // waits was not held up by its own stream, which was idle.
  OpId LastToEnd(OpId op, bool other_streams) const {
    const OpGraph& graph = program_.graph;
    OpId last = op;
    Time last_end;
    for (const OpId before : graph.predecessors(op)) {
      if (other_streams && graph.stream(before) == graph.stream(op)) continue;
      const Time end = times_.End(before);
      if (last == op || end > last_end) {
        last = before;
        last_end = end;
      }
    }
    return last;
  }

  const Program& program_;
  const Times& times_;
  std::vector<GapPart> found_;
};

// What seconds of the kernels' stream count as.
inline void AddKernelTime(OpKind kind, double seconds, double slowed_s, TimeBreakdown* time) {
  switch (kind) {
    case OpKind::kHost:
      time->data_wait_s += seconds;
      break;
    case OpKind::kOptimizer:
      time->optimizer_s += seconds;
      break;
    default:
      time->compute_s += seconds;
      time->slowed_s += slowed_s;
      break;
  }
}

// The cause of a gap that another stage's compute makes, before a kernel of that kind.
inline GapCause BubbleBefore(OpKind kind, bool computed) {
  if (kind == OpKind::kOptimizer) return GapCause::kPpCooldown;
  return computed ? GapCause::kPpOther : GapCause::kPpWarmup;
}

inline void AddGapTime(GapCause cause, double seconds, TimeBreakdown* time) {
  switch (cause) {
    case GapCause::kTp:
      time->tp_s += seconds;
      break;
    case GapCause::kCp:
      time->cp_s += seconds;
      break;
    case GapCause::kEp:
      time->ep_s += seconds;
      break;
    case GapCause::kHost:
      time->host_s += seconds;
      break;
    case GapCause::kDpGather:
      time->dp_gather_s += seconds;
      break;
    case GapCause::kDpReduce:
      time->dp_reduce_s += seconds;
      break;
    case GapCause::kPpTransfer:
      time->pp_transfer_s += seconds;
      break;
    case GapCause::kPpWarmup:
      time->pp_warmup_s += seconds;
      break;
    case GapCause::kPpCooldown:
      time->pp_cooldown_s += seconds;
      break;
    case GapCause::kPpOther:
      time->pp_other_s += seconds;
      break;
    case GapCause::kAlignment:
      time->alignment_wait_s += seconds;
      break;
    case GapCause::kStraggler:
      time->straggler_wait_s += seconds;
      break;
  }
}

inline void AddGaps(const std::vector<Gap>& gaps, TimeBreakdown* time) {
  for (const Gap& gap : gaps) AddGapTime(gap.cause, Seconds(gap.end - gap.start), time);
}

// After all gaps, in order of time.
inline void SumGaps(TimeBreakdown* time) {
  time->exposed_comm_s = time->tp_s + time->dp_gather_s + time->dp_reduce_s + time->pp_transfer_s +
                         time->cp_s + time->ep_s + time->host_s;
  time->bubble_s = time->pp_warmup_s + time->pp_cooldown_s + time->pp_other_s;
}

// Of two classes, the busier one has more compute by this factor: less is rounding.
inline constexpr double kBusier = 1 + 1e-9;

}  // namespace aurum
