// DeepSpeed and Accelerate: configurations of ZeRO and FSDP around a program of the user's.

#include <doctest/doctest.h>

#include "tests/launch/read_back.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

LaunchText EmitOf(const JsonDocument& document, Framework framework) {
  return Emit(ReadPlanOf(document), framework);
}
Settings DeepSpeedOf(const JsonDocument& document) {
  return ReadDeepSpeed(FileOf(EmitOf(document, Framework::kDeepSpeed), "ds_config.json"));
}
Settings AccelerateOf(const JsonDocument& document) {
  return ReadYaml(FileOf(EmitOf(document, Framework::kAccelerate), "accelerate.yaml"));
}
Diagnostic Refused(const JsonDocument& document, Framework framework) {
  return ThrownBy([&] { EmitOf(document, framework); });
}
std::string Argument(const LaunchText& launch, const std::string& name) {
  for (std::size_t i = 0; i + 1 < launch.arguments.size(); ++i) {
    if (launch.arguments[i] == name) return launch.arguments[i + 1];
  }
  return "";
}

TEST_CASE("stages, batch and offload reach DeepSpeed") {
  const struct {
    const char *sharding, *stage;
  } stages[] = {{"ddp", "0"}, {"zero1", "1"}, {"zero2", "2"}, {"fsdp", "3"}};
  for (const auto& [sharding, stage] : stages) {
    const Settings config =
        DeepSpeedOf(Llava({std::string("plan.sharding=") + sharding,
                           "workload.global_batch_size=64", "plan.micro_batch_size=2"}));
    CHECK(ValueOf(config, "zero_optimization.stage") == stage);
    CHECK(ValueOf(config, "train_batch_size") == "64");
    CHECK(ValueOf(config, "train_micro_batch_size_per_gpu") == "2");
    // train_batch_size = micro-batch · accumulation · GPUs, which DeepSpeed asserts.
    CHECK(ValueOf(config, "gradient_accumulation_steps") == "4");
    CHECK(ValueOf(config, "bf16.enabled") == "true");
  }
  const Settings offload = DeepSpeedOf(
      Llava({"plan.sharding=fsdp", R"(plan.offload={"optimizer": 0.5, "parameters": 1})",
             "plan.overlap.gradient_reduce=true"}));
  CHECK(ValueOf(offload, "zero_optimization.offload_optimizer.device") == "cpu");
  CHECK(ValueOf(offload, "zero_optimization.offload_optimizer.ratio") == "0.5");
  CHECK(ValueOf(offload, "zero_optimization.offload_param.device") == "cpu");
}

TEST_CASE("ZeRO-3 gives a layer back behind its use, or keeps all until backward") {
  const Settings back = DeepSpeedOf(Llava({"plan.sharding=fsdp", "plan.prefetch=2"}));
  const Settings kept =
      DeepSpeedOf(Llava({"plan.sharding=fsdp", "plan.reshard_after_forward=false"}));
  const auto number = [](const Settings& settings, const char* key) {
    return std::stoll(ValueOf(settings, std::string("zero_optimization.") + key, "-1"));
  };
  const Model& model = *ReadPlanOf(Llava({})).model;
  const Module& backbone = model.Backbone();
  const std::int64_t layer = LayerParameters(backbone.runs.front().layer, backbone.hidden);
  CHECK(number(back, "stage3_max_reuse_distance") == 0);
  CHECK(number(back, "stage3_prefetch_bucket_size") == 2 * layer);
  CHECK(number(back, "stage3_max_live_parameters") == 3 * layer);
  CHECK(number(kept, "stage3_max_reuse_distance") >= 2 * ModelParameters(model));
  CHECK(number(kept, "stage3_max_live_parameters") >= ModelParameters(model));
}

