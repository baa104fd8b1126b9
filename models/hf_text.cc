#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "models/hf_parts.h"

namespace aurum {
namespace {

// What differs between text models beyond their numbers. The structures follow the classes of
// huggingface/transformers (src/transformers/models/*/modeling_*.py) and, for Qwen, Molmo and
// InternLM2, the code that their authors publish beside the weights.
enum class Structure {
  kLlama,    // RMSNorm, grouped queries, SwiGLU; attention_bias and mlp_bias by flag
  kMistral,  // Llama with a sliding window
  kQwen,     // first Qwen: bias on q, k, v; intermediate_size counts both halves of the gated MLP
  kQwen2,    // bias on q, k, v
  kQwen3,    // no bias, norms of queries and keys
  kQwen3Moe,
  kQwen35Moe,  // Gated DeltaNet in three of four layers, gated attention in the fourth, shared
               // expert
  kMixtral,
  kDeepseek,  // latent attention; experts behind the first dense layers
  kLlama4,    // experts and dense layers alternate, chunked attention in three of four layers
  kMllama,    // cross-attention layers among the others
  kGemma,     // head_dim of its own
  kGemma3,    // four norms, query and key norms, five local layers for a global one
  kGemma4,    // as Gemma-3; global layers with larger heads and values that are the keys; dense MLP
              // beside experts
  kPhi3,
  kGlm4,   // four norms, bias on q, k, v
  kMolmo,  // Qwen2 with intermediate_size doubled and 128 extra embeddings
  kInternlm2,
  kPersimmon,  // LayerNorm, biases everywhere, squared ReLU without gate
  kGpt2,       // LayerNorm, biases everywhere, learned positions
  kOpt,        // the same; two positions more, the MLP's width is ffn_dim
};

constexpr int kNone = -1;  // the class has no default

struct Family {
  const char* model_type;
  const char* class_name;
  Structure structure;
  int hidden;
  int intermediate;
  int layers;
  int heads;
  int kv_heads;  // 0 = as many as heads
  int head_dim;  // 0 = hidden / heads
  int vocabulary;
  bool tied;
};

// Defaults: configuration_*.py of huggingface/transformers.
constexpr Family kFamilies[] = {
    {"llama", "LlamaConfig", Structure::kLlama, 4096, 11008, 32, 32, 0, 0, 32000, false},
    {"mistral", "MistralConfig", Structure::kMistral, 4096, 14336, 32, 32, 8, 0, 32000, false},
    {"mixtral", "MixtralConfig", Structure::kMixtral, 4096, 14336, 32, 32, 8, 0, 32000, false},
    {"qwen", "QWenConfig", Structure::kQwen, 4096, 22016, 32, 32, 0, 0, 151936, false},
    {"qwen2", "Qwen2Config", Structure::kQwen2, 4096, 22016, 32, 32, 32, 0, 151936, false},
    {"qwen2_vl", "Qwen2VLTextConfig", Structure::kQwen2, 8192, 29568, 80, 64, 8, 0, 152064, false},
    {"qwen2_5_vl", "Qwen2_5_VLTextConfig", Structure::kQwen2, 8192, 29568, 80, 64, 8, 0, 152064,
     false},
    {"minicpmv", "MiniCPMVConfig", Structure::kQwen2, kNone, kNone, kNone, kNone, kNone, 0, kNone,
     false},
    {"qwen3", "Qwen3Config", Structure::kQwen3, 4096, 22016, 32, 32, 32, 128, 151936, false},
    {"qwen3_vl_text", "Qwen3VLTextConfig", Structure::kQwen3, 4096, 22016, 32, 32, 32, 128, 151936,
     false},
    {"qwen3_moe", "Qwen3MoeConfig", Structure::kQwen3Moe, 2048, 6144, 24, 32, 4, 0, 151936, false},
    {"qwen3_vl_moe_text", "Qwen3VLMoeTextConfig", Structure::kQwen3Moe, 2048, 5632, 24, 16, 16, 0,
     151936, false},
    {"qwen2_5_omni_text", "Qwen2_5OmniTextConfig", Structure::kQwen2, 3584, 18944, 28, 28, 4, 0,
     152064, false},
    {"qwen3_omni_moe_text", "Qwen3OmniMoeTextConfig", Structure::kQwen3Moe, 2048, 18944, 28, 28, 4,
     0, 3584, false},
    {"opt", "OPTConfig", Structure::kOpt, 768, 3072, 12, 12, 0, 0, 50272, true},
    {"qwen3_5_moe_text", "Qwen3_5MoeTextConfig", Structure::kQwen35Moe, kNone, 0, kNone, kNone,
     kNone, kNone, kNone, false},
    {"deepseek_v3", "DeepseekV3Config", Structure::kDeepseek, 7168, 18432, 61, 128, 128, 0, 129280,
     false},
    {"kimi_k2", "DeepseekV3Config", Structure::kDeepseek, 7168, 18432, 61, 128, 128, 0, 129280,
     false},
    {"llama4_text", "Llama4TextConfig", Structure::kLlama4, 5120, 8192, 48, 40, 8, 128, 202048,
     false},
    {"mllama_text_model", "MllamaTextConfig", Structure::kMllama, 4096, 14336, 40, 32, 8, 0, 128256,
     false},
    {"gemma", "GemmaConfig", Structure::kGemma, 3072, 24576, 28, 16, 16, 256, 256000, true},
    {"gemma3_text", "Gemma3TextConfig", Structure::kGemma3, 2304, 9216, 26, 8, 4, 256, 262208,
     true},
    {"gemma4_text", "Gemma4TextConfig", Structure::kGemma4, kNone, kNone, kNone, kNone, kNone,
     kNone, kNone, true},
    {"phi3", "Phi3Config", Structure::kPhi3, 3072, 8192, 32, 32, 0, 0, 32064, false},
    {"glm4v", "Glm4vTextConfig", Structure::kGlm4, 4096, 13696, 40, 32, 2, 0, 151552, false},
    {"glm4v_text", "Glm4vTextConfig", Structure::kGlm4, 4096, 13696, 40, 32, 2, 0, 151552, false},
    {"molmo", "MolmoConfig", Structure::kMolmo, kNone, kNone, kNone, kNone, kNone, 0, kNone, false},
    {"internlm2", "InternLM2Config", Structure::kInternlm2, 4096, 11008, 32, 32, 0, 0, 103168,
     false},
    {"persimmon", "PersimmonConfig", Structure::kPersimmon, 4096, 16384, 36, 64, 0, 0, 262144,
     false},
    {"fuyu", "FuyuConfig", Structure::kPersimmon, 4096, 16384, 36, 64, 0, 0, 262144, false},
    {"gpt2", "GPT2Config", Structure::kGpt2, 768, 0, 12, 12, 0, 0, 50257, true},
};

// The layer that nearly all of them vary: two RMSNorms, grouped-query attention, gated MLP.
Layer PlainLayer(HfConfig& c, const Module& module, const Family& family, int intermediate) {
  Layer layer;
  Attention& a = layer.attention;
  a.causal = true;
  a.heads = c.AnyIntOr({"num_attention_heads", "n_head"}, family.heads);
  a.kv_heads = a.heads;
  if (family.structure != Structure::kPersimmon && family.structure != Structure::kGpt2 &&
      family.structure != Structure::kOpt && family.structure != Structure::kQwen) {
    a.kv_heads = c.IntOr("num_key_value_heads", family.kv_heads == 0 ? a.heads : family.kv_heads);
  }
  if (family.head_dim != 0) {
    a.head_dim = c.IntOr("head_dim", family.head_dim);
  } else if (c.Has("head_dim")) {
    a.head_dim = c.Int("head_dim");
  } else {
    a.head_dim = HeadDim(c, module.hidden, a.heads, "num_attention_heads");
  }
  a.value_head_dim = a.head_dim;
  layer.mlp.intermediate = intermediate;
  layer.norm_parameters = 2 * std::int64_t{module.hidden};
  return layer;
}

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

void AddLayersOf(HfConfig& c, const Family& family, Layer layer, int layers, Module* module) {
  const std::int64_t hidden = module->hidden;
  Attention& a = layer.attention;
  switch (family.structure) {
    case Structure::kLlama:
      a.qkv_bias = a.output_bias = c.FlagOr("attention_bias", false);
      layer.mlp.bias = c.FlagOr("mlp_bias", false);
      return AddLayers(module, layer, layers);
    case Structure::kMistral:
      a.window = WindowOf(c, 4096);
      return AddLayers(module, layer, layers);
    case Structure::kPhi3:
    case Structure::kInternlm2:
    case Structure::kGemma:
      a.window = family.structure == Structure::kPhi3 ? WindowOf(c, 0) : 0;
      return AddLayers(module, layer, layers);
    case Structure::kQwen:
      a.qkv_bias = true;
      layer.mlp.bias = a.output_bias = !c.FlagOr("no_bias", true);
      return AddLayers(module, layer, layers);
    case Structure::kQwen2: {
      a.qkv_bias = true;
      if (!c.FlagOr("use_sliding_window", false)) return AddLayers(module, layer, layers);
      Layer local = layer;
      local.attention.window = WindowOf(c, 4096);
      const int first_local = c.IntOr("max_window_layers", 28);
      for (int i = 0; i < layers; ++i) AppendLayer(module, i >= first_local ? local : layer);
      return;
    }
    case Structure::kMolmo:
      a.qkv_bias = c.FlagOr("qkv_bias", true);
      return AddLayers(module, layer, layers);
    case Structure::kQwen3:
    case Structure::kQwen3Moe:
      a.qkv_bias = a.output_bias = c.FlagOr("attention_bias", false);
      layer.norm_parameters += 2 * a.head_dim;
      return family.structure == Structure::kQwen3 ? AddLayers(module, layer, layers)
                                                   : AddQwen3MoeLayers(c, layer, layers, module);
    case Structure::kQwen35Moe:
      return AddQwen35Layers(c, layer, layers, module);
    case Structure::kMixtral:
      a.window = WindowOf(c, 0);
      layer.mlp.expert_intermediate = layer.mlp.intermediate;
      layer.mlp.intermediate = 0;
      layer.mlp.experts = c.IntOr("num_local_experts", 8);
      layer.mlp.experts_per_token = c.IntOr("num_experts_per_tok", 2);
      return AddLayers(module, layer, layers);
    case Structure::kDeepseek:
      return AddDeepseekLayers(c, layer, layers, module);
    case Structure::kLlama4:
      return AddLlama4Layers(c, layer, layers, module);
    case Structure::kMllama:
      return AddMllamaLayers(c, layer, layers, module);
    case Structure::kGemma3:
      return AddGemma3Layers(c, layer, layers, module);
    case Structure::kGemma4:
      return AddGemma4Layers(c, layer, layers, module);
    case Structure::kGlm4:
      a.qkv_bias = true;
      layer.norm_parameters = 4 * hidden;
      return AddLayers(module, layer, layers);
    case Structure::kPersimmon:
    case Structure::kGpt2:
    case Structure::kOpt:
      a.qkv_bias = a.output_bias = true;
      layer.mlp.gated = false;
      layer.mlp.bias = true;
      layer.layer_norm = true;
      layer.norm_parameters = 4 * hidden;
      if (family.structure == Structure::kPersimmon && c.FlagOr("qk_layernorm", true)) {
        layer.norm_parameters += 4 * a.head_dim;
      }
      return AddLayers(module, layer, layers);
  }
}

}  // namespace

std::vector<std::string> TextFamilies() {
  std::vector<std::string> names;
  for (const Family& family : kFamilies) names.emplace_back(family.model_type);
  return names;
}

Module ImportText(HfConfig& c, HfConfig& root, const std::string& default_family) {
  const std::string type =
      default_family.empty() ? c.Text("model_type") : c.TextOr("model_type", default_family);
  const Family* family = nullptr;
  for (const Family& candidate : kFamilies) {
    if (type == candidate.model_type) family = &candidate;
  }
  if (family == nullptr) {
    const std::string nearest = NearestName(type, TextFamilies());
    c.Fail(601, "model_type", "the text model '" + type + "' is not known",
           nearest.empty() ? "write its shapes as a model file, see models/README.md"
                           : "the nearest known one is '" + nearest + "'");
  }
  c.set_class_name(family->class_name);

  Module module;
  module.name = "backbone";
  module.kind = ModuleKind::kBackbone;
  module.hidden = c.AnyIntOr({"hidden_size", "n_embd"}, family->hidden);
  if (module.hidden == 0) c.Fail(603, "hidden_size", "hidden_size is 0");
  const int layers = c.AnyIntOr({"num_hidden_layers", "n_layer"}, family->layers);
  if (layers == 0) c.Fail(603, "num_hidden_layers", "a model needs layers: num_hidden_layers is 0");
  if (layers > 4096) c.Fail(603, "num_hidden_layers", "more than 4096 layers");
  int intermediate = 0;
  switch (family->structure) {
    case Structure::kQwen35Moe:
      break;
    case Structure::kGpt2:
      intermediate = c.Has("n_inner") ? c.Int("n_inner") : 4 * module.hidden;
      break;
    case Structure::kOpt:
      intermediate = c.IntOr("ffn_dim", family->intermediate);
      break;
    case Structure::kQwen:
    case Structure::kMolmo:
      // The trap: these two count the gate and the up projection together.
      intermediate = c.IntOr("intermediate_size", family->intermediate);
      if (intermediate % 2 != 0) {
        c.Fail(603, "intermediate_size",
               "intermediate_size counts both halves of the gated MLP here and must be even");
      }
      intermediate /= 2;
      break;
    default:
      intermediate = c.IntOr("intermediate_size", family->intermediate);
  }
  const int vocabulary = c.AnyIntOr({"vocab_size"}, family->vocabulary);
  module.vocabulary = module.head_vocabulary = vocabulary;
  module.embedding_parameters = module.hidden;  // final norm
  if (root.Has("tie_word_embeddings")) {
    module.tied_head = root.FlagOr("tie_word_embeddings", family->tied);
  } else {
    module.tied_head = c.FlagOr("tie_word_embeddings", family->tied);
  }
  if (family->structure == Structure::kMolmo) {
    if (c.Has("weight_tying")) module.tied_head = c.FlagOr("weight_tying", false);
    module.vocabulary = module.head_vocabulary = c.IntOr("embedding_size", vocabulary);
    module.embedding_parameters += 128 * std::int64_t{module.hidden};
    c.Assume(
        "128 additional embeddings for special tokens (additional_vocab_size of Molmo's code)");
  } else if (family->structure == Structure::kMllama) {
    module.vocabulary += 8;  // MllamaTextModel keeps 8 rows for the image token and its kin
    if (module.tied_head) module.head_vocabulary = module.vocabulary;
  } else if (family->structure == Structure::kPersimmon) {
    module.embedding_parameters = 2 * std::int64_t{module.hidden};
  } else if (family->structure == Structure::kGpt2) {
    const std::int64_t positions = c.AnyIntOr({"n_positions", "max_position_embeddings"}, 1024);
    module.embedding_parameters = (2 + positions) * module.hidden;
  } else if (family->structure == Structure::kOpt) {
    // OPT-350m is another model: norms behind, none at the end, an embedding of half the width.
    if (!c.FlagOr("do_layer_norm_before", true))
      c.Unknown("do_layer_norm_before", "false", {"true"});
    if (c.Has("word_embed_proj_dim"))
      RequireWidth(c, "word_embed_proj_dim", c.Int("word_embed_proj_dim"), module.hidden);
    const std::int64_t positions = c.IntOr("max_position_embeddings", 2048);
    module.embedding_parameters = (2 + 2 + positions) * module.hidden;
  }
  const Layer layer = PlainLayer(c, module, *family, intermediate);
  AddLayersOf(c, *family, layer, layers, &module);
  for (const LayerRun& run : module.runs) {
    c.Require(CheckAttention(run.layer.attention));
    c.Require(CheckMlp(run.layer.mlp));
  }
  return module;
}

}  // namespace aurum
