#include <algorithm>
#include <cmath>

#include "sim/launch/parts.h"

namespace aurum {
namespace {

// Parameters of the backbone's largest layer: what ZeRO-3 gathers at once.
std::int64_t LargestLayer(const Model& model) {
  std::int64_t most = 0;
  const Module& backbone = model.Backbone();
  for (const LayerRun& run : backbone.runs)
    most = std::max(most, LayerParameters(run.layer, backbone.hidden));
  return most;
}

// Parallelism that DeepSpeed's configuration can tell: replicas, AutoTP, Ulysses.
void CheckDegrees(const Scenario& s, Gaps* gaps) {
  const Plan& plan = s.plan;
  const std::string key = KeyOf(*s.model, s.model->modules.size() - 1);
  if (plan.pp > 1) {
    gaps->RefusePlan(key + ".pp = " + std::to_string(plan.pp),
                     "its stages are cut by PipelineModule inside of the training program",
                     key + ".pp = 1");
  }
  if (plan.ep > 1) {
    gaps->RefusePlan(key + ".ep = " + std::to_string(plan.ep),
                     "its expert parallelism is a layer of the training program", key + ".ep = 1");
  }
  if (plan.ep == 1 && plan.expert_tp != plan.tp) {
    gaps->RefusePlan(key + ".expert_tp = " + std::to_string(plan.expert_tp),
                     "experts are split like all other layers", "remove " + key + ".expert_tp");
  }
  if (plan.tp > 1 && plan.sequence_parallel) {
    gaps->RefusePlan(key + ".sequence_parallel = true",
                     "AutoTP leaves norms and residuals whole on every rank",
                     key + ".sequence_parallel = false");
  }
  if (plan.tp > 1 && plan.sharding >= Sharding::kFsdp) {
    gaps->RefusePlan("plan.sharding = " + ShardingName(plan.sharding) + " with tp",
                     "AutoTP works with ZeRO stages 0 to 2", "plan.sharding = zero2 or less");
  }
  if (plan.cp > 1 && plan.cp_kind == ContextParallelKind::kRing) {
    gaps->RefusePlan(key + ".context_parallel = ring", "its sequence parallelism is Ulysses",
                     key + ".context_parallel = ulysses");
  }
  if (plan.cp > 1 && plan.tp > 1) {
    gaps->RefusePlan(key + ".cp with tp", "Ulysses and AutoTP do not go together",
                     "one of the two = 1");
  }
  if (plan.rank_order != kDefaultRankOrder) {
    gaps->RefusePlan("plan.rank_order = " + RankOrderName(plan.rank_order),
                     "it numbers ranks tensor parallel first", "remove plan.rank_order");
  }
  for (std::size_t i = 0; i + 1 < plan.modules.size(); ++i) {
    if (s.model->modules[i].kind != ModuleKind::kEncoder) continue;  // a matrix or two
    if (plan.tp > 1 && plan.modules[i].tp != plan.tp) {
      gaps->RefusePlan(KeyOf(*s.model, i) + ".tp = " + std::to_string(plan.modules[i].tp),
                       "AutoTP splits the layers of every tower alike",
                       KeyOf(*s.model, i) + ".tp = " + std::to_string(plan.tp));
    }
  }
}

void OffloadSections(const Scenario& s, Gaps* gaps, Json* zero) {
  const Plan& plan = s.plan;
  const bool whole = plan.sharding >= Sharding::kFsdp;
  if (plan.offload.optimizer > 0) {
    Json part = Json::Object();
    part.Set("device", "cpu");
    part.Set("pin_memory", true);
    if (plan.offload.optimizer < 1) {
      part.Set("ratio", plan.offload.optimizer);
      if (!whole) {
        gaps->RefusePlan("plan.offload.optimizer = " + Number(plan.offload.optimizer),
                         "a part of the states leaves with ZeRO stage 3 alone",
                         "plan.offload.optimizer = 1, or plan.sharding = fsdp");
      }
    }
    if (plan.sharding == Sharding::kDdp) {
      gaps->RefusePlan("plan.offload.optimizer with plan.sharding = ddp",
                       "offload belongs to ZeRO stages 1 to 3", "plan.sharding = zero1");
    }
    zero->Set("offload_optimizer", std::move(part));
  }
  if (plan.offload.parameters > 0) {
    Json part = Json::Object();
    part.Set("device", "cpu");
    part.Set("pin_memory", true);
    zero->Set("offload_param", std::move(part));
    if (!whole || plan.offload.parameters < 1) {
      gaps->RefusePlan("plan.offload.parameters = " + Number(plan.offload.parameters),
                       "parameters leave all, with ZeRO stage 3",
                       "plan.offload.parameters = 1 with plan.sharding = fsdp");
    }
  }
  if ((plan.offload.optimizer > 0 || plan.offload.parameters > 0) && !plan.overlap.offload)
    gaps->Decides("plan.overlap.offload (transfers to the host overlap)");
}

}  // namespace

Json DeepSpeedConfig(const Scenario& s, Gaps* gaps) {
  const Plan& plan = s.plan;
  Json config = Json::Object();
  config.Set("train_batch_size", s.workload.global_batch_size);
  config.Set("train_micro_batch_size_per_gpu", plan.micro_batch_size);
  config.Set("gradient_accumulation_steps", plan.micro_batches);
  const auto enabled = [&](const char* name, bool on) {
    Json part = Json::Object();
    part.Set("enabled", on);
    config.Set(name, std::move(part));
  };
  enabled("bf16", plan.precision == Precision::kBf16);
  enabled("fp16", plan.precision == Precision::kFp16);
  if (IsNarrow(plan.precision)) {
    gaps->RefusePlan("plan.precision = " + PrecisionName(plan.precision),
                     "it trains in bf16, fp16 or fp32", "plan.precision = bf16");
  }

  Json zero = Json::Object();
  const int stage = plan.sharding == Sharding::kDdp     ? 0
                    : plan.sharding == Sharding::kZero1 ? 1
                    : plan.sharding == Sharding::kZero2 ? 2
                                                        : 3;
  zero.Set("stage", stage);
  if (stage > 0) zero.Set("overlap_comm", plan.overlap.gradient_reduce);
  if (stage == 0 && plan.ReplicaRanks() > 1 && !plan.overlap.gradient_reduce)
    gaps->Decides("plan.overlap.gradient_reduce (without ZeRO gradients are reduced at the end)");
  if (stage == 3 && plan.overlap.gradient_reduce != plan.overlap.parameter_gather) {
    gaps->RefusePlan("plan.overlap.parameter_gather other than gradient_reduce",
                     "overlap_comm is one switch for both", "both true, or both false");
  }
  if (plan.bucket_bytes > 0) {
    zero.Set("reduce_bucket_size", static_cast<std::int64_t>(std::llround(
                                       plan.bucket_bytes / s.stack->gradient_exchange_bytes)));
  } else if (plan.ReplicaRanks() > 1) {
    gaps->Decides("gradient buckets (500 million elements, not one a layer)");
  }
  if (stage == 3) {
    // A layer is given back behind its use if what was gathered may not wait for its reuse; and so
    // many elements are gathered ahead.
    const std::int64_t layer = LargestLayer(*s.model);
    const std::int64_t all = ModelParameters(*s.model);
    zero.Set("stage3_max_reuse_distance", plan.reshard_after_forward ? 0 : 2 * all);
    zero.Set("stage3_max_live_parameters",
             plan.reshard_after_forward ? layer * (1 + plan.prefetch) : 2 * all);
    zero.Set("stage3_prefetch_bucket_size", layer * plan.prefetch);
  }
  if (plan.sharding == Sharding::kHsdp) {
    zero.Set("mics_shard_size", plan.shard_group);
    gaps->Program("building the model under deepspeed.zero.MiCS_Init");
  }
  if (plan.reduce_every_micro_batch && stage < 2) {
    gaps->RefusePlan("plan.reduce_every_micro_batch = true",
                     "with ZeRO stages 0 and 1 it reduces behind the last micro-batch",
                     "plan.reduce_every_micro_batch = false");
  }
  OffloadSections(s, gaps, &zero);
  config.Set("zero_optimization", std::move(zero));

  if (plan.offload.activations > 0) {
    if (plan.offload.activations < 1 || plan.recompute.scope != RecomputeScope::kFull) {
      gaps->RefusePlan("plan.offload.activations = " + Number(plan.offload.activations),
                       "it moves the inputs of recomputed layers, all of them",
                       "plan.offload.activations = 1 with plan.recompute = full, or 0");
    }
    Json part = Json::Object();
    part.Set("cpu_checkpointing", true);
    config.Set("activation_checkpointing", std::move(part));
    gaps->Program("recomputation by deepspeed.checkpointing, whose inputs go to the host");
  }
  if (plan.tp > 1) {
    Json part = Json::Object();
    part.Set("autotp_size", plan.tp);
    part.Set("tp_overlap_comm", plan.overlap.tensor_parallel);
    config.Set("tensor_parallel", std::move(part));
  }
  if (plan.optimizer == OptimizerKind::kAdam8bit || plan.optimizer == OptimizerKind::kAdam4bit)
    config.Set("zero_allow_untested_optimizer", true);
  return config;
}

LaunchText EmitDeepSpeed(const Scenario& s, Gaps* gaps) {
  if (s.stack->name.find("deepspeed") == std::string::npos) gaps->OtherStack(s.stack->name);
  CheckDegrees(s, gaps);
  CheckWholeLayers(s, gaps);
  const Plan& plan = s.plan;
  if (plan.cp > 1) {
    gaps->Program("UlyssesSPAttentionHF.register_with_transformers(sequence_parallel_size=" +
                  std::to_string(plan.cp) + ") and its data loader");
  }
  if (plan.in_network_reduction) gaps->Decides("plan.collectives.in_network_reduction");
  const Json config = DeepSpeedConfig(s, gaps);
  Arguments a = TrainerArguments(s, plan.recompute.scope == RecomputeScope::kFull, gaps);
  a.Set("--deepspeed", std::string("${here}/ds_config.json"));

  LaunchText launch;
  launch.arguments = a.Words();
  std::string text = ScriptHead(
      s, Framework::kDeepSpeed,
      {"TRAIN_SCRIPT: your program, with transformers.TrainingArguments. LR: learning rate.",
       "On several nodes: HOSTFILE, one 'name slots=GPUs' a line. STEPS where there is no "
       "target."});
  text += HereLine();
  const Cluster& cluster = *s.cluster;
  text += "deepspeed --num_gpus " + std::to_string(cluster.gpus_per_node);
  if (cluster.nodes > 1) {
    text += " --num_nodes " + std::to_string(cluster.nodes) +
            " \\\n    --hostfile \"${HOSTFILE:?names of the nodes and their slots}\"";
  }
  text += " \\\n    \"${TRAIN_SCRIPT:?your training program}\" \\\n" + a.ShellLines();
  launch.files.push_back({"launch.sh", text, true});
  launch.files.push_back({"ds_config.json", config.Dump(2) + "\n", false});
  return launch;
}

}  // namespace aurum
