#include "sim/launch/launch.h"

#include <doctest/doctest.h>

#include "sim/plan/scenario_file.h"
#include "tests/launch/read_back.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

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

// Files and warnings, without comments: these describe the plan in our words.
std::string Substance(const LaunchText& launch) {
  std::string text;
  for (const LaunchFile& file : launch.files) {
    std::istringstream lines(file.text);
    for (std::string line; std::getline(lines, line);) {
      if (line[0] != '#') text += line + "\n";
    }
  }
  for (const Diagnostic& warning : launch.warnings) text += warning.message + "\n";
  return text;
}

TEST_CASE("a pruned model is told by what is left of it") {
  const Scenario scenario =
      ReadPlanOf(Llava({"plan.sharding=fsdp", R"(prune={"backbone": {"keep_layers": 16}})"}));
  for (const Framework framework : {Framework::kDeepSpeed, Framework::kAccelerate})
    CHECK(
        Warns(Emit(scenario, framework), 1952, "the pruned model (backbone: 50 % of its layers)"));
}

TEST_CASE("whatever changes the step or its memory changes the launch, or is refused or told") {
  const JsonDocument text = ParseJson(
      R"({"schema": "aurum.scenario/1", "model": "llama-3.1-8b", "cluster": "32xh100-ndr",
          "workload": {"text_tokens": 8192, "global_batch_size": 64},
          "plan": {"sharding": "fsdp", "backbone": {"tp": 2, "pp": 2, "cp": 2}}})",
      "text");
  const JsonDocument experts = ParseJson(
      R"({"schema": "aurum.scenario/1", "model": "qwen3-30b-a3b", "cluster": "32xh100-ndr",
          "workload": {"text_tokens": 4096, "global_batch_size": 64},
          "plan": {"sharding": "fsdp", "backbone": {"tp": 2, "ep": 8}}})",
      "experts");
  const std::vector<std::string> changes = {
      "plan.micro_batch_size=2",
      "plan.sharding=ddp",
      "plan.sharding=zero1",
      "plan.sharding=zero2",
      R"(plan.sharding=hsdp)",
      "plan.bucket_mb=50",
      "plan.prefetch=3",
      "plan.reshard_after_forward=false",
      "plan.reduce_every_micro_batch=true",
      "plan.modality_barrier=true",
      "plan.rank_order=tp-cp-pp-dp",
      "plan.rank_order=dp-tp-cp-pp",
      "plan.recompute=selective",
      "plan.recompute=full",
      R"(plan.recompute={"scope": "full", "layers": 3})",
      R"(plan.recompute={"scope": "full", "block_layers": 4})",
      R"(plan.recompute={"scope": "selective", "parts": ["mlp"]})",
      R"(plan.recompute={"scope": "selective", "parts": ["norm"]})",
      "plan.offload.optimizer=1",
      "plan.offload.optimizer=0.5",
      "plan.offload.parameters=1",
      "plan.offload.activations=1",
      R"(plan.offload={"optimizer": 1, "parameters": 1})",
      "plan.precision=fp16",
      "plan.precision=fp32",
      "plan.precision=fp8",
      "plan.precision=fp8-block",
      "plan.optimizer=adam-8bit",
      "plan.optimizer=adam-4bit",
      "plan.optimizer=sgd",
      "plan.attention=unfused",
      "plan.attention=flash2",
      "plan.loss=plain",
      R"(plan.adapter={"kind": "lora", "rank": 8})",
      R"(plan.adapter={"kind": "lora", "rank": 64, "base": "nf4"})",
      R"(plan.adapter={"kind": "prompt"})",
      "plan.collectives.tensor_parallel=tree",
      "plan.collectives.data_parallel=ring",
      "plan.collectives.in_network_reduction=true",
      "plan.overlap.gradient_reduce=false",
      "plan.overlap.parameter_gather=false",
      R"(plan.overlap={"gradient_reduce": false, "parameter_gather": false})",
      "plan.overlap.tensor_parallel=true",
      "plan.overlap.context_parallel=false",
      "plan.overlap.expert_parallel=true",
      "plan.overlap.pipeline=false",
      "plan.overlap.offload=false",
      "plan.backbone.tp=1",
      "plan.backbone.tp=4",
      "plan.backbone.cp=1",
      "plan.backbone.cp=4",
      "plan.backbone.context_parallel=ulysses",
      "plan.backbone.ep=4",
      "plan.backbone.expert_tp=2",
      "plan.backbone.expert_imbalance=1.5",
      "plan.backbone.expert_buffer_mb=64",
      "plan.backbone.pp=1",
      "plan.backbone.pp=4",
      "plan.backbone.vpp=2",
      "plan.backbone.sequence_parallel=false",
      R"(plan.backbone.layers_per_stage=[15, 17])",
      "plan.schedule=gpipe",
      "plan.schedule=zb-h1",
      "plan.schedule=zb-v",
      "plan.schedule=dualpipe",
      "plan.frozen=[\"vision\"]",
      "plan.vision.tp=2",
      "plan.vision.placement=colocated_dp",
      "plan.vision.micro_batch_size=1",
      "workload.global_batch_size=128",
      R"(prune={"backbone": {"keep_layers": 16}})",
      R"(prune={"backbone": {"keep_ffn": 0.5}})",
      "what_if.nvlink_factor=0.5",
      "what_if.gemm_speedup=2",
      R"(faults=[{"gpus": [3], "slowdown": 1.3}])"};
  int changed = 0, told = 0;
  for (const JsonDocument& base : {text, experts, Llava({"plan.sharding=fsdp"})}) {
    for (const Framework framework : AllFrameworks()) {
      // A plan that this framework takes, near the base.
      JsonDocument start = base;
      if (framework == Framework::kDeepSpeed || framework == Framework::kAccelerate) {
        start = Changed(start, {R"(plan.backbone={})"});
      }
      const Scenario scenario = ReadPlanOf(start);
      std::string before;
      try {
        before = Substance(Emit(scenario, framework));
      } catch (const InputError&) {
        continue;
      }
      const Evaluation was = Evaluate(scenario, Level::kAnalytic);
      for (const std::string& change : changes) {
        CAPTURE(FrameworkName(framework));
        CAPTURE(change);
        std::optional<Evaluation> is;
        try {
          is = Evaluate(ReadPlanOf(Changed(start, {change})), Level::kAnalytic);
        } catch (const InputError&) {
          continue;  // no plan
        }
        if (is->StepSeconds() == was.StepSeconds() &&
            is->memory.Heaviest().peak_bytes == was.memory.Heaviest().peak_bytes)
          continue;
        ++changed;
        try {
          const std::string after = Substance(Emit(is->scenario, framework));
          CHECK(after != before);
        } catch (const InputError&) {
          ++told;
        }
      }
    }
  }
  CHECK(changed > 200);
  CHECK(told > 50);
  CHECK(told < changed / 2);
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
