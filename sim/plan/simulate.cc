#include "sim/plan/simulate.h"

#include <algorithm>

#include "sim/network/event_loop.h"

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

  void Split(OpId waiting, Time start, Time end, GapCause bubble, std::vector<Gap>* gaps) const {
    const int micro_batch = program_.info[waiting].micro_batch;
    const std::uint32_t rank_class = program_.info[waiting].rank_class;
    std::vector<Gap> found;
    OpId op = waiting;
    Time upper = end;
    while (upper > start) {
      const OpId before = LastToEnd(op, op == waiting);
      if (before == op || (program_.info[before].lane == Lane::kMain &&
                           program_.info[before].rank_class == rank_class)) {
        found.push_back({start, upper, CommunicationCause(program_.info[op]), micro_batch});
        break;
      }
      const Time from = std::max(schedule_.start[before], start);
      if (program_.info[before].lane == Lane::kMain) {
        // Another stage computes, or a slower rank of this one; before that it may itself have waited.
        const bool same_stage = program_.classes[program_.info[before].rank_class].stage ==
                                program_.classes[rank_class].stage;
        if (from < upper) {
          found.push_back({from, upper, same_stage ? GapCause::kStraggler : bubble, micro_batch});
        }
        upper = from;
        op = before;
        continue;
      }
      if (from < upper)
        found.push_back({from, upper, CommunicationCause(program_.info[before]), micro_batch});
      upper = from;
      op = before;
    }
    std::reverse(found.begin(), found.end());
    for (const Gap& gap : found) {
      if (!gaps->empty() && gaps->back().end == gap.start && gaps->back().cause == gap.cause &&
          gaps->back().micro_batch == gap.micro_batch) {
        gaps->back().end = gap.end;
      } else {
        gaps->push_back(gap);
      }
    }
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

Outcome Simulate(const Program& program, Level level, double epsilon) {
  Outcome outcome;
  outcome.level = level;
  outcome.schedule = SimulateSchedule(program, level, epsilon);
  outcome.signature = Signature(outcome.schedule);
  const Schedule& schedule = outcome.schedule;
  const GapSplitter splitter(program, schedule);
  const std::size_t classes = program.classes.size();
  outcome.time.resize(classes);
  outcome.gaps.resize(classes);
  std::vector<Time> busy_until(classes);
  std::vector<bool> computed(classes, false);
  // Ops of one stream are in launch order; the gap before each has a cause.
  for (OpId op = 0; op < program.info.size(); ++op) {
    const OpInfo& info = program.info[op];
    if (info.lane != Lane::kMain) continue;
    const std::size_t c = info.rank_class;
    if (schedule.start[op] > busy_until[c]) {
      GapCause bubble = GapCause::kPpOther;
      if (!computed[c]) bubble = GapCause::kPpWarmup;
      if (info.kind == OpKind::kOptimizer) bubble = GapCause::kPpCooldown;
      splitter.Split(op, busy_until[c], schedule.start[op], bubble, &outcome.gaps[c]);
    }
    busy_until[c] = std::max(busy_until[c], schedule.end[op]);
    computed[c] = computed[c] || info.kind == OpKind::kForward;
    AddOp(info, Seconds(program.graph.duration(op)), &outcome.time[c]);
  }
  double most = -1;
  for (std::size_t c = 0; c < classes; ++c) {
    if (busy_until[c] < schedule.makespan)
      outcome.gaps[c].push_back({busy_until[c], schedule.makespan, GapCause::kPpCooldown, -1});
    TimeBreakdown& time = outcome.time[c];
    for (const Gap& gap : outcome.gaps[c]) AddGap(gap, &time);
    time.exposed_comm_s = time.tp_s + time.dp_gather_s + time.dp_reduce_s + time.pp_transfer_s +
                          time.cp_s + time.ep_s + time.host_s;
    time.bubble_s = time.pp_warmup_s + time.pp_cooldown_s + time.pp_other_s;
    if (time.compute_s > most * (1 + 1e-9)) {
      most = time.compute_s;
      outcome.busiest_class = static_cast<int>(c);
    }
  }
  return outcome;
}

}  // namespace aurum
