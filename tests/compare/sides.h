#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/compare/compare.h"
#include "sim/plan/scenario_file.h"
#include "tests/support/scenario.h"

namespace aurum {

inline InputCache* Inputs() {
  static InputCache cache(".");
  return &cache;
}
inline Side SideOf(const JsonDocument& document, Level level = Level::kAnalytic) {
  return SideOfScenario("test", document, Inputs(), level, "test");
}
inline Comparison CompareDocuments(const JsonDocument& a, const JsonDocument& b,
                                   std::vector<std::string> fail_if = {},
                                   Level level = Level::kAnalytic) {
  CompareOptions options;
  for (const std::string& text : fail_if) options.fail_if.push_back(ParseCondition(text));
  return Compare(SideOf(a, level), SideOf(b, level), Inputs(), options);
}
// With what it names beside it, as the command line reads it.
inline JsonDocument OpenQuestion(const std::string& name) {
  return OpenScenarioFile("scenarios/compare/" + name + ".json");
}

}  // namespace aurum
