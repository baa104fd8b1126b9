// A folded simulation is the unfolded one, bit for bit, whatever the plan says.
#include <doctest/doctest.h>

#include <cstdint>
#include <optional>

#include "tests/plan/random_plan.h"

namespace aurum {
namespace {

struct Case {
  const char* what;
  JsonDocument document;
};

void Verify(const Case& c, const std::vector<Level>& levels) {
  CAPTURE(c.what);
  for (const Level level : levels) {
    CAPTURE(LevelName(level));
    const Evaluation e = EvaluateDocument(c.document, level, Fold::kVerify);
    REQUIRE(e.fold_check);
    CHECK_MESSAGE(e.fold_check->equal, e.fold_check->difference);
    CHECK(e.fold_check->ranks == static_cast<std::size_t>(e.scenario.cluster->GpuCount()));
  }
}

const std::vector<Level> kAll = {Level::kAnalytic, Level::kFlow, Level::kAuto};

std::vector<Case> Plans(const std::vector<std::string>& more) {
  const auto at = [&](const char* model, const char* cluster, std::vector<std::string> changes) {
    return Document(model, cluster, Join(std::move(changes), more));
  };
  const char* const one = "8xh100-hgx";
  const char* const two = "16xh100-ndr";
  const char* const four = "32xh100-ndr";
  const std::string batch = "workload.global_batch_size=32";
  return {
      {"ring", at(kLayers8, two, {R"(plan.backbone={"tp": 2, "cp": 4})", batch})},
      {"ring over nodes", at(kLayers8, two, {R"(plan.backbone={"cp": 16})", batch})},
      {"ulysses",
       at(kLayers8, two,
          {R"(plan.backbone={"tp": 2, "cp": 4, "context_parallel": "ulysses"})", batch})},
      {"experts over nodes", at(kMoe8, two, {R"(plan.backbone={"tp": 2, "ep": 8})", batch})},
      {"experts with tp of their own",
       at(kMoe8, two, {R"(plan.backbone={"tp": 2, "ep": 4, "expert_tp": 2, "pp": 2})", batch})},
      {"hsdp in nodes", at(kLayers8, four, {"plan.sharding=hsdp", "plan.shard_group=8", batch})},
      {"hsdp over nodes", at(kLayers8, four, {"plan.sharding=hsdp", "plan.shard_group=16", batch})},
      {"fsdp in stages", at(kLayers8, two, {"plan.sharding=fsdp", "plan.backbone.pp=2", batch})},
      {"chunks", at(kLayers8, two, {R"(plan.backbone={"tp": 2, "pp": 4, "vpp": 2})", batch})},
      {"zb-h1", at(kLayers8, two, {"plan.backbone.pp=4", "plan.schedule=zb-h1", batch})},
      {"zb-v", at(kLayers8, two, {"plan.backbone.pp=4", "plan.schedule=zb-v", batch})},
      {"dualpipe", at(kLayers8, two, {"plan.backbone.pp=4", "plan.schedule=dualpipe", batch})},
      {"dualpipe with experts",
       at(kMoe8, two, {R"(plan.backbone={"pp": 4, "ep": 4})", "plan.schedule=dualpipe", batch})},
      {"own ranks, as wide as the backbone's",
       at(kVit8, "24xh100-ndr",
          {kOneImage, R"(plan.vision={"placement": "own_ranks", "tp": 2})",
           R"(plan.backbone={"tp": 2, "pp": 2})", batch})},
      {"own ranks, narrower, on two stages",
       at(kVit8, "24xh100-ndr",
          {kOneImage, R"(plan.vision={"placement": "own_ranks", "tp": 1, "pp": 2})",
           R"(plan.backbone={"tp": 2, "pp": 2})", batch})},
      {"own ranks, wider, on two stages",
       at(kVit8, "24xh100-ndr",
          {kOneImage, R"(plan.vision={"placement": "own_ranks", "tp": 4, "pp": 2})",
           R"(plan.backbone={"tp": 2, "pp": 2})", batch})},
      {"balanced", at(kVit8, two,
                      {kOneImage, "plan.vision.placement=balanced",
                       R"(plan.backbone={"tp": 2, "pp": 4})", batch})},
      {"in bubbles", at(kVit8, two,
                        {kOneImage, "plan.vision.placement=in_bubbles",
                         R"(plan.backbone={"tp": 2, "pp": 4})", batch})},
      {"in bubbles of chunks", at(kVit8, two,
                                  {kOneImage, "plan.vision.placement=in_bubbles",
                                   R"(plan.backbone={"tp": 2, "pp": 4, "vpp": 2})", batch})},
      {"colocated", at(kVit8, two,
                       {kOneImage, "plan.vision.placement=colocated_dp",
                        R"(plan.backbone={"tp": 4, "pp": 2})", batch})},
      {"cross-attention over stages",
       at("llama-3.2-11b-vision", two, {kOneImage, R"(plan.backbone={"tp": 2, "pp": 2})", batch})},
      {"two towers, balanced",
       at("qwen2.5-omni-7b", two,
          {kOneImage, "workload.audio_s=30", "plan.vision.placement=balanced",
           "plan.audio.placement=balanced", R"(plan.backbone={"tp": 2, "pp": 4})", batch})},
      {"optimizer in host memory",
       at(kLayers8, one, {R"(plan.offload={"optimizer": 1})", "plan.backbone.pp=2", batch})},
      {"parameters in host memory",
       at(kLayers8, one, {R"(plan.offload={"parameters": 1})", "plan.sharding=fsdp", batch})},
      {"activations in host memory",
       at(kLayers8, one, {R"(plan.offload={"activations": 0.5})", "plan.backbone.pp=2", batch})},
      {"an adapter",
       at(kLayers8, two, {R"(plan.adapter={"rank": 16})", "plan.backbone.tp=2", batch})},
      {"an adapter of a sharded base in four bits",
       at(kLayers8, two, {R"(plan.adapter={"base": "nf4"})", "plan.sharding=fsdp", batch})},
  };
}

TEST_CASE("folded is unfolded for every part of a plan") {
  for (const Case& c : Plans({})) Verify(c, kAll);
}

TEST_CASE("folded is unfolded for every part of a plan beside a slow GPU") {
  for (const Case& c : Plans({R"(faults=[{"gpus": [5], "slowdown": 1.3}])"})) Verify(c, kAll);
}

TEST_CASE("folded is unfolded beside a sick NIC") {
  for (const Case& c : Plans({})) {
    if (c.document.root.Find("cluster")->AsString() == "8xh100-hgx") continue;
    Verify({c.what, Changed(c.document, {R"(faults=[{"nics": ["node1/nic2"], "factor": 0.25}])"})},
           kAll);
  }
}

TEST_CASE("folded is unfolded where samples differ") {
  for (const char* name : {"llava-1.6-7b-mixture-8xa100", "qwen2-vl-7b-samples-8xa100"}) {
    Verify({name, Shipped(name, {"workload.draws=2"})}, {Level::kAnalytic});
    Verify(
        {name, Shipped(name, {"workload.draws=1", R"(faults=[{"gpus": [3], "slowdown": 1.2}])"})},
        {Level::kAnalytic});
  }
}

TEST_CASE(
    "folded is unfolded for plans that are drawn, healthy and with a slow GPU or a sick NIC") {
  const std::vector<std::vector<std::string>> faults = {
      {},
      {R"(faults=[{"gpus": [5], "slowdown": 1.3}])"},
      {R"(faults=[{"nics": ["node0/nic2"], "factor": 0.25}])"}};
  int verified = 0;
  for (std::uint64_t number = 5000; number < 5150; ++number) {
    CAPTURE(number);
    const std::vector<std::string>& more = faults[number % faults.size()];
    for (const Level level : {Level::kAnalytic, Level::kFlow}) {
      std::optional<Evaluation> e;
      try {
        e = EvaluateDocument(RandomPlan(number).Make(more), level, Fold::kVerify);
      } catch (const InputError&) {
        break;
      }
      ++verified;
      CHECK_MESSAGE(e->fold_check->equal, e->fold_check->difference);
      for (const TimeBreakdown& time : e->outcome.time)
        CHECK(time.Sum() == doctest::Approx(e->StepSeconds()).epsilon(1e-9));
      for (const ClassMemory& memory : e->memory.classes)
        CHECK(memory.left_bytes == doctest::Approx(0.0));
    }
  }
  CHECK(verified >= 80);
}

TEST_CASE("64 GPUs: all of it at once") {
  Verify({"experts, context, chunks and a sick NIC",
          Document(kMoe8, "64xh100-ndr",
                   {R"(plan.backbone={"tp": 2, "cp": 2, "ep": 4, "pp": 4, "vpp": 2})",
                    R"(faults=[{"nics": ["node3/nic0"], "factor": 0.5}])"})},
         kAll);
}

}  // namespace
}  // namespace aurum
