#include <doctest/doctest.h>

#include "tests/launch/read_back.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

JsonDocument MegatronScenario(const std::string& model, const std::string& cluster, int tokens,
                              int batch, const std::vector<std::string>& changes) {
  return Changed(
      ParseJson(R"({"schema": "aurum.scenario/1", "model": ")" + model + R"(", "cluster": ")" +
                    cluster + R"(", "stack": "megatron-core", "workload": {"text_tokens": )" +
                    std::to_string(tokens) + R"(, "global_batch_size": )" + std::to_string(batch) +
                    R"(}, "plan": {}})",
                "test"),
      changes);
}
MegatronArguments ArgumentsOf(const JsonDocument& document) {
  return MegatronArguments(Emit(ReadPlanOf(document), Framework::kMegatron).arguments);
}
Diagnostic RefusedByMegatron(const JsonDocument& document) {
  return ThrownBy([&] { Emit(ReadPlanOf(document), Framework::kMegatron); });
}

// What Megatron-LM makes of its arguments, as a plan of ours.
Json PlanOfArguments(const MegatronArguments& a) {
  Json plan = Json::Object();
  Json backbone = Json::Object();
  const auto degree = [&](const char* key, const char* name) {
    backbone.Set(key, a.Number(name, 1));
  };
  degree("tp", "--tensor-model-parallel-size");
  degree("pp", "--pipeline-model-parallel-size");
  degree("cp", "--context-parallel-size");
  degree("vpp", "--num-virtual-stages-per-pipeline-rank");
  if (a.Has("--num-experts")) {
    degree("ep", "--expert-model-parallel-size");
    degree("expert_tp", "--expert-tensor-parallel-size");
  }
  if (a.Text("--cp-comm-type") == "a2a") backbone.Set("context_parallel", "ulysses");
  backbone.Set("sequence_parallel", a.Has("--sequence-parallel"));
  if (const std::string layout = a.Text("--pipeline-model-parallel-layout"); !layout.empty()) {
    // "Et*3|t*4|…L"
    Json layers = Json::Array();
    std::int64_t count = 0;
    std::int64_t positions = 1;
    for (std::size_t i = 0; i <= layout.size(); ++i) {
      if (i == layout.size() || layout[i] == '|') {
        layers.Append(count);
        count = 0;
        if (i < layout.size()) ++positions;
      } else if (layout[i] == 't') {
        REQUIRE(layout[i + 1] == '*');
        count = std::stoll(layout.substr(i + 2));
      }
    }
    CHECK(layout.front() == 'E');
    CHECK(layout.back() == 'L');
    backbone.Set("vpp", positions / a.Number("--pipeline-model-parallel-size", 1));
    backbone.Set("layers_per_stage", std::move(layers));
  }
  plan.Set("backbone", std::move(backbone));
  plan.Set("micro_batch_size", a.Number("--micro-batch-size", 1));
  const std::string strategy = a.Text("--data-parallel-sharding-strategy");
  std::string sharding = a.Has("--use-distributed-optimizer") ? "zero1" : "ddp";
  if (a.Has("--use-megatron-fsdp")) sharding = strategy == "optim_grads" ? "zero2" : "fsdp";
  plan.Set("sharding", sharding);
  if (a.Has("--use-tp-pp-dp-mapping")) plan.Set("rank_order", "tp-cp-pp-dp");
  if (a.Text("--recompute-granularity") == "full") {
    Json recompute = Json::Object();
    recompute.Set("scope", "full");
    const bool block = a.Text("--recompute-method") == "block";
    recompute.Set(block ? "layers" : "block_layers", a.Number("--recompute-num-layers", 1));
    plan.Set("recompute", std::move(recompute));
  } else if (a.Text("--recompute-granularity") == "selective") {
    CHECK(a.Text("--recompute-modules") == "core_attn");
    plan.Set("recompute", "selective");
  }
  if (a.Has("--fp16")) plan.Set("precision", "fp16");
  if (a.Text("--fp8-recipe") == "blockwise") plan.Set("precision", "fp8-block");
  if (a.Text("--fp8-recipe") == "delayed") plan.Set("precision", "fp8");
  Json overlap = Json::Object();
  overlap.Set("gradient_reduce", a.Has("--overlap-grad-reduce"));
  overlap.Set("parameter_gather", a.Has("--overlap-param-gather"));
  overlap.Set("tensor_parallel", a.Has("--tp-comm-overlap"));
  overlap.Set("pipeline", !a.Has("--no-overlap-p2p-communication"));
  plan.Set("overlap", std::move(overlap));
  return plan;
}
void CheckMegatronRoundTrip(const JsonDocument& document) {
  const MegatronArguments a = ArgumentsOf(document);
  CheckSameRun(document,
               WithPlan(document, PlanOfArguments(a), a.Number("--global-batch-size", 0)));
}

