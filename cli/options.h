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
  bool color_errors = false;
  bool progress = true;
  std::string command_line;  // as typed, for results and reports
  GoldenWeights weights;
};

}  // namespace aurum
