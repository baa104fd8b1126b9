#pragma once

#include <string>

#include "reports/island.h"
#include "sim/core/json.h"
#include "sim/study/published/validation.h"

namespace aurum {

// Where a comparison comes from.
struct PublishedOrigin {
  ReportOrigin report;
  std::string records;       // the file's name, as given
  std::string records_hash;  // of its content
  std::string sources_hash;  // of calibrate/published/sources.json
  std::string level;         // LevelName()
};

// The island (aurum.report/1, see reports/README.md) of predictions beside what others measured: the
// scores by source, every row compared, the rows furthest off with the terms of their prediction, the
// reasons of rows that are not compared, plan choice and fits. A function of its arguments alone; the
// report may hold no row that is compared.
Json PublishedIsland(const PublishedReport& report, const PublishedOrigin& origin);

// The terms of a predicted step in words, largest first: "compute 1.20 s (61 %), pipeline bubbles
// 410 ms (21 %)". Terms below 0.5 % of the step are left out.
std::string TermsText(const TimeBreakdown& time);

}  // namespace aurum
