#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "models/hf_parts.h"
#include "models/hf_text_layers.h"

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
