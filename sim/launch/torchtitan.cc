#include <algorithm>

#include "sim/launch/parts.h"

namespace aurum {
namespace {

// A model that torchtitan 0.2.1 has a flavor for (torchtitan/models/*/__init__.py): the shapes that
// tell it from the others.
struct Flavor {
  const char *model, *flavor;
  int hidden, layers, heads, kv_heads, intermediate, experts, per_token, expert_width, vocabulary;
};
constexpr Flavor kFlavors[] = {
    {"llama3", "8B", 4096, 32, 32, 8, 14336, 0, 0, 0, 128256},
    {"llama3", "70B", 8192, 80, 64, 8, 28672, 0, 0, 0, 128256},
    {"llama3", "405B", 16384, 126, 128, 8, 53248, 0, 0, 0, 128256},
    {"qwen3", "0.6B", 1024, 28, 16, 8, 3072, 0, 0, 0, 151936},
    {"qwen3", "1.7B", 2048, 28, 16, 8, 6144, 0, 0, 0, 151936},
    {"qwen3", "4B", 2560, 36, 32, 8, 9728, 0, 0, 0, 151936},
    {"qwen3", "8B", 4096, 36, 32, 8, 12288, 0, 0, 0, 151936},
    {"qwen3", "14B", 5120, 40, 40, 8, 17408, 0, 0, 0, 151936},
    {"qwen3", "32B", 5120, 64, 64, 8, 25600, 0, 0, 0, 151936},
    {"qwen3", "30B-A3B", 2048, 48, 32, 4, 0, 128, 8, 768, 151936},
    {"qwen3", "235B-A22B", 4096, 94, 64, 4, 0, 128, 8, 1536, 151936},
    {"deepseek_v3", "16B", 2048, 27, 16, 16, 10944, 64, 6, 1408, 102400},
    {"deepseek_v3", "236B", 5120, 60, 128, 128, 12288, 160, 6, 1536, 102400},
    {"deepseek_v3", "671B", 7168, 61, 128, 128, 18432, 256, 8, 2048, 129280}};

const Flavor* FlavorOf(const Model& model) {
  const Module& backbone = model.Backbone();
  const Attention& attention = backbone.runs.front().layer.attention;
  int dense = 0;
  const Mlp* mixture = nullptr;
  for (const LayerRun& run : backbone.runs) {
    dense = std::max(dense, run.layer.mlp.intermediate);
    if (run.layer.mlp.experts > 0) mixture = &run.layer.mlp;
  }
  for (const Flavor& flavor : kFlavors) {
    const bool latent = std::string(flavor.model) == "deepseek_v3";
    if (flavor.hidden == backbone.hidden && flavor.vocabulary == backbone.vocabulary &&
        flavor.layers == backbone.Layers() && attention.window == 0 &&
        flavor.heads == attention.heads && latent == (attention.kind == AttentionKind::kLatent) &&
        (latent || flavor.kv_heads == attention.kv_heads) &&
        (flavor.intermediate == 0 || flavor.intermediate == dense) &&
        flavor.experts == (mixture != nullptr ? mixture->experts : 0) &&
        flavor.per_token == (mixture != nullptr ? mixture->experts_per_token : 0) &&
        flavor.expert_width == (mixture != nullptr ? mixture->expert_intermediate : 0))
      return &flavor;
  }
  return nullptr;
}

// A section of a TOML file.
class Section {
 public:
  Section(std::string* text, const std::string& name) : text_(text) {
    *text_ += "\n[" + name + "]\n";
  }
  void Set(const std::string& key, std::int64_t value) {
    *text_ += key + " = " + std::to_string(value) + "\n";
  }
  void Set(const std::string& key, const std::string& value) {
    *text_ += key + " = \"" + value + "\"\n";
  }
  void Set(const std::string& key, bool value) {
    *text_ += key + (value ? " = true\n" : " = false\n");
  }
  void Raw(const std::string& line) { *text_ += line + "\n"; }

