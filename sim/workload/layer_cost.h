#pragma once

#include <vector>

#include "models/model.h"
#include "sim/cost/kernel.h"
#include "sim/cost/profile.h"
#include "sim/cost/stack.h"
#include "sim/workload/recipe.h"
#include "sim/workload/workload.h"

namespace aurum {

// Of an activation in bf16 or fp16, in which stacks state their bytes.
inline constexpr double kValueBytes = 2;

// Seconds and FLOPs of kernels on one GPU. `seconds` is their sum: kernels of one stream run one after another.
struct KernelCost {
  double gemm_s = 0;
  double attention_s = 0;
  double memory_s = 0;            // memory-bound kernels
  double flops = 0;               // of GEMMs and attention (causal halved): what MFU counts
  std::vector<Kernel> kernels{};  // which they are, where the context asks for it
  double Seconds() const { return gemm_s + attention_s + memory_s; }
  KernelCost& operator+=(const KernelCost& other);
  friend KernelCost operator+(KernelCost a, const KernelCost& b) { return a += b; }
  // What came after `before`, which `cost` began with.
  friend KernelCost operator-(KernelCost cost, const KernelCost& before);
};

// One pass of something through one GPU. The backward pass is input_gradient and adapter_gradient, and
// weight_gradient where it is trained; `again` is what selective recomputation runs before it.
struct PassCost {
  KernelCost forward;
  KernelCost input_gradient;
  KernelCost weight_gradient;
  KernelCost adapter_gradient;  // of the low-rank matrices beside it
  KernelCost again;             // parts of `forward`
  PassCost& operator+=(const PassCost& other);
};

// A transformer layer in two halves, each followed by communication under tensor parallelism.
struct LayerCost {
  PassCost attention;
  PassCost mlp;     // of a mixture: its routed experts, between dispatch and combine
  PassCost shared;  // of a mixture: norm, router and the shared expert, which need no dispatch
  double routed_tokens = 0;  // of a mixture: copies of this GPU's tokens that are sent to experts
};

// A linear of a layer as adapters name it, with its output's width on this GPU.
struct AdapterTarget {
  const char* name;
  double out;
};

struct LayerShape {
  int hidden = 0;
  double tp = 1;  // tensor-parallel degree of this module
  bool sequence_parallel = false;
  // GPUs that share each sequence. Batches hold whole sequences: a GPU sees tokens / cp of each.
  double cp = 1;
  ContextParallelKind cp_kind = ContextParallelKind::kRing;
  // Routed experts: GPUs among which they are shared out, tensor parallelism inside of one, and the
  // tokens of the busiest rank over the mean.
  double ep = 1, expert_tp = 1, expert_imbalance = 1;
  double expert_kept = 1;  // share of the tokens' choices that find room at their expert
  bool experts_sharded =
      false;  // expert_tp and ep are told; false: experts are cut like dense layers
  Recompute recompute;
  Adapter adapter;
  std::vector<SequenceBatch> batches;  // of one micro-batch on this GPU
  double kv_source_tokens =
      0;  // cross-attention: tokens of the other module's output, per sequence
};

struct CostContext {
  const Profile* profile = nullptr;
  const Stack* stack = nullptr;
  Precision precision = Precision::kBf16;
  double flops_scale =
      1;  // what if a token cost this many times the FLOPs: scales GEMM and attention work
  // Kernels that run so many times as fast (WhatIf).
  double gemm_speedup = 1, attention_speedup = 1, memory_speedup = 1;
  std::string loss_kernel{};   // of Stack::logit_bytes_of; "" = the stack's own
  bool lists_kernels = false;  // costs carry their kernels: for execution and calibration
};

// Kernels of one layer: GEMMs of the projections (m = tokens, sharded n or k), the attention kernel, and elementwise
// traffic over HBM by the stack's bytes per element. Backward: one GEMM for the input's gradient and one for the weights'.
LayerCost CostOfLayer(const Layer& layer, const LayerShape& shape, const CostContext& context);
// A dense matrix over `tokens` tokens, n or k already sharded: forward, dgrad, wgrad.
PassCost CostOfLinear(double tokens, double in, double out, const CostContext& context);
// The output head and loss over `tokens` tokens with `vocabulary / tp` columns.
PassCost CostOfHead(double tokens, double hidden, double vocabulary, double tp,
                    const CostContext& context);
// The loss over so many logits: memory-bound, forward and backward.
PassCost CostOfLossTraffic(double logits, const CostContext& context);
// The embedding look-up: memory-bound.
PassCost CostOfEmbedding(double tokens, double hidden, const CostContext& context);
// A resampler: `queries` learned queries attend once to `kv_tokens` tokens of width `kv_input`, per sequence.
PassCost CostOfResampler(double sequences, double kv_tokens, int hidden, const Resampler& resampler,
                         const CostContext& context);
// One decoding step of one layer: `sequences` new tokens, each attending to kv_tokens of cache.
KernelCost CostOfDecodeLayer(const Layer& layer, int hidden, double tp, double sequences,
                             double kv_tokens, const CostContext& context);
// Bytes of the KV cache per token and layer on one GPU (2 B values).
double KvCacheBytesPerToken(const Layer& layer, double tp);

}  // namespace aurum
