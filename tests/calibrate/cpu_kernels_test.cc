#include "calibrate/cpu/kernels.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>

#include "calibrate/cpu/core.h"
#include "sim/core/random.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

std::vector<float> Normal(std::size_t floats, std::uint64_t stream) {
  std::vector<float> out(floats);
  for (std::size_t i = 0; i < floats; ++i) out[i] = static_cast<float>(RandomNormal(7, stream, i));
  return out;
}

double LargestError(const std::vector<float>& a, const std::vector<double>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::fabs(a[i] - b[i]));
  return most;
}

TEST_CASE("the three products of a linear layer find their operands as they lie") {
  const int tokens = 5, in = 7, out = 3;
  const std::vector<float> x = Normal(tokens * in, 1), w = Normal(out * in, 2),
                           dy = Normal(tokens * out, 3);
  std::vector<double> y(tokens * out), dx(tokens * in), dw(out * in);
  for (int t = 0; t < tokens; ++t) {
    for (int o = 0; o < out; ++o) {
      for (int i = 0; i < in; ++i) {
        y[t * out + o] += static_cast<double>(x[t * in + i]) * w[o * in + i];
        dx[t * in + i] += static_cast<double>(dy[t * out + o]) * w[o * in + i];
        dw[o * in + i] += static_cast<double>(dy[t * out + o]) * x[t * in + i];
      }
    }
  }
  std::vector<float> got(y.size(), 99);
  Gemm(GemmRole::kForward, tokens, out, in, x.data(), w.data(), got.data());
  CHECK(LargestError(got, y) < 1e-5);
  got.assign(dx.size(), 99);
  Gemm(GemmRole::kInputGradient, tokens, in, out, dy.data(), w.data(), got.data());
  CHECK(LargestError(got, dx) < 1e-5);
  got.assign(dw.size(), 99);
  Gemm(GemmRole::kWeightGradient, out, in, tokens, dy.data(), x.data(), got.data());
  CHECK(LargestError(got, dw) < 1e-5);
}

// Attention by its definition, in double precision.
struct Plain {
  std::vector<double> out, d_q, d_k, d_v;
};
Plain PlainAttention(const AttentionSizes& s, const std::vector<float>& q,
                     const std::vector<float>& k, const std::vector<float>& v,
                     const std::vector<float>& d_out) {
  Plain p;
  p.out.resize(q.size());
  p.d_q.resize(q.size());
  p.d_k.resize(k.size());
  p.d_v.resize(k.size());
  const auto q_at = [&](auto b, auto i, auto h) {
    return ((b * s.q_len + i) * s.heads + h) * s.head_dim;
  };
  const auto k_at = [&](auto b, auto j, auto h) {
    return ((b * s.kv_len + j) * s.kv_heads + h) * s.head_dim;
  };
  const double scale = 1 / std::sqrt(static_cast<double>(s.head_dim));
  for (std::int64_t b = 0; b < s.sequences; ++b) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      const std::int64_t g = h * s.kv_heads / s.heads;
      for (std::int64_t i = 0; i < s.q_len; ++i) {
        std::vector<double> weight(static_cast<std::size_t>(s.kv_len));
        double sum = 0;
        for (std::int64_t j = 0; j < s.kv_len; ++j) {
          if (s.causal && j > i + s.kv_len - s.q_len) continue;
          double dot = 0;
          for (std::int64_t d = 0; d < s.head_dim; ++d) {
            dot += static_cast<double>(q[q_at(b, i, h) + d]) * k[k_at(b, j, g) + d];
          }
          sum += weight[j] = std::exp(dot * scale);
        }
        if (sum == 0) continue;
        double delta = 0;
        std::vector<double> d_weight(weight.size());
        for (std::int64_t j = 0; j < s.kv_len; ++j) {
          weight[j] /= sum;
          for (std::int64_t d = 0; d < s.head_dim; ++d) {
            const double grad = d_out[q_at(b, i, h) + d];
            p.out[q_at(b, i, h) + d] += weight[j] * v[k_at(b, j, g) + d];
            p.d_v[k_at(b, j, g) + d] += weight[j] * grad;
            d_weight[j] += grad * v[k_at(b, j, g) + d];
          }
          delta += weight[j] * d_weight[j];
        }
        for (std::int64_t j = 0; j < s.kv_len; ++j) {
          const double d_score = weight[j] * (d_weight[j] - delta) * scale;
          for (std::int64_t d = 0; d < s.head_dim; ++d) {
            p.d_q[q_at(b, i, h) + d] += d_score * k[k_at(b, j, g) + d];
            p.d_k[k_at(b, j, g) + d] += d_score * q[q_at(b, i, h) + d];
          }
        }
      }
    }
  }
  return p;
}