TEST_CASE("the trainer's arguments agree with the configuration, and name what is left to it") {
  const LaunchText launch =
      EmitOf(Llava({"plan.sharding=zero2", "plan.micro_batch_size=2",
                    "workload.global_batch_size=128", "plan.recompute=full",
                    "plan.optimizer=adam-8bit", "target.steps=1200", R"(plan.frozen=["vision"])",
                    R"(plan.adapter={"kind": "lora", "rank": 16, "targets": ["q", "v"]})"}),
             Framework::kDeepSpeed);
  CHECK(Argument(launch, "--per_device_train_batch_size") == "2");
  CHECK(Argument(launch, "--gradient_accumulation_steps") == "8");
  CHECK(Argument(launch, "--gradient_checkpointing") == "true");
  CHECK(Argument(launch, "--optim") == "adamw_bnb_8bit");
  CHECK(Argument(launch, "--max_steps") == "1200");
  CHECK(Argument(launch, "--deepspeed") == "${here}/ds_config.json");
  CHECK(Warns(launch, 1952, "LoRA of rank 16 on q, v"));
  CHECK(Warns(launch, 1952, "freezing of vision"));
  CHECK(ValueOf(ReadDeepSpeed(FileOf(launch, "ds_config.json")), "zero_allow_untested_optimizer") ==
        "true");
}

TEST_CASE("AutoTP and Ulysses have their conditions") {
  const Settings tp =
      DeepSpeedOf(Llava({"plan.sharding=zero1", "plan.backbone.tp=2", "plan.vision.tp=2",
                         "plan.backbone.sequence_parallel=false"}));
  CHECK(ValueOf(tp, "tensor_parallel.autotp_size") == "2");
  const auto refused = [](const std::vector<std::string>& changes) {
    return Refused(Llava(changes), Framework::kDeepSpeed).message;
  };
  CHECK(refused({"plan.backbone.tp=2"}).find("sequence_parallel") != std::string::npos);
  CHECK(refused({"plan.backbone.tp=2", "plan.sharding=fsdp"}).find("AutoTP works with ZeRO") !=
        std::string::npos);
  CHECK(refused({"plan.backbone.pp=2"}).find("plan.backbone.pp = 2") != std::string::npos);
  CHECK(refused({"plan.backbone.cp=2"}).find("Ulysses") != std::string::npos);
  CHECK(Warns(EmitOf(Llava({"plan.backbone.cp=2", "plan.backbone.context_parallel=ulysses"}),
                     Framework::kDeepSpeed),
              1952, "sequence_parallel_size=2"));
}

TEST_CASE("Accelerate is given the engine that runs the plan") {
  const Settings ddp = AccelerateOf(Llava({"plan.sharding=ddp"}));
  CHECK(ValueOf(ddp, "distributed_type") == "MULTI_GPU");
  CHECK(ValueOf(ddp, "num_processes") == "8");
  CHECK(ValueOf(ddp, "mixed_precision") == "bf16");

  const Settings fsdp = AccelerateOf(
      Llava({"plan.sharding=fsdp", "plan.recompute=full", "plan.reshard_after_forward=false"}));
  CHECK(ValueOf(fsdp, "distributed_type") == "FSDP");
  CHECK(ValueOf(fsdp, "fsdp_config.fsdp_version") == "2");
  CHECK(ValueOf(fsdp, "fsdp_config.fsdp_reshard_after_forward") == "false");
  CHECK(ValueOf(fsdp, "fsdp_config.fsdp_activation_checkpointing") == "true");
  CHECK(ValueOf(fsdp, "parallelism_config.parallelism_config_tp_size").empty());

  const LaunchText zero = EmitOf(Llava({"plan.sharding=zero2"}), Framework::kAccelerate);
  const Settings config = ReadYaml(FileOf(zero, "accelerate.yaml"));
  CHECK(ValueOf(config, "distributed_type") == "DEEPSPEED");
  CHECK(ValueOf(config, "deepspeed_config.deepspeed_config_file") == "ds_config.json");
  CHECK(ValueOf(ReadDeepSpeed(FileOf(zero, "ds_config.json")), "zero_optimization.stage") == "2");
  // Recomputation is switched on once: by FSDP itself, or by the trainer.
  CHECK(
      Argument(EmitOf(Llava({"plan.sharding=fsdp", "plan.recompute=full"}), Framework::kAccelerate),
               "--gradient_checkpointing") == "false");
  CHECK(Argument(
            EmitOf(Llava({"plan.sharding=zero2", "plan.recompute=full"}), Framework::kAccelerate),
            "--gradient_checkpointing") == "true");
}

