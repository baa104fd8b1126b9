#include "models/shape.h"

#include <initializer_list>
#include <utility>

#include "models/model_file.h"
#include "sim/core/diagnostic.h"

namespace aurum {
namespace {

using model_file::kMostLayers;
using model_file::kMostWidth;

constexpr int kMostHeads = 1 << 16;

[[noreturn]] void Refuse(const ModelShape& shape, const std::string& what) {
  ThrowInput(603, "the shape of '" + shape.name + "' contradicts itself: " + what,
             "check the numbers against " +
                 (shape.source.empty() ? std::string("their source") : shape.source));
}

// Every product of two fields below stays inside of 64 bits then.
void CheckRanges(const ModelShape& shape) {
  struct Range {
    const char* name;
    std::int64_t value, low, high;
  };
  const MoeShape moe = shape.moe.value_or(MoeShape{});
  const MlaShape mla = shape.mla.value_or(MlaShape{});
  for (const Range& r : std::initializer_list<Range>{
           {"layers", shape.layers, 1, kMostLayers},
           {"hidden", shape.hidden, 1, kMostWidth},
           {"heads", shape.heads, 1, kMostHeads},
           {"kv_heads", shape.kv_heads, 0, kMostHeads},
           {"head_dim", shape.head_dim, 0, kMostWidth},
           {"ffn", shape.ffn, 0, kMostWidth},
           {"vocabulary", shape.vocabulary, 0, kMostWidth},
           {"learned_positions", shape.learned_positions, 0, kMostWidth},
           {"window", shape.window, 0, 1 << 30},
           {"max_positions", shape.max_positions, 0, std::int64_t{1} << 40},
           {"mtp_layers", shape.mtp_layers, 0, 64},
           {"experts", moe.experts, 0, kMostHeads},
           {"top_k", moe.top_k, 0, kMostHeads},
           {"expert_ffn", moe.expert_ffn, 0, kMostWidth},
           {"shared_ffn", moe.shared_ffn, 0, kMostWidth},
           {"first_dense", moe.first_dense, 0, kMostLayers},
           {"interleave", moe.interleave, 1, kMostLayers},
           {"q_lora_rank", mla.q_lora_rank, 0, kMostWidth},
           {"kv_lora_rank", mla.kv_lora_rank, 0, kMostWidth},
           {"rope_head_dim", mla.rope_head_dim, 0, kMostWidth},
           {"value_head_dim", mla.value_head_dim, 0, kMostWidth},
       }) {
    if (r.value < r.low || r.value > r.high) {
      Refuse(shape, std::string(r.name) + " = " + std::to_string(r.value) + " is not in " +
                        std::to_string(r.low) + " … " + std::to_string(r.high));
    }
  }
}

void Require(const ModelShape& shape, const ShapeProblem& problem) {
  if (!problem.message.empty()) Refuse(shape, problem.message);
}

Attention MakeAttention(const ModelShape& shape) {
  Attention a;
  a.causal = true;
  a.heads = shape.heads;
  a.kv_heads = shape.kv_heads == 0 ? shape.heads : shape.kv_heads;
  if (shape.head_dim == 0 && shape.hidden % shape.heads != 0) {
    Refuse(shape, "hidden = " + std::to_string(shape.hidden) + " is not a multiple of heads = " +
                      std::to_string(shape.heads) + ", and head_dim is not told");
  }
  a.head_dim = shape.head_dim == 0 ? shape.hidden / shape.heads : shape.head_dim;
  a.value_head_dim = a.head_dim;
  a.window = shape.window;
  a.qkv_bias = shape.qkv_bias;
  a.output_bias = shape.output_bias;
  if (shape.mla.has_value()) {
    a.kind = AttentionKind::kLatent;
    a.kv_heads = a.heads;
    a.q_lora_rank = shape.mla->q_lora_rank;
    a.kv_lora_rank = shape.mla->kv_lora_rank;
    a.rope_head_dim = shape.mla->rope_head_dim;
    if (shape.mla->value_head_dim > 0) a.value_head_dim = shape.mla->value_head_dim;
  }
  Require(shape, CheckAttention(a));
  return a;
}

}  // namespace

Model MakeModel(const ModelShape& shape) {
  CheckRanges(shape);
  const std::int64_t hidden = shape.hidden;
  const std::int64_t norm = shape.layer_norm ? 2 : 1;

  Layer dense;
  dense.attention = MakeAttention(shape);
  dense.layer_norm = shape.layer_norm;
  dense.norm_parameters = 2 * norm * hidden;
  if (shape.qk_norm) dense.norm_parameters += 2 * norm * dense.attention.head_dim;
  if (shape.mla.has_value()) {
    dense.norm_parameters += norm * (shape.mla->q_lora_rank + shape.mla->kv_lora_rank);
  }
  dense.mlp.gated = shape.gated;
  dense.mlp.bias = shape.mlp_bias;
  Layer sparse = dense;
  dense.mlp.intermediate = shape.ffn == 0 ? 4 * shape.hidden : shape.ffn;

  const bool experts = shape.moe.has_value() && shape.moe->experts > 0;
  if (experts) {
    sparse.mlp.experts = shape.moe->experts;
    sparse.mlp.experts_per_token = shape.moe->top_k;
    sparse.mlp.expert_intermediate = shape.moe->expert_ffn;
    sparse.mlp.shared_intermediate = shape.moe->shared_ffn;
    if (shape.moe->score_bias) sparse.other_parameters += shape.moe->experts;
    Require(shape, CheckMlp(sparse.mlp));
  }

  Module backbone;
  backbone.name = "backbone";
  backbone.kind = ModuleKind::kBackbone;
  backbone.hidden = shape.hidden;
  backbone.vocabulary = backbone.head_vocabulary = shape.vocabulary;
  backbone.tied_head = shape.tied;
  backbone.embedding_parameters = norm * hidden + hidden * shape.learned_positions;
  for (int i = 0; i < shape.layers; ++i) {
    const bool has_experts =
        experts && i >= shape.moe->first_dense && (i + 1) % shape.moe->interleave == 0;
    AppendLayer(&backbone, has_experts ? sparse : dense);
  }
  backbone.mtp_layers = shape.mtp_layers;
  if (shape.mtp_layers > 0) backbone.mtp_layer = backbone.runs.back().layer;

  Model model;
  model.name = shape.name;
  model.family = "shape";
  model.source = shape.source;
  model.max_positions = shape.max_positions == 0 ? shape.learned_positions : shape.max_positions;
  model.modules.push_back(std::move(backbone));
  std::size_t guilty = 0;
  Require(shape, CheckModel(model, &guilty));
  return model;
}

}  // namespace aurum
