#pragma once

#include <cstdint>
#include <string>

#include "sim/cost/profile.h"
#include "sim/cost/stack.h"

namespace aurum {

// One call of a kernel, as costs, executors and calibration all see it: what is computed, in which
// sizes. Sizes are real: a shard may not be whole; who runs it rounds up (RoundedUp).

enum class KernelKind : std::uint8_t {
  kGemm,
  kAttentionForward,
  kAttentionBackward,
  kDecodeAttention,  // one new token a sequence, kv_len cached
  kMemory,           // reads and writes `bytes` of device memory
  kHost,             // nothing on the device: what a framework's host code costs, host_s
};
std::string KernelKindName(KernelKind kind);  // "gemm", "attention_forward", ...

// Which product of a linear layer: it says how the operands lie in memory. Activations lie token by
// token, weights out × in:
//   kForward         y[m=tokens, n=out]  = x[tokens, k=in]    · w[out, in]ᵀ
//   kInputGradient   dx[m=tokens, n=in]  = dy[tokens, k=out]  · w[out, in]
//   kWeightGradient  dw[m=out, n=in]     = dy[k=tokens, out]ᵀ · x[tokens, in]
enum class GemmRole : std::uint8_t { kForward, kInputGradient, kWeightGradient };
std::string GemmRoleName(GemmRole role);  // "forward", "input_gradient", "weight_gradient"

struct Kernel {
  KernelKind kind = KernelKind::kMemory;
  // kGemm: one product, or `count` equal ones in one grouped call (of experts).
  DType dtype = DType::kBf16;
  GemmRole role = GemmRole::kForward;
  double m = 0, n = 0, k = 0;
  double count = 1;
  bool grouped = false;
  // Attention over `sequences` independent sequences.
  double sequences = 0, heads = 0, kv_heads = 0, q_len = 0, kv_len = 0;
  int head_dim = 0;
  bool causal = false;
  double bytes = 0;   // kMemory
  double host_s = 0;  // kHost
  friend bool operator==(const Kernel&, const Kernel&) = default;
};

// Seconds of one call on the profile's device under the stack, before any what-if factor. The one
// place where a kernel gets its price. E0803 where the device has no such type.
double KernelSeconds(const Kernel& kernel, const Profile& profile, const Stack& stack);

// A stack that adds nothing: kernels as the profile has them, alone on the device.
Stack BareStack();

// Of products and attention (causal halved; backward twice the forward's): what MFU counts.
double KernelFlops(const Kernel& kernel);

// Sizes rounded up to whole ones, what can be run.
Kernel RoundedUp(Kernel kernel);

// "gemm bf16 4096 × 11008 × 4096 forward", "attention_forward 8 × 32 × 2048, head 128, causal".
std::string Describe(const Kernel& kernel);

}  // namespace aurum
