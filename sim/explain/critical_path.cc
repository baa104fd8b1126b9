#include "sim/explain/critical_path.h"

#include <algorithm>
#include <map>
#include <tuple>

// A step is as long as the longest chain of ops that wait for each other (max-plus, Baccelli et al.,
// "Synchronization and Linearity", 1992). In a schedule in which every op starts as soon as it may, one
// such chain is found by looking back from the end: of an op's predecessors, the last to end is why it did
// not start earlier. Example, two stages and one micro-batch (F forward, B backward, t a transfer):
//
//   stage 0   F───┐                 ┌B───
//   stage 1       └t──F───B───t─────┘
//
// is one chain of seven ops, although each stage is idle half of the time. At levels where links are shared
// a transfer's own length depends on others; it is on the path with the time it took.
namespace aurum {
namespace {

OpId LastToEnd(const Program& program, const Schedule& schedule, OpId op) {
  OpId last = op;
  for (const OpId before : program.graph.predecessors(op)) {
    if (last == op || schedule.end[before] > schedule.end[last]) {
      last = before;
      continue;
    }
    const bool kernel = program.info[before].lane == Lane::kMain;
    if (schedule.end[before] == schedule.end[last] && kernel &&
        program.info[last].lane != Lane::kMain)
      last = before;
  }
  return last;
}

}  // namespace

Time CriticalPath::Length() const {
  Time sum = idle;
  for (const TimePart& part : parts) sum += part.exposed;
  return sum;
}

CriticalPath FindCriticalPath(const Program& program, const Schedule& schedule) {
  CriticalPath path;
  const std::size_t count = program.info.size();
  if (count == 0) return path;
  OpId op = 0;
  for (OpId i = 0; i < count; ++i) {
    const bool later = schedule.end[i] > schedule.end[op];
    const bool kernel = schedule.end[i] == schedule.end[op] &&
                        program.info[i].lane == Lane::kMain && program.info[op].lane != Lane::kMain;
    if (later || kernel) op = i;
  }
  path.idle = schedule.makespan - schedule.end[op];
  while (true) {
    path.ops.push_back(op);
    const OpId before = LastToEnd(program, schedule, op);
    if (before == op) break;
    path.idle += schedule.start[op] - schedule.end[before];
    op = before;
  }
  path.idle += schedule.start[op];
  std::reverse(path.ops.begin(), path.ops.end());

  std::map<std::tuple<int, OpKind, Lane, bool>, TimePart> found;
  int stage = -1;
  for (const OpId on : path.ops) {
    const OpInfo& info = program.info[on];
    const Time time = schedule.end[on] - schedule.start[on];
    TimePart& part = found[{info.module, info.kind, info.lane, info.head}];
    part.cause = CauseOf(info);
    part.module = info.module;
    part.kind = info.kind;
    part.lane = info.lane;
    part.head = info.head;
    part.busy += time;
    part.exposed += time;
    part.slowed_s += info.slowed_s;
    part.flops += info.flops;
    part.bytes += info.bytes;
    part.ops += 1;
    const int here = program.classes[info.rank_class].stage;
    if (path.by_stage.size() <= static_cast<std::size_t>(here))
      path.by_stage.resize(static_cast<std::size_t>(here) + 1);
    path.by_stage[static_cast<std::size_t>(here)] += time;
    if (stage >= 0 && here != stage) ++path.crossings;
    stage = here;
  }
  for (const auto& [key, part] : found) {
    if (part.exposed.ps > 0) path.parts.push_back(part);
  }
  std::stable_sort(path.parts.begin(), path.parts.end(),
                   [](const TimePart& a, const TimePart& b) { return a.exposed > b.exposed; });
  return path;
}

}  // namespace aurum
