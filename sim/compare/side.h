#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/core/json.h"
#include "sim/study/evaluate.h"

namespace aurum {

// What can stand on a side of a comparison.
enum class GivenKind { kScenario, kResult, kCluster, kStore };

// By what the file is, not by its name: SQLite's first bytes, else the document's schema. What is no file is a
// cluster's name. Errors: E0880 a file of another kind; E0201 no such file, where it looks like one; E0220 no such
// cluster; those of ReadJsonFile.
GivenKind KindOfGiven(const std::string& given, InputCache* cache);

// One side: a step, simulated now, or as a document of `simulate --json` tells it.
struct Side {
  std::string given;  // as it was named
  // The scenario, where it is known: from the file, or out of the result.
  std::optional<JsonDocument> document;
  // Of a scenario; of a result where its scenario, simulated again, is the same step to the picosecond (signature).
  std::optional<Evaluation> evaluation;
  Json result;  // aurum.result/1: the figures that are compared
  std::string
      as_found;  // why a result could not be simulated again; "" = it was, or it is a scenario
};

// W1771 is among the evaluation's warnings where the document has phases. Errors: those of a scenario and its step.
Side SideOfScenario(std::string given, JsonDocument document, InputCache* cache, Level level,
                    const std::string& tool_version);
// `document` is an aurum.result/1. Its figures stay what they are; where it holds its scenario and the inputs are still
// the ones it was made of, its step is taken apart as a scenario's. E0883 it lacks the step time.
Side SideOfResult(std::string given, const JsonDocument& document, InputCache* cache);

}  // namespace aurum
