#include "sim/study/run_id.h"

#include "sim/core/hash.h"

namespace aurum {

std::string RunId(const Evaluation& e, const std::string& tool_version) {
  std::string text = tool_version + "\n" + e.outcome.signature + "\n" + e.scenario.name;
  for (const Scenario::Input& input : e.scenario.inputs)
    text += "\n" + input.role + " " + input.name + " " + input.hash;
  return HashText(text).Hex();
}

}  // namespace aurum
