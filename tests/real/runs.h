#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "real/compare_run.h"
#include "real/virtual/virtual_run.h"
#include "tests/support/scenario.h"

namespace aurum {

// Runs of shipped plans for tests, on a machine whose ops take what `truth` says.

inline JsonDocument Loop(const std::string& name, const std::vector<std::string>& changes = {}) {
  return Shipped("loop-" + name, changes);
}
inline Executable Predict(const JsonDocument& document, int lone_rank = -1) {
  static InputCache cache(".");
  return MakeExecutable(ReadScenario(document, &cache), lone_rank);
}

// The same plan on a machine where an op takes so many times as long.
inline Executable Slower(Executable e, const std::function<double(const OpInfo&)>& factor) {
  for (OpId op = 0; op < e.program.info.size(); ++op) {
    const double seconds = Seconds(e.program.graph.duration(op));
    e.program.graph.SetDuration(op, TimeFromSeconds(seconds * factor(e.program.info[op])));
  }
  e.outcome = Simulate(e.program, Level::kAnalytic);
  return e;
}

// What an undisturbed machine with the truth's durations would hand back: the truth's own schedule.
inline std::vector<RankRun> RunsOf(const Executable& plan, const Executable& truth) {
  std::vector<RankRun> runs;
  for (int i = 0; i < plan.Ranks(); ++i) {
    const RankProgram mine = plan.RankAt(plan.lone_rank >= 0 ? plan.lone_rank : i);
    RankRun run;
    run.facts.rank = mine.rank;
    run.facts.host = "logical";
    run.facts.device = plan.scenario.profile->device.name + " (virtual)";
    std::vector<RankBackend::OpTime> times;
    double end = 0;
    for (const RankOp& op : mine.ops) {
      const double started = Seconds(truth.outcome.schedule.start[op.op]);
      const double ended = Seconds(truth.outcome.schedule.end[op.op]);
      const bool message = op.kind == RankOpKind::kReceive || op.modelled_s == 0;
      times.push_back({message ? ended : started, message ? 0 : ended - started});
      end = std::max(end, ended);
    }
    run.steps.assign(4, {end, 0, false});
    run.timed.push_back(std::move(times));
    runs.push_back(std::move(run));
  }
  return runs;
}

inline RunRecord RecordOf(const JsonDocument& document, const Executable& plan,
                          const std::vector<RankRun>& runs) {
  RunRecord record = MakeRunRecord(plan, runs, {1, 4, 1});
  record.tool_version = "test";
  record.command_line = "aurum execute";
  record.date = "2026-01-01T00:00:00Z";
  record.backend = "virtual";
  record.clock = "logical";
  record.versions = {{"Aurum", "test"}};
  record.scenario = document.root;
  return record;
}

inline RunRecord Run(const JsonDocument& document, const Executable& plan,
                     const Executable& truth) {
  return RecordOf(document, plan, RunsOf(plan, truth));
}

inline const ErrorPart* PartOf(const RunComparison& c, ErrorPartKind kind,
                               OpKind what = OpKind::kForward) {
  for (const ErrorPart& part : c.parts)
    if (part.kind == kind && (kind != ErrorPartKind::kOps || part.what == what)) return &part;
  return nullptr;
}

}  // namespace aurum
