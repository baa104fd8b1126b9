#include "calibrate/cpu/attention.h"

#include <cblas.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace aurum {
namespace {

// e^x for x ≤ 0 without a branch, so that compilers can do several at once: x = n·ln 2 + r with
// |r| ≤ ln 2 / 2, a polynomial of degree 6 in r (Taylor; its first term left out is below 2e-7 of
// the result), and n added to the exponent's bits. Below −87 the result is 0 to within 1e-38.
inline float ExpOfNegative(float x) {
  x = std::max(x, -87.0F);
  // Adding and subtracting 1.5·2^23 rounds to the nearest whole number.
  constexpr float kRound = 12582912.0F;
  const float n = (x * 1.44269504F + kRound) - kRound;
  const float r = (x - n * 0.693359375F) - n * -2.12194440e-4F;
  float p = 1.0F / 720;
  p = p * r + 1.0F / 120;
  p = p * r + 1.0F / 24;
  p = p * r + 1.0F / 6;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  const std::int32_t exponent = (static_cast<std::int32_t>(n) + 127) << 23;
  return p * std::bit_cast<float>(exponent);
}

// One head of one sequence: where its rows begin, and how far apart they are.
struct Head {
  std::size_t q, k, row;  // offsets in floats of queries and keys; of its first query in log_sums
};

int Int(std::int64_t value) { return static_cast<int>(value); }

class Heads {
 public:
  explicit Heads(const AttentionSizes& sizes)
      : s_(sizes),
        q_stride_(Int(sizes.heads * sizes.head_dim)),
        k_stride_(Int(sizes.kv_heads * sizes.head_dim)),
        scale_(1.0F / std::sqrt(static_cast<float>(sizes.head_dim))) {}
  int q_stride() const { return q_stride_; }
  int k_stride() const { return k_stride_; }
  float scale() const { return scale_; }
  std::int64_t KeyHead(std::int64_t head) const { return head * s_.kv_heads / s_.heads; }
  Head At(std::int64_t sequence, std::int64_t head) const {
    return {static_cast<std::size_t>((sequence * s_.q_len * s_.heads + head) * s_.head_dim),
            static_cast<std::size_t>((sequence * s_.kv_len * s_.kv_heads + KeyHead(head)) *
                                     s_.head_dim),
            static_cast<std::size_t>((sequence * s_.heads + head) * s_.q_len)};
  }
  // Keys that query i sees.
  std::int64_t Seen(std::int64_t i) const {
    if (!s_.causal) return s_.kv_len;
    return std::clamp<std::int64_t>(i + 1 + s_.kv_len - s_.q_len, 0, s_.kv_len);
  }

 private:
  const AttentionSizes& s_;
  int q_stride_, k_stride_;
  float scale_;
};

// Scores of `rows` queries against the first `keys` keys, scaled.
void Scores(const Heads& heads, const AttentionSizes& s, const float* q, const float* k,
            std::int64_t rows, std::int64_t keys, float* scores) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, Int(rows), Int(keys), Int(s.head_dim),
              heads.scale(), q, heads.q_stride(), k, heads.k_stride(), 0.0F, scores, Int(keys));
}

}  // namespace

void AttentionForward(const AttentionSizes& s, const float* q, const float* k, const float* v,
                      float* out, float* log_sums, std::vector<float>* scratch) {
  const Heads heads(s);
  const std::size_t needed =
      static_cast<std::size_t>(std::min(kQueryBlock, s.q_len)) * static_cast<std::size_t>(s.kv_len);
  if (scratch->size() < needed) scratch->resize(needed);
  float* scores = scratch->data();
  for (std::int64_t sequence = 0; sequence < s.sequences; ++sequence) {
    for (std::int64_t head = 0; head < s.heads; ++head) {
      const Head at = heads.At(sequence, head);
      for (std::int64_t first = 0; first < s.q_len; first += kQueryBlock) {
        const std::int64_t rows = std::min(kQueryBlock, s.q_len - first);
        const std::int64_t keys = heads.Seen(first + rows - 1);
        const float* q_block = q + at.q + first * heads.q_stride();
        float* out_block = out + at.q + first * heads.q_stride();
        if (keys == 0) {
          for (std::int64_t row = 0; row < rows; ++row) {
            std::fill_n(out_block + row * heads.q_stride(), s.head_dim, 0.0F);
            log_sums[at.row + static_cast<std::size_t>(first + row)] = 0;
          }
          continue;
        }
        Scores(heads, s, q_block, k + at.k, rows, keys, scores);
        for (std::int64_t row = 0; row < rows; ++row) {
          float* line = scores + row * keys;
          const std::int64_t seen = heads.Seen(first + row);
          float most = -std::numeric_limits<float>::infinity();
          for (std::int64_t j = 0; j < seen; ++j) most = std::max(most, line[j]);
          for (std::int64_t j = 0; j < seen; ++j) line[j] = ExpOfNegative(line[j] - most);
          float sum = 0;
          for (std::int64_t j = 0; j < seen; ++j) sum += line[j];
          const float share = seen > 0 ? 1.0F / sum : 0.0F;
          for (std::int64_t j = 0; j < seen; ++j) line[j] *= share;
          std::fill(line + seen, line + keys, 0.0F);
          log_sums[at.row + static_cast<std::size_t>(first + row)] =
              seen > 0 ? most + std::log(sum) : 0.0F;
        }
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, Int(rows), Int(s.head_dim),
                    Int(keys), 1.0F, scores, Int(keys), v + at.k, heads.k_stride(), 0.0F, out_block,
                    heads.q_stride());
      }
    }
  }
}

