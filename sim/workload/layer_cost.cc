#include "sim/workload/layer_cost.h"

#include <algorithm>
#include <cmath>
#include <vector>

// How a layer becomes kernels
// ---------------------------
// A transformer layer on one GPU is a list of kernels that run one after another, and its time is their sum:
//
//   attention half:  norm · QKV GEMM · rotary · attention · output GEMM · residual
//   MLP half:        norm · up (and gate) GEMM · activation · down GEMM · residual
//
// With T tokens in the micro-batch, hidden width h, q = heads·head_dim, kv = kv_heads·head_dim and tensor-parallel degree t
// the forward GEMMs (m × k times k × n) are T×h·(q+2kv)/t, T×q/t·h, T×h·f/t (twice if gated), T×f/t·h. Backward runs two GEMMs of
// the same FLOPs for each: the input's gradient (m × n times n × k) and the weight's (n × m times m × k); a frozen weight has
// none of the second. Memory-bound kernels move the stack's bytes per element through HBM. With sequence parallelism norms and
// residuals see T/t tokens (Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", 2022).
//
// Example, Llama-2-7B, T = 4096, t = 1, forward GEMM FLOPs: 2·4096·4096·(3·4096) + 2·4096·4096·4096 + 3·2·4096·4096·11008 = 1.66e12.
namespace aurum {
namespace {

// HBM traffic of unfused attention per score: softmax, mask and dropout over a matrix of scores, from a step-time model of
// Megatron's unfused kernels against Korthikanti et al. 2022.
constexpr double kScoreForwardBytes = 13;
constexpr double kScoreBackwardBytes = 19;

// A matrix stored in 4 or 8 bits is unpacked before each product: 0.5 read and 2 written a parameter
// at a quarter of the memory's rate, which is what published QLoRA steps lose (0.14 to 0.46 of it).
constexpr double kDequantiseBytes = 2.5 * 0.8 / 0.25;
// GPTQ kernels of that time unpack through 32-bit integers, shifted and masked in passes of their own:
// 0.5 read, 4 written, 8 of a shift, 2 + 4 of scale and zero, in all about twice nf4's 8; set between
// that and the 32 that published Qwen QLoRA steps of 256 tokens come to.
constexpr double kDequantiseGptqBytes = 18;
KernelCost CostOf(const Kernel& kernel, const CostContext& c) {
  KernelCost cost;
  const double seconds = KernelSeconds(kernel, *c.profile, *c.stack);
  switch (kernel.kind) {
    case KernelKind::kGemm:
      cost.gemm_s = seconds * c.flops_scale / c.gemm_speedup;
      cost.flops = KernelFlops(kernel) * c.flops_scale;
      break;
    case KernelKind::kMemory:
      cost.memory_s = seconds / c.memory_speedup;
      break;
    case KernelKind::kHost:
      cost.memory_s = seconds;
      break;
    default:
      cost.attention_s = seconds * c.flops_scale / c.attention_speedup;
      cost.flops = KernelFlops(kernel) * c.flops_scale;
      break;
  }
  if (c.lists_kernels) cost.kernels.push_back(kernel);
  return cost;
}

Kernel Product(GemmRole role, double m, double n, double k, const CostContext& c) {
  Kernel kernel;
  kernel.kind = KernelKind::kGemm;
  kernel.dtype = MatrixType(c.precision);
  kernel.role = role;
  kernel.m = m;
  kernel.n = n;
  kernel.k = k;
  return kernel;
}

KernelCost Gemm(GemmRole role, double m, double n, double k, const CostContext& c) {
  return m > 0 && n > 0 && k > 0 ? CostOf(Product(role, m, n, k, c), c) : KernelCost{};
}

KernelCost Memory(double bytes, const CostContext& c) {
  if (bytes <= 0) return {};
  Kernel kernel;
  kernel.bytes = bytes;
  return CostOf(kernel, c);
}

void AddLinear(PassCost* pass, double tokens, double in, double out, const CostContext& c) {
  pass->forward += Gemm(GemmRole::kForward, tokens, out, in, c);
  pass->input_gradient += Gemm(GemmRole::kInputGradient, tokens, in, out, c);
  pass->weight_gradient += Gemm(GemmRole::kWeightGradient, out, in, tokens, c);
  if (tokens > 0)
    pass->weight_gradient += Memory(in * out * c.stack->gradient_accumulation_bytes, c);
  if (IsNarrow(c.precision) && tokens > 0) {
    // Both inputs of each product are cast, read in 16 bits and written in 8 with their scales. A
    // weight is cast once a step, which is lost beside its optimizer.
    pass->forward += Memory(c.stack->cast_forward_bytes * tokens * in, c);
    pass->input_gradient += Memory(c.stack->cast_backward_bytes * tokens * out, c);
    pass->weight_gradient += Memory(c.stack->cast_transpose_bytes * tokens * (in + out), c);
  }
}

// A matrix that adapters may sit beside: of `targets`, in one product.
void AddProjection(PassCost* pass, const LayerShape& shape, double tokens, double in,
                   std::initializer_list<AdapterTarget> targets, const CostContext& c) {
  double out = 0;
  for (const AdapterTarget& target : targets) out += target.out;
  if (out <= 0) return;
  AddLinear(pass, tokens, in, out, c);
  const Adapter& adapter = shape.adapter;
  if (adapter.kind == AdapterKind::kNone || tokens <= 0) return;
  if (adapter.base != QuantisedBase::kNone) {
    const double bytes =
        adapter.base == QuantisedBase::kGptq4 ? kDequantiseGptqBytes : kDequantiseBytes;
    const KernelCost unpack = Memory(bytes * in * out, c);
    pass->forward += unpack;
    pass->input_gradient += unpack;
  }
  const double rank = adapter.rank;
  std::vector<AdapterTarget> adapted;
  for (const AdapterTarget& target : targets) {
    if (!adapter.Has(target.name) || target.out <= 0) continue;
    if (c.stack->adapters_joint && !adapted.empty()) {
      adapted.front().out += target.out;
    } else {
      adapted.push_back(target);
    }
  }
  for (const AdapterTarget& target : adapted) {
    PassCost low;
    CostContext plain = c;
    plain.precision = Precision::kBf16;
    AddLinear(&low, tokens, in, rank, plain);
    AddLinear(&low, tokens, rank, target.out, plain);
    // The product is scaled and added to the frozen one's; a dropout mask reads and writes the input.
    const double extra = kValueBytes * tokens * (3 * target.out + (adapter.dropout ? 2 * in : 0));
    low.forward += Memory(extra, c);
    low.input_gradient += Memory(extra, c);
    if (adapter.kind == AdapterKind::kDora) {
      // The norm of the adapted matrix's columns, and the magnitude applied to the output.
      const KernelCost norm =
          Memory(4 * in * target.out + 2 * kValueBytes * tokens * target.out, c);
      low.forward += norm + Gemm(GemmRole::kForward, in, target.out, rank, plain);
      low.input_gradient += norm;
    }
    pass->forward += low.forward;
    pass->input_gradient += low.input_gradient;
    pass->adapter_gradient += low.weight_gradient;
  }
}

// `experts` equal matrices, the tokens spread evenly: one grouped kernel, so the launch is paid once.
void AddGrouped(PassCost* pass, double routed, double experts, double in, double out,
                const CostContext& c) {
  if (routed <= 0) return;
  const double busy = std::min(experts, routed);  // an expert without a token costs nothing
  const double each = routed / busy;
  const auto group = [&](GemmRole role, double m, double n, double k) {
    Kernel kernel = Product(role, m, n, k, c);
    kernel.count = busy;
    kernel.grouped = true;
    return CostOf(kernel, c);
  };
  pass->forward += group(GemmRole::kForward, each, out, in);
  pass->input_gradient += group(GemmRole::kInputGradient, each, in, out);
  pass->weight_gradient += group(GemmRole::kWeightGradient, out, in, each);
  pass->weight_gradient += Memory(experts * in * out * c.stack->gradient_accumulation_bytes, c);
  if (IsNarrow(c.precision)) {
    pass->forward += Memory(c.stack->cast_forward_bytes * routed * in, c);
    pass->input_gradient += Memory(c.stack->cast_backward_bytes * routed * out, c);
    pass->weight_gradient += Memory(c.stack->cast_transpose_bytes * routed * (in + out), c);
  }
}

int ValueDim(const Attention& a) { return a.value_head_dim > 0 ? a.value_head_dim : a.head_dim; }
int QueryKeyDim(const Attention& a) {
  return a.kind == AttentionKind::kLatent ? a.head_dim + a.rope_head_dim : a.head_dim;
}

struct Widths {
  double q = 0, kv = 0,
         value = 0;  // on this GPU; kv: of the keys, value: of the attention's output
  double heads = 0, kv_heads = 0;
};

Widths ShardedWidths(const Attention& a, double tp) {
  Widths w;
  w.heads = a.heads / tp;
  w.kv_heads =
      std::max(a.kv_heads / tp,
               std::min(1.0, static_cast<double>(a.kv_heads)));  // replicated beyond kv_heads
  w.q = w.heads * QueryKeyDim(a);
  w.kv = w.kv_heads * QueryKeyDim(a);
  w.value = w.heads * ValueDim(a);
  return w;
}

// Forward and backward of the attention kernel over all sequences.
void AddAttentionCore(PassCost* pass, const Attention& a, const Widths& w, const LayerShape& shape,
                      const CostContext& c) {
  double scores = 0;
  const int qk_dim = QueryKeyDim(a);
  const int value_dim = ValueDim(a);
  KernelCost forward, backward;
  for (const SequenceBatch& batch : shape.batches) {
    if (batch.sequences <= 0 || batch.tokens <= 0) continue;
    // A ring leaves each GPU 1/cp of the queries, dealt so that all see as much (zigzag): as much
    // work, in blocks of the same length, as cp sequences of 1/cp of the tokens. Ulysses leaves it
    // 1/cp of the heads.
    const bool ulysses = shape.cp_kind == ContextParallelKind::kUlysses;
    const double ring = ulysses ? 1 : shape.cp;
    const double heads = ulysses ? w.heads / shape.cp : w.heads;
    const double kv_heads = ulysses ? std::max(w.kv_heads / shape.cp, 1.0) : w.kv_heads;
    double sequences = batch.sequences * ring;
    double q_tokens = batch.tokens / ring;
    double kv_tokens = q_tokens;
    bool causal = a.causal;
    if (a.kind == AttentionKind::kCross) {
      kv_tokens = shape.kv_source_tokens;
      sequences = batch.sequences;
      causal = false;
    } else if (a.window > 0 && a.window < batch.tokens) {
      kv_tokens = a.window;  // a band of `window` keys per query: no triangle left to skip
      sequences = batch.sequences;
      causal = false;
    }
    if (kv_tokens <= 0) continue;
    Kernel kernel;
    kernel.kind = KernelKind::kAttentionForward;
    kernel.dtype = StorageType(c.precision);
    kernel.sequences = sequences;
    kernel.heads = heads;
    kernel.kv_heads = kv_heads;
    kernel.q_len = q_tokens;
    kernel.kv_len = kv_tokens;
    kernel.causal = causal;
    // The profile's kernels have one head dimension; mixed ones (MLA) cost as their mean.
    kernel.head_dim = (qk_dim + value_dim) / 2;
    forward += CostOf(kernel, c);
    kernel.kind = KernelKind::kAttentionBackward;
    backward += CostOf(kernel, c);
    scores += sequences * heads * q_tokens * kv_tokens;
  }
  if (!c.stack->fused_attention) {
    forward += Memory(scores * kScoreForwardBytes, c);
    backward += Memory(scores * kScoreBackwardBytes, c);
  }
  if (shape.recompute.scope == RecomputeScope::kSelective && shape.recompute.parts.attention)
    pass->again += forward;
  pass->forward += forward;
  pass->input_gradient += backward;
}

// Queries from this stream, keys and values from the other module's tokens.
void AddCrossProjections(PassCost* pass, const Attention& a, const Widths& w,
                         const LayerShape& shape, double tokens, const CostContext& c) {
  double sequences = 0;
  for (const SequenceBatch& batch : shape.batches) sequences += batch.sequences;
  AddLinear(pass, tokens, shape.hidden, w.q, c);
  AddLinear(pass, sequences * shape.kv_source_tokens, a.kv_input > 0 ? a.kv_input : shape.hidden,
            2 * w.kv, c);
}

}  // namespace

PassCost& PassCost::operator+=(const PassCost& other) {
  forward += other.forward;
  input_gradient += other.input_gradient;
  weight_gradient += other.weight_gradient;
  adapter_gradient += other.adapter_gradient;
  again += other.again;
  return *this;
}

KernelCost operator-(KernelCost cost, const KernelCost& before) {
  cost.gemm_s -= before.gemm_s;
  cost.attention_s -= before.attention_s;
  cost.memory_s -= before.memory_s;
  cost.flops -= before.flops;
  cost.kernels.erase(cost.kernels.begin(),
                     cost.kernels.begin() + static_cast<std::ptrdiff_t>(before.kernels.size()));
  return cost;
}

KernelCost& KernelCost::operator+=(const KernelCost& other) {
  gemm_s += other.gemm_s;
  attention_s += other.attention_s;
  memory_s += other.memory_s;
  flops += other.flops;
  if (!other.kernels.empty())
    kernels.insert(kernels.end(), other.kernels.begin(), other.kernels.end());
  return *this;
}

LayerCost CostOfLayer(const Layer& layer, const LayerShape& shape, const CostContext& c) {
  LayerCost cost;
  const Stack& s = *c.stack;
  double tokens = 0;
  for (const SequenceBatch& batch : shape.batches) tokens += batch.sequences * batch.tokens;
  tokens /= shape.cp;
  if (tokens <= 0) return cost;
  const double h = shape.hidden;
  const double t = shape.tp;
  const double normed =
      tokens * h / (shape.sequence_parallel ? t : 1);  // elements that norms and residuals see
  const Attention& a = layer.attention;
  const Widths w = ShardedWidths(a, t);
  const bool selective = shape.recompute.scope == RecomputeScope::kSelective;
  const RecomputeParts parts = selective ? shape.recompute.parts : RecomputeParts{};
  const auto norm_and_residual = [&](PassCost* half) {
    const KernelCost norm = Memory(normed * s.norm_forward_bytes, c);
    half->forward += norm;
    if (parts.norm) half->again += norm;
    half->forward += Memory(normed * s.residual_forward_bytes, c);
    half->input_gradient += Memory(normed * s.norm_backward_bytes, c);
    half->input_gradient += Memory(normed * s.residual_backward_bytes, c);
  };

  norm_and_residual(&cost.attention);
  double projected = (w.q + w.kv) * tokens;  // elements that the rotary embedding touches
  switch (a.kind) {
    case AttentionKind::kSelf:
      AddProjection(&cost.attention, shape, tokens, h,
                    {{"q", w.q + (a.output_gate ? w.value : 0)},
                     {"k", w.kv},
                     {"v", a.shared_key_value ? 0 : w.kv_heads * ValueDim(a)}},
                    c);
      break;
    case AttentionKind::kLatent: {
      // Low-rank projections are replicated, the up-projections are sharded by head (DeepSeek-V2, 2024).
      PassCost up;
      if (a.q_lora_rank > 0) {
        AddProjection(&cost.attention, shape, tokens, h,
                      {{"q", static_cast<double>(a.q_lora_rank)}}, c);
        AddLinear(&up, tokens, a.q_lora_rank, w.q, c);
      } else {
        AddProjection(&cost.attention, shape, tokens, h, {{"q", w.q}}, c);
      }
      AddProjection(&cost.attention, shape, tokens, h,
                    {{"k", static_cast<double>(a.kv_lora_rank + a.rope_head_dim)}}, c);
      AddLinear(&up, tokens, a.kv_lora_rank, w.heads * a.head_dim + w.value, c);
      if (parts.up_projection) up.again += up.forward;
      cost.attention += up;
      break;
    }
    case AttentionKind::kLinear: {
      // All projections as one matrix of the same size; the scan reads and writes every state-sized token once.
      const double in_out = static_cast<double>(AttentionParameters(layer, shape.hidden)) / h / t;
      AddLinear(&cost.attention, tokens, h, std::max(in_out - w.value, 1.0), c);
      const KernelCost scan = Memory(tokens * (w.q + w.kv + 2 * w.value) * kValueBytes * 2, c);
      cost.attention.forward += scan;
      if (parts.attention) cost.attention.again += scan;
      cost.attention.input_gradient += scan + scan;
      projected = 0;
      break;
    }
    case AttentionKind::kCross:
      AddCrossProjections(&cost.attention, a, w, shape, tokens, c);
      projected = 0;
      break;
  }
  if (a.kind != AttentionKind::kLinear) {
    const KernelCost rotary = Memory(projected * s.rope_bytes, c);
    cost.attention.forward += rotary;
    cost.attention.input_gradient += rotary;
    AddAttentionCore(&cost.attention, a, w, shape, c);
  }
  AddProjection(&cost.attention, shape, tokens, w.value, {{"o", h}}, c);
  if (layer.cross.heads >
      0) {  // an encoder-decoder's second attention, with a norm and a residual of its own
    norm_and_residual(&cost.attention);
    const Widths cross = ShardedWidths(layer.cross, t);
    AddCrossProjections(&cost.attention, layer.cross, cross, shape, tokens, c);
    AddAttentionCore(&cost.attention, layer.cross, cross, shape, c);
    AddLinear(&cost.attention, tokens, cross.value, h, c);
  }

  const Mlp& m = layer.mlp;
  const double gate = m.gated ? 2 : 1;
  const auto activation = [&](PassCost* half, double elements) {
    const KernelCost forward =
        Memory(elements * (m.gated ? s.gated_forward_bytes : s.gelu_forward_bytes), c);
    half->forward += forward;
    if (parts.activation) half->again += forward;
    half->input_gradient +=
        Memory(elements * (m.gated ? s.gated_backward_bytes : s.gelu_backward_bytes), c);
  };
  const auto dense = [&](PassCost* half, double width) {
    AddProjection(half, shape, tokens, h, {{"up", width / t}, {"gate", (gate - 1) * width / t}}, c);
    activation(half, tokens * width / t);
    AddProjection(half, shape, tokens, width / t, {{"down", h}}, c);
  };
  if (m.experts > 0) {
    // Of the tokens, this GPU routes its share: a tp group's GPUs share them out where experts are not
    // cut like dense layers. Each expert's ranks see what its whole group was sent.
    const double apart = shape.experts_sharded ? 1 : 0;
    const double cut = apart > 0 ? shape.expert_tp : t;
    const double sent = tokens * m.experts_per_token * shape.expert_kept / (apart > 0 ? t : 1);
    const double routed = sent * (apart > 0 ? cut : 1) * shape.expert_imbalance;
    const double experts = m.experts / (apart > 0 ? shape.ep : 1);
    cost.routed_tokens = sent;
    PassCost& outside = cost.shared;
    norm_and_residual(&outside);
    AddLinear(&outside, tokens / (shape.sequence_parallel ? t : 1), h, m.experts, c);
    // Permute and unpermute: read and write each routed copy twice, both ways.
    const KernelCost permute = Memory(4 * kValueBytes * routed * h, c);
    cost.mlp.forward += permute;
    cost.mlp.input_gradient += permute;
    AddGrouped(&cost.mlp, routed, experts, h, gate * m.expert_intermediate / cut, c);
    activation(&cost.mlp, routed * m.expert_intermediate / cut);
    AddGrouped(&cost.mlp, routed, experts, m.expert_intermediate / cut, h, c);
    if (shape.adapter.Has("up") || shape.adapter.Has("gate") || shape.adapter.Has("down")) {
      // Adapters of experts, as grouped products beside theirs.
      PassCost low;
      const double r = shape.adapter.rank, f = m.expert_intermediate / cut;
      CostContext plain = c;
      plain.precision = Precision::kBf16;
      const double ins =
          (shape.adapter.Has("up") ? 1 : 0) + (shape.adapter.Has("gate") ? gate - 1 : 0);
      if (ins > 0) {
        AddGrouped(&low, routed, experts, h, ins * r, plain);
        AddGrouped(&low, routed, experts, r, ins * f, plain);
      }
      if (shape.adapter.Has("down")) {
        AddGrouped(&low, routed, experts, f, r, plain);
        AddGrouped(&low, routed, experts, r, h, plain);
      }
      cost.mlp.forward += low.forward;
      cost.mlp.input_gradient += low.input_gradient;
      cost.mlp.adapter_gradient += low.weight_gradient;
    }
    // The busiest rank's experts take longer; the model needs no more FLOPs.
    for (KernelCost* of : {&cost.mlp.forward, &cost.mlp.input_gradient, &cost.mlp.weight_gradient,
                           &cost.mlp.adapter_gradient})
      of->flops /= shape.expert_imbalance;
    if (parts.moe || parts.mlp) cost.mlp.again = cost.mlp.forward;
    if (m.shared_intermediate > 0) {
      const KernelCost before = outside.forward;
      dense(&outside, m.shared_intermediate);
      if (parts.moe || parts.mlp) outside.again = outside.forward - before;
    }
  } else {
    norm_and_residual(&cost.mlp);
    if (m.intermediate > 0) {
      const KernelCost before = cost.mlp.forward;
      dense(&cost.mlp, m.intermediate);
      if (parts.mlp) cost.mlp.again = cost.mlp.forward - before;
    }
  }
  return cost;
}

PassCost CostOfLinear(double tokens, double in, double out, const CostContext& c) {
  PassCost pass;
  AddLinear(&pass, tokens, in, out, c);
  return pass;
}

PassCost CostOfHead(double tokens, double hidden, double vocabulary, double tp,
                    const CostContext& c) {
  PassCost pass;
  if (tokens <= 0 || vocabulary <= 0) return pass;
  CostContext wide = c;  // heads stay in 16 bits
  wide.precision = IsNarrow(c.precision) ? Precision::kBf16 : c.precision;
  AddLinear(&pass, tokens, hidden, vocabulary / tp, wide);
  const KernelCost loss = Memory(tokens * vocabulary / tp * c.stack->loss_traffic_bytes, c);
  pass.forward += loss;
  pass.input_gradient += loss;
  return pass;
}

PassCost CostOfLossTraffic(double logits, const CostContext& c) {
  PassCost pass;
  pass.forward = pass.input_gradient = Memory(logits * c.stack->loss_traffic_bytes, c);
  return pass;
}

PassCost CostOfEmbedding(double tokens, double hidden, const CostContext& c) {
  PassCost pass;
  pass.forward = Memory(tokens * hidden * 2 * kValueBytes, c);
  pass.weight_gradient = Memory(tokens * hidden * (kValueBytes + 2 * c.stack->gradient_bytes), c);
  return pass;
}

PassCost CostOfResampler(double sequences, double kv_tokens, int hidden, const Resampler& r,
                         const CostContext& c) {
  PassCost pass;
  if (sequences <= 0 || kv_tokens <= 0 || r.queries <= 0) return pass;
  const double h = hidden;
  const double read = sequences * kv_tokens, asked = sequences * r.queries;
  AddLinear(&pass, read, r.kv_input > 0 ? r.kv_input : h, h, c);
  AddLinear(&pass, read, h, 2 * h, c);
  AddLinear(&pass, asked, h, h, c);
  Attention attention;
  attention.kind = AttentionKind::kCross;
  attention.heads = attention.kv_heads = std::max(r.heads, 1);
  attention.head_dim = hidden / attention.heads;
  LayerShape shape;
  shape.hidden = hidden;
  shape.batches = {{sequences, static_cast<double>(r.queries)}};
  shape.kv_source_tokens = kv_tokens;
  AddAttentionCore(&pass, attention, ShardedWidths(attention, 1), shape, c);
  AddLinear(&pass, asked, h, h, c);
  return pass;
}

KernelCost CostOfDecodeLayer(const Layer& layer, int hidden, double tp, double sequences,
                             double kv_tokens, const CostContext& c) {
  // The projections are those of a layer over `sequences` tokens; only the attention kernel reads the cache instead.
  LayerShape shape;
  shape.hidden = hidden;
  shape.tp = tp;
  shape.batches = {{sequences, 1}};
  const LayerCost once = CostOfLayer(layer, shape, c);
  KernelCost cost = once.attention.forward + once.shared.forward + once.mlp.forward;
  cost.attention_s = 0;
  std::erase_if(cost.kernels,
                [](const Kernel& k) { return k.kind == KernelKind::kAttentionForward; });
  const Widths w = ShardedWidths(layer.attention, tp);
  const double seen =
      layer.attention.window > 0 ? std::min<double>(layer.attention.window, kv_tokens) : kv_tokens;
  if (layer.attention.kind != AttentionKind::kLinear) {
    Kernel kernel;
    kernel.kind = KernelKind::kDecodeAttention;
    kernel.dtype = StorageType(c.precision);
    kernel.sequences = sequences;
    kernel.heads = w.heads;
    kernel.kv_heads = w.kv_heads;
    kernel.q_len = 1;
    kernel.kv_len = seen;
    kernel.head_dim = layer.attention.head_dim;
    cost += CostOf(kernel, c);
  }
  return cost;
}

double KvCacheBytesPerToken(const Layer& layer, double tp) {
  const Attention& a = layer.attention;
  if (a.kind == AttentionKind::kLinear || a.kind == AttentionKind::kCross) return 0;
  if (a.kind == AttentionKind::kLatent) return kValueBytes * (a.kv_lora_rank + a.rope_head_dim);
  const Widths w = ShardedWidths(a, tp);
  return 2 * kValueBytes * w.kv;
}

}  // namespace aurum
