#include "calibrate/cpu/kernels.h"

#include <cblas.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "calibrate/cpu/core.h"
#include "sim/core/diagnostic.h"
#include "sim/core/random.h"

namespace aurum {
namespace {

constexpr std::size_t kLine = 16;                       // floats of a cache line
constexpr std::size_t kNormals = std::size_t{1} << 20;  // drawn; the arena repeats them

std::size_t Size(double value) { return static_cast<std::size_t>(value); }
std::size_t WholeLines(std::size_t floats) { return (floats + kLine - 1) / kLine * kLine; }

AttentionSizes SizesOf(const Kernel& k) {
  AttentionSizes s;
  s.sequences = static_cast<std::int64_t>(k.sequences);
  s.heads = static_cast<std::int64_t>(std::max(k.heads, k.kv_heads));
  s.kv_heads = static_cast<std::int64_t>(k.kv_heads);
  s.q_len = static_cast<std::int64_t>(k.q_len);
  s.kv_len = static_cast<std::int64_t>(k.kv_len);
  s.head_dim = k.head_dim;
  s.causal = k.causal;
  return s;
}

// Floats that one call reads and writes at once, lines rounded up generously.
struct Need {
  std::size_t in = 0, out = 0;
};
Need NeedOf(const Kernel& k) {
  const std::size_t slack = 16 * kLine;
  switch (k.kind) {
    case KernelKind::kGemm:
      return {Size(k.m) * Size(k.k) + Size(k.k) * Size(k.n) + slack, Size(k.m) * Size(k.n) + slack};
    case KernelKind::kAttentionForward: {
      const AttentionSizes s = SizesOf(k);
      return {s.QuerySize() + 2 * s.KeySize() + slack, s.QuerySize() + s.Queries() + slack};
    }
    case KernelKind::kAttentionBackward: {
      const AttentionSizes s = SizesOf(k);
      return {3 * s.QuerySize() + 2 * s.KeySize() + s.Queries() + slack,
              s.QuerySize() + 2 * s.KeySize() + slack};
    }
    case KernelKind::kDecodeAttention: {
      AttentionSizes s = SizesOf(k);
      s.q_len = 1;
      return {s.QuerySize() + 2 * s.KeySize() + slack, s.QuerySize() + s.Queries() + slack};
    }
    case KernelKind::kMemory:  // in pieces of whatever the arenas hold
    case KernelKind::kHost:
      break;
  }
  return {};
}

}  // namespace

void Gemm(GemmRole role, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
          const float* b, float* c) {
  const int rows = static_cast<int>(m), columns = static_cast<int>(n), depth = static_cast<int>(k);
  switch (role) {
    case GemmRole::kForward:
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, columns, depth, 1.0F, a, depth, b,
                  depth, 0.0F, c, columns);
      return;
    case GemmRole::kInputGradient:
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, columns, depth, 1.0F, a, depth,
                  b, columns, 0.0F, c, columns);
      return;
    case GemmRole::kWeightGradient:
      cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, rows, columns, depth, 1.0F, a, rows, b,
                  columns, 0.0F, c, columns);
      return;
  }
}

KernelRunner::KernelRunner(std::uint64_t seed, std::size_t arena_bytes) : seed_(seed) {
  openblas_set_num_threads(1);
  FlushDenormals();
  if (arena_bytes == 0) {
    arena_bytes = std::clamp<std::size_t>(Size(2 * ThisCore().last_level_bytes),
                                          std::size_t{64} << 20, std::size_t{512} << 20);
  }
  inputs_.resize(WholeLines(std::max<std::size_t>(arena_bytes / sizeof(float), kLine)));
  outputs_.resize(inputs_.size());
  const std::size_t drawn = std::min(kNormals, inputs_.size());
  for (std::size_t i = 0; i < drawn; ++i) {
    inputs_[i] = static_cast<float>(RandomNormal(seed_, 0, i));
  }
  for (std::size_t i = drawn; i < inputs_.size(); ++i) inputs_[i] = inputs_[i - drawn];
}

std::string KernelRunner::Refusal(const Kernel& kernel) {
  if (kernel.kind == KernelKind::kGemm && kernel.dtype != DType::kFp32) {
    return "products in " + DTypeName(kernel.dtype) + " (it computes in fp32)";
  }
  return "";
}

