#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "sim/plan/scenario.h"
#include "sim/study/evaluate.h"

namespace aurum {

// Scenario documents for tests: a shipped one, or one made of a text, with changes ("plan.pp=4").
inline JsonDocument Changed(JsonDocument document, const std::vector<std::string>& changes) {
  for (const std::string& change : changes) ApplyOverride(&document, change);
  return document;
}
inline JsonDocument Shipped(const std::string& name, const std::vector<std::string>& changes = {}) {
  return Changed(ReadJsonFile("scenarios/" + name + ".json"), changes);
}
// One for all tests of a program: what is read once is the same for all.
inline InputCache& SharedCache() {
  static InputCache cache(".");
  return cache;
}
inline Evaluation EvaluateDocument(const JsonDocument& document, Level level = Level::kAnalytic,
                                   Fold fold = Fold::kOn) {
  return Evaluate(ReadScenario(document, &SharedCache()), level, fold);
}

// Samples that differ are simulated at the analytic level alone (E0387).
inline bool HasTraffic(const Evaluation& e) { return e.scenario.steps == nullptr; }

// The largest scenario has 16,384 GPUs' flows: its event simulation is a benchmark, not a test.
inline bool Small(const Evaluation& e) { return e.scenario.cluster->GpuCount() <= 64; }

inline std::vector<std::string> ShippedScenarios() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("scenarios")) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace aurum