TEST_CASE("what Megatron-LM's own parser takes is the plan that was told") {
  const JsonDocument gpt = MegatronScenario("gpt-3-175b", "64xa100-hdr", 2048, 64, {});
  CheckMegatronRoundTrip(Changed(gpt, {"plan.backbone.tp=8", "plan.backbone.pp=8"}));
  CheckMegatronRoundTrip(
      Changed(gpt, {"plan.backbone.tp=8", "plan.backbone.pp=8", "plan.backbone.vpp=3",
                    "plan.recompute=full", "plan.micro_batch_size=2"}));
  CheckMegatronRoundTrip(
      Changed(gpt, {"plan.backbone.tp=4", "plan.backbone.pp=4", "plan.sharding=ddp",
                    "plan.backbone.sequence_parallel=false", "plan.overlap.gradient_reduce=false",
                    "plan.recompute=selective"}));
  CheckMegatronRoundTrip(
      Changed(gpt, {"plan.backbone.tp=8", "plan.backbone.pp=4", "plan.rank_order=tp-cp-pp-dp",
                    R"(plan.recompute={"scope": "full", "layers": 10})", "plan.precision=fp16"}));
  CheckMegatronRoundTrip(Changed(
      gpt, {"plan.backbone.tp=8", "plan.backbone.pp=4", "plan.precision=bf16",
            "plan.backbone.layers_per_stage=[23,25,25,23]", "plan.overlap.tensor_parallel=true"}));
  CheckMegatronRoundTrip(
      Changed(gpt, {"plan.backbone.tp=8", "plan.backbone.pp=2", "plan.backbone.vpp=2",
                    "plan.backbone.layers_per_stage=[23,25,25,23]"}));
  CheckMegatronRoundTrip(Changed(gpt, {"plan.backbone.tp=8", "plan.sharding=fsdp"}));
  CheckMegatronRoundTrip(Changed(gpt, {"plan.backbone.tp=8", "plan.sharding=zero2"}));
  const JsonDocument llama = MegatronScenario("llama-3.1-8b", "16xh100-ndr", 8192, 32, {});
  CheckMegatronRoundTrip(Changed(llama, {"plan.backbone.tp=2", "plan.backbone.cp=4"}));
  CheckMegatronRoundTrip(
      Changed(llama, {"plan.backbone.cp=4", "plan.backbone.context_parallel=ulysses",
                      "plan.precision=fp8-block"}));
  const JsonDocument experts = MegatronScenario("mixtral-8x7b", "32xh100-ndr", 4096, 64, {});
  CheckMegatronRoundTrip(
      Changed(experts, {"plan.backbone.tp=2", "plan.backbone.ep=8", "plan.backbone.pp=2"}));
  CheckMegatronRoundTrip(
      Changed(experts, {"plan.backbone.tp=4", "plan.backbone.ep=4", "plan.backbone.expert_tp=2"}));
}