 private:
  std::string* text_;
};

// Names of the modules of every stage, in the order of their positions in the model.
std::string ModelParts(const Plan& plan) {
  std::string text = "module_fqns_per_model_part = [\n";
  int layer = 0;
  for (std::size_t i = 0; i < plan.layers_per_stage.size(); ++i) {
    std::string part;
    const auto add = [&](const std::string& name) {
      part += (part.empty() ? "\"" : ", \"") + name + "\"";
    };
    if (i == 0) add("tok_embeddings");
    for (int n = 0; n < plan.layers_per_stage[i]; ++n) add("layers." + std::to_string(layer++));
    if (i + 1 == plan.layers_per_stage.size()) {
      add("norm");
      add("output");
    }
    text += "  [" + part + "],\n";
  }
  return text + "]";
}

// torch.distributed.pipelining's name; "" = it has no such schedule.
std::string PipelineSchedule(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::kGpipe:
      return "GPipe";
    case ScheduleKind::k1F1B:
      return "1F1B";
    case ScheduleKind::kInterleaved:
      return "Interleaved1F1B";
    case ScheduleKind::kZeroBubbleV:
      return "ZBVZeroBubble";
    case ScheduleKind::kZeroBubbleH1:
    case ScheduleKind::kDualPipe:
      return "";
  }
  return "";
}

void ParallelismSection(const Scenario& s, Gaps* gaps, std::string* text) {
  const Plan& plan = s.plan;
  const std::string key = KeyOf(*s.model, s.model->modules.size() - 1);
  Section section(text, "parallelism");
  int replicas = 1, shards = plan.dp;
  switch (plan.sharding) {
    case Sharding::kDdp:
      replicas = plan.dp;
      shards = 1;
      if (plan.tp * plan.cp * plan.pp > 1 && plan.dp > 1) {
        gaps->RefusePlan("plan.sharding = ddp with tp, cp or pp",
                         "DDP goes with no other parallelism there", "plan.sharding = fsdp");
      }
      break;
    case Sharding::kZero1:
    case Sharding::kZero2:
      if (plan.ReplicaRanks() > 1) {
        gaps->RefusePlan("plan.sharding = " + ShardingName(plan.sharding),
                         "it shards parameters with their states, or neither",
                         "plan.sharding = fsdp; reshard_after_forward = false keeps parameters "
                         "until backward");
      }
      break;
    case Sharding::kFsdp:
      break;
    case Sharding::kHsdp:
      if (plan.shard_group % plan.cp != 0) {
        gaps->RefusePlan("plan.shard_group = " + std::to_string(plan.shard_group),
                         "a group of shards holds whole context-parallel groups",
                         "plan.shard_group = a multiple of " + std::to_string(plan.cp));
      }
      shards = plan.shard_group / plan.cp;
      replicas = plan.ReplicaRanks() / plan.shard_group;
      break;
  }
  section.Set("data_parallel_replicate_degree", std::int64_t{replicas});
  section.Set("data_parallel_shard_degree", std::int64_t{shards});
  section.Set("fsdp_reshard_after_forward",
              std::string(plan.reshard_after_forward ? "always" : "never"));
  section.Set("tensor_parallel_degree", std::int64_t{plan.tp});
  if (plan.tp > 1) {
    section.Set("enable_async_tensor_parallel", plan.overlap.tensor_parallel);
    if (!plan.sequence_parallel) {
      gaps->RefusePlan(key + ".sequence_parallel = false",
                       "its tensor parallelism shares norms and residuals out as well",
                       key + ".sequence_parallel = true");
    }
  }
  section.Set("context_parallel_degree", std::int64_t{plan.cp});
  if (plan.cp > 1) {
    // Keys and values go round in turn; allgather would fetch them all at once.
    section.Set("context_parallel_rotate_method", std::string("alltoall"));
    if (plan.cp_kind == ContextParallelKind::kUlysses) {
      gaps->RefusePlan(key + ".context_parallel = ulysses", "its context parallelism is a ring",
                       key + ".context_parallel = ring");
    }
  }
  if (plan.ep > 1 || plan.expert_tp > 1) {
    section.Set("expert_parallel_degree", std::int64_t{plan.ep});
    section.Set("expert_tensor_parallel_degree", std::int64_t{plan.expert_tp});
    if (plan.ep > 1 && plan.expert_tp != 1 && plan.expert_tp != plan.tp) {
      gaps->RefusePlan(key + ".expert_tp = " + std::to_string(plan.expert_tp),
                       "experts are split like dense layers or not at all",
                       key + ".expert_tp = 1 or tp");
    }
    if (plan.overlap.expert_parallel) {
      gaps->RefusePlan("plan.overlap.expert_parallel = true",
                       "it hides the exchange under DualPipeV alone",
                       "plan.overlap.expert_parallel = false");
    }
  }
  section.Set("pipeline_parallel_degree", std::int64_t{plan.pp});
  if (plan.pp > 1) {
    const std::string schedule = PipelineSchedule(plan.schedule);
    if (schedule.empty()) {
      gaps->RefusePlan("plan.schedule = " + std::string(ScheduleName(plan.schedule)),
                       "its schedules are GPipe, 1F1B, Interleaved1F1B and ZBVZeroBubble",
                       "plan.schedule = 1f1b, interleaved or zb-v");
    }
    section.Set("pipeline_parallel_schedule", schedule);
    section.Set("pipeline_parallel_microbatch_size", plan.micro_batch_size);
    section.Raw(ModelParts(plan));
  }
  if (plan.rank_order != kDefaultRankOrder) {
    gaps->RefusePlan("plan.rank_order = " + RankOrderName(plan.rank_order),
                     "its mesh has tensor parallel innermost and stages outermost",
                     "remove plan.rank_order");
  }
}

void RecomputeSection(const Plan& plan, Gaps* gaps, std::string* text) {
  Section section(text, "activation_checkpoint");
  const bool full = plan.recompute.scope == RecomputeScope::kFull;
  section.Set("mode", std::string(full ? "full" : "none"));
  if (plan.recompute.scope == RecomputeScope::kSelective) {
    gaps->RefusePlan("plan.recompute = selective",
                     "its selective mode keeps every second matrix product, not the parts of the "
                     "plan",
                     "plan.recompute = full, or none");
  }
  if (full && (plan.recompute.layers >= 0 || plan.recompute.block_layers > 1)) {
    gaps->RefusePlan("plan.recompute in blocks or of some layers",
                     "it recomputes every layer by itself, or none",
                     "plan.recompute = full without layers and block_layers");
  }
}

void CheckRest(const Scenario& s, Gaps* gaps) {
  const Plan& plan = s.plan;
  if (plan.optimizer != OptimizerKind::kAdam) {
    gaps->RefusePlan("plan.optimizer = " + OptimizerName(plan.optimizer),
                     "its optimizers are Adam and AdamW", "plan.optimizer = adam");
  }
  if (plan.adapter.kind == AdapterKind::kLora || plan.adapter.kind == AdapterKind::kDora) {
    gaps->RefusePlan("plan.adapter", "it trains all weights", "");
  }
  if (const std::string frozen = FrozenNames(s); !frozen.empty())
    gaps->RefusePlan("plan.frozen: " + frozen, "it trains all weights", "");
  if (plan.offload.activations > 0) {
    gaps->RefusePlan("plan.offload.activations", "activations stay on the GPU",
                     "plan.offload.activations = 0");
  }
  if ((plan.offload.optimizer > 0 || plan.offload.parameters > 0) &&
      (plan.offload.optimizer < 1 || plan.offload.parameters < 1)) {
    gaps->RefusePlan("plan.offload", "it moves parameters and states to the host, or nothing",
                     "plan.offload.optimizer = 1 with parameters = 1, or neither");
  }
  if (plan.reduce_every_micro_batch && plan.sharding == Sharding::kDdp) {
    gaps->RefusePlan("plan.reduce_every_micro_batch = true",
                     "DDP reduces gradients behind the last micro-batch",
                     "plan.reduce_every_micro_batch = false");
  }
  if (plan.bucket_bytes > 0) gaps->Decides("plan.bucket_mb (it reduces layer by layer)");
  if (plan.sharding >= Sharding::kFsdp && plan.prefetch != 1)
    gaps->Decides("plan.prefetch (one layer is gathered ahead)");
  if (!plan.overlap.gradient_reduce || !plan.overlap.parameter_gather)
    gaps->Decides("plan.overlap (FSDP hides what it can)");
  if (plan.pp > 1 && !plan.overlap.pipeline)
    gaps->Decides("plan.overlap.pipeline (transfers between stages overlap)");
  if (plan.cp > 1 && !plan.overlap.context_parallel)
    gaps->Decides("plan.overlap.context_parallel (the ring overlaps)");
  if (plan.offload.Any() && !plan.overlap.offload)
    gaps->Decides("plan.overlap.offload (transfers to the host overlap)");
  if (plan.attention != AttentionKernel::kStack)
    gaps->Decides("plan.attention (scaled_dot_product_attention chooses)");
  if (!plan.loss.empty()) gaps->Decides("plan.loss (cross-entropy, compiled)");
  if (plan.in_network_reduction) gaps->Decides("plan.collectives.in_network_reduction");
}

}  // namespace

