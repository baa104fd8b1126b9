#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/scenario.h"

namespace aurum {

// Small documents for tests of what a plan may say: each a model of tests/plan/fixtures or the
// catalogue on a cluster, and a plan that the changes fill.
inline JsonDocument Document(const std::string& model, const std::string& cluster,
                             const std::vector<std::string>& changes = {}) {
  const std::string text = R"({"schema": "aurum.scenario/1", "model": ")" + model +
                           R"(", "cluster": ")" + cluster + R"(",
    "workload": {"task": "train", "global_batch_size": 64, "text_tokens": 1024},
    "plan": {"micro_batch_size": 1, "backbone": {}, "sharding": "zero1"}})";
  return Changed(ParseJson(text, "space.json"), changes);
}

inline const char* const kLayers8 = "tests/plan/fixtures/uniform-8-layers.json";
inline const char* const kLayers96 = "tests/plan/fixtures/uniform-96-layers.json";
inline const char* const kMoe8 = "tests/plan/fixtures/moe-uniform-8.json";
inline const char* const kVit8 = "tests/plan/fixtures/vit-uniform-8.json";
inline const char* const kVit25Heads = "tests/plan/fixtures/internvit-6b-uniform-8.json";
// What turns a document of a vision model into one with an image.
inline const char* const kOneImage =
    R"(workload.images=[{"width": 448, "height": 448, "count": 1}])";

// How a document is refused; code 0: it is not.
struct RefusedPlan {
  Diagnostic diagnostic;
  ExitCode exit_code = ExitCode::kOk;
};
inline RefusedPlan RefusalOf(const JsonDocument& document, Level level = Level::kAnalytic) {
  try {
    EvaluateDocument(document, level);
  } catch (const InputError& error) {
    return {error.diagnostic(), error.exit_code()};
  }
  return {};
}

// Changes of a document, several lists after each other.
inline std::vector<std::string> Join(std::vector<std::string> changes,
                                     const std::vector<std::string>& more) {
  changes.insert(changes.end(), more.begin(), more.end());
  return changes;
}

inline double Peak(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

}  // namespace aurum
