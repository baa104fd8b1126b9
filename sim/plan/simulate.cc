#include "sim/plan/simulate.h"

#include <algorithm>
#include <cstddef>

#include "sim/network/event_loop.h"
#include "sim/plan/breakdown.h"

namespace aurum {
namespace {

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
  const ScheduleTimes times{schedule};
  GapSplitter splitter(program, times);
  Time busy_until{};
  bool computed = false;
  for (OpId op = 0; op < program.info.size(); ++op) {
    const OpInfo& info = program.info[op];
    if (info.lane != Lane::kMain || info.rank_class != static_cast<std::uint32_t>(rank_class))
      continue;
    if (schedule.start[op] > busy_until) {
      splitter.Split(op, busy_until, schedule.start[op], BubbleBefore(info.kind, computed), &parts);
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
  // Ops of one stream are in launch order; the gap before each has a cause.
  for (OpId op = 0; op < program.info.size(); ++op) {
    const OpInfo& info = program.info[op];
    if (info.lane != Lane::kMain) continue;
    const std::size_t c = info.rank_class;
    if (schedule.start[op] > busy_until[c]) {
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
    SumGaps(&time);
    if (time.compute_s > most * kBusier) {
      most = time.compute_s;
      outcome.busiest_class = static_cast<int>(c);
    }
  }
  return outcome;
}

}  // namespace aurum