TEST_CASE("every plan of a small space is either run by Megatron-LM as it is, or refused") {
  int emitted = 0, refused = 0;
  for (const char* tp : {"1", "2", "8"}) {
    for (const char* pp : {"1", "2", "4"}) {
      for (const char* vpp : {"1", "2"}) {
        for (const char* schedule : {"1f1b", "interleaved", "gpipe", "zb-h1"}) {
          for (const char* sharding : {"ddp", "zero1", "zero2", "fsdp"}) {
            const JsonDocument document = MegatronScenario(
                "llama-2-7b", "32xa100-hdr", 4096, 64,
                {std::string("plan.backbone.tp=") + tp, std::string("plan.backbone.pp=") + pp,
                 std::string("plan.backbone.vpp=") + vpp, std::string("plan.schedule=") + schedule,
                 std::string("plan.sharding=") + sharding});
            try {
              ReadPlanOf(document);
            } catch (const InputError&) {
              continue;  // no plan at all
            }
            CAPTURE(tp);
            CAPTURE(pp);
            CAPTURE(vpp);
            CAPTURE(schedule);
            CAPTURE(sharding);
            const bool known = std::string(schedule) == "1f1b" ||
                               (std::string(schedule) == "interleaved" && std::string(pp) != "1");
            if (!known) {
              ++refused;
              CHECK(RefusedByMegatron(document).code == 950);
              continue;
            }
            ++emitted;
            if (emitted % 5 == 0) CheckMegatronRoundTrip(document);
            ArgumentsOf(document);
          }
        }
      }
    }
  }
  CHECK(emitted > 40);
  CHECK(refused > 10);
}

TEST_CASE("a decoder's shape is told in Megatron-LM's words") {
  const MegatronArguments gpt = ArgumentsOf(MegatronScenario(
      "gpt-3-175b", "64xa100-hdr", 2048, 64, {"plan.backbone.tp=8", "plan.backbone.pp=8"}));
  CHECK(gpt.Text("--num-layers") == "96");
  CHECK(gpt.Text("--hidden-size") == "12288");
  CHECK(gpt.Text("--ffn-hidden-size") == "49152");
  CHECK(gpt.Text("--num-attention-heads") == "96");
  CHECK(gpt.Text("--position-embedding-type") == "learned_absolute");
  CHECK(gpt.Text("--normalization") == "LayerNorm");
  CHECK(gpt.Text("--seq-length") == "2048");
  for (const char* absent : {"--swiglu", "--group-query-attention", "--disable-bias-linear",
                             "--untie-embeddings-and-output-weights", "--kv-channels"})
    CHECK_FALSE(gpt.Has(absent));

  const MegatronArguments llama =
      ArgumentsOf(MegatronScenario("llama-3.1-8b", "8xh100-ndr", 8192, 8, {"plan.backbone.tp=2"}));
  CHECK(llama.Has("--swiglu"));
  CHECK(llama.Has("--disable-bias-linear"));
  CHECK(llama.Has("--untie-embeddings-and-output-weights"));
  CHECK(llama.Text("--num-query-groups") == "8");
  CHECK(llama.Text("--position-embedding-type") == "rope");
  CHECK(llama.Text("--max-position-embeddings") == "131072");

  const MegatronArguments qwen = ArgumentsOf(
      MegatronScenario("qwen3-30b-a3b", "32xh100-ndr", 4096, 32, {"plan.backbone.ep=8"}));
  CHECK(qwen.Has("--qk-layernorm"));
  CHECK(qwen.Text("--kv-channels") == "128");
  CHECK(qwen.Text("--num-experts") == "128");
  CHECK(qwen.Text("--moe-router-topk") == "8");
  CHECK(qwen.Text("--moe-ffn-hidden-size") == "768");
  CHECK(qwen.Text("--moe-layer-freq") == "([1]*48)");

  // arXiv:2412.19437: three dense layers, then 58 with one shared and 256 routed experts.
  const MegatronArguments deepseek =
      ArgumentsOf(MegatronScenario("deepseek-v3", "256xh100-ndr", 4096, 256,
                                   {"plan.backbone.ep=64", "plan.overlap.expert_parallel=true"}));
  CHECK(deepseek.Text("--moe-layer-freq") == "([0]*3+[1]*58)");
  CHECK(deepseek.Text("--ffn-hidden-size") == "18432");
  CHECK(deepseek.Text("--moe-shared-expert-intermediate-size") == "2048");
  CHECK(deepseek.Has("--multi-latent-attention"));
  CHECK(deepseek.Text("--q-lora-rank") == "1536");
  CHECK(deepseek.Text("--kv-lora-rank") == "512");
  CHECK(deepseek.Text("--qk-pos-emb-head-dim") == "64");
  CHECK(deepseek.Has("--moe-shared-expert-overlap"));
  CHECK(ArgumentsOf(
            MegatronScenario("deepseek-v3-mtp", "256xh100-ndr", 4096, 256, {"plan.backbone.ep=64"}))
            .Text("--mtp-num-layers") == "1");
}

