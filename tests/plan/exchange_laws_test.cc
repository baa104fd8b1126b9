// What ranks say to each other in a whole step: as much as its parameters ask for, whatever the order.
#include <doctest/doctest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/plan/space.h"

namespace aurum {
namespace {

// Bytes of a kind that the GPUs of a class exchange in a step, by module.
double Exchanged(const Evaluation& e, OpKind kind, std::uint32_t rank_class, int module) {
  double bytes = 0;
  for (const OpInfo& info : e.program.info) {
    if (info.kind == kind && info.rank_class == rank_class && info.module == module)
      bytes += info.bytes;
  }
  return bytes;
}

TEST_CASE("ops reduce the gradient bytes that a class tells") {
  const std::vector<std::vector<std::string>> plans = {
      {"plan.sharding=ddp"},
      {"plan.sharding=zero1", "plan.bucket_mb=100"},
      {"plan.sharding=zero2"},
      {"plan.sharding=fsdp"},
      {"plan.sharding=fsdp", "plan.vision.micro_batch_size=2"},
      {"plan.sharding=fsdp", "plan.micro_batch_size=2", "plan.vision.micro_batch_size=1"},
      {"plan.sharding=fsdp", R"(plan.backbone={"pp": 4})"},
      {"plan.sharding=fsdp", R"(plan.backbone={"pp": 4})", "plan.schedule=zb-h1"},
      {"plan.sharding=fsdp", R"(plan.backbone={"pp": 4})", "plan.schedule=zb-v"},
      {"plan.sharding=fsdp", R"(plan.backbone={"pp": 4})", "plan.schedule=dualpipe"},
      {"plan.sharding=fsdp", R"(plan.backbone={"pp": 4, "vpp": 2})"},
      {"plan.sharding=hsdp", "plan.shard_group=4", R"(plan.backbone={"pp": 2})"},
      {"plan.sharding=zero1", R"(plan.backbone={"pp": 4})", "plan.vision.placement=in_bubbles"},
      {"plan.sharding=fsdp", R"(plan.frozen=["vision"])", "plan.vision.placement=colocated_dp"},
  };
  for (const std::vector<std::string>& changes : plans) {
    CAPTURE(changes.back());
    const Evaluation e =
        EvaluateDocument(Document(kVit8, "16xh100-ndr", Join({kOneImage}, changes)));
    for (std::size_t c = 0; c < e.program.classes.size(); ++c) {
      for (std::size_t m = 0; m < e.program.classes[c].modules.size(); ++m) {
        const double told = e.program.classes[c].modules[m].gradient_bytes;
        CHECK(Exchanged(e, OpKind::kGradientReduce, static_cast<std::uint32_t>(c),
                        static_cast<int>(m)) == doctest::Approx(told).epsilon(1e-9));
      }
    }
  }
}

TEST_CASE("under FSDP every schedule reduces and gathers the same") {
  const auto exchanged = [](const std::string& schedule, OpKind kind) {
    const Evaluation e = EvaluateDocument(Document(
        kLayers8, "16xh100-ndr",
        {"plan.sharding=fsdp", R"(plan.backbone={"pp": 4})", "plan.schedule=" + schedule}));
    double bytes = 0;
    for (std::uint32_t c = 0; c < e.program.classes.size(); ++c) bytes += Exchanged(e, kind, c, 0);
    return bytes;
  };
  for (const OpKind kind : {OpKind::kGradientReduce, OpKind::kParameterGather}) {
    const double one = exchanged("1f1b", kind);
    CHECK(one > 0);
    for (const char* schedule : {"gpipe", "zb-h1", "zb-v", "dualpipe"}) {
      CAPTURE(std::string(schedule));
      // In a pipeline gradients are reduced once a step; two directions hold every layer twice.
      const double copies =
          kind == OpKind::kGradientReduce && schedule == std::string("dualpipe") ? 2 : 1;
      CHECK(exchanged(schedule, kind) == doctest::Approx(copies * one).epsilon(1e-12));
    }
  }
}

TEST_CASE("ZeRO-1 gathers an encoder in bubbles on every stage") {
  const Evaluation e = EvaluateDocument(
      Document(kVit8, "16xh100-ndr",
               {kOneImage, R"(plan.backbone={"pp": 4})", "plan.vision.placement=in_bubbles"}));
  for (std::uint32_t c = 0; c < e.program.classes.size(); ++c) {
    const ModuleShare& vision = e.program.classes[c].modules[0];
    CHECK(vision.parameters > 0);
    CHECK(Exchanged(e, OpKind::kParameterGather, c, 0) ==
          doctest::Approx(vision.parameters * e.scenario.stack->parameter_exchange_bytes)
              .epsilon(1e-9));
  }
}

TEST_CASE("gathered parameters are returned where nothing goes backward") {
  for (const char* reshard : {"true", "false"}) {
    for (const char* frozen : {R"(["vision"])", R"(["vision", "connector"])", R"(["backbone"])"}) {
      CAPTURE(std::string(frozen));
      const Evaluation e = EvaluateDocument(
          Document(kVit8, "8xh100-hgx",
                   {kOneImage, "plan.sharding=fsdp", std::string("plan.frozen=") + frozen,
                    std::string("plan.reshard_after_forward=") + reshard}));
      for (const ClassMemory& memory : e.memory.classes)
        CHECK(memory.left_bytes == doctest::Approx(0.0));
    }
  }
}

TEST_CASE("gathers that end before compute begins slow nothing down") {
  // 1.6 billion parameters in 16 bits over NVLink take less than the host's 15 ms.
  const auto evaluate = [](const char* overlap) {
    return EvaluateDocument(
        Document(kLayers8, "8xh100-hgx",
                 {std::string("plan.overlap={\"gradient_reduce\": false, \"parameter_gather\": ") +
                  overlap + "}"}));
  };
  const Evaluation on = evaluate("true"), off = evaluate("false");
  CHECK(on.Time().slowed_s == 0);
  CHECK(on.outcome.schedule.makespan == off.outcome.schedule.makespan);
}

TEST_CASE("trained embeddings beside an adapter: a tied table once where it is on one stage") {
  const char* const adapter =
      R"(plan.adapter={"rank": 8, "targets": ["q"], "trains_embeddings": true})";
  const auto adapters = [&](const std::vector<std::string>& more) {
    const Evaluation e = EvaluateDocument(
        Document("gpt-3-175b", "64xa100-hdr", Join({adapter, "plan.backbone.tp=8"}, more)));
    double parameters = 0;
    for (const RankClass& c : e.program.classes) parameters += c.modules[0].adapter_parameters;
    return parameters;
  };
  const double table = 50257.0 * 12288 / 8;
  const double beside = 96.0 * 8 * (12288 + 12288) / 8;
  CHECK(adapters({}) == doctest::Approx(table + beside).epsilon(1e-9));
  CHECK(adapters({R"(plan.backbone={"tp": 8, "pp": 8})"}) ==
        doctest::Approx(2 * table + beside).epsilon(1e-9));
}

// Bytes of the one transfer forward of micro-batch 0 out of a class.
double Sent(const Evaluation& e, std::uint32_t rank_class) {
  for (const OpInfo& info : e.program.info) {
    if (info.kind == OpKind::kPipelineTransfer && info.rank_class == rank_class &&
        info.micro_batch == 0)
      return info.bytes;
  }
  return 0;
}

TEST_CASE("what cross-attention reads travels as far as it is read") {
  // Llama-3.2-11B-Vision, 40 layers, 8 of them cross-attention; the last two layers are not.
  const auto at = [](const std::string& layers, bool image) {
    std::vector<std::string> changes = {
        "workload.text_tokens=512",
        R"(plan.backbone={"pp": 2, "layers_per_stage": )" + layers + "}"};
    if (image)
      changes.emplace_back(R"(workload.images=[{"width": 560, "height": 560, "count": 1}])");
    return EvaluateDocument(Document("llama-3.2-11b-vision", "8xh100-hgx", changes));
  };
  const Evaluation half = at("[20, 20]", true);
  const double hidden = half.scenario.model->Backbone().hidden;
  const double text = 2 * half.scenario.sample.backbone_tokens * hidden;
  CHECK(half.scenario.sample.cross_attention_tokens > 1600);
  CHECK(Sent(half, 0) ==
        doctest::Approx(text + 2 * half.scenario.sample.cross_attention_tokens * hidden)
            .epsilon(1e-12));
  CHECK(Sent(at("[39, 1]", true), 0) == doctest::Approx(text).epsilon(1e-12));
  CHECK(Sent(at("[20, 20]", false), 0) == doctest::Approx(2.0 * 512 * hidden).epsilon(1e-12));
}

TEST_CASE("a tower that is done hands its tokens on while another still runs") {
  // Qwen2.5-Omni: vision ends on the first stage, audio on the second; modalities meet there.
  const auto sent = [](const char* vision, const char* audio) {
    return Sent(EvaluateDocument(Document(
                    "qwen2.5-omni-7b", "8xh100-hgx",
                    {kOneImage, "workload.audio_s=30", "workload.text_tokens=256",
                     R"(plan.backbone={"pp": 2, "layers_per_stage": [0, 28]})",
                     std::string(R"(plan.vision={"placement": "balanced", "layers_per_stage": )") +
                         vision + "}",
                     std::string(R"(plan.audio={"placement": "balanced", "layers_per_stage": )") +
                         audio + "}"})),
                0);
  };
  // Audio alone crosses where vision has not begun; vision's tokens come on top once they are made.
  const double audio = sent("[0, 32]", "[16, 16]");
  const double both = sent("[32, 0]", "[16, 16]");
  CHECK(audio > 0);
  CHECK(both > audio);
}

TEST_CASE("an offloaded optimizer moves gradients and parameters, not the host's arithmetic") {
  const Evaluation e =
      EvaluateDocument(Document(kLayers8, "8xh100-hgx", {R"(plan.offload={"optimizer": 1})"}));
  const ModuleShare& share = e.program.classes[0].modules[0];
  double bytes = 0;
  for (const OpInfo& info : e.program.info) {
    if (info.kind == OpKind::kHostTransfer) bytes += info.bytes;
  }
  const Stack& stack = *e.scenario.stack;
  CHECK(bytes == doctest::Approx(share.parameters / 8 *
                                 (stack.gradient_exchange_bytes + stack.parameter_exchange_bytes))
                     .epsilon(1e-9));
}

}  // namespace
}  // namespace aurum