TEST_CASE("degrees of Accelerate's mesh multiply to the GPUs") {
  const std::vector<std::vector<std::string>> plans = {
      {"plan.sharding=fsdp", "plan.backbone.tp=2", "plan.backbone.sequence_parallel=false"},
      {"plan.sharding=hsdp", "plan.shard_group=4"},
      {"plan.sharding=hsdp", "plan.shard_group=4", "plan.backbone.cp=2"},
      {"plan.sharding=fsdp", "plan.backbone.cp=4"}};
  for (const std::vector<std::string>& plan : plans) {
    const Settings config = AccelerateOf(Llava(plan));
    std::int64_t product = 1;
    for (const char* dimension : {"dp_replicate", "dp_shard", "cp", "tp"}) {
      product *= std::stoll(ValueOf(
          config, std::string("parallelism_config.parallelism_config_") + dimension + "_size",
          "0"));
    }
    CHECK(product == 8);
  }
  CHECK(ValueOf(AccelerateOf(Llava(plans[3])),
                "parallelism_config.parallelism_config_cp_comm_strategy") == "alltoall");
}

TEST_CASE("what Accelerate cannot do is named by its key") {
  const auto refused = [](const std::vector<std::string>& changes) {
    return Refused(Llava(changes), Framework::kAccelerate).message;
  };
  CHECK(refused({"plan.backbone.pp=2"}).find("plan.backbone.pp = 2") != std::string::npos);
  CHECK(refused(
            {"plan.backbone.tp=2", "plan.backbone.sequence_parallel=false", "plan.sharding=zero1"})
            .find("tensor parallelism goes with FSDP") != std::string::npos);
  CHECK(refused({"plan.sharding=fsdp", "plan.recompute=selective"}).find("selective") !=
        std::string::npos);
  CHECK(refused({"plan.sharding=fsdp", "plan.precision=nvfp4", "profile=b200"}).find("nvfp4") !=
        std::string::npos);
}

TEST_CASE("the samples of other projects have no key that we would not know") {
  for (const char* name : {"ds_zero2_llava.json", "ds_zero3_llava.json"}) {
    const std::string path = SharedPath(std::string("data/framework-configs/") + name);
    if (path.empty()) return;
    Settings theirs;
    Flatten(ReadJsonFile(path).root, "", &theirs);
    const std::string stage = ValueOf(theirs, "zero_optimization.stage");
    const Settings ours = DeepSpeedOf(
        Llava({stage == "2" ? std::string("plan.sharding=zero2") : "plan.sharding=fsdp"}));
    CHECK(ValueOf(ours, "zero_optimization.stage") == stage);
    CHECK(ValueOf(ours, "zero_optimization.overlap_comm") ==
          ValueOf(theirs, "zero_optimization.overlap_comm"));
    for (const char* key :
         {"train_micro_batch_size_per_gpu", "train_batch_size", "gradient_accumulation_steps"})
      CHECK(theirs.contains(key) == ours.contains(key));
  }
  const std::string path = SharedPath("data/framework-configs/accelerate_fsdp2.yaml");
  if (path.empty()) return;
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const Settings ours = AccelerateOf(Llava({"plan.sharding=fsdp"}));
  for (const char* key : {"fsdp_version", "fsdp_auto_wrap_policy", "fsdp_reshard_after_forward",
                          "fsdp_offload_params", "fsdp_cpu_ram_efficient_loading"}) {
    CHECK(text.find(std::string("  ") + key + ": " +
                    ValueOf(ours, std::string("fsdp_config.") + key)) != std::string::npos);
  }
}

}  // namespace
}  // namespace aurum