TEST_CASE("attention, forward and backward, is what its definition says") {
  // Blocks that are not full, several sequences, shared keys, masks that reach the block's edge, more
  // keys than queries, queries that see nothing.
  const AttentionSizes cases[] = {
      {1, 1, 1, 1, 1, 4, false},    {2, 4, 2, 70, 70, 16, true},  {1, 2, 2, 64, 64, 8, true},
      {2, 3, 1, 130, 130, 8, true}, {1, 2, 1, 33, 90, 8, true},   {1, 2, 2, 90, 33, 8, true},
      {3, 2, 2, 65, 40, 12, false}, {1, 3, 2, 1, 100, 32, false},
  };
  for (const AttentionSizes& s : cases) {
    CAPTURE(s.q_len);
    CAPTURE(s.kv_len);
    const std::vector<float> q = Normal(s.QuerySize(), 1), k = Normal(s.KeySize(), 2),
                             v = Normal(s.KeySize(), 3), d_out = Normal(s.QuerySize(), 4);
    const Plain plain = PlainAttention(s, q, k, v, d_out);
    std::vector<float> out(q.size(), 99), sums(s.Queries(), 99), scratch;
    AttentionForward(s, q.data(), k.data(), v.data(), out.data(), sums.data(), &scratch);
    CHECK(LargestError(out, plain.out) < 2e-5);
    std::vector<float> d_q(q.size(), 99), d_k(k.size(), 99), d_v(k.size(), 99);
    AttentionBackward(s, q.data(), k.data(), v.data(), out.data(), sums.data(), d_out.data(),
                      d_q.data(), d_k.data(), d_v.data(), &scratch);
    CHECK(LargestError(d_q, plain.d_q) < 5e-5);
    CHECK(LargestError(d_k, plain.d_k) < 1e-4);
    CHECK(LargestError(d_v, plain.d_v) < 1e-4);
  }
}

TEST_CASE("every kind of kernel runs from arenas that are smaller than its operands") {
  KernelRunner runner(1, 4096);
  Kernel k;
  k.dtype = DType::kFp32;
  k.kind = KernelKind::kGemm;
  k.m = 100;
  k.n = 50;
  k.k = 30;
  k.count = 3;
  for (const KernelKind kind :
       {KernelKind::kGemm, KernelKind::kAttentionForward, KernelKind::kAttentionBackward,
        KernelKind::kDecodeAttention, KernelKind::kMemory}) {
    k.kind = kind;
    k.sequences = 2;
    k.heads = kind == KernelKind::kDecodeAttention ? 0 : 4;
    k.kv_heads = 2;
    k.q_len = 100;
    k.kv_len = 100;
    k.head_dim = 16;
    k.causal = true;
    k.bytes = 1e6;
    CHECK(KernelRunner::Refusal(k).empty());
    runner.Reserve(k);
    for (int i = 0; i < 3; ++i) runner.Run(k);
  }
  CHECK(runner.ArenaBytes() >= 2 * 4 * (100 * 30 + 30 * 50));
}

TEST_CASE("host code takes the CPU time that it is told") {
  KernelRunner runner(1, 4096);
  Kernel k;
  k.kind = KernelKind::kHost;
  k.host_s = 2e-3;
  const double begin = ThreadCpuSeconds();
  runner.Run(k);
  CHECK(ThreadCpuSeconds() - begin >= 2e-3);
}

TEST_CASE("a product in bf16 is refused, with the remedy") {
  KernelRunner runner(1, 4096);
  Kernel k;
  k.kind = KernelKind::kGemm;
  k.m = k.n = k.k = 4;
  const Diagnostic d = ThrownBy([&] { runner.Run(k); });
  CHECK(d.code == 932);
  CHECK(d.help.find("fp32") != std::string::npos);
}

TEST_CASE("denormals are zero once they are told to be") {
  FlushDenormals();
  volatile float small = 1e-38F;
  volatile float factor = 0.1F;
  CHECK(small * factor == 0.0F);
}

TEST_CASE("a lost core spoils short samples only") {
  CHECK_FALSE(Disturbed(0, 1e-6));
  CHECK(Disturbed(1, 1e-3));
  CHECK_FALSE(Disturbed(1, 1e-2));
  CHECK(Disturbed(10, 1e-2));
}

}  // namespace
}  // namespace aurum