TEST_CASE("all that Megatron-LM cannot do is named at once, by its key") {
  const JsonDocument document = MegatronScenario(
      "llama-2-7b", "32xa100-hdr", 4096, 64,
      {"plan.backbone.pp=4", "plan.schedule=zb-h1", "plan.optimizer=adam-8bit",
       R"(plan.offload={"parameters": 1})", "plan.sharding=fsdp", "plan.rank_order=dp-tp-cp-pp"});
  const Diagnostic refused = RefusedByMegatron(document);
  CHECK(refused.code == 950);
  for (const char* key : {"plan.schedule = zb-h1", "plan.optimizer = adam-8bit",
                          "plan.offload.parameters", "plan.rank_order = dp-tp-cp-pp"})
    CHECK(refused.message.find(key) != std::string::npos);
  CHECK(refused.help.find("plan.schedule = 1f1b") != std::string::npos);
}

TEST_CASE("models and workloads that Megatron-LM has no words for are refused") {
  const Diagnostic vision = RefusedByMegatron(Shipped("llava-1.6-7b-finetune-8xa100"));
  CHECK(vision.code == 951);
  CHECK(vision.message.find("vision") != std::string::npos);
  CHECK(vision.help.find("accelerate") != std::string::npos);
  const JsonDocument odd = MegatronScenario("llama-3.1-8b", "8xh100-ndr", 8190, 8,
                                            {"plan.backbone.cp=2", "plan.backbone.tp=1"});
  CHECK(RefusedByMegatron(odd).code == 952);
  CHECK(RefusedByMegatron(MegatronScenario("llama-2-7b", "8xa100-hgx", 512, 8,
                                           {"workload.task=generate", "workload.new_tokens=4",
                                            "plan.sharding=ddp"}))
            .code == 952);
}

TEST_CASE("the environment of the script follows Megatron-LM's own checks") {
  const auto script = [](const std::vector<std::string>& changes) {
    return Emit(ReadPlanOf(MegatronScenario("llama-2-7b", "16xa100-hdr", 4096, 16, changes)),
                Framework::kMegatron)
        .files.front()
        .text;
  };
  CHECK(script({"plan.backbone.tp=8"}).find("CUDA_DEVICE_MAX_CONNECTIONS=1") != std::string::npos);
  CHECK(script({}).find("CUDA_DEVICE_MAX_CONNECTIONS") == std::string::npos);
  CHECK(script({"plan.backbone.tp=8", "plan.sharding=fsdp"}).find("CUDA_DEVICE_MAX_CONNECTIONS") ==
        std::string::npos);
  CHECK(script({}).find("--nnodes 2") != std::string::npos);
  CHECK(script({}).find("--nproc-per-node 8") != std::string::npos);
}

TEST_CASE("what differs from the prediction is told") {
  const LaunchText launch =
      Emit(ReadPlanOf(MegatronScenario(
               "llama-2-7b", "32xa100-hdr", 4096, 64,
               {"plan.backbone.pp=4", "stack=torchtitan", "what_if.nvlink_factor=2",
                "plan.collectives.data_parallel=ring"})),
           Framework::kMegatron);
  CHECK(Warns(launch, 1950, "plan.overlap.pipeline"));
  CHECK(Warns(launch, 1950, "gradient buckets"));
  CHECK(Warns(launch, 1950, "plan.collectives.data_parallel = ring"));
  CHECK(Warns(launch, 1951, "what_if"));
  CHECK(Warns(launch, 1952, "DATA_ARGS"));
  CHECK(Warns(launch, 1953, "torchtitan"));
}

}  // namespace
}  // namespace aurum
