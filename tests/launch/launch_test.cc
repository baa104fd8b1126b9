#include "sim/launch/launch.h"

#include <doctest/doctest.h>

#include "sim/plan/scenario_file.h"
#include "tests/launch/read_back.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

JsonDocument Llava(const std::vector<std::string>& changes = {}) {
  return Changed(Shipped("llava-1.6-7b-finetune-8xa100"), changes);
}

TEST_CASE("frameworks have names, and names are frameworks") {
  CHECK(AllFrameworks().size() == 4);
  for (const Framework framework : AllFrameworks()) {
    CHECK(FrameworkByName(FrameworkName(framework)) == framework);
    CHECK_FALSE(FrameworkVersion(framework).empty());
  }
  CHECK_FALSE(FrameworkByName("colossal").has_value());
}

TEST_CASE("what none of the four can do is refused by all of them") {
  const std::vector<std::string> changes[] = {
      {"plan.vision.placement=own_ranks", "plan.backbone.tp=2", "plan.vision.tp=2"},
      {"plan.modality_barrier=true"},
      {"plan.sharding=ddp",
       R"(plan.backbone.gradient_compression={"selection": "topk", "keep": 0.1})"}};
  const char* keys[] = {"plan.vision.placement = own_ranks", "plan.modality_barrier",
                        "plan.backbone.gradient_compression"};
  for (std::size_t i = 0; i < 3; ++i) {
    Scenario scenario = ReadPlanOf(Llava(changes[i]));
    for (const Framework framework : {Framework::kDeepSpeed, Framework::kAccelerate}) {
      const Diagnostic d = ThrownBy([&] { Emit(scenario, framework); });
      CHECK(d.code == 950);
      CHECK(d.message.find(keys[i]) != std::string::npos);
      CHECK_FALSE(d.help.empty());
    }
  }
}

TEST_CASE("facts that no launch can impose are told as such") {
  const Scenario scenario = ReadPlanOf(
      Llava({"what_if.network_factor=1", "what_if.nvlink_factor=2", "what_if.align_ratio=0.9",
             "plan.sharding=zero2", R"(faults=[{"gpus": [3], "slowdown": 1.3}])"}));
  const LaunchText launch = Emit(scenario, Framework::kDeepSpeed);
  CHECK(Warns(launch, 1951, "what_if"));
  CHECK(Warns(launch, 1951, "faults"));
}

TEST_CASE("the document has all files, and the same scenario gives the same bytes") {
  const Scenario scenario = ReadPlanOf(Llava({"plan.sharding=fsdp"}));
  const LaunchText launch = Emit(scenario, Framework::kAccelerate);
  const Json json = LaunchJson(launch, scenario, "test");
  CHECK(json.Find("framework")->AsString() == "accelerate");
  CHECK(json.Find("gpus")->AsInteger() == 8);
  REQUIRE(json.Find("files")->items().size() == 2);
  const Json& script = json.Find("files")->items()[0];
  CHECK(script.Find("name")->AsString() == "launch.sh");
  CHECK(script.Find("executable")->AsBool());
  CHECK(script.Find("text")->AsString().compare(0, 11, "#!/bin/bash") == 0);
  CHECK(json.Find("arguments")->items().size() == launch.arguments.size());
  CHECK(LaunchJson(Emit(scenario, Framework::kAccelerate), scenario, "test").Dump() == json.Dump());
}

TEST_CASE("every shipped scenario is launched or refused, with a remedy, by every framework") {
  int launched = 0;
  for (const std::string& name : ShippedScenarios()) {
    CAPTURE(name);
    const JsonDocument document = OpenScenarioFile("scenarios/" + name + ".json");
    if (document.root.Find("plan") == nullptr) continue;
    const Scenario scenario = ReadPlanOf(document);
    for (const Framework framework : AllFrameworks()) {
      try {
        launched += static_cast<int>(!Emit(scenario, framework).files.empty());
      } catch (const InputError& error) {
        CHECK(error.exit_code() == ExitCode::kInfeasible);
        CHECK(error.diagnostic().code >= 950);
        CHECK(error.diagnostic().code <= 952);
        CHECK_FALSE(error.diagnostic().help.empty());
      }
    }
  }
  CHECK(launched > 10);
}

}  // namespace
}  // namespace aurum
