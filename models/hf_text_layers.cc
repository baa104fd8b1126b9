#include "models/hf_text_layers.h"

#include <algorithm>
#include <string>
#include <vector>

namespace aurum {
namespace {

// Which of the layers attend to everything: by name if the config lists them, else every
// `interval`-th.
std::vector<bool> FullAttentionLayers(HfConfig& c, int layers, int interval,
                                      const char* interval_key, const std::string& other_name) {
  std::vector<bool> full(static_cast<std::size_t>(layers));
  if (c.Has("layer_types")) {
    const std::vector<std::string> types = c.Texts("layer_types");
    if (types.size() != full.size()) {
      c.Fail(603, "layer_types",
             "layer_types names " + std::to_string(types.size()) + " layers of " +
                 std::to_string(layers));
    }
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (types[i] != "full_attention" && types[i] != other_name)
        c.Unknown("layer_types", types[i], {"full_attention", other_name});
      full[i] = types[i] == "full_attention";
    }
    return full;
  }
  const int every = c.IntOr(interval_key, interval);
  if (every == 0)
    c.Fail(603, interval_key,
           std::string(interval_key) + " = 0 leaves no layer with full attention");
  for (int i = 0; i < layers; ++i) full[static_cast<std::size_t>(i)] = (i + 1) % every == 0;
  return full;
}

}  // namespace

void AddLayers(Module* module, const Layer& layer, int count) {
  for (int i = 0; i < count; ++i) AppendLayer(module, layer);
}

int WindowOf(HfConfig& c, int fallback) {
  if (c.IsNull("sliding_window")) return 0;
  if (fallback == 0) return c.Has("sliding_window") ? c.Int("sliding_window") : 0;
  return c.IntOr("sliding_window", fallback);
}

// Every (i+1) % step == 0 layer has experts, unless the config names it as dense (Qwen3-MoE).
void AddQwen3MoeLayers(HfConfig& c, const Layer& layer, int layers, Module* module) {
  const bool vision = c.class_name() == "Qwen3VLMoeTextConfig";
  Layer sparse = layer;
  sparse.mlp.intermediate = 0;
  sparse.mlp.experts = c.AnyIntOr({"num_experts", "num_local_experts"}, vision ? 60 : 128);
  sparse.mlp.experts_per_token = c.IntOr("num_experts_per_tok", vision ? 4 : 8);
  sparse.mlp.expert_intermediate = c.IntOr("moe_intermediate_size", vision ? 1408 : 768);
  const int step = c.IntOr("decoder_sparse_step", 1);
  if (step == 0)
    c.Fail(603, "decoder_sparse_step",
           "decoder_sparse_step = 0 says nothing about which layers have experts");
  const std::vector<int> dense = c.Ints("mlp_only_layers");
  for (int i = 0; i < layers; ++i) {
    const bool is_dense =
        std::find(dense.begin(), dense.end(), i) != dense.end() || (i + 1) % step != 0;
    AppendLayer(module, is_dense || sparse.mlp.experts == 0 ? layer : sparse);
  }
}

// Qwen3.5: three layers of Gated DeltaNet, then one of attention whose query projection also yields
// an output gate. The DeltaNet projects to 2·key_heads·key_dim + value_heads·value_dim and as wide
// a gate z as its values; small projections for decay and step (2·hidden·value_heads), a short
// convolution per channel, one decay and one bias per value head, and a norm of value_dim.
void AddQwen35Layers(HfConfig& c, Layer layer, int layers, Module* module) {
  const std::int64_t hidden = module->hidden;
  layer.mlp.experts = c.Int("num_experts");
  layer.mlp.experts_per_token = c.Int("num_experts_per_tok");
  layer.mlp.expert_intermediate = c.Int("moe_intermediate_size");
  layer.mlp.shared_intermediate = c.Int("shared_expert_intermediate_size");
  const std::int64_t shared_gate = hidden;
  Layer full = layer;
  full.attention.output_gate = c.FlagOr("attn_output_gate", true);
  full.norm_parameters += 2 * full.attention.head_dim;
  full.other_parameters = shared_gate;
  Layer linear = layer;
  Attention& a = linear.attention;
  a.kind = AttentionKind::kLinear;
  a.kv_heads = c.Int("linear_num_key_heads");
  a.heads = c.Int("linear_num_value_heads");
  a.head_dim = c.Int("linear_key_head_dim");
  a.value_head_dim = c.Int("linear_value_head_dim");
  a.output_gate = true;
  const std::int64_t channels =
      2 * std::int64_t{a.kv_heads} * a.head_dim + std::int64_t{a.heads} * a.value_head_dim;
  linear.norm_parameters += a.value_head_dim;
  linear.other_parameters = shared_gate + 2 * hidden * a.heads + 2 * std::int64_t{a.heads} +
                            channels * c.Int("linear_conv_kernel_dim");
  const std::vector<bool> is_full =
      FullAttentionLayers(c, layers, 4, "full_attention_interval", "linear_attention");
  for (const bool f : is_full) AppendLayer(module, f ? full : linear);
  c.Assume(
      "linear attention is Gated DeltaNet as in transformers' Qwen3_5MoeGatedDeltaNet; its cost is "
      "linear in the length");
  if (c.Has("mtp_num_hidden_layers") && c.Int("mtp_num_hidden_layers") > 0) {
    c.Assume("the multi-token prediction layer (mtp_num_hidden_layers) is not part of the model");
  }
}

