#include "sim/plan/simulate.h"

#include <algorithm>
#include <cstddef>

#include "sim/network/event_loop.h"
#include "sim/plan/breakdown.h"

namespace aurum {
namespace {

GapCause CommunicationCause(const OpInfo& info) {
  switch (info.kind) {
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

// Walks back from the op that ended a gap, always to the predecessor that ended last: the stretch in which a communication ran
// belongs to it, what lies before belongs to whatever that communication waited for. Another stage's compute on the way is a
// pipeline bubble.
class GapSplitter {
 public:
  GapSplitter(const Program& program, const Schedule& schedule)
      : program_(program), schedule_(schedule) {}

  // Appends the parts in time order.
  void Split(OpId waiting, Time start, Time end, GapCause bubble,
             std::vector<GapPart>* parts) const {
    const int micro_batch = program_.info[waiting].micro_batch;
    const std::uint32_t rank_class = program_.info[waiting].rank_class;
    const std::size_t known = parts->size();
    const auto found = [&](Time from, Time to, GapCause cause, OpId of) {
      parts->push_back({{from, to, cause, micro_batch}, of});
    };
    OpId op = waiting;
    Time upper = end;
    while (upper > start) {
      const OpId before = LastToEnd(op, op == waiting);
      if (before == op || (program_.info[before].lane == Lane::kMain &&
                           program_.info[before].rank_class == rank_class)) {
        found(start, upper, CommunicationCause(program_.info[op]), op);
        break;
      }
      const Time from = std::max(schedule_.start[before], start);
      if (program_.info[before].lane == Lane::kMain) {
        // Another stage computes, or a slower rank of this one; before that it may itself have waited.
        const bool same_stage = program_.classes[program_.info[before].rank_class].stage ==
                                program_.classes[rank_class].stage;
        if (from < upper) found(from, upper, same_stage ? GapCause::kStraggler : bubble, before);
        upper = from;
        op = before;
        continue;
      }
      if (from < upper) found(from, upper, CommunicationCause(program_.info[before]), before);
      upper = from;
      op = before;
    }
    std::reverse(parts->begin() + static_cast<std::ptrdiff_t>(known), parts->end());
  }

 private:
  // The predecessor whose end let `op` start (ties: the first); `op` itself if it has none. The op that waits was not held
  // up by its own stream, which was idle.
  OpId LastToEnd(OpId op, bool other_streams) const {
    const OpGraph& graph = program_.graph;
    OpId last = op;
    for (const OpId before : graph.predecessors(op)) {
      if (other_streams && graph.stream(before) == graph.stream(op)) continue;
      if (last == op || schedule_.end[before] > schedule_.end[last]) last = before;
    }
    return last;
  }

  const Program& program_;
  const Schedule& schedule_;
};

// Appends gaps; those that touch and have one cause become one.
void Join(const std::vector<GapPart>& parts, std::vector<Gap>* gaps) {
  for (const auto& [gap, op] : parts) {
    if (!gaps->empty() && gaps->back().end == gap.start && gaps->back().cause == gap.cause &&
        gaps->back().micro_batch == gap.micro_batch) {
      gaps->back().end = gap.end;
    } else {
      gaps->push_back(gap);
    }
  }
}

// The cause of a gap before `op` in which others compute; `computed`: the class has.
GapCause BubbleBefore(const OpInfo& op, bool computed) {
  if (op.kind == OpKind::kOptimizer) return GapCause::kPpCooldown;
  return computed ? GapCause::kPpOther : GapCause::kPpWarmup;
}

void AddOp(const OpInfo& info, double seconds, TimeBreakdown* time) {
  switch (info.kind) {
    case OpKind::kHost:
      time->data_wait_s += seconds;
      break;
    case OpKind::kOptimizer:
      time->optimizer_s += seconds;
      break;
    default:
      time->compute_s += seconds;
      time->slowed_s += info.slowed_s;
      break;
  }
}

void AddGap(const Gap& gap, TimeBreakdown* time) {
  const double seconds = Seconds(gap.end - gap.start);
  switch (gap.cause) {
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

struct ScheduleTimes {
  const Schedule& schedule;
  Time Start(OpId op) const { return schedule.start[op]; }
  Time End(OpId op) const { return schedule.end[op]; }
};

}  // namespace

std::string_view LevelName(Level level) {
  switch (level) {
    case Level::kAnalytic:
      return "analytic";
    case Level::kFlow:
      return "flow";
    case Level::kAuto:
      return "auto";
    case Level::kChunk:
      return "chunk";
  }
  return "";
}

Traffic TrafficOf(Level level) {
  switch (level) {
    case Level::kAnalytic:
      return Traffic::kNone;
    case Level::kFlow:
    case Level::kAuto:
      return Traffic::kFlows;
    case Level::kChunk:
      return Traffic::kChunks;
  }
  return Traffic::kNone;
}

std::optional<Level> LevelByName(std::string_view name) {
  for (const Level level : {Level::kAnalytic, Level::kFlow, Level::kAuto, Level::kChunk}) {
    if (LevelName(level) == name) return level;
  }
  return std::nullopt;
}

Schedule SimulateSchedule(const Program& program, Level level, double epsilon) {
  if (level == Level::kAnalytic) return EvaluateMaxPlus(program.graph);
  return RunEventLoop(program.graph, program.fabric,
                      {.share_from_start = level != Level::kAuto, .epsilon = epsilon});
}

std::vector<GapPart> GapsByOp(const Program& program, const Schedule& schedule, int rank_class) {
  std::vector<GapPart> parts;
  const GapSplitter splitter(program, schedule);
  Time busy_until{};
  bool computed = false;
  for (OpId op = 0; op < program.info.size(); ++op) {
    const OpInfo& info = program.info[op];
    if (info.lane != Lane::kMain || info.rank_class != static_cast<std::uint32_t>(rank_class))
      continue;
    if (schedule.start[op] > busy_until) {
      splitter.Split(op, busy_until, schedule.start[op], BubbleBefore(info, computed), &parts);
    }
    busy_until = std::max(busy_until, schedule.end[op]);
    computed = computed || info.kind == OpKind::kForward;
  }
  if (busy_until < schedule.makespan)
    parts.push_back({{busy_until, schedule.makespan, GapCause::kPpCooldown, -1}, kNoOp});
  return parts;
}

Outcome Simulate(const Program& program, Level level, double epsilon) {
  Outcome outcome;
  outcome.level = level;
  outcome.schedule = SimulateSchedule(program, level, epsilon);
  outcome.signature = Signature(outcome.schedule);
  const Schedule& schedule = outcome.schedule;
  const ScheduleTimes times{schedule};
  GapSplitter splitter(program, times);
  const std::size_t classes = program.classes.size();
  outcome.time.resize(classes);
  outcome.gaps.resize(classes);
  std::vector<Time> busy_until(classes);
  std::vector<bool> computed(classes, false);
  std::vector<GapPart> parts;
  // Ops of one stream are in launch order; the gap before each has a cause.
  for (OpId op = 0; op < program.info.size(); ++op) {
    const OpInfo& info = program.info[op];
    if (info.lane != Lane::kMain) continue;
    const std::size_t c = info.rank_class;
    if (schedule.start[op] > busy_until[c]) {
      parts.clear();
      splitter.Split(op, busy_until[c], schedule.start[op], BubbleBefore(info, computed[c]),
                     &parts);
      Join(parts, &outcome.gaps[c]);
      splitter.Split(op, busy_until[c], schedule.start[op], BubbleBefore(info.kind, computed[c]),
                     &outcome.gaps[c]);
    }
    busy_until[c] = std::max(busy_until[c], schedule.end[op]);
    computed[c] = computed[c] || info.kind == OpKind::kForward;
    AddKernelTime(info.kind, Seconds(program.graph.duration(op)), info.slowed_s, &outcome.time[c]);
  }
  double most = -1;
  for (std::size_t c = 0; c < classes; ++c) {
    if (busy_until[c] < schedule.makespan)
      outcome.gaps[c].push_back({busy_until[c], schedule.makespan, GapCause::kPpCooldown, -1});
    TimeBreakdown& time = outcome.time[c];
    AddGaps(outcome.gaps[c], &time);
    if (time.compute_s > most * kBusier) {
      most = time.compute_s;
      outcome.busiest_class = static_cast<int>(c);
    }
  }
  return outcome;
}

}  // namespace aurum
