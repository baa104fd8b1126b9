#include "sim/cost/kernel.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "sim/cost/dtype_table.h"
#include "sim/cost/exact.h"

namespace aurum {

std::string KernelKindName(KernelKind kind) {
  switch (kind) {
    case KernelKind::kGemm:
      return "gemm";
    case KernelKind::kAttentionForward:
      return "attention_forward";
    case KernelKind::kAttentionBackward:
      return "attention_backward";
    case KernelKind::kDecodeAttention:
      return "decode_attention";
    case KernelKind::kMemory:
      return "memory";
    case KernelKind::kHost:
      return "host";
  }
  return "";
}

std::string GemmRoleName(GemmRole role) {
  switch (role) {
    case GemmRole::kForward:
      return "forward";
    case GemmRole::kInputGradient:
      return "input_gradient";
    case GemmRole::kWeightGradient:
      return "weight_gradient";
  }
  return "";
}

namespace {

double RoleFactor(const GemmModel& model, GemmRole role) {
  switch (role) {
    case GemmRole::kForward:
      return 1;
    case GemmRole::kInputGradient:
      return model.input_gradient_factor;
    case GemmRole::kWeightGradient:
      return model.weight_gradient_factor;
  }
  return 1;
}

// bf16 where the device has units for fp16 alone: attention too runs on the general ones.
double Emulated(DType dtype, const Profile& profile) {
  return dtype == DType::kBf16 ? Bf16Slowdown(profile) : 1;
}

// What a stack and a long run make of a kernel that was measured in bursts.
double ExactFactor(const Kernel& k, const Profile& profile, const Stack& stack) {
  switch (k.kind) {
    case KernelKind::kGemm:
      return profile.SustainedFactor(k.dtype) * stack.gemm_factor *
             (k.grouped ? stack.grouped_gemm_factor : 1);
    case KernelKind::kAttentionForward:
    case KernelKind::kAttentionBackward:
      return AttentionFactor(stack, profile.device.compute_capability);
    case KernelKind::kMemory:
      return stack.memory_bound_factor;
    default:
      return 1;
  }
}

}  // namespace

double KernelSeconds(const Kernel& k, const Profile& profile, const Stack& stack) {
  if (profile.exact) {
    if (const ExactKernels::Entry* entry = profile.exact->Find(k)) {
      return entry->seconds * ExactFactor(k, profile, stack);
    }
  }
  switch (k.kind) {
    case KernelKind::kGemm: {
      const double one =
          profile.GemmSeconds(std::max(k.m, 1.0), std::max(k.n, 1.0), std::max(k.k, 1.0), k.dtype,
                              k.role == GemmRole::kWeightGradient) *
          RoleFactor(profile.gemm.at(k.dtype), k.role) * stack.gemm_factor;
      if (!k.grouped) return one;
      // One launch for all of them.
      const double launch =
          profile.gemm.at(k.dtype).t0_s * profile.SustainedFactor(k.dtype) * stack.gemm_factor;
      return std::max(one - launch, 0.0) * k.count * stack.grouped_gemm_factor + launch;
    }
    case KernelKind::kAttentionForward:
      return Emulated(k.dtype, profile) *
             AttentionFactor(stack, profile.device.compute_capability) *
             profile.AttentionForwardSeconds(k.sequences, k.heads, k.kv_heads, k.q_len, k.kv_len,
                                             k.head_dim, k.causal);
    case KernelKind::kAttentionBackward:
      return Emulated(k.dtype, profile) *
             AttentionFactor(stack, profile.device.compute_capability) *
             profile.AttentionBackwardSeconds(k.sequences, k.heads, k.kv_heads, k.q_len, k.kv_len,
                                              k.head_dim, k.causal);
    case KernelKind::kDecodeAttention:
      return profile.DecodeAttentionSeconds(k.sequences, k.kv_heads, k.kv_len, k.head_dim);
    case KernelKind::kMemory:
      return profile.MemoryBoundSeconds(k.bytes) * stack.memory_bound_factor;
    case KernelKind::kHost:
      return k.host_s;
  }
  return 0;
}

Stack BareStack() {
  Stack stack;
  stack.gemm_factor = 1;
  stack.grouped_gemm_factor = 1;
  stack.memory_bound_factor = 1;
  stack.attention_factor = 1;
  return stack;
}

double KernelFlops(const Kernel& k) {
  switch (k.kind) {
    case KernelKind::kGemm:
      return 2 * k.m * k.n * k.k * k.count;
    case KernelKind::kAttentionForward:
    case KernelKind::kAttentionBackward: {
      const double pairs = k.sequences * k.heads * k.q_len * k.kv_len * (k.causal ? 0.5 : 1.0);
      return (k.kind == KernelKind::kAttentionForward ? 4 : 8) * pairs * k.head_dim;
    }
    case KernelKind::kDecodeAttention:
      return 4 * k.sequences * k.heads * k.kv_len * k.head_dim;
    default:
      return 0;
  }
}

Kernel RoundedUp(Kernel k) {
  // A hair below a whole number is that number: 4096/3·3 may come out as 4095.9999999999995.
  for (double* size : {&k.m, &k.n, &k.k, &k.count, &k.sequences, &k.heads, &k.kv_heads, &k.q_len,
                       &k.kv_len, &k.bytes})
    *size = std::ceil(*size - 1e-6);
  return k;
}

std::string Describe(const Kernel& k) {
  char text[160];
  switch (k.kind) {
    case KernelKind::kGemm:
      if (k.grouped) {
        std::snprintf(text, sizeof text, "gemm %s %.0f of %.0f × %.0f × %.0f %s",
                      DTypeName(k.dtype).c_str(), k.count, k.m, k.n, k.k,
                      GemmRoleName(k.role).c_str());
      } else {
        std::snprintf(text, sizeof text, "gemm %s %.0f × %.0f × %.0f %s",
                      DTypeName(k.dtype).c_str(), k.m, k.n, k.k, GemmRoleName(k.role).c_str());
      }
      break;
    case KernelKind::kMemory:
      std::snprintf(text, sizeof text, "memory %.0f bytes", k.bytes);
      break;
    case KernelKind::kHost:
      std::snprintf(text, sizeof text, "host %.3g s", k.host_s);
      break;
    default:
      std::snprintf(text, sizeof text, "%s %.0f × %.0f × %.0f × %.0f, head %d%s",
                    KernelKindName(k.kind).c_str(), k.sequences, k.heads, k.q_len, k.kv_len,
                    k.head_dim, k.causal ? ", causal" : "");
      break;
  }
  return text;
}

}  // namespace aurum