void AddDeepseekLayers(HfConfig& c, Layer layer, int layers, Module* module) {
  Attention& a = layer.attention;
  a.kind = AttentionKind::kLatent;
  a.q_lora_rank = c.IsNull("q_lora_rank") ? 0 : c.IntOr("q_lora_rank", 1536);
  a.kv_lora_rank = c.IntOr("kv_lora_rank", 512);
  a.head_dim = c.IntOr("qk_nope_head_dim", 128);
  a.rope_head_dim = c.IntOr("qk_rope_head_dim", 64);
  a.value_head_dim = c.IntOr("v_head_dim", 128);
  layer.norm_parameters += a.q_lora_rank + a.kv_lora_rank;
  if (c.FlagOr("attention_bias", false)) {
    layer.other_parameters += a.q_lora_rank + a.kv_lora_rank + a.rope_head_dim + module->hidden;
  }
  Layer sparse = layer;
  sparse.mlp.intermediate = 0;
  sparse.mlp.experts = c.IntOr("n_routed_experts", 256);
  sparse.mlp.experts_per_token = c.IntOr("num_experts_per_tok", 8);
  sparse.mlp.expert_intermediate = c.IntOr("moe_intermediate_size", 2048);
  const std::int64_t shared =
      std::int64_t{c.IntOr("n_shared_experts", 1)} * sparse.mlp.expert_intermediate;
  if (shared > (1 << 24)) c.Fail(603, "n_shared_experts", "the shared experts are wider than 2^24");
  sparse.mlp.shared_intermediate = static_cast<int>(shared);
  if (c.TextOr("topk_method", "noaux_tc") == "noaux_tc")
    sparse.other_parameters += sparse.mlp.experts;  // score bias
  const int dense = c.IntOr("first_k_dense_replace", 3);
  const int every = c.IntOr("moe_layer_freq", 1);
  if (every == 0)
    c.Fail(603, "moe_layer_freq",
           "moe_layer_freq = 0 says nothing about which layers have experts");
  for (int i = 0; i < layers; ++i)
    AppendLayer(module, i >= dense && i % every == 0 ? sparse : layer);
  if (c.Has("num_nextn_predict_layers") && c.Int("num_nextn_predict_layers") > 0) {
    c.Assume(
        "the multi-token prediction layer (num_nextn_predict_layers) is not part of the model");
  }
}

// Llama-4 has two MLP widths: intermediate_size for each expert and the shared one,
// intermediate_size_mlp for dense layers.
void AddLlama4Layers(HfConfig& c, const Layer& layer, int layers, Module* module) {
  Layer dense = layer;
  dense.mlp.intermediate = c.IntOr("intermediate_size_mlp", 16384);
  Layer sparse = layer;
  sparse.mlp.expert_intermediate = layer.mlp.intermediate;
  sparse.mlp.shared_intermediate = layer.mlp.intermediate;
  sparse.mlp.intermediate = 0;
  sparse.mlp.experts = c.IntOr("num_local_experts", 16);
  sparse.mlp.experts_per_token = c.IntOr("num_experts_per_tok", 1);
  const int step = c.IntOr("interleave_moe_layer_step", 1);
  const int chunk = c.IsNull("attention_chunk_size") ? 0 : c.IntOr("attention_chunk_size", 8192);
  const std::vector<int> moe_layers = c.Ints("moe_layers");
  const std::vector<int> rope_layers =
      c.Ints("no_rope_layers");  // 1 = with rotary positions, and so in chunks
  if (rope_layers.empty())
    c.Assume(
        "every fourth layer has no rotary positions and attends to everything (Llama4TextConfig)");
  for (int i = 0; i < layers; ++i) {
    const bool experts =
        moe_layers.empty() ? step > 0 && (i + 1) % step == 0
                           : std::find(moe_layers.begin(), moe_layers.end(), i) != moe_layers.end();
    const auto index = static_cast<std::size_t>(i);
    const bool chunked = index < rope_layers.size() ? rope_layers[index] != 0 : (i + 1) % 4 != 0;
    Layer next = experts ? sparse : dense;
    next.attention.window = chunked ? chunk : 0;
    AppendLayer(module, next);
  }
}

