// Plans that cannot be: each is refused with a code of its own, the place, and what would do instead.
#include <doctest/doctest.h>

#include "tests/plan/space.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

struct Impossible {
  const char* what;
  const char* model;
  const char* cluster;
  std::vector<std::string> changes;
  int code;
  const char* pointer;
  const char* help;  // part of it
};

TEST_CASE("an impossible plan names the rule, the place and a remedy") {
  const char* const adapter = R"(plan.adapter={"base": "nf4"})";
  const std::vector<Impossible> cases = {
      {"heads", kLayers8, "8xh100-hgx", {"plan.backbone.tp=6"}, 311, "/plan/backbone/tp",
       "tp = 1, 2, 4 or 8"},
      {"25 heads under tp 2", kVit25Heads, "8xh100-hgx",
       {kOneImage, "plan.backbone.tp=2", "plan.vision.tp=2"}, 311, "/plan/vision/tp",
       "placement = colocated_dp"},
      {"25 heads under tp 8", kVit25Heads, "8xh100-hgx",
       {kOneImage, "plan.backbone.tp=8", "plan.vision.tp=8"}, 311, "/plan/vision/tp", "tp = 1"},
      {"own ranks with 25 heads", kVit25Heads, "8xh100-hgx",
       {kOneImage, R"(plan.vision={"placement": "own_ranks", "tp": 4})"}, 311, "/plan/vision/tp",
       "tp = 1"},
      {"experts that ep does not divide", kMoe8, "8xh100-hgx", {"plan.backbone.ep=3"}, 372,
       "/plan/backbone/ep", "ep = 1, 2, 4 or 8"},
      {"ep without experts", kLayers8, "8xh100-hgx", {"plan.backbone.ep=2"}, 371,
       "/plan/backbone/ep", "remove ep"},
      {"width of experts", kMoe8, "8xh100-hgx", {"plan.backbone.expert_tp=3"}, 372,
       "/plan/backbone/expert_tp", "expert_tp = 1, 2, 4 or 8"},
      {"ep over the GPUs of a stage", kMoe8, "8xh100-hgx",
       {"plan.backbone.pp=2", "plan.backbone.ep=8"}, 375, "/plan/backbone/ep",
       "ep = 1, 2 or 4"},
      {"ep times expert_tp over the stage", kMoe8, "8xh100-hgx",
       {"plan.backbone.ep=8", "plan.backbone.expert_tp=2"}, 375, "/plan/backbone/ep",
       "ep = 1, 2 or 4"},
      {"Ulysses against heads that tp leaves", kLayers8, "64xh100-ndr",
       {R"(plan.backbone={"tp": 8, "cp": 8, "context_parallel": "ulysses"})"}, 370,
       "/plan/backbone/cp", "cp = 1, 2 or 4, or context_parallel = ring"},
      {"a batch", kLayers8, "8xh100-hgx", {"workload.global_batch_size=60"}, 314,
       "/plan/micro_batch_size", "global_batch_size = 64"},
      {"layers over stages and chunks", kLayers8, "8xh100-hgx",
       {R"(plan.backbone={"pp": 4, "vpp": 3})"}, 313, "/plan/backbone/vpp", "vpp = 1 or 2"},
      {"uneven layers, too few numbers for the chunks", kLayers8, "8xh100-hgx",
       {R"(plan.backbone={"pp": 2, "vpp": 2, "layers_per_stage": [5, 3]})"}, 313,
       "/plan/backbone/layers_per_stage", "pp·vpp numbers"},
      {"chunks under gpipe", kLayers8, "8xh100-hgx",
       {R"(plan.backbone={"pp": 4, "vpp": 2})", "plan.schedule=gpipe"}, 376, "/plan/backbone/vpp",
       "schedule = interleaved, or vpp = 1"},
      {"chunks under 1f1b", kLayers8, "8xh100-hgx",
       {R"(plan.backbone={"pp": 4, "vpp": 2})", "plan.schedule=1f1b"}, 376, "/plan/backbone/vpp",
       "schedule = interleaved, or vpp = 1"},
      {"chunks of one stage", kLayers8, "8xh100-hgx", {"plan.backbone.vpp=2"}, 376,
       "/plan/backbone/vpp", "pp > 1"},
      {"interleaved, a remainder of micro-batches", kLayers8, "8xh100-hgx",
       {R"(plan.backbone={"pp": 4, "vpp": 2})", "workload.global_batch_size=12"}, 377,
       "/plan/schedule", ""},
      {"two directions with two micro-batches", kLayers8, "8xh100-hgx",
       {"plan.backbone.pp=4", "plan.schedule=dualpipe", "workload.global_batch_size=2"}, 377,
       "/plan/schedule", ""},
      {"ZeRO-3 in a pipeline", kLayers8, "8xh100-hgx",
       {"plan.backbone.pp=2", "plan.sharding=zero3"}, 379, "/plan/sharding", "sharding = zero1"},
      {"ZeRO-2 in a pipeline", kLayers8, "8xh100-hgx",
       {"plan.backbone.pp=2", "plan.sharding=zero2"}, 379, "/plan/sharding", "sharding = zero1"},
      {"FlashAttention 3 on Ampere", kLayers8, "8xa100-hgx", {"plan.attention=flash3"}, 383,
       "/plan/attention", "flash2"},
      {"FlashAttention 3 on Blackwell", kLayers8, "8xb200-hgx", {"plan.attention=flash3"}, 383,
       "/plan/attention", "flash2"},
      {"fp8 on Ampere", kLayers8, "8xa100-hgx", {"plan.precision=fp8"}, 382, "/plan/precision",
       "precision = bf16"},
      {"nvfp4 on Hopper", kLayers8, "8xh100-hgx", {"plan.precision=nvfp4"}, 382,
       "/plan/precision", "precision = fp8"},
      {"mxfp8 on Hopper", kLayers8, "8xh100-hgx", {"plan.precision=mxfp8"}, 382,
       "/plan/precision", "precision = fp8"},
      {"parameters that are not sharded leave", kLayers8, "8xh100-hgx",
       {R"(plan.offload={"parameters": 1})"}, 381, "/plan/offload", "sharding = fsdp"},
      {"nf4 under tp", kLayers8, "8xh100-hgx", {"plan.backbone.tp=2", adapter}, 384,
       "/plan/adapter/base", "tp = 1"},
      {"bubbles of one stage", kVit8, "8xh100-hgx",
       {kOneImage, "plan.vision.placement=in_bubbles"}, 374, "/plan/vision/placement", "pp > 1"},
      {"bubbles of GPipe", kVit8, "8xh100-hgx",
       {kOneImage, "plan.vision.placement=in_bubbles", "plan.backbone.pp=2",
        "plan.schedule=gpipe"},
       374, "/plan/vision/placement", "1f1b or interleaved"},
      {"own ranks that leave a remainder of GPUs", kVit8, "8xh100-hgx",
       {kOneImage, R"(plan.vision={"placement": "own_ranks", "tp": 2})", "plan.backbone.tp=4"},
       312, "/plan/backbone/tp", "tp = "},
      {"own ranks whose tokens do not go around", kVit8, "64xh100-ndr",
       {kOneImage, R"(plan.vision={"placement": "own_ranks", "tp": 4})",
        R"(plan.backbone={"tp": 2, "cp": 3})"},
       316, "/plan/vision/tp", "a multiple"},
      {"stages of an encoder without ranks of its own", kVit8, "8xh100-hgx",
       {kOneImage, R"(plan.vision={"pp": 2})"}, 373, "/plan/vision/pp", "placement = own_ranks"},
      {"layers of an encoder that is in one place", kVit8, "8xh100-hgx",
       {kOneImage, R"(plan.vision={"layers_per_stage": [4, 4]})"}, 373,
       "/plan/vision/layers_per_stage", "balanced or own_ranks"},
      {"a shard group", kLayers8, "8xh100-hgx",
       {"plan.sharding=hsdp", "plan.shard_group=3"}, 380, "/plan/shard_group",
       "shard_group = 1, 2, 4 or 8"},
      {"a shard group without hsdp", kLayers8, "8xh100-hgx",
       {"plan.sharding=fsdp", "plan.shard_group=4"}, 380, "/plan/shard_group",
       "sharding = hsdp"},
      {"a loss kernel", kLayers8, "8xh100-hgx", {"plan.loss=sparse"}, 386, "/plan/loss",
       "loss kernels of this stack: "},
      {"an encoder's micro-batch that does not go in", kVit8, "8xh100-hgx",
       {kOneImage, "plan.micro_batch_size=2", "plan.vision.micro_batch_size=3"}, 378,
       "/plan/vision/micro_batch_size", "a divisor of 2, or a multiple of it that divides 8"},
      {"an encoder's micro-batch in bubbles", kVit8, "8xh100-hgx",
       {kOneImage, "plan.backbone.pp=2",
        R"(plan.vision={"placement": "in_bubbles", "micro_batch_size": 2})"},
       378, "/plan/vision/micro_batch_size", "remove micro_batch_size"},
  };
  for (const Impossible& broken : cases) {
    CAPTURE(broken.what);
    const Refusal refused =
        RefusalOf(Document(broken.model, broken.cluster, broken.changes));
    const Diagnostic& d = refused.diagnostic;
    CHECK(d.code == broken.code);
    CHECK(d.where.pointer == broken.pointer);
    CHECK_MESSAGE(d.help.find(broken.help) != std::string::npos, d.help);
    CHECK(!d.help.empty());
    CHECK(!d.message.empty());
    CHECK(refused.exit_code == ExitCode::kInfeasible);
  }
}

TEST_CASE("samples that differ have no traffic, and a machine without PCIe no offload") {
  const Diagnostic uneven = ThrownBy(
      [] { EvaluateDocument(Shipped("qwen2-vl-7b-samples-8xa100"), Level::kFlow); });
  CHECK(uneven.code == 387);
  CHECK(uneven.help.find("--level analytic") != std::string::npos);
  const Diagnostic integrated = ThrownBy([] {
    EvaluateDocument(Document(kLayers8, "orin-nx", {R"(plan.offload={"optimizer": 1})"}));
  });
  CHECK(integrated.code == 385);
}

TEST_CASE("experts with tp and without sequence parallelism work, with a warning") {
  const Evaluation e = EvaluateDocument(
      Document(kMoe8, "8xh100-hgx",
               {R"(plan.backbone={"tp": 2, "ep": 2, "sequence_parallel": false})"}));
  REQUIRE(e.scenario.warnings.size() == 1);
  CHECK(e.scenario.warnings[0].code == 1324);
  CHECK(e.scenario.warnings[0].where.pointer == "/plan/backbone/sequence_parallel");
}

}  // namespace
}  // namespace aurum
