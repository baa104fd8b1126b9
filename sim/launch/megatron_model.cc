#include <algorithm>

#include "sim/launch/parts.h"

namespace aurum {
namespace {

// The shape of a decoder in Megatron-LM's words (_add_network_size_args, _add_moe_args, _add_mla_args
// of megatron/training/arguments.py). There is one attention for all layers; the MLP is dense or a
// mixture of experts layer by layer, by --moe-layer-freq.

// "[0]*3+[1]*58": which layers are mixtures.
std::string ExpertLayers(const Module& backbone) {
  std::string text;
  int last = -1, count = 0;
  const auto close = [&] {
    if (count == 0) return;
    text += (text.empty() ? "" : "+") + std::string("[") + std::to_string(last) + "]*" +
            std::to_string(count);
  };
  for (const LayerRun& run : backbone.runs) {
    const int mixture = run.layer.mlp.experts > 0 ? 1 : 0;
    if (mixture == last) {
      count += run.count;
      continue;
    }
    close();
    last = mixture;
    count = run.count;
  }
  close();
  return "(" + text + ")";
}

void AttentionArguments(const Module& backbone, const Layer& layer, Gaps* gaps, Arguments* a) {
  const Attention& attention = layer.attention;
  switch (attention.kind) {
    case AttentionKind::kSelf:
      a->Set("--num-attention-heads", attention.heads);
      if (attention.kv_heads != attention.heads) {
        a->Flag("--group-query-attention");
        a->Set("--num-query-groups", attention.kv_heads);
      }
      if (attention.head_dim * attention.heads != backbone.hidden)
        a->Set("--kv-channels", attention.head_dim);
      if (attention.value_head_dim != attention.head_dim)
        gaps->RefuseModel("values of another width than keys", "");
      break;
    case AttentionKind::kLatent:
      a->Set("--num-attention-heads", attention.heads);
      a->Flag("--multi-latent-attention");
      if (attention.q_lora_rank > 0) a->Set("--q-lora-rank", attention.q_lora_rank);
      a->Set("--kv-lora-rank", attention.kv_lora_rank);
      a->Set("--qk-head-dim", attention.head_dim);
      a->Set("--qk-pos-emb-head-dim", attention.rope_head_dim);
      a->Set("--v-head-dim", attention.value_head_dim);
      break;
    case AttentionKind::kLinear:
    case AttentionKind::kCross:
      gaps->RefuseModel("layers of linear or cross attention", "");
      break;
  }
  if (layer.cross.heads > 0) gaps->RefuseModel("cross-attention behind self-attention", "");
  if (attention.output_gate || attention.shared_key_value)
    gaps->RefuseModel("gated attention, or values that are the keys", "");
  // Bias: of all products, of queries, keys and values alone, or of none.
  const bool all = attention.qkv_bias && attention.output_bias && layer.mlp.bias;
  const bool none = !attention.output_bias && !layer.mlp.bias;
  if (!all && !none)
    gaps->RefuseModel("a bias in some products of a layer and not in the others", "");
  if (!all) a->Flag("--disable-bias-linear");
  if (!all && attention.qkv_bias) a->Flag("--add-qkv-bias");
  // RMSNorm has a scale, LayerNorm a bias too; norms of queries and keys come on top.
  const std::int64_t own = backbone.hidden * (layer.layer_norm ? 4 : 2);
  const std::int64_t latent = attention.q_lora_rank + attention.kv_lora_rank;
  a->Set("--normalization", std::string(layer.layer_norm ? "LayerNorm" : "RMSNorm"));
  if (layer.norm_parameters == own + 2 * attention.head_dim &&
      attention.kind == AttentionKind::kSelf) {
    a->Flag("--qk-layernorm");
  } else if (attention.kind == AttentionKind::kLatent && layer.norm_parameters == own + latent) {
    a->Flag("--qk-layernorm");  // of the low ranks
  } else if (layer.norm_parameters != own) {
    gaps->RefuseModel("norms of " + std::to_string(layer.norm_parameters) +
                          " parameters a layer, where two of its width have " + std::to_string(own),
                      "");
  }
}

// Sliding windows, where some layers have one: 1 = a window.
void WindowArguments(const Module& backbone, Gaps* gaps, Arguments* a) {
  int window = 0;
  std::string pattern;
  for (const LayerRun& run : backbone.runs) {
    const int own = run.layer.attention.window;
    if (own > 0 && window > 0 && own != window)
      gaps->RefuseModel("windows of attention of several widths", "");
    window = std::max(window, own);
    pattern += (pattern.empty() ? "" : "+") + std::string(own > 0 ? "[1]*" : "[0]*") +
               std::to_string(run.count);
  }
  if (window == 0) return;
  a->Set("--window-size", std::to_string(window - 1) + ",0");
  if (pattern.find("[0]") != std::string::npos) a->Set("--window-attn-skip-freq", pattern);
}

void ExpertArguments(const Module& backbone, const Plan& plan, Gaps* gaps, Arguments* a) {
  const Mlp* mixture = nullptr;
  for (const LayerRun& run : backbone.runs) {
    const Mlp& mlp = run.layer.mlp;
    if (mlp.experts == 0) continue;
    if (mixture != nullptr && !(mlp == *mixture))
      gaps->RefuseModel("mixtures of experts of several shapes", "");
    mixture = &mlp;
  }
  if (mixture == nullptr) return;
  a->Set("--num-experts", mixture->experts);
  a->Set("--moe-router-topk", mixture->experts_per_token);
  a->Set("--moe-ffn-hidden-size", mixture->expert_intermediate);
  if (mixture->shared_intermediate > 0)
    a->Set("--moe-shared-expert-intermediate-size", mixture->shared_intermediate);
  a->Set("--moe-layer-freq", ExpertLayers(backbone));
  a->Flag("--moe-grouped-gemm");
  a->Set("--moe-token-dispatcher-type", std::string("alltoall"));
  if (plan.overlap.expert_parallel) {
    if (mixture->shared_intermediate > 0) {
      a->Flag("--moe-shared-expert-overlap");
    } else {
      gaps->RefusePlan("plan.overlap.expert_parallel = true",
                       "it hides the exchange behind a shared expert, and this model has none",
                       "plan.overlap.expert_parallel = false");
    }
  }
  if (plan.routing && plan.routing->capacity_factor > 0)
    a->Set("--moe-expert-capacity-factor", Number(plan.routing->capacity_factor));
}

}  // namespace

void MegatronModel(const Scenario& s, Gaps* gaps, Arguments* a) {
  const Model& model = *s.model;
  const Module& backbone = model.Backbone();
  if (!TextOnly(model)) {
    std::string names;
    for (std::size_t i = 0; i + 1 < model.modules.size(); ++i)
      names += (names.empty() ? "" : ", ") + model.modules[i].name;
    gaps->RefuseModel(
        "pretrain_gpt.py trains a language model alone, and '" + model.name + "' has " + names, "");
    return;
  }
  if (model.task == ModelTask::kContrastive)
    gaps->RefuseModel("a contrastive model", "a generative one");
  if (backbone.queries > 0 || backbone.resampler.queries > 0)
    gaps->RefuseModel("layers on learned queries", "");
  const Layer& layer = backbone.runs.front().layer;
  for (const LayerRun& run : backbone.runs) {
    Attention plain = run.layer.attention;
    plain.window = layer.attention.window;
    if (!(plain == layer.attention) || run.layer.layer_norm != layer.layer_norm ||
        run.layer.norm_parameters != layer.norm_parameters)
      gaps->RefuseModel("layers whose attention or norms differ", "");
    if (run.layer.mlp.gated != layer.mlp.gated)
      gaps->RefuseModel("layers with and without a gate", "");
  }
  a->Set("--num-layers", backbone.Layers());
  a->Set("--hidden-size", backbone.hidden);
  int dense = 0;
  for (const LayerRun& run : backbone.runs) {
    if (run.layer.mlp.intermediate == 0) continue;
    if (dense != 0 && dense != run.layer.mlp.intermediate)
      gaps->RefuseModel("dense layers of several widths", "");
    dense = run.layer.mlp.intermediate;
  }
  a->Set("--ffn-hidden-size", dense > 0 ? dense : layer.mlp.expert_intermediate);
  AttentionArguments(backbone, layer, gaps, a);
  WindowArguments(backbone, gaps, a);
  if (layer.mlp.gated) a->Flag("--swiglu");
  // A table of positions, or rotations, which have no parameters.
  const bool table = model.max_positions > 0 &&
                     backbone.embedding_parameters >= model.max_positions * backbone.hidden;
  a->Set("--position-embedding-type", std::string(table ? "learned_absolute" : "rope"));
  a->Set("--max-position-embeddings", std::max(model.max_positions, FixedLength(s)));
  if (!backbone.tied_head) a->Flag("--untie-embeddings-and-output-weights");
  a->Set("--make-vocab-size-divisible-by", 1);
  ExpertArguments(backbone, s.plan, gaps, a);
  if (backbone.mtp_layers > 0) a->Set("--mtp-num-layers", backbone.mtp_layers);
  const bool dropout = s.stack->hidden_dropout;
  a->Set("--attention-dropout", std::string(dropout ? "0.1" : "0"));
  a->Set("--hidden-dropout", std::string(dropout ? "0.1" : "0"));
}

}  // namespace aurum