void AddMllamaLayers(HfConfig& c, const Layer& layer, int layers, Module* module) {
  std::vector<int> crossing = c.Ints("cross_attention_layers");
  if (crossing.empty()) {
    crossing = {3, 8, 13, 18, 23, 28, 33, 38};
    c.Assume(
        "text_config.cross_attention_layers = [3,8,13,18,23,28,33,38] (default of "
        "MllamaTextConfig)");
  }
  Layer cross = layer;
  cross.attention.kind = AttentionKind::kCross;
  cross.attention.causal = false;
  cross.attention.kv_input = module->hidden;
  cross.norm_parameters += 2 * cross.attention.head_dim;
  cross.other_parameters += 2;  // a gate for the attention and one for the MLP
  for (int i = 0; i < layers; ++i) {
    const bool crosses = std::find(crossing.begin(), crossing.end(), i) != crossing.end();
    AppendLayer(module, crosses ? cross : layer);
  }
}

void AddGemma3Layers(HfConfig& c, Layer layer, int layers, Module* module) {
  layer.norm_parameters = 4 * std::int64_t{module->hidden} + 2 * layer.attention.head_dim;
  const std::vector<bool> full =
      FullAttentionLayers(c, layers, 6, "sliding_window_pattern", "sliding_attention");
  Layer local = layer;
  local.attention.window = c.IntOr("sliding_window", 4096);
  for (const bool f : full) AppendLayer(module, f ? layer : local);
}

// Gemma-4: a dense MLP and experts side by side in every layer (here: the dense one is the shared
// expert), three norms more for the two branches, a learned scale of the router's input and one per
// expert.
void AddGemma4Layers(HfConfig& c, Layer layer, int layers, Module* module) {
  const std::int64_t hidden = module->hidden;
  layer.norm_parameters = 4 * hidden;
  if (c.FlagOr("attention_bias", false))
    layer.attention.qkv_bias = layer.attention.output_bias = true;
  if (c.FlagOr("enable_moe_block", false)) {
    layer.mlp.shared_intermediate = layer.mlp.intermediate;
    layer.mlp.intermediate = 0;
    layer.mlp.experts = c.Int("num_experts");
    layer.mlp.experts_per_token = c.Int("top_k_experts");
    layer.mlp.expert_intermediate = c.Int("moe_intermediate_size");
    layer.norm_parameters += 3 * hidden;
    layer.other_parameters += hidden + layer.mlp.experts;
  }
  if (c.IntOr("num_kv_shared_layers", 0) != 0) c.Unknown("num_kv_shared_layers", "not 0", {"0"});
  if (c.IntOr("hidden_size_per_layer_input", 0) != 0)
    c.Unknown("hidden_size_per_layer_input", "not 0", {"0"});
  Layer local = layer;
  local.norm_parameters += 2 * layer.attention.head_dim;
  local.attention.window = c.Int("sliding_window");
  Layer full = layer;
  if (c.Has("global_head_dim"))
    full.attention.head_dim = full.attention.value_head_dim = c.Int("global_head_dim");
  if (c.FlagOr("attention_k_eq_v", false)) {
    full.attention.shared_key_value = true;
    full.attention.kv_heads = c.Int("num_global_key_value_heads");
  }
  full.norm_parameters += 2 * full.attention.head_dim;
  const std::vector<bool> is_full =
      FullAttentionLayers(c, layers, 6, "sliding_window_pattern", "sliding_attention");
  for (const bool f : is_full) AppendLayer(module, f ? full : local);
  c.Assume(
      "layers as in transformers' Gemma4TextDecoderLayer: the dense MLP runs beside the experts "
      "and counts as the shared one");
}

}  // namespace aurum
