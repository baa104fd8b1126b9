#include <algorithm>
#include <string>

#include "sim/core/object_reader.h"
#include "sim/plan/plan_check.h"
#include "sim/plan/split.h"

namespace aurum {
namespace {

constexpr int kMostDegree = 1024;

Recompute ReadRecompute(ObjectReader& plan) {
  Recompute recompute;
  const Json* given = plan.value().Find("recompute");
  if (given == nullptr || given->IsString()) {
    recompute.scope =
        static_cast<RecomputeScope>(plan.ChoiceOr("recompute", 0, {"none", "selective", "full"}));
    recompute.parts.attention = recompute.scope == RecomputeScope::kSelective;
    return recompute;
  }
  ObjectReader reader = plan.Object("recompute");
  recompute.scope =
      static_cast<RecomputeScope>(reader.Choice("scope", {"none", "selective", "full"}));
  if (recompute.scope == RecomputeScope::kSelective) {
    const std::vector<std::string> known = {"attention", "norm", "activation",
                                            "mlp",       "moe",  "up_projection"};
    bool* const parts[] = {&recompute.parts.attention,  &recompute.parts.norm,
                           &recompute.parts.activation, &recompute.parts.mlp,
                           &recompute.parts.moe,        &recompute.parts.up_projection};
    for (const std::string& name : reader.Strings("parts")) {
      const auto found = std::find(known.begin(), known.end(), name);
      if (found == known.end()) {
        const std::string nearest = NearestName(name, known);
        reader.Fail(108, "parts", "'" + name + "' is no part that can be recomputed",
                    (nearest.empty() ? "" : "did you mean '" + nearest + "'? ") +
                        "parts: attention, norm, activation, mlp, moe, up_projection");
      }
      *parts[found - known.begin()] = true;
    }
    if (!recompute.parts.Any())
      reader.Fail(102, "parts", "selective recomputation of nothing",
                  "parts: attention, norm, activation, mlp, moe, up_projection");
  } else if (recompute.scope == RecomputeScope::kFull) {
    recompute.block_layers = static_cast<int>(reader.IntegerOr("block_layers", 1, 1, 100'000));
    recompute.layers = static_cast<int>(reader.IntegerOr("layers", -1, 0, 100'000));
    if (recompute.layers >= 0 && recompute.block_layers > 1) {
      reader.Fail(109, "layers", "'layers' recomputes layers one by one; 'block_layers' in blocks",
                  "one of the two");
    }
  }
  reader.Finish();
  return recompute;
}

// Learned tokens in place of matrices: what is told of matrices has nothing to act on.
Adapter ReadPrompts(ObjectReader reader, Adapter adapter) {
  for (const char* key : {"rank", "targets", "dropout", "trains_embeddings", "per_modality",
                          "routed_by_score", "misrouted"}) {
    if (!reader.Has(key)) continue;
    reader.Fail(390, key, "'" + std::string(key) + "' belongs to low-rank adapters, not to prompts",
                "remove it, or kind = lora");
  }
  adapter.prompt_tokens = static_cast<int>(reader.IntegerOr("prompt_tokens", 8, 1, 65536));
  reader.Finish();
  return adapter;
}

Adapter ReadAdapter(ObjectReader reader) {
  Adapter adapter;
  const AdapterKind kinds[] = {AdapterKind::kLora, AdapterKind::kDora, AdapterKind::kPrompt};
  adapter.kind = kinds[reader.ChoiceOr("kind", 0, {"lora", "dora", "prompt"})];
  adapter.base = static_cast<QuantisedBase>(
      reader.ChoiceOr("base", 0, {"bf16", "int8", "nf4", "nf4-double", "gptq4"}));
  if (adapter.kind == AdapterKind::kPrompt) return ReadPrompts(reader, adapter);
  if (reader.Has("prompt_tokens")) {
    reader.Fail(390, "prompt_tokens", "'prompt_tokens' belongs to prompts, not to adapters",
                "remove it, or kind = prompt");
  }
  adapter.rank = static_cast<int>(reader.IntegerOr("rank", 8, 1, 65536));
  adapter.dropout = reader.BoolOr("dropout", false);
  adapter.trains_embeddings = reader.BoolOr("trains_embeddings", false);
  adapter.per_modality = reader.BoolOr("per_modality", false);
  adapter.routed_by_score = reader.BoolOr("routed_by_score", false);
  adapter.misrouted = reader.NumberOr("misrouted", 0, 0, 1);
  for (const char* key : {"routed_by_score", "misrouted"}) {
    if (adapter.per_modality || !reader.Has(key)) continue;
    reader.Fail(391, key, "'" + std::string(key) + "' routes between adapters, and there is one",
                "per_modality = true, or remove it");
  }
  const std::vector<std::string> known = {"q", "k", "v", "o", "gate", "up", "down"};
  adapter.targets = reader.Has("targets") ? reader.Strings("targets") : known;
  for (const std::string& target : adapter.targets) {
    if (std::find(known.begin(), known.end(), target) != known.end()) continue;
    const std::string nearest = NearestName(target, known);
    reader.Fail(108, "targets", "'" + target + "' is no matrix that an adapter can sit beside",
                (nearest.empty() ? "" : "did you mean '" + nearest + "'? ") +
                    "targets: q, k, v, o, gate, up, down");
  }
  if (adapter.targets.empty())
    reader.Fail(102, "targets", "an adapter without targets trains nothing",
                "targets: q, k, v, o, gate, up, down");
  reader.Finish();
  return adapter;
}

void ReadCollectives(ObjectReader reader, Plan* plan) {
  std::vector<std::string> names{"auto"};
  for (const CollectiveAlgorithm algorithm : NamedAlgorithms())
    names.push_back(CollectiveAlgorithmName(algorithm));
  const auto read = [&](const char* key) {
    return CollectiveAlgorithmByName(names[reader.ChoiceOr(key, 0, names)]);
  };
  plan->tensor_parallel_algorithm = read("tensor_parallel");
  plan->data_parallel_algorithm = read("data_parallel");
  // Tokens go straight to their experts, or inside of the node first.
  const std::vector<std::string> exchanges{"auto", "direct", "hierarchical"};
  plan->expert_parallel_algorithm =
      CollectiveAlgorithmByName(exchanges[reader.ChoiceOr("expert_parallel", 0, exchanges)]);
  plan->in_network_reduction = reader.BoolOr("in_network_reduction", false);
  reader.Finish();
}

void ReadOverlap(ObjectReader reader, Overlap* overlap) {
  overlap->gradient_reduce = reader.BoolOr("gradient_reduce", overlap->gradient_reduce);
  overlap->parameter_gather = reader.BoolOr("parameter_gather", overlap->parameter_gather);
  overlap->tensor_parallel = reader.BoolOr("tensor_parallel", overlap->tensor_parallel);
  overlap->context_parallel = reader.BoolOr("context_parallel", overlap->context_parallel);
  overlap->expert_parallel = reader.BoolOr("expert_parallel", overlap->expert_parallel);
  overlap->pipeline = reader.BoolOr("pipeline", overlap->pipeline);
  overlap->offload = reader.BoolOr("offload", overlap->offload);
  reader.Finish();
}

GradientCompression ReadCompression(ObjectReader reader) {
  GradientCompression c;
  c.selection = static_cast<GradientSelection>(
      1 + reader.Choice("selection", {"topk", "covariance_topk", "mask"}));
  c.keep = reader.Number("keep", 1e-9, 1);
  c.value_bits = static_cast<int>(reader.IntegerOr("value_bits", 16, 1, 64));
  c.index_bits = static_cast<int>(reader.IntegerOr("index_bits", 32, 1, 64));
  c.error_feedback = reader.BoolOr("error_feedback", true);
  for (const char* key : {"refresh_steps", "covariance_rank"}) {
    if (c.selection == GradientSelection::kCovariance || !reader.Has(key)) continue;
    reader.Fail(109, key, "'" + std::string(key) + "' belongs to the selection 'covariance_topk'",
                "remove it");
  }
  c.refresh_steps = static_cast<int>(reader.IntegerOr("refresh_steps", 1, 1, 1'000'000));
  c.covariance_rank = static_cast<int>(reader.IntegerOr("covariance_rank", 0, 0, 65536));
  reader.Finish();
  return c;
}

std::vector<int> ReadLayers(ObjectReader& reader) {
  std::vector<int> layers;
  if (!reader.Has("layers_per_stage")) return layers;
  for (const std::int64_t count : reader.Integers("layers_per_stage", 0, 100'000))
    layers.push_back(static_cast<int>(count));
  return layers;
}

ExpertRouting ReadRouting(ObjectReader reader) {
  ExpertRouting routing;
  for (ObjectReader& entry : reader.Objects("skew")) {
    ExpertRouting::Skew skew;
    skew.module = entry.String("module");
    skew.zipf = entry.Number("zipf", 0, 4);
    entry.Finish();
    routing.skew.push_back(std::move(skew));
  }
  routing.capacity_factor = reader.NumberOr("capacity_factor", 0, 0, 1000);
  routing.seed = static_cast<std::uint64_t>(reader.IntegerOr("seed", 0, 0, std::int64_t{1} << 53));
  reader.Finish();
  return routing;
}

void ReadBackbone(ObjectReader& reader, Plan* plan) {
  const auto degree = [&](const char* key, int fallback) {
    return static_cast<int>(reader.IntegerOr(key, fallback, 1, kMostDegree));
  };
  plan->tp = degree("tp", 1);
  plan->cp = degree("cp", 1);
  plan->cp_kind =
      static_cast<ContextParallelKind>(reader.ChoiceOr("context_parallel", 0, {"ring", "ulysses"}));
  plan->ep = degree("ep", 1);
  plan->expert_tp = degree("expert_tp", plan->ep == 1 ? plan->tp : 1);
  if (auto routing = reader.ObjectIf("expert_routing")) {
    if (reader.Has("expert_imbalance")) {
      reader.Fail(630, "expert_imbalance",
                  "the imbalance of experts is told, and follows from 'expert_routing' as well",
                  "keep one of the two");
    }
    plan->routing = ReadRouting(*routing);
  }
  plan->expert_imbalance = reader.NumberOr("expert_imbalance", 1, 1, 1000);
  plan->expert_buffer_bytes = reader.NumberOr("expert_buffer_mb", 0, 0, 1e6) * 1e6;
  if (reader.ChoiceOr("split", 0, {"hidden", "tokens"}) == 1) {
    reader.Fail(765, "split", "the backbone's tokens are shared by context parallelism, not by tp",
                "cp with context_parallel = ulysses is the same split: all weights on every GPU, "
                "all-to-alls around attention",
                "", ExitCode::kInfeasible);
  }
  plan->pp = degree("pp", 1);
  plan->vpp = degree("vpp", 1);
  plan->sequence_parallel = reader.BoolOr("sequence_parallel", plan->tp > 1);
  plan->scatter_gather = reader.BoolOr("scatter_gather", false);
  plan->layers_per_stage = ReadLayers(reader);
  if (auto c = reader.ObjectIf("gradient_compression"))
    plan->modules.back().compression = ReadCompression(*c);
  reader.Finish();
}

void ReadEncoder(ObjectReader& reader, ModulePlan* part) {
  part->tp = static_cast<int>(reader.IntegerOr("tp", 1, 1, kMostDegree));
  part->placement = static_cast<Placement>(reader.ChoiceOr(
      "placement", 0, {"first_stage", "colocated_dp", "balanced", "own_ranks", "in_bubbles"}));
  part->micro_batch_size = reader.IntegerOr("micro_batch_size", 0, 1, 1'000'000);
  part->split = static_cast<SplitAxis>(reader.ChoiceOr("split", 0, {"hidden", "tokens"}));
  part->pp = static_cast<int>(reader.IntegerOr("pp", 1, 1, kMostDegree));
  part->layers_per_stage = ReadLayers(reader);
  if (auto c = reader.ObjectIf("gradient_compression")) part->compression = ReadCompression(*c);
  reader.Finish();
}

void ReadFrozen(ObjectReader& reader, const Model& model, Plan* plan) {
  if (!reader.Has("frozen")) return;
  std::vector<std::string> names;
  for (const Module& module : model.modules) names.push_back(module.name);
  for (const std::string& name : reader.Strings("frozen")) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      const std::string nearest = NearestName(name, names);
      std::string help = nearest.empty() ? "" : "did you mean '" + nearest + "'? ";
      help += "modules:";
      for (const std::string& known : names) help += " " + known;
      reader.Fail(322, "frozen", "model '" + model.name + "' has no module '" + name + "'", help);
    }
    plan->modules[static_cast<std::size_t>(found - names.begin())].frozen = true;
  }
}

// "tp-cp-dp-pp" and the other orders of the four.
RankOrder ReadRankOrder(ObjectReader& reader) {
  RankOrder order = kDefaultRankOrder;
  if (!reader.Has("rank_order")) return order;
  std::vector<std::string> names;
  std::vector<RankOrder> orders;
  do {
    orders.push_back(order);
    names.push_back(RankOrderName(order));
  } while (std::next_permutation(order.begin(), order.end()));
  return orders[reader.Choice("rank_order", names)];
}

ScheduleKind ReadSchedule(ObjectReader& reader, const Plan& plan) {
  const std::vector<std::string> names = {"gpipe", "1f1b", "interleaved",
                                          "zb-h1", "zb-v", "dualpipe"};
  const std::size_t fallback = plan.vpp > 1 ? 2 : 1;
  return *ScheduleByName(names[reader.ChoiceOr("schedule", fallback, names)]);
}

}  // namespace

Plan ReadPlan(ObjectReader reader, const Model& model, const Cluster& cluster,
              const Profile& profile, const Workload& workload, std::vector<Diagnostic>* warnings) {
  Plan plan;
  plan.micro_batch_size = reader.IntegerOr("micro_batch_size", 1, 1, 1'000'000);
  {
    constexpr Sharding kMeant[] = {Sharding::kDdp,  Sharding::kZero1, Sharding::kZero2,
                                   Sharding::kFsdp, Sharding::kHsdp,  Sharding::kFsdp};
    plan.sharding =
        kMeant[reader.ChoiceOr("sharding", 1, {"ddp", "zero1", "zero2", "fsdp", "hsdp", "zero3"})];
  }
  plan.shard_group = static_cast<int>(reader.IntegerOr("shard_group", 0, 1, 1'000'000));
  plan.bucket_bytes = reader.NumberOr("bucket_mb", 0, 0, 1e6) * 1e6;
  plan.prefetch = static_cast<int>(reader.IntegerOr("prefetch", 1, 0, 1000));
  plan.reshard_after_forward = reader.BoolOr("reshard_after_forward", true);
  plan.reduce_every_micro_batch = reader.BoolOr("reduce_every_micro_batch", false);
  plan.modality_barrier = reader.BoolOr("modality_barrier", false);
  plan.rank_order = ReadRankOrder(reader);
  plan.recompute = ReadRecompute(reader);
  if (auto offload = reader.ObjectIf("offload")) {
    plan.offload.optimizer = offload->NumberOr("optimizer", 0, 0, 1);
    plan.offload.parameters = offload->NumberOr("parameters", 0, 0, 1);
    plan.offload.activations = offload->NumberOr("activations", 0, 0, 1);
    offload->Finish();
  }
  plan.precision = static_cast<Precision>(reader.ChoiceOr(
      "precision", 0, {"bf16", "fp16", "fp32", "fp8", "fp8-block", "mxfp8", "nvfp4"}));
  plan.optimizer = static_cast<OptimizerKind>(
      reader.ChoiceOr("optimizer", 0, {"adam", "adam-8bit", "adam-4bit", "sgd"}));
  plan.attention = static_cast<AttentionKernel>(
      reader.ChoiceOr("attention", 0, {"stack", "unfused", "flash1", "flash2", "flash3"}));
  plan.loss = reader.String("loss", "");
  if (auto adapter = reader.ObjectIf("adapter")) plan.adapter = ReadAdapter(*adapter);
  if (auto collectives = reader.ObjectIf("collectives")) ReadCollectives(*collectives, &plan);
  if (auto overlap = reader.ObjectIf("overlap")) ReadOverlap(*overlap, &plan.overlap);

  const std::size_t backbone = model.modules.size() - 1;
  plan.modules.resize(model.modules.size());
  PlanReaders at{reader, reader, {}};
  at.modules.resize(model.modules.size());
  for (std::size_t i = 0; i <= backbone; ++i) {
    auto given = reader.ObjectIf(model.modules[i].name);
    if (!given) continue;
    if (i == backbone) {
      ReadBackbone(*given, &plan);
      at.backbone = *given;
    } else {
      ReadEncoder(*given, &plan.modules[i]);
    }
    at.modules[i] = std::move(given);
  }
  // A connector that is not told of works where its encoder left the tokens.
  for (std::size_t i = 1; i < backbone; ++i) {
    const ModulePlan& before = plan.modules[i - 1];
    if (model.modules[i].kind != ModuleKind::kConnector || at.modules[i] ||
        model.modules[i].modality != model.modules[i - 1].modality || !SplitsTokens(before) ||
        before.placement != Placement::kFirstStage)
      continue;
    plan.modules[i].tp = before.tp;
    plan.modules[i].split = SplitAxis::kTokens;
  }
  plan.modules[backbone].tp = plan.tp;
  plan.modules[backbone].pp = plan.pp;
  plan.schedule = ReadSchedule(reader, plan);
  // A V or two directions are two chunks, told or not.
  if (plan.vpp == 1 &&
      (plan.schedule == ScheduleKind::kZeroBubbleV || plan.schedule == ScheduleKind::kDualPipe))
    plan.vpp = 2;
  ReadFrozen(reader, model, &plan);
  if (plan.adapter.kind != AdapterKind::kNone) plan.modules[backbone].frozen = true;
  // Prompts are learned before every tower, and all towers are frozen.
  for (std::size_t i = 0; i < backbone; ++i) {
    if (plan.adapter.kind == AdapterKind::kPrompt && !model.modules[i].runs.empty())
      plan.modules[i].frozen = true;
  }
  reader.Finish();
  at.whole = reader;
  CheckPlan({model, cluster, profile, workload}, at, &plan, warnings);
  return plan;
}

}  // namespace aurum
