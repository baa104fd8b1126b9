#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "sim/launch/launch.h"
#include "tests/plan/space.h"

namespace aurum {

// Readers of what is emitted, written from the frameworks' documents and not from the writers. They
// take no more than they know: an argument or a key that the framework does not have fails the test.

inline InputCache& LaunchCache() {
  static InputCache cache(".");
  return cache;
}
inline Scenario ReadPlanOf(const JsonDocument& document) {
  return ReadScenario(document, &LaunchCache());
}

inline JsonDocument Llava(const std::vector<std::string>& changes = {}) {
  return Changed(Shipped("llava-1.6-7b-finetune-8xa100"), changes);
}

inline const std::string& FileOf(const LaunchText& launch, const std::string& name) {
  for (const LaunchFile& file : launch.files) {
    if (file.name == name) return file.text;
  }
  FAIL("no file " << name);
  return launch.files.front().text;
}

inline bool Warns(const LaunchText& launch, int code, const std::string& part) {
  for (const Diagnostic& warning : launch.warnings) {
    if (warning.code == code && warning.message.find(part) != std::string::npos) return true;
  }
  return false;
}

// Arguments of Megatron-LM as its parser would take them: a name and its values.
class MegatronArguments {
 public:
  explicit MegatronArguments(const std::vector<std::string>& words) {
    std::map<std::string, std::string> known;
    std::ifstream file("tests/launch/fixtures/megatron_arguments.txt");
    for (std::string line; std::getline(file, line);) {
      if (line.empty() || line[0] == '#') continue;
      known[line.substr(0, line.find(' '))] = line.substr(line.find(' ') + 1);
    }
    REQUIRE(known.size() > 80);
    for (std::size_t i = 0; i < words.size();) {
      const std::string& name = words[i++];
      CAPTURE(name);
      REQUIRE(known.contains(name));
      REQUIRE_FALSE(values_.contains(name));
      std::vector<std::string>& values = values_[name];
      while (i < words.size() && words[i].compare(0, 2, "--") != 0) values.push_back(words[i++]);
      if (known[name] == "0") CHECK(values.empty());
      if (known[name] == "1") CHECK(values.size() == 1);
      if (known[name] == "+") CHECK(!values.empty());
    }
  }
  bool Has(const std::string& name) const { return values_.contains(name); }
  std::string Text(const std::string& name) const {
    const auto found = values_.find(name);
    if (found == values_.end()) return "";
    std::string text;
    for (const std::string& value : found->second) text += (text.empty() ? "" : " ") + value;
    return text;
  }
  std::int64_t Number(const std::string& name, std::int64_t otherwise) const {
    return Has(name) ? std::stoll(Text(name)) : otherwise;
  }

 private:
  std::map<std::string, std::vector<std::string>> values_;
};

// A configuration as path → value, the path dotted; strings without their quotes.
using Settings = std::map<std::string, std::string>;

inline void CheckKeys(const std::string& framework, const Settings& settings) {
  std::set<std::string> known;
  std::ifstream file("tests/launch/fixtures/config_keys.txt");
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, framework.size() + 1, framework + " ") == 0)
      known.insert(line.substr(framework.size() + 1));
  }
  REQUIRE(known.size() > 10);
  for (const auto& [key, value] : settings) {
    CAPTURE(key);
    CHECK(known.contains(key));
  }
}

inline std::string Unquoted(std::string text) {
  while (!text.empty() && text.front() == ' ') text.erase(0, 1);
  if (text.size() >= 2 && (text.front() == '"' || text.front() == '\'') &&
      text.back() == text.front())
    return text.substr(1, text.size() - 2);
  return text;
}

// The YAML that Accelerate is given: one level of nesting, scalars.
inline Settings ReadYaml(const std::string& text) {
  Settings settings;
  std::string section;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::size_t colon = line.find(':');
    REQUIRE(colon != std::string::npos);
    const bool nested = line[0] == ' ';
    const std::string key = Unquoted(line.substr(0, colon));
    const std::string value = Unquoted(line.substr(colon + 1));
    if (value.empty()) {
      section = key;
      continue;
    }
    const std::string path = nested ? section + "." + key : key;
    REQUIRE_FALSE(settings.contains(path));
    settings[path] = value;
  }
  CheckKeys("accelerate", settings);
  return settings;
}

// The TOML that torchtitan is given: sections, scalars, and arrays that end with "]" in a line of its
// own.
inline Settings ReadToml(const std::string& text) {
  Settings settings;
  std::string section;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line[0] == '[') {
      section = line.substr(1, line.size() - 2);
      continue;
    }
    const std::size_t equals = line.find(" = ");
    REQUIRE(equals != std::string::npos);
    const std::string path = section + "." + line.substr(0, equals);
    std::string value = line.substr(equals + 3);
    if (value == "[") {
      for (std::string more; std::getline(lines, more) && more != "]";) value += more;
      value += "]";
    }
    REQUIRE_FALSE(settings.contains(path));
    settings[path] = Unquoted(value);
  }
  CheckKeys("torchtitan", settings);
  return settings;
}

inline void Flatten(const Json& value, const std::string& path, Settings* settings) {
  if (value.IsObject()) {
    for (const auto& [key, member] : value.members())
      Flatten(member, path.empty() ? key : path + "." + key, settings);
    return;
  }
  (*settings)[path] = Unquoted(value.Dump());
}
inline Settings ReadDeepSpeed(const std::string& text) {
  Settings settings;
  Flatten(ParseJson(text, "ds_config.json").root, "", &settings);
  CheckKeys("deepspeed", settings);
  return settings;
}

inline std::string ValueOf(const Settings& settings, const std::string& key,
                           const std::string& otherwise = "") {
  const auto found = settings.find(key);
  return found == settings.end() ? otherwise : found->second;
}

// Two plans that are one: the same ops, at the same times, with the same memory.
inline void CheckSameRun(const JsonDocument& a, const JsonDocument& b) {
  const Evaluation x = Evaluate(ReadPlanOf(a), Level::kAnalytic);
  const Evaluation y = Evaluate(ReadPlanOf(b), Level::kAnalytic);
  CHECK(x.StepSeconds() == y.StepSeconds());
  CHECK(x.memory.Heaviest().peak_bytes == y.memory.Heaviest().peak_bytes);
  CHECK(DescribePlan(x.scenario.plan) == DescribePlan(y.scenario.plan));
  CHECK(DescribeRecipe(x.scenario.plan) == DescribeRecipe(y.scenario.plan));
}

// The scenario with another plan.
inline JsonDocument WithPlan(JsonDocument document, const Json& plan, std::int64_t batch) {
  document.root.Set("plan", plan);
  document.root.Find("workload")->Set("global_batch_size", batch);
  return document;
}

}  // namespace aurum
