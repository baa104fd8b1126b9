#include <utility>

#include "sim/launch/parts.h"

namespace aurum {
namespace {

// Accelerate runs a plan by one of three engines:
//   plain DDP            distributed_type: MULTI_GPU
//   FSDP2                distributed_type: FSDP; with tp, cp or groups of shards a parallelism_config
//                        names the mesh (dp_replicate, dp_shard, cp, tp)
//   DeepSpeed            distributed_type: DEEPSPEED; ZeRO-1 and -2, Ulysses, offload in part
enum class Engine { kOne, kDdp, kFsdp, kDeepSpeed };

Engine EngineOf(const Scenario& s) {
  const Plan& plan = s.plan;
  const bool ulysses = plan.cp > 1 && plan.cp_kind == ContextParallelKind::kUlysses;
  if (plan.sharding == Sharding::kZero1 || plan.sharding == Sharding::kZero2 || ulysses)
    return s.cluster->GpuCount() == 1 && !plan.offload.Any() ? Engine::kOne : Engine::kDeepSpeed;
  if (plan.sharding == Sharding::kDdp)
    return s.cluster->GpuCount() == 1 ? Engine::kOne : Engine::kDdp;
  // FSDP offloads all or nothing.
  if (plan.sharding == Sharding::kFsdp && plan.tp == 1 && plan.cp == 1 && plan.offload.Any() &&
      !(plan.offload.optimizer == 1 && plan.offload.parameters == 1))
    return Engine::kDeepSpeed;
  return Engine::kFsdp;
}

std::string Yes(bool value) { return value ? "true" : "false"; }

void CheckDegrees(const Scenario& s, Engine engine, Gaps* gaps) {
  const Plan& plan = s.plan;
  const std::string key = KeyOf(*s.model, s.model->modules.size() - 1);
  if (plan.pp > 1) {
    gaps->RefusePlan(key + ".pp = " + std::to_string(plan.pp), "it has no pipeline stages",
                     key + ".pp = 1");
  }
  if (plan.ep > 1) {
    gaps->RefusePlan(key + ".ep = " + std::to_string(plan.ep), "it has no expert parallelism",
                     key + ".ep = 1");
  }
  if (plan.ep == 1 && plan.expert_tp != plan.tp) {
    gaps->RefusePlan(key + ".expert_tp = " + std::to_string(plan.expert_tp),
                     "experts are split like all other layers", "remove " + key + ".expert_tp");
  }
  if (plan.tp > 1 && plan.sequence_parallel) {
    gaps->RefusePlan(key + ".sequence_parallel = true",
                     "the tensor-parallel plans of transformers leave norms and residuals whole",
                     key + ".sequence_parallel = false");
  }
  if (engine != Engine::kFsdp && plan.tp > 1) {
    gaps->RefusePlan(key + ".tp = " + std::to_string(plan.tp) +
                         " with plan.sharding = " + ShardingName(plan.sharding),
                     "tensor parallelism goes with FSDP", "plan.sharding = fsdp");
  }
  if (engine != Engine::kFsdp && plan.cp > 1 && plan.cp_kind == ContextParallelKind::kRing) {
    gaps->RefusePlan(
        key + ".context_parallel = ring with plan.sharding = " + ShardingName(plan.sharding),
        "the ring goes with FSDP", "plan.sharding = fsdp");
  }
  if (plan.tp > 1 && plan.overlap.tensor_parallel) {
    gaps->RefusePlan("plan.overlap.tensor_parallel = true", "its collectives are waited for",
                     "plan.overlap.tensor_parallel = false");
  }
  if (plan.rank_order != kDefaultRankOrder) {
    gaps->RefusePlan("plan.rank_order = " + RankOrderName(plan.rank_order),
                     "its mesh has tensor parallel innermost and replicas outermost",
                     "remove plan.rank_order");
  }
  for (std::size_t i = 0; i + 1 < plan.modules.size(); ++i) {
    if (plan.tp > 1 && plan.modules[i].tp != 1)
      gaps->Program("a tensor-parallel plan of " + s.model->modules[i].name);
  }
  if (plan.cp > 1 && !plan.overlap.context_parallel)
    gaps->Decides("plan.overlap.context_parallel (the ring overlaps)");
  if (engine == Engine::kFsdp && plan.offload.Any() && !plan.overlap.offload)
    gaps->Decides("plan.overlap.offload (transfers to the host overlap)");
  if (plan.in_network_reduction) gaps->Decides("plan.collectives.in_network_reduction");
}

std::string FsdpSection(const Scenario& s, Gaps* gaps) {
  const Plan& plan = s.plan;
  const bool recompute = plan.recompute.scope == RecomputeScope::kFull;
  const bool offload = plan.offload.optimizer == 1 && plan.offload.parameters == 1;
  if (!offload && (plan.offload.optimizer > 0 || plan.offload.parameters > 0)) {
    gaps->RefusePlan("plan.offload", "FSDP moves parameters and states to the host, or nothing",
                     "plan.offload.optimizer = 1 with parameters = 1, or neither");
  }
  if (plan.offload.activations > 0) {
    gaps->RefusePlan("plan.offload.activations", "activations stay on the GPU",
                     "plan.offload.activations = 0");
  }
  if (plan.bucket_bytes > 0) gaps->Decides("plan.bucket_mb (FSDP reduces layer by layer)");
  gaps->Decides("plan.prefetch = " + std::to_string(plan.prefetch) +
                " (FSDP2 gathers one layer ahead)");
  if (!plan.overlap.gradient_reduce || !plan.overlap.parameter_gather)
    gaps->Decides("plan.overlap (FSDP hides what it can)");
  return "fsdp_config:\n  fsdp_version: 2\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
         "  fsdp_reshard_after_forward: " +
         Yes(plan.reshard_after_forward) + "\n  fsdp_offload_params: " + Yes(offload) +
         "\n  fsdp_activation_checkpointing: " + Yes(recompute) +
         "\n  fsdp_cpu_ram_efficient_loading: true\n"
         "  fsdp_state_dict_type: SHARDED_STATE_DICT\n";
}

std::string MeshSection(const Scenario& s, Engine engine, Gaps* gaps) {
  const Plan& plan = s.plan;
  const bool ulysses = plan.cp > 1 && plan.cp_kind == ContextParallelKind::kUlysses;
  if (engine == Engine::kDeepSpeed) {
    if (!ulysses) return "";
    return "parallelism_config:\n  parallelism_config_dp_replicate_size: 1\n"
           "  parallelism_config_dp_shard_size: " +
           std::to_string(plan.dp) + "\n  parallelism_config_sp_size: " + std::to_string(plan.cp) +
           "\n  parallelism_config_sp_backend: deepspeed\n";
  }
  if (engine != Engine::kFsdp || (plan.tp == 1 && plan.cp == 1 && plan.sharding == Sharding::kFsdp))
    return "";
  // The mesh shards over dp_shard and cp together.
  int replicas = 1, shards = plan.dp;
  if (plan.sharding == Sharding::kHsdp) {
    if (plan.shard_group % plan.cp != 0) {
      gaps->RefusePlan("plan.shard_group = " + std::to_string(plan.shard_group),
                       "a group of shards holds whole context-parallel groups",
                       "plan.shard_group = a multiple of " + std::to_string(plan.cp));
    }
    shards = plan.shard_group / plan.cp;
    replicas = plan.ReplicaRanks() / plan.shard_group;
  }
  std::string text =
      "parallelism_config:\n  parallelism_config_dp_replicate_size: " + std::to_string(replicas) +
      "\n  parallelism_config_dp_shard_size: " + std::to_string(shards) +
      "\n  parallelism_config_cp_size: " + std::to_string(plan.cp) +
      "\n  parallelism_config_tp_size: " + std::to_string(plan.tp) + "\n";
  // Keys and values go round in turn, as the ring of the plan does; allgather would fetch them all.
  if (plan.cp > 1) text += "  parallelism_config_cp_comm_strategy: alltoall\n";
  return text;
}

std::string PrecisionLines(const Plan& plan, Gaps* gaps) {
  switch (plan.precision) {
    case Precision::kFp32:
      return "mixed_precision: 'no'\n";
    case Precision::kFp16:
      return "mixed_precision: fp16\n";
    case Precision::kBf16:
      return "mixed_precision: bf16\n";
    case Precision::kFp8:
      return "mixed_precision: fp8\nfp8_config:\n  backend: TE\n  fp8_format: HYBRID\n";
    default:
      gaps->RefusePlan("plan.precision = " + PrecisionName(plan.precision),
                       "its formats are bf16, fp16, fp32 and fp8 of the whole tensor",
                       "plan.precision = bf16 or fp8");
      return "";
  }
}

}  // namespace

LaunchText EmitAccelerate(const Scenario& s, Gaps* gaps) {
  const Plan& plan = s.plan;
  const Engine engine = EngineOf(s);
  const std::string& stack = s.stack->name;
  const bool own = engine == Engine::kDeepSpeed ? stack.find("deepspeed") != std::string::npos
                                                : stack.find("hf") != std::string::npos ||
                                                      stack.find("fsdp") != std::string::npos;
  if (!own) gaps->OtherStack(stack);
  CheckDegrees(s, engine, gaps);
  CheckWholeLayers(s, gaps);
  if (plan.reduce_every_micro_batch && engine != Engine::kFsdp && plan.sharding < Sharding::kZero2)
    gaps->Program("gradients reduced in every micro-batch: no Accelerator.accumulate");

  const Cluster& cluster = *s.cluster;
  static constexpr const char* kTypes[] = {"'NO'", "MULTI_GPU", "FSDP", "DEEPSPEED"};
  std::string config = Banner(s, Framework::kAccelerate, {});
  config += "compute_environment: LOCAL_MACHINE\ndistributed_type: ";
  config += kTypes[static_cast<std::size_t>(engine)];
  config += "\nnum_machines: " + std::to_string(cluster.nodes) +
            "\nnum_processes: " + std::to_string(cluster.GpuCount()) + "\n";
  if (cluster.nodes > 1) config += "rdzv_backend: static\nsame_network: true\n";
  config += "main_training_function: main\nuse_cpu: false\n";
  config += PrecisionLines(plan, gaps);
  LaunchText launch;
  Json deepspeed;
  switch (engine) {
    case Engine::kOne:
    case Engine::kDdp:
      if (plan.offload.Any()) {
        gaps->RefusePlan("plan.offload with plan.sharding = " + ShardingName(plan.sharding),
                         "DDP keeps everything on the GPU", "plan.sharding = zero1");
      }
      if (engine == Engine::kDdp) gaps->Decides("gradient buckets (25 MB, of DDP)");
      break;
    case Engine::kFsdp:
      config += FsdpSection(s, gaps);
      break;
    case Engine::kDeepSpeed:
      config += std::string("deepspeed_config:\n  deepspeed_config_file: ds_config.json\n") +
                "  zero3_init_flag: " + Yes(plan.sharding >= Sharding::kFsdp) + "\n";
      deepspeed = DeepSpeedConfig(s, gaps);
      break;
  }
  config += MeshSection(s, engine, gaps);

  // FSDP recomputes by its own switch: the trainer's would do it twice.
  const bool recompute = plan.recompute.scope == RecomputeScope::kFull && engine != Engine::kFsdp;
  const Arguments a = TrainerArguments(s, recompute, gaps);
  launch.arguments = a.Words();
  std::string text = ScriptHead(
      s, Framework::kAccelerate,
      {"TRAIN_SCRIPT: your program, with transformers.TrainingArguments. LR: learning rate.",
       "On several nodes: NODE_RANK, MASTER_ADDR. STEPS where the scenario has no target."});
  text += HereLine();
  if (deepspeed.IsNull()) {
    text += "accelerate launch --config_file \"${here}/accelerate.yaml\"";
  } else {
    // What a configuration names is found from where the script is started, and no argument of accelerate's
    // goes before the configuration: so it is told the whole path in a copy.
    text +=
        "yaml=$(<\"${here}/accelerate.yaml\")\nconfig=$(mktemp)\ntrap 'rm -f \"$config\"' EXIT\n"
        "printf '%s\\n' \"${yaml/ds_config.json/\"${here}/ds_config.json\"}\" > \"$config\"\n"
        "accelerate launch --config_file \"$config\"";
  }
  if (cluster.nodes > 1) {
    text +=
        " \\\n    --machine_rank \"${NODE_RANK:?of this node, from 0}\""
        " --main_process_ip \"${MASTER_ADDR:?the first node}\""
        " --main_process_port \"${MASTER_PORT:-29500}\"";
  }
  text += " \\\n    \"${TRAIN_SCRIPT:?your training program}\" \\\n" + a.ShellLines();
  launch.files.push_back({"launch.sh", text, true});
  launch.files.push_back({"accelerate.yaml", config, false});
  if (!deepspeed.IsNull())
    launch.files.push_back({"ds_config.json", deepspeed.Dump(2) + "\n", false});
  return launch;
}

}  // namespace aurum
