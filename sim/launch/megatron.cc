#include <algorithm>
#include <cmath>

#include "sim/launch/parts.h"

namespace aurum {
namespace {

// Plan → arguments of pretrain_gpt.py. Where a rule of Megatron-LM forbids a combination
// (validate_args of megatron/training/arguments.py, TransformerConfig.__post_init__), it is refused
// here with the same reason, instead of on the cluster.

bool FullySharded(const Plan& plan) { return plan.sharding >= Sharding::kZero2; }

// "Et*3|t*4|…|t*3L": layers of every position, the embedding before the first and the loss behind
// the last.
std::string Layout(const Plan& plan, const Module& backbone) {
  std::string text = "E";
  for (std::size_t i = 0; i < plan.layers_per_stage.size(); ++i) {
    if (i > 0) text += "|";
    const int layers = plan.layers_per_stage[i];
    if (layers > 0) text += "t*" + std::to_string(layers);
  }
  if (backbone.mtp_layers > 0) text += "m*" + std::to_string(backbone.mtp_layers);
  return text + "L";
}

void Parallelism(const Scenario& s, Gaps* gaps, Arguments* a) {
  const Plan& plan = s.plan;
  const Module& backbone = s.model->Backbone();
  const std::string key = KeyOf(*s.model, s.model->modules.size() - 1);
  a->Set("--tensor-model-parallel-size", plan.tp);
  if (plan.sequence_parallel && plan.tp > 1) a->Flag("--sequence-parallel");
  a->Set("--pipeline-model-parallel-size", plan.pp);
  if (plan.pp > 1 && plan.schedule != ScheduleKind::k1F1B &&
      plan.schedule != ScheduleKind::kInterleaved) {
    gaps->RefusePlan("plan.schedule = " + std::string(ScheduleName(plan.schedule)),
                     "its schedules are 1F1B and, with chunks, interleaved 1F1B",
                     "plan.schedule = 1f1b, or interleaved with vpp");
  } else if (!EvenStages(plan)) {
    a->Set("--pipeline-model-parallel-layout", Layout(plan, backbone));
  } else if (plan.vpp > 1) {
    a->Set("--num-virtual-stages-per-pipeline-rank", plan.vpp);
  }
  if (plan.vpp > 1 && !plan.overlap.pipeline) {
    a->Flag("--no-overlap-p2p-communication");
    if (plan.pp == 2) {
      gaps->RefusePlan("plan.overlap.pipeline = false",
                       "interleaving over two stages needs transfers that overlap",
                       "plan.overlap.pipeline = true");
    }
  } else if (plan.vpp == 1 && plan.pp > 1 && plan.overlap.pipeline) {
    gaps->Decides("plan.overlap.pipeline (1F1B without chunks waits for its transfers)");
  }
  if (plan.scatter_gather && plan.tp > 1 && plan.pp > 1 && !plan.sequence_parallel) {
    gaps->RefusePlan(key + ".scatter_gather = true",
                     "megatron-core sends shares between stages with sequence parallelism alone",
                     key + ".sequence_parallel = true");
  }
  if (plan.cp > 1) {
    a->Set("--context-parallel-size", plan.cp);
    const bool ring = plan.cp_kind == ContextParallelKind::kRing;
    a->Set("--cp-comm-type", std::string(ring ? "p2p" : "a2a"));
    if (ring && !plan.overlap.context_parallel)
      gaps->Decides("plan.overlap.context_parallel (Transformer Engine's ring overlaps)");
    if (const std::int64_t length = FixedLength(s); length % (2 * plan.cp) != 0) {
      gaps->RefuseWorkload("samples of " + std::to_string(length) + " tokens over cp = " +
                               std::to_string(plan.cp) + ", and it wants a multiple of 2 cp",
                           "workload.text_tokens such that a sample is a multiple of " +
                               std::to_string(2 * plan.cp));
    }
  }
  const bool mixture = std::any_of(backbone.runs.begin(), backbone.runs.end(),
                                   [](const LayerRun& run) { return run.layer.mlp.experts > 0; });
  if (mixture) {
    a->Set("--expert-model-parallel-size", plan.ep);
    a->Set("--expert-tensor-parallel-size", plan.expert_tp);
    if (plan.ep > 1 && plan.precision == Precision::kFp16) {
      gaps->RefusePlan(key + ".ep = " + std::to_string(plan.ep),
                       "expert parallelism is not supported in fp16", "plan.precision = bf16");
    }
  }
  // tp-cp-ep-dp-pp, or tp-cp-ep-pp-dp.
  const RankOrder pipeline_inside = {RankDimension::kTp, RankDimension::kCp, RankDimension::kPp,
                                     RankDimension::kDp};
  if (plan.rank_order == pipeline_inside) {
    a->Flag("--use-tp-pp-dp-mapping");
  } else if (plan.rank_order != kDefaultRankOrder) {
    gaps->RefusePlan("plan.rank_order = " + RankOrderName(plan.rank_order),
                     "its orders are tp-cp-dp-pp and tp-cp-pp-dp", "one of the two");
  }
}

void DataParallelism(const Scenario& s, Gaps* gaps, Arguments* a) {
  const Plan& plan = s.plan;
  const int replicas = plan.ReplicaRanks();
  const bool sharded = plan.sharding != Sharding::kDdp;
  if (sharded) a->Flag("--use-distributed-optimizer");
  if (FullySharded(plan)) {
    a->Flag("--use-megatron-fsdp");
    a->Set("--data-parallel-sharding-strategy",
           std::string(plan.sharding == Sharding::kZero2 ? "optim_grads" : "optim_grads_params"));
    a->Set("--ckpt-format", std::string("fsdp_dtensor"));
    a->Flag("--no-gradient-accumulation-fusion");
  }
  if (plan.sharding == Sharding::kHsdp)
    a->Set("--num-distributed-optimizer-instances", replicas / plan.shard_group);
  if (plan.sharding >= Sharding::kFsdp) {
    if (!plan.reshard_after_forward) {
      gaps->RefusePlan("plan.reshard_after_forward = false",
                       "Megatron FSDP gives parameters back after forward",
                       "plan.sharding = zero2, which keeps them");
    }
    gaps->Decides("plan.prefetch = " + std::to_string(plan.prefetch) +
                  " (--suggested-communication-unit-size)");
  }
  if (plan.reduce_every_micro_batch && !FullySharded(plan)) {
    gaps->RefusePlan("plan.reduce_every_micro_batch = true",
                     "it reduces gradients behind the last micro-batch",
                     "plan.reduce_every_micro_batch = false");
  }
  if (plan.bucket_bytes > 0) {
    // Counted in parameters there, whose gradients have 4 bytes unless told otherwise.
    a->Set("--ddp-bucket-size", static_cast<std::int64_t>(std::llround(
                                    plan.bucket_bytes / s.stack->gradient_exchange_bytes)));
  } else if (replicas > 1 && !FullySharded(plan)) {
    gaps->Decides("gradient buckets (40 million parameters or more, not one a layer)");
  }
  if (replicas > 1 || sharded) {
    if (plan.overlap.gradient_reduce) a->Flag("--overlap-grad-reduce");
    if (sharded && plan.overlap.parameter_gather) {
      a->Flag("--overlap-param-gather");
      if (!plan.overlap.gradient_reduce) {
        gaps->RefusePlan("plan.overlap.parameter_gather = true without gradient_reduce",
                         "it hides the gather only where it hides the reduction",
                         "both true, or both false");
      }
    }
  }
  if (plan.in_network_reduction) a->Flag("--use-sharp");
}

void Memory(const Scenario& s, Gaps* gaps, Arguments* a) {
  const Plan& plan = s.plan;
  const Recompute& r = plan.recompute;
  if (r.scope == RecomputeScope::kSelective) {
    a->Set("--recompute-granularity", std::string("selective"));
    std::vector<std::string> modules;
    if (r.parts.attention) modules.emplace_back("core_attn");
    if (r.parts.norm) modules.emplace_back("layernorm");
    if (r.parts.mlp) modules.emplace_back("mlp");
    if (r.parts.moe) modules.emplace_back("moe");
    if (r.parts.up_projection) modules.emplace_back("mla_up_proj");
    if (r.parts.activation) {
      const auto& runs = s.model->Backbone().runs;
      if (std::any_of(runs.begin(), runs.end(),
                      [](const LayerRun& run) { return run.layer.mlp.experts == 0; })) {
        gaps->RefusePlan("plan.recompute.parts: activation",
                         "it forms activations of experts again, and not of dense layers",
                         "parts without activation, or mlp");
      }
      modules.emplace_back("moe_act");
    }
    a->Set("--recompute-modules", modules);
  } else if (r.scope == RecomputeScope::kFull) {
    a->Set("--recompute-granularity", std::string("full"));
    a->Set("--recompute-method", std::string(r.layers >= 0 ? "block" : "uniform"));
    a->Set("--recompute-num-layers", r.layers >= 0 ? r.layers : r.block_layers);
  }
  if (plan.offload.optimizer > 0) {
    a->Flag("--optimizer-cpu-offload");
    a->Set("--optimizer-offload-fraction", Number(plan.offload.optimizer));
    a->Flag("--use-precision-aware-optimizer");
    if (plan.overlap.offload) a->Flag("--overlap-cpu-optimizer-d2h-h2d");
    if (plan.sharding == Sharding::kDdp) {
      gaps->RefusePlan("plan.offload.optimizer with plan.sharding = ddp",
                       "it moves states of the distributed optimizer", "plan.sharding = zero1");
    }
  }
  if (plan.offload.parameters > 0) {
    gaps->RefusePlan("plan.offload.parameters", "weights stay on the GPU",
                     "plan.offload.parameters = 0");
  }
  if (plan.offload.activations > 0) {
    const double layers = plan.offload.activations * s.model->Backbone().Layers();
    const auto whole = static_cast<std::int64_t>(std::llround(layers));
    if (plan.pp > 1 || r.scope != RecomputeScope::kNone ||
        std::abs(layers - static_cast<double>(whole)) > 1e-6 ||
        whole >= s.model->Backbone().Layers()) {
      gaps->RefusePlan("plan.offload.activations = " + Number(plan.offload.activations),
                       "it moves those of whole layers, not of all, without pipeline stages and "
                       "recomputation",
                       "plan.offload.activations = 0");
    } else {
      a->Set("--cpu-offloading-num-layers", whole);
    }
  }
}

void Numbers(const Scenario& s, Gaps* gaps, Arguments* a) {
  const Plan& plan = s.plan;
  switch (plan.precision) {
    case Precision::kFp32:
      break;
    case Precision::kFp16:
      a->Flag("--fp16");
      break;
    default:
      a->Flag("--bf16");
  }
  const auto narrow = [&](const char* format, const char* recipe) {
    a->Set("--fp8-format", std::string(format));
    a->Set("--fp8-recipe", std::string(recipe));
  };
  if (plan.precision == Precision::kFp8) narrow("hybrid", "delayed");
  if (plan.precision == Precision::kFp8Block) narrow("e4m3", "blockwise");
  if (plan.precision == Precision::kMxfp8) narrow("e4m3", "mxfp8");
  if (plan.precision == Precision::kNvfp4) {
    a->Set("--fp4-format", std::string("e2m1"));
    a->Set("--fp4-recipe", std::string("nvfp4"));
  }
  switch (plan.optimizer) {
    case OptimizerKind::kAdam:
      a->Set("--optimizer", std::string("adam"));
      break;
    case OptimizerKind::kSgd:
      a->Set("--optimizer", std::string("sgd"));
      break;
    case OptimizerKind::kAdam8bit:
    case OptimizerKind::kAdam4bit:
      gaps->RefusePlan("plan.optimizer = " + OptimizerName(plan.optimizer),
                       "its optimizers are adam and sgd", "plan.optimizer = adam");
  }
  if (plan.adapter.kind == AdapterKind::kLora || plan.adapter.kind == AdapterKind::kDora) {
    gaps->RefusePlan("plan.adapter", "pretrain_gpt.py trains all weights", "");
  }
  if (const std::string frozen = FrozenNames(s); !frozen.empty())
    gaps->RefusePlan("plan.frozen: " + frozen, "pretrain_gpt.py trains all weights", "");
  switch (plan.attention) {
    case AttentionKernel::kStack:
      break;
    case AttentionKernel::kUnfused:
      a->Set("--attention-backend", std::string("unfused"));
      break;
    case AttentionKernel::kFlash1:
    case AttentionKernel::kFlash2:
    case AttentionKernel::kFlash3:
      a->Set("--attention-backend", std::string("flash"));
      gaps->Decides("which FlashAttention runs (the one that is installed)");
  }
  const std::string& loss = plan.loss.empty() ? s.stack->loss_kernel : plan.loss;
  if (loss == "fused" || loss == "native_fused") {
    a->Flag("--cross-entropy-loss-fusion");
    a->Set("--cross-entropy-fusion-impl", std::string(loss == "fused" ? "te" : "native"));
  } else if (loss != "plain" && plan.loss.empty()) {
    gaps->Decides("the loss kernel (plain)");  // of another framework's stack
  } else if (loss != "plain") {
    gaps->RefusePlan("plan.loss = " + loss, "its losses are plain, fused and native_fused",
                     "plan.loss = fused");
  }
  if (plan.overlap.tensor_parallel && plan.tp > 1) {
    a->Flag("--tp-comm-overlap");
    if (!plan.sequence_parallel) {
      gaps->RefusePlan("plan.overlap.tensor_parallel = true without sequence_parallel",
                       "it cuts the collectives of sequence parallelism",
                       "sequence_parallel = true");
    }
  }
}

}  // namespace

LaunchText EmitMegatron(const Scenario& s, Gaps* gaps) {
  const Plan& plan = s.plan;
  if (s.stack->name.find("megatron") == std::string::npos &&
      s.stack->name.find("nemo") == std::string::npos)
    gaps->OtherStack(s.stack->name);
  Arguments a;
  Parallelism(s, gaps, &a);
  DataParallelism(s, gaps, &a);
  Memory(s, gaps, &a);
  a.Set("--micro-batch-size", plan.micro_batch_size);
  a.Set("--global-batch-size", s.workload.global_batch_size);
  const std::int64_t length = FixedLength(s);
  if (length == 0) {
    gaps->RefuseWorkload("samples of different lengths; its batches have one",
                         "workload.packing, or samples that are all alike");
  }
  a.Set("--seq-length", length);
  Numbers(s, gaps, &a);
  MegatronModel(s, gaps, &a);
  a.Set("--train-iters", StepsText(s));
  a.Set("--lr", std::string("${LR:-1e-4}"));
  a.Set("--log-interval", 1);
  a.Flag("--log-throughput");
  gaps->Program("DATA_ARGS (data and tokenizer; artificial tokens otherwise), LR, checkpoints");

  LaunchText launch;
  launch.arguments = a.Words();
  std::string text = ScriptHead(
      s, Framework::kMegatron,
      {"Run it in a checkout of Megatron-LM. DATA_ARGS: --data-path … --tokenizer-type …;",
       "without it tokens are artificial, which is enough to time a step. LR: learning rate.",
       "On several nodes: NODE_RANK, MASTER_ADDR. STEPS where the scenario has no target."});
  // validate_args asks for it before Blackwell, and forbids it to Megatron FSDP.
  if (!FullySharded(plan) && (plan.tp > 1 || plan.cp > 1))
    text += "export CUDA_DEVICE_MAX_CONNECTIONS=1\n";
  const std::int64_t vocabulary = s.model->Backbone().vocabulary;
  text += "if [ -z \"${DATA_ARGS:-}\" ]; then\n";
  text += "  # This tokenizer adds one token of its own.\n";
  text += "  DATA_ARGS=\"--mock-data --tokenizer-type NullTokenizer --vocab-size " +
          std::to_string(std::max<std::int64_t>(vocabulary, 2) - 1) + "\"\nfi\n";
  text += "# shellcheck disable=SC2086\n";
  text += Torchrun(*s.cluster) + "    pretrain_gpt.py $DATA_ARGS \\\n" + a.ShellLines();
  launch.files.push_back({"launch.sh", text, true});
  return launch;
}

}  // namespace aurum
