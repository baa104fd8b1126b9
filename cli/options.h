#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/plan/simulate.h"
#include "sim/study/evaluate.h"

namespace aurum {

enum class Format { kTable, kJson, kJsonLines, kCsv, kMarkdown };

// What every command shares.
struct Options {
  std::string data_root;
  Format format = Format::kTable;
  std::string output;            // -o; "" = stdout
  std::vector<std::string> set;  // --set path=value, in order
  std::optional<std::string> profile;
  Level level = Level::kAnalytic;
  Fold fold = Fold::kOn;
  double epsilon = 0;
  int jobs = 0;  // 0 = one per core
  bool dry_run = false;
  bool quiet = false;
  bool verbose = false;  // -v: what stands behind the figures
  bool timeline = false;
  int width = 0;           // columns of the timeline; 0 = the terminal's, or 100
  std::string trace;       // of simulate: the step as a trace; "" = none
  std::string prometheus;  // of simulate and monitor: metrics; "" = none
  bool color_errors = false;
  bool progress = true;
  std::string command_line;  // as typed, for results and reports
  GoldenWeights weights;
};

}  // namespace aurum
