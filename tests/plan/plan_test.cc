#include "sim/plan/plan.h"

#include <doctest/doctest.h>

#include "tests/support/scenario.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

struct Broken {
  std::vector<std::string> changes;
  int code;
  const char* pointer;
  const char* help;  // part of it
};

TEST_CASE("every broken rule names the rule, the place and a remedy") {
  const std::vector<Broken> cases = {
      {{"plan.backbone.tp=3"}, 311, "/plan/backbone/tp", "tp = 1, 2, 4 or 8"},
      {{"plan.backbone.tp=16"}, 312, "/plan/backbone/tp", "a multiple of 16"},
      {{"plan.backbone.tp=8", "plan.backbone.pp=2"}, 312, "/plan/backbone/pp", "pp = 1"},
      {{"cluster=32xa100-hdr", "plan.backbone.pp=5"},
       312,
       "/plan/backbone/pp",
       "pp = 1, 2, 4, 8, 16 or 32"},
      {{"cluster=24xa100-hdr", "plan.backbone.pp=3"},
       313,
       "/plan/backbone/pp",
       "pp = 1, 2, 4 or 8"},
      {{"plan.backbone.pp=2", "plan.backbone.layers_per_stage=[16,15]"},
       313,
       "/plan/backbone/layers_per_stage",
       "sum to the layers"},
      {{"plan.micro_batch_size=3"}, 314, "/plan/micro_batch_size", "micro_batch_size = 2"},
      {{"workload.global_batch_size=12"}, 314, "/plan/micro_batch_size", "global_batch_size = 16"},
      {{"plan.backbone.tp=4", "plan.vision.tp=2"}, 316, "/plan/vision/tp", "tp = 1"},
      {{"plan.backbone.tp=4", "plan.vision.tp=4", "plan.vision.placement=colocated_dp"},
       316,
       "/plan/vision/tp",
       "first_stage"},
      {{R"(plan.frozen=["vision","connector","backbone"])"},
       321,
       "/plan/frozen",
       "leave at least one"},
      {{R"(plan.frozen=["visoin"])"}, 322, "/plan/frozen", "did you mean 'vision'?"},
      {{"workload.task=generate", "workload.new_tokens=4"},
       318,
       "/plan/sharding",
       "sharding = ddp"},
      {{"plan.micro_batchsize=1"},
       101,
       "/plan/micro_batchsize",
       "did you mean 'micro_batch_size'?"},
      {{"plan.sharding=zero4"}, 108, "/plan/sharding", "zero1"},
      {{"plan.backbone.tp=two"}, 103, "/plan/backbone/tp", ""},
      {{"plan.backbone.tp=-1"}, 107, "/plan/backbone/tp", "1 … 1024"},
  };
  for (const Broken& broken : cases) {
    CAPTURE(broken.changes.front());
    const Diagnostic d = ThrownBy(
        [&] { EvaluateDocument(Shipped("llava-1.6-7b-finetune-8xa100", broken.changes)); });
    CHECK(d.code == broken.code);
    CHECK(d.where.pointer == broken.pointer);
    CHECK_MESSAGE(d.help.find(broken.help) != std::string::npos, d.help);
  }
}

TEST_CASE("a plan that works but costs is warned about") {
  const Evaluation e =
      EvaluateDocument(Shipped("gpt-3-175b-64xa100", {"workload.global_batch_size=4"}));
  REQUIRE(e.scenario.warnings.size() == 1);
  CHECK(e.scenario.warnings[0].code == 1320);  // 4 micro-batches in 8 stages
  const Evaluation across = EvaluateDocument(
      Shipped("gpt-3-175b-64xa100", {"plan.backbone.tp=16", "plan.backbone.pp=4"}));
  CHECK(across.scenario.warnings[0].code == 1319);  // tensor parallelism over the network
}

TEST_CASE("degrees that are not given follow from the cluster") {
  const Evaluation e = EvaluateDocument(Shipped("gpt-3-175b-64xa100", {"cluster=128xa100-hdr"}));
  CHECK(e.scenario.plan.dp == 2);
  CHECK(e.scenario.plan.micro_batches == 32);
}

}  // namespace
}  // namespace aurum
