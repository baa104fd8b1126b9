#pragma once

#include <string>
#include <vector>

#include "sim/cost/profile.h"

namespace aurum {

// What a training recipe does to the layers of a model: number formats, recomputation, adapters,
// and how a sequence is shared out. The plan names it; costs and kept activations follow it.

// Formats of the matrix products of layers. The 8- and 4-bit ones leave embeddings, heads, norms and
// attention in bf16 (Micikevicius et al. 2022; DeepSeek-V3 2024 for blocks; OCP MX 2023).
enum class Precision { kBf16, kFp16, kFp32, kFp8, kFp8Block, kMxfp8, kNvfp4 };
std::string PrecisionName(Precision precision);  // "bf16", "fp8-block", ...
DType StorageType(Precision precision);  // of activations and communication: bf16, fp16, fp32
DType MatrixType(Precision precision);   // of the products of layers
inline bool IsNarrow(Precision p) { return p >= Precision::kFp8; }

// Parts of a layer whose activations selective recomputation forms again in backward.
struct RecomputeParts {
  bool attention = false;   // scores, softmax and what is multiplied with values (Korthikanti 2022)
  bool norm = false;        // normalised inputs
  bool activation = false;  // the activation function's output
  bool mlp = false;         // the whole MLP half
  bool moe = false;         // routed and shared experts of a mixture's MLP half
  bool up_projection = false;  // kLatent attention: queries, keys and values from their low rank
  bool Any() const { return attention || norm || activation || mlp || moe || up_projection; }

  bool operator==(const RecomputeParts&) const = default;
};
enum class RecomputeScope { kNone, kSelective, kFull };
struct Recompute {
  RecomputeScope scope = RecomputeScope::kNone;
  RecomputeParts parts;  // kSelective
  // kFull: blocks of `block_layers` layers keep their input only (uniform); with `layers` ≥ 0, the
  // first `layers` layers of each chunk of a stage alone are recomputed, one by one (block).
  int block_layers = 1;
  int layers = -1;

  bool operator==(const Recompute&) const = default;
};

enum class AdapterKind { kNone, kLora, kDora, kPrompt };
enum class QuantisedBase { kNone, kInt8, kNf4, kNf4Double, kGptq4 };
// Trainable low-rank products beside frozen matrices (Hu et al. 2021; DoRA, Liu et al. 2024), over a
// base that may be stored in few bits (QLoRA, Dettmers et al. 2023).
struct Adapter {
  AdapterKind kind = AdapterKind::kNone;
  int rank = 8;
  bool dropout = false;  // the adapter's input has a dropout mask of its own
  // Of q, k, v, o, gate, up, down. Experts: gate, up and down of every routed one.
  std::vector<std::string> targets;
  QuantisedBase base = QuantisedBase::kNone;
  bool trains_embeddings = false;  // embedding and head are trained too, in a copy of their own
  // kPrompt: learned tokens before the sequence of every module with layers, instead of matrices
  // (Lester et al. 2021; of several modalities: Khattak et al., MaPLe, 2023).
  int prompt_tokens = 0;
  // Every modality has an adapter of its own, and a router picks one for each sample.
  bool per_modality = false;
  bool routed_by_score = false;  // the host waits for a figure of the device before every pass
  double misrouted = 0;          // share of the samples that take the adapter of another modality
  bool Has(std::string_view target) const;

  bool operator==(const Adapter&) const = default;
};
// Bytes per parameter of a quantised matrix, scales included; 2 for kNone.
double BytesOf(QuantisedBase base);
std::string QuantisedBaseName(QuantisedBase base);  // "nf4", ...

enum class ContextParallelKind { kRing, kUlysses };

// Which kernel computes attention; kStack: what the stack brings.
enum class AttentionKernel { kStack, kUnfused, kFlash1, kFlash2, kFlash3 };

}  // namespace aurum
