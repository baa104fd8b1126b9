#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "real/compare_run.h"
#include "real/virtual/virtual_run.h"
#include "tests/support/scenario.h"

namespace aurum {

// Runs of shipped plans for tests, executed by virtual ranks whose ops take what `truth` says.

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

inline RunRecord Run(const JsonDocument& document, const Executable& plan,
                     const Executable& truth) {
  VirtualRun run;
  run.steps = {1, 4, 1};
  RunRecord record = MakeRunRecord(plan, RunVirtually(plan, truth, run), run.steps);
  record.tool_version = "test";
  record.command_line = "aurum execute";
  record.date = "2026-01-01T00:00:00Z";
  record.backend = "virtual";
  record.clock = "logical";
  record.versions = {{"Aurum", "test"}};
  record.scenario = document.root;
  return record;
}

inline const ErrorPart* PartOf(const RunComparison& c, ErrorPartKind kind,
                               OpKind what = OpKind::kForward) {
  for (const ErrorPart& part : c.parts)
    if (part.kind == kind && (kind != ErrorPartKind::kOps || part.what == what)) return &part;
  return nullptr;
}

}  // namespace aurum
