#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace aurum {

// Attention on one core, by OpenBLAS. Tensors lie token by token as a model's activations do: a
// sequence after the other, in it tokens, in them heads, in them head_dim floats. Query head h reads
// key head h·kv_heads/heads. A causal query i sees the keys up to i + kv_len − q_len (the last query
// sees the last key); one that sees none has the output 0.
struct AttentionSizes {
  std::int64_t sequences = 1, heads = 1, kv_heads = 1, q_len = 1, kv_len = 1, head_dim = 64;
  bool causal = false;
  std::size_t Queries() const { return static_cast<std::size_t>(sequences * heads * q_len); }
  std::size_t QuerySize() const { return Queries() * static_cast<std::size_t>(head_dim); }
  std::size_t KeySize() const {
    return static_cast<std::size_t>(sequences * kv_heads * kv_len * head_dim);
  }
};

// Queries are taken in blocks: the scores of one block against all keys that any of it sees are
// formed by one product, made probabilities in place, and multiplied with the values. Blocks bound
// the scores' memory (as fused kernels do, and as they, only the logarithm of each row's sum is kept
// for backward) and leave out what a causal mask hides but for the block on the diagonal: at 2,048
// tokens and blocks of 64 that is 52 % of the square where half would do.
inline constexpr std::int64_t kQueryBlock = 64;

// out and log_sums (one a query, order [sequence][head][query]) are written. `scratch` grows to
// what is needed and is kept by the caller from call to call.
void AttentionForward(const AttentionSizes& sizes, const float* q, const float* k, const float* v,
                      float* out, float* log_sums, std::vector<float>* scratch);

// Gradients of q, k and v from that of the output. The probabilities are formed again from log_sums
// (Dao et al., "FlashAttention", 2022, algorithm 4): five products where forward has two.
void AttentionBackward(const AttentionSizes& sizes, const float* q, const float* k, const float* v,
                       const float* out, const float* log_sums, const float* d_out, float* d_q,
                       float* d_k, float* d_v, std::vector<float>* scratch);

}  // namespace aurum