void KernelRunner::Reserve(const Kernel& kernel) {
  const Need need = NeedOf(kernel);
  const std::size_t before = inputs_.size();
  // Twice the operands: the next call must not read what this one just read.
  if (inputs_.size() < 2 * need.in) {
    inputs_.resize(WholeLines(2 * need.in));
    for (std::size_t i = before; i < inputs_.size(); ++i) {
      inputs_[i] = inputs_[i % std::min(kNormals, before)];
    }
  }
  if (outputs_.size() < 2 * need.out) outputs_.resize(WholeLines(2 * need.out));
  if (kernel.kind == KernelKind::kAttentionForward ||
      kernel.kind == KernelKind::kAttentionBackward) {
    const AttentionSizes s = SizesOf(kernel);
    const std::size_t scores = static_cast<std::size_t>(std::min(kQueryBlock, s.q_len) * s.kv_len);
    scratch_.resize(std::max(scratch_.size(), 2 * scores));
  }
}

const float* KernelRunner::In(std::size_t floats) {
  const std::size_t lines = WholeLines(floats);
  if (next_in_ + lines > inputs_.size()) next_in_ = 0;
  const float* at = inputs_.data() + next_in_;
  next_in_ += lines;
  return at;
}

float* KernelRunner::Out(std::size_t floats) {
  const std::size_t lines = WholeLines(floats);
  if (next_out_ + lines > outputs_.size()) next_out_ = 0;
  float* at = outputs_.data() + next_out_;
  next_out_ += lines;
  return at;
}

void KernelRunner::Stream(double bytes) {
  // Half of them read, half written; small ones at least one float.
  std::size_t left = std::max<std::size_t>(Size(bytes / 2 / sizeof(float)), 1);
  const std::size_t most = std::min(inputs_.size(), outputs_.size());
  while (left > 0) {
    const std::size_t now = std::min(left, most);
    const float* from = In(now);
    float* to = Out(now);
    for (std::size_t i = 0; i < now; ++i) to[i] = from[i] * 0.999F + 0.001F;
    left -= now;
  }
}

void KernelRunner::Attend(const Kernel& kernel, bool backward) {
  const AttentionSizes s = SizesOf(kernel);
  const float* q = In(s.QuerySize());
  const float* k = In(s.KeySize());
  const float* v = In(s.KeySize());
  if (!backward) {
    float* out = Out(s.QuerySize());
    AttentionForward(s, q, k, v, out, Out(s.Queries()), &scratch_);
    return;
  }
  const float* out = In(s.QuerySize());
  const float* log_sums = In(s.Queries());
  const float* d_out = In(s.QuerySize());
  float* d_q = Out(s.QuerySize());
  float* d_k = Out(s.KeySize());
  float* d_v = Out(s.KeySize());
  AttentionBackward(s, q, k, v, out, log_sums, d_out, d_q, d_k, d_v, &scratch_);
}

void KernelRunner::Decode(const Kernel& kernel) {
  Kernel one = kernel;
  one.q_len = 1;
  one.causal = false;
  Attend(one, false);
}

void KernelRunner::Run(const Kernel& kernel) {
  if (const std::string refusal = Refusal(kernel); !refusal.empty()) {
    ThrowInput(932, "the CPU backend has no " + refusal + ": " + Describe(kernel),
               "run the plan with precision fp32, or on the backend cuda");
  }
  switch (kernel.kind) {
    case KernelKind::kGemm: {
      const std::size_t m = Size(kernel.m), n = Size(kernel.n), k = Size(kernel.k);
      for (double i = 0; i < kernel.count; ++i) {
        const float* a = In(m * k);
        const float* b = In(k * n);
        Gemm(kernel.role, static_cast<std::int64_t>(m), static_cast<std::int64_t>(n),
             static_cast<std::int64_t>(k), a, b, Out(m * n));
      }
      return;
    }
    case KernelKind::kAttentionForward:
      return Attend(kernel, false);
    case KernelKind::kAttentionBackward:
      return Attend(kernel, true);
    case KernelKind::kDecodeAttention:
      return Decode(kernel);
    case KernelKind::kMemory:
      return Stream(kernel.bytes);
    case KernelKind::kHost: {
      const double until = ThreadCpuSeconds() + kernel.host_s;
      while (ThreadCpuSeconds() < until) {
      }
      return;
    }
  }
}

std::string BlasVersion() {
  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH … SkylakeX MAX_THREADS=64": the first two words.
  const std::string config = openblas_get_config();
  std::size_t end = config.find(' ');
  if (end != std::string::npos) end = config.find(' ', end + 1);
  return config.substr(0, end) + ", kernels of " + openblas_get_corename();
}

}  // namespace aurum
