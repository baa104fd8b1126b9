#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/core/json.h"
#include "sim/plan/scenario.h"
#include "sim/study/store_reader.h"

namespace aurum {

// One stored point by the names of its figures.
struct StudyPoint {
  std::size_t ordinal = 0;
  bool ok = false;
  std::map<std::string, double> numbers;
  std::string limit, provenance;
};

// The golden sweep of a store as the island's "sweep", with its findings. Every combination of the axes beside the three
// of the formula is one entry of `models`. α and β are fitted over all points that succeeded.
struct SweepSection {
  Json sweep;
  std::string finding;  // of the sweep
  std::string terms;    // of the terms per modality
  std::string answer;
};

// True if the axes are those of a golden sweep: all three what_if axes, any others named model or cluster.
bool IsGoldenSweep(const StudyInfo& info);
SweepSection MakeSweepSection(const StudyInfo& info, const std::vector<StudyPoint>& points,
                              InputCache* cache);

}  // namespace aurum