LaunchText EmitTorchtitan(const Scenario& s, Gaps* gaps) {
  const Plan& plan = s.plan;
  if (s.stack->name.find("torchtitan") == std::string::npos) gaps->OtherStack(s.stack->name);
  const Flavor* flavor = TextOnly(*s.model) ? FlavorOf(*s.model) : nullptr;
  if (flavor == nullptr) {
    std::string known;
    for (const Flavor& f : kFlavors)
      known += (known.empty() ? "" : ", ") + std::string(f.model) + " " + f.flavor;
    gaps->RefuseModel("it has no flavor of the shapes of '" + s.model->name + "'",
                      "one of " + known);
  } else if (plan.pp > 1 && std::string(flavor->model) == "qwen3") {
    gaps->Program("pipeline stages of qwen3, which not every build of torchtitan 0.2 has");
  }
  const std::int64_t length = FixedLength(s);
  if (length == 0) {
    gaps->RefuseWorkload("samples of different lengths; its batches have one",
                         "workload.packing, or samples that are all alike");
  }
  CheckRest(s, gaps);

  std::string text = Banner(s, Framework::kTorchtitan, {});
  {
    Section job(&text, "job");
    job.Set("dump_folder", std::string("./outputs"));
    job.Set("description", s.name.empty() ? s.model->name : s.name);
  }
  {
    Section model(&text, "model");
    model.Set("name", std::string(flavor != nullptr ? flavor->model : ""));
    model.Set("flavor", std::string(flavor != nullptr ? flavor->flavor : ""));
    if (plan.precision == Precision::kFp8) model.Raw("converters = [\"quantize.linear.float8\"]");
    if (plan.precision == Precision::kMxfp8) model.Raw("converters = [\"quantize.linear.mx\"]");
  }
  Section(&text, "optimizer").Set("name", std::string("AdamW"));
  {
    Section training(&text, "training");
    // Of a pipeline the local batch is all micro-batches of a step; else one of them, and the global
    // batch says how many are accumulated.
    training.Set("local_batch_size",
                 plan.pp > 1 ? plan.micro_batch_size * plan.micro_batches : plan.micro_batch_size);
    training.Set("global_batch_size", s.workload.global_batch_size);
    training.Set("seq_len", length);
    if (s.target)
      training.Raw("steps = " + StepsText(s));
    else
      training.Set("steps", std::int64_t{50});
    training.Set("enable_cpu_offload", plan.offload.parameters == 1);
    training.Set("mixed_precision_param",
                 std::string(plan.precision == Precision::kFp32 ? "float32" : "bfloat16"));
  }
  if (plan.precision == Precision::kFp16 || plan.precision == Precision::kFp8Block ||
      plan.precision == Precision::kNvfp4) {
    gaps->RefusePlan("plan.precision = " + PrecisionName(plan.precision),
                     "its formats are bf16, fp32, fp8 of the whole tensor and mxfp8",
                     "plan.precision = bf16, fp8 or mxfp8");
  }
  ParallelismSection(s, gaps, &text);
  RecomputeSection(plan, gaps, &text);
  // Tensor parallelism in pieces and 8-bit products are made by the compiler.
  const bool compile = (plan.tp > 1 && plan.overlap.tensor_parallel) || IsNarrow(plan.precision);
  Section(&text, "compile").Set("enable", compile);
  if (compile) gaps->Decides("how kernels are fused (torch.compile is on)");
  if (plan.precision == Precision::kFp8) {
    Section float8(&text, "quantize.linear.float8");
    float8.Set("recipe_name", std::string("tensorwise"));
    float8.Set("enable_fsdp_float8_all_gather", false);
    float8.Raw("filter_fqns = [\"output\"]");
  }
  if (plan.precision == Precision::kMxfp8) {
    Section mx(&text, "quantize.linear.mx");
    mx.Set("recipe_name", std::string("mxfp8_cublas"));
    mx.Raw("filter_fqns = [\"output\"]");
  }
  gaps->Program("data, tokenizer (model.hf_assets_path) and learning rate" +
                std::string(s.target ? "" : ", and the number of steps") +
                ", in torchtitan.toml or as arguments");

  LaunchText launch;
  launch.arguments = {"--job.config_file", "${here}/torchtitan.toml"};
  std::string script = ScriptHead(
      s, Framework::kTorchtitan,
      {"Needs torchtitan. Further arguments go to it: ./launch.sh --training.dataset c4.",
       "On several nodes: NODE_RANK, MASTER_ADDR."});
  script +=
      HereLine() + Torchrun(*s.cluster) +
      "    -m torchtitan.train \\\n    --job.config_file \"${here}/torchtitan.toml\" \"$@\"\n";
  launch.files.push_back({"launch.sh", script, true});
  launch.files.push_back({"torchtitan.toml", text, false});
  return launch;
}

}  // namespace aurum