void AttentionBackward(const AttentionSizes& s, const float* q, const float* k, const float* v,
                       const float* out, const float* log_sums, const float* d_out, float* d_q,
                       float* d_k, float* d_v, std::vector<float>* scratch) {
  const Heads heads(s);
  const std::size_t block =
      static_cast<std::size_t>(std::min(kQueryBlock, s.q_len)) * static_cast<std::size_t>(s.kv_len);
  if (scratch->size() < 2 * block) scratch->resize(2 * block);
  float* p = scratch->data();
  float* dp = p + block;
  std::fill_n(d_k, s.KeySize(), 0.0F);
  std::fill_n(d_v, s.KeySize(), 0.0F);
  for (std::int64_t sequence = 0; sequence < s.sequences; ++sequence) {
    for (std::int64_t head = 0; head < s.heads; ++head) {
      const Head at = heads.At(sequence, head);
      for (std::int64_t first = 0; first < s.q_len; first += kQueryBlock) {
        const std::int64_t rows = std::min(kQueryBlock, s.q_len - first);
        const std::int64_t keys = heads.Seen(first + rows - 1);
        const std::size_t begin = at.q + static_cast<std::size_t>(first * heads.q_stride());
        if (keys == 0) {
          for (std::int64_t row = 0; row < rows; ++row) {
            std::fill_n(d_q + begin + row * heads.q_stride(), s.head_dim, 0.0F);
          }
          continue;
        }
        Scores(heads, s, q + begin, k + at.k, rows, keys, p);
        for (std::int64_t row = 0; row < rows; ++row) {
          float* line = p + row * keys;
          const std::int64_t seen = heads.Seen(first + row);
          const float log_sum = log_sums[at.row + static_cast<std::size_t>(first + row)];
          for (std::int64_t j = 0; j < seen; ++j) {
            line[j] = ExpOfNegative(std::min(line[j] - log_sum, 0.0F));
          }
          std::fill(line + seen, line + keys, 0.0F);
        }
        // dv += pᵀ · d_out; dp = d_out · vᵀ
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, Int(keys), Int(s.head_dim), Int(rows),
                    1.0F, p, Int(keys), d_out + begin, heads.q_stride(), 1.0F, d_v + at.k,
                    heads.k_stride());
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, Int(rows), Int(keys), Int(s.head_dim),
                    1.0F, d_out + begin, heads.q_stride(), v + at.k, heads.k_stride(), 0.0F, dp,
                    Int(keys));
        // ds = p ∘ (dp − Σ d_out ∘ out), by row
        for (std::int64_t row = 0; row < rows; ++row) {
          const float* o = out + begin + row * heads.q_stride();
          const float* d = d_out + begin + row * heads.q_stride();
          float delta = 0;
          for (std::int64_t j = 0; j < s.head_dim; ++j) delta += o[j] * d[j];
          const float* line = p + row * keys;
          float* d_line = dp + row * keys;
          for (std::int64_t j = 0; j < keys; ++j) d_line[j] = line[j] * (d_line[j] - delta);
        }
        // dq = ds · k · scale; dk += dsᵀ · q · scale
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, Int(rows), Int(s.head_dim),
                    Int(keys), heads.scale(), dp, Int(keys), k + at.k, heads.k_stride(), 0.0F,
                    d_q + begin, heads.q_stride());
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, Int(keys), Int(s.head_dim), Int(rows),
                    heads.scale(), dp, Int(keys), q + begin, heads.q_stride(), 1.0F, d_k + at.k,
                    heads.k_stride());
      }
    }
  }
}

}  // namespace aurum
