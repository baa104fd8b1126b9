#pragma once

#include <string>

#include "real/compare_run.h"
#include "reports/island.h"

namespace aurum {

// Where a comparison of a run with its prediction comes from.
struct RunOrigin {
  ReportOrigin report;
  std::string run;       // the record's file, as given
  std::string run_hash;  // of its text
  std::string level;     // LevelName()
  double tolerance = 0;  // of the step time, as a share
};

// The island (aurum.report/1, see reports/README.md) of one run beside its prediction: the figures with
// their errors, both timelines of every rank on one axis, what makes the difference, the machine. A
// function of its arguments alone.
Json RunIsland(const RunRecord& record, const RunComparison& comparison,
               const Executable& predicted, const RunOrigin& origin);

}  // namespace aurum
