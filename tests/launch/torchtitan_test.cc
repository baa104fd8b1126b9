#include <doctest/doctest.h>

#include "tests/launch/read_back.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

JsonDocument TorchtitanScenario(const std::string& model, const std::string& cluster, int tokens,
                                int batch, const std::vector<std::string>& changes) {
  return Changed(
      ParseJson(R"({"schema": "aurum.scenario/1", "model": ")" + model + R"(", "cluster": ")" +
                    cluster + R"(", "stack": "torchtitan", "workload": {"text_tokens": )" +
                    std::to_string(tokens) + R"(, "global_batch_size": )" + std::to_string(batch) +
                    R"(}, "plan": {"sharding": "fsdp"}})",
                "test"),
      changes);
}
Settings TomlOf(const JsonDocument& document) {
  return ReadToml(FileOf(Emit(ReadPlanOf(document), Framework::kTorchtitan), "torchtitan.toml"));
}
Diagnostic RefusedByTorchtitan(const JsonDocument& document) {
  return ThrownBy([&] { Emit(ReadPlanOf(document), Framework::kTorchtitan); });
}

// How many layers every part of the model has: torchtitan's stages in their order.
Json LayersOf(const std::string& parts) {
  Json layers = Json::Array();
  std::int64_t next = 0;
  std::size_t at = 1;
  while ((at = parts.find('[', at)) != std::string::npos) {
    const std::size_t end = parts.find(']', at);
    const std::string part = parts.substr(at, end - at);
    std::int64_t count = 0;
    for (std::size_t i = part.find("layers."); i != std::string::npos;
         i = part.find("layers.", i + 1), ++count)
      CHECK(std::stoll(part.substr(i + 7)) == next++);  // in order, each once
    CHECK((part.find("tok_embeddings") != std::string::npos) == layers.items().empty());
    layers.Append(count);
    at = end;
  }
  return layers;
}

// What torchtitan makes of its file, as a plan of ours.
Json PlanOfToml(const Settings& toml) {
  const auto number = [&](const char* key, std::int64_t otherwise) -> std::int64_t {
    const std::string text = ValueOf(toml, key);
    return text.empty() ? otherwise : std::stoll(text);
  };
  Json plan = Json::Object(), backbone = Json::Object();
  const std::int64_t pp = number("parallelism.pipeline_parallel_degree", 1);
  const std::int64_t cp = number("parallelism.context_parallel_degree", 1);
  backbone.Set("tp", number("parallelism.tensor_parallel_degree", 1));
  backbone.Set("cp", cp);
  backbone.Set("pp", pp);
  backbone.Set("ep", number("parallelism.expert_parallel_degree", 1));
  backbone.Set("expert_tp", number("parallelism.expert_tensor_parallel_degree", 1));
  plan.Set("micro_batch_size", pp > 1 ? number("parallelism.pipeline_parallel_microbatch_size", 1)
                                      : number("training.local_batch_size", 1));
  if (pp > 1) {
    const Json layers = LayersOf(ValueOf(toml, "parallelism.module_fqns_per_model_part"));
    backbone.Set("vpp", static_cast<std::int64_t>(layers.items().size()) / pp);
    backbone.Set("layers_per_stage", layers);
    const std::string schedule = ValueOf(toml, "parallelism.pipeline_parallel_schedule");
    plan.Set("schedule", schedule == "GPipe"             ? "gpipe"
                         : schedule == "1F1B"            ? "1f1b"
                         : schedule == "Interleaved1F1B" ? "interleaved"
                                                         : "zb-v");
  }
  plan.Set("backbone", std::move(backbone));
  const std::int64_t replicas = number("parallelism.data_parallel_replicate_degree", 1);
  const std::int64_t shards = number("parallelism.data_parallel_shard_degree", -1);
  if (replicas > 1 && shards * cp > 1) {
    plan.Set("sharding", "hsdp");
    plan.Set("shard_group", shards * cp);
  } else {
    plan.Set("sharding", replicas > 1 ? "ddp" : "fsdp");
  }
  if (ValueOf(toml, "parallelism.fsdp_reshard_after_forward") == "never")
    plan.Set("reshard_after_forward", false);
  if (ValueOf(toml, "activation_checkpoint.mode") == "full") plan.Set("recompute", "full");
  if (ValueOf(toml, "model.converters").find("float8") != std::string::npos)
    plan.Set("precision", "fp8");
  if (ValueOf(toml, "parallelism.enable_async_tensor_parallel") == "true") {
    CHECK(ValueOf(toml, "compile.enable") == "true");  // only effective when compiled
    Json overlap = Json::Object();
    overlap.Set("tensor_parallel", true);
    plan.Set("overlap", std::move(overlap));
  }
  if (ValueOf(toml, "training.enable_cpu_offload") == "true") {
    Json offload = Json::Object();
    offload.Set("parameters", 1);
    offload.Set("optimizer", 1);
    plan.Set("offload", std::move(offload));
  }
  return plan;
}
void CheckTorchtitanRoundTrip(const JsonDocument& document) {
  const Settings toml = TomlOf(document);
  CheckSameRun(document, WithPlan(document, PlanOfToml(toml),
                                  std::stoll(ValueOf(toml, "training.global_batch_size"))));
}

