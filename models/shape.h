#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "models/model.h"

namespace aurum {

// A text model by its numbers alone, for where no file describes it: a row of a published
// measurement, a sweep over widths, a test. Names follow the field's own, not one vendor's.

struct MoeShape {
  int experts = 0;
  int top_k = 0;
  int expert_ffn = 0;
  int shared_ffn = 0;       // total width of the always-on experts; 0 = none
  int first_dense = 0;      // that many layers at the beginning have a dense MLP (DeepSeek-V3: 3)
  int interleave = 1;       // every so many layers one has experts, the last of each group (Llama-4
                            // Maverick: 2)
  bool score_bias = false;  // one number per expert balances the routing (DeepSeek-V3)
};

struct MlaShape {
  int q_lora_rank = 0;  // 0 = full-rank queries
  int kv_lora_rank = 0;
  int rope_head_dim = 0;   // beside ModelShape::head_dim, which is the part without positions
  int value_head_dim = 0;  // 0 = head_dim
};

struct ModelShape {
  std::string name = {};
  std::string source = {};  // where the numbers are from
  int layers = 0;
  int hidden = 0;
  int heads = 0;
  int kv_heads = 0;  // 0 = heads
  int head_dim = 0;  // 0 = hidden / heads
  int ffn = 0;       // of dense layers; 0 = 4 · hidden unless every layer has experts
  std::int64_t vocabulary = 0;
  bool gated = true;          // SwiGLU: three matrices
  bool tied = false;          // the head shares the embedding
  int learned_positions = 0;  // rows of a learned position embedding (GPT-3: 2048)
  bool layer_norm = false;    // LayerNorm with scale and bias instead of RMSNorm
  bool qkv_bias = false;      // Qwen2
  bool output_bias = false;   // of attention's output projection
  bool mlp_bias = false;
  bool qk_norm = false;            // norms of queries and keys, one per head dimension (Qwen3)
  int window = 0;                  // tokens that one token sees; 0 = all
  std::int64_t max_positions = 0;  // 0 = not told
  std::optional<MoeShape> moe = std::nullopt;
  std::optional<MlaShape> mla = std::nullopt;
  int mtp_layers = 0;  // multi-token prediction modules, each with a layer like the last one
};

// The model of one backbone with these numbers. Norms: two a layer and a final one, two more of the
// low ranks under latent attention. E0603 for numbers that contradict each other, with the name of
// the field.
Model MakeModel(const ModelShape& shape);

}  // namespace aurum