TEST_CASE("what torchtitan reads from its file is the plan that was told") {
  const JsonDocument llama = TorchtitanScenario("llama-3.1-8b", "64xh100-ndr", 8192, 128, {});
  CheckTorchtitanRoundTrip(llama);
  CheckTorchtitanRoundTrip(Changed(llama, {"plan.micro_batch_size=2", "plan.recompute=full"}));
  CheckTorchtitanRoundTrip(
      Changed(llama, {"plan.backbone.tp=4", "plan.overlap.tensor_parallel=true",
                      "plan.reshard_after_forward=false", "plan.precision=fp8"}));
  CheckTorchtitanRoundTrip(Changed(llama, {"plan.sharding=hsdp", "plan.shard_group=8"}));
  CheckTorchtitanRoundTrip(
      Changed(llama, {"plan.backbone.cp=4", "plan.sharding=hsdp", "plan.shard_group=16"}));
  CheckTorchtitanRoundTrip(Changed(llama, {"plan.sharding=ddp"}));
  CheckTorchtitanRoundTrip(Changed(llama, {"plan.backbone.pp=4", "plan.backbone.tp=2"}));
  CheckTorchtitanRoundTrip(
      Changed(llama, {"plan.backbone.pp=4", "plan.backbone.layers_per_stage=[7,9,9,7]"}));
  CheckTorchtitanRoundTrip(Changed(
      llama, {"plan.backbone.pp=4", "plan.backbone.vpp=2", "workload.global_batch_size=256"}));
  CheckTorchtitanRoundTrip(Changed(
      llama, {"plan.backbone.pp=4", "plan.schedule=zb-v", "workload.global_batch_size=256"}));
  CheckTorchtitanRoundTrip(Changed(llama, {R"(plan.offload={"parameters": 1, "optimizer": 1})"}));
  CheckTorchtitanRoundTrip(TorchtitanScenario("qwen3-30b-a3b", "32xh100-ndr", 4096, 64,
                                              {"plan.backbone.ep=8", "plan.recompute=full"}));
}

TEST_CASE("a model is named by its flavor, or refused with those that there are") {
  const Settings llama =
      TomlOf(TorchtitanScenario("llama-3.1-405b", "512xh100-ndr", 8192, 512, {}));
  CHECK(ValueOf(llama, "model.name") == "llama3");
  CHECK(ValueOf(llama, "model.flavor") == "405B");
  CHECK(ValueOf(TomlOf(TorchtitanScenario("deepseek-v3", "256xh100-ndr", 4096, 256, {})),
                "model.flavor") == "671B");
  const Settings qwen = TomlOf(TorchtitanScenario("qwen3-30b-a3b", "32xh100-ndr", 4096, 32, {}));
  CHECK(ValueOf(qwen, "model.name") == "qwen3");
  CHECK(ValueOf(qwen, "model.flavor") == "30B-A3B");

  const Diagnostic refused =
      RefusedByTorchtitan(TorchtitanScenario("mistral-7b", "8xh100-ndr", 4096, 8, {}));
  CHECK(refused.code == 951);
  CHECK(refused.help.find("llama3 8B") != std::string::npos);
  CHECK(
      RefusedByTorchtitan(Changed(Shipped("llava-1.6-7b-finetune-8xa100"), {"plan.sharding=fsdp"}))
          .code == 951);
}

TEST_CASE("what torchtitan cannot do is named by its key") {
  const auto llama = [](const std::vector<std::string>& changes) {
    return RefusedByTorchtitan(
               TorchtitanScenario("llama-3.1-8b", "64xh100-ndr", 8192, 128, changes))
        .message;
  };
  CHECK(llama({"plan.sharding=zero1"}).find("plan.sharding = zero1") != std::string::npos);
  CHECK(llama({"plan.sharding=ddp", "plan.backbone.tp=2"}).find("plan.sharding = ddp") !=
        std::string::npos);
  CHECK(llama({"plan.backbone.pp=4", "plan.schedule=zb-h1"}).find("zb-h1") != std::string::npos);
  CHECK(llama({"plan.recompute=selective"}).find("selective") != std::string::npos);
  CHECK(llama({"plan.backbone.tp=2", "plan.backbone.sequence_parallel=false"})
            .find("sequence_parallel") != std::string::npos);
  CHECK(llama({"plan.backbone.cp=4", "plan.backbone.context_parallel=ulysses"}).find("ulysses") !=
        std::string::npos);
  CHECK(llama({"plan.precision=fp8-block"}).find("fp8-block") != std::string::npos);
  CHECK(llama({R"(plan.offload={"optimizer": 1})"}).find("plan.offload") != std::string::npos);
}

}  // namespace
}  // namespace aurum
