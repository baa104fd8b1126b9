#include "sim/workload/kept.h"

#include <algorithm>

namespace aurum {

double KeptActivations::KeptBytes() const {
  double bytes = 0;
  for (const KeptTensor& tensor : kept) bytes += tensor.bytes;
  return bytes;
}
double KeptActivations::RecomputedBytes() const {
  double bytes = 0;
  for (const KeptTensor& tensor : recomputed) bytes += tensor.bytes;
  return bytes;
}

KeptActivations ActivationsOfLayer(const Layer& layer, const LayerShape& shape, bool trained,
                                   bool backward, const CostContext& c) {
  KeptActivations out;
  const Stack& s = *c.stack;
  double tokens = 0, scores = 0;
  const double t = shape.tp;
  const Attention& a = layer.attention;
  const double heads = a.heads / t, kv_heads = std::max(a.kv_heads / t, 1.0);
  for (const SequenceBatch& batch : shape.batches) {
    tokens += batch.sequences * batch.tokens / shape.cp;
    scores += batch.sequences * heads * batch.tokens * batch.tokens / shape.cp;
  }
  const double h = shape.hidden;
  const double replicated = tokens * h / (shape.sequence_parallel ? t : 1);
  const Mlp& m = layer.mlp;
  double width = m.intermediate / t, routed = 0;
  if (m.experts > 0) {
    const double per = tokens * m.experts_per_token;
    width =
        (static_cast<double>(m.experts_per_token) * m.expert_intermediate + m.shared_intermediate) /
        t;
    routed = per * h * 2 + tokens * m.experts * 8;
  }
  std::vector<KeptTensor> all = {
      {"norms and layer inputs", s.kept_hidden_bytes * replicated},
      {"queries and attention output", tokens * s.kept_q_bytes * heads * a.head_dim},
      {"keys and values", tokens * s.kept_kv_bytes * kv_heads * a.head_dim},
      {"attention statistics", tokens * s.kept_head_bytes * heads},
      {"MLP", tokens * (m.gated ? s.kept_mlp_gated_bytes : s.kept_mlp_bytes) * width},
      {"routed tokens", routed},
  };
  const double score_bytes = s.fused_attention ? 0 : scores * s.score_bytes;
  double total = 0;
  for (const KeptTensor& tensor : all) total += tensor.bytes;
  total += score_bytes;
  if (!trained) {
    const double linear = 4 * replicated + 2 * tokens * (heads * a.head_dim + width);
    const double share = std::max(total - linear, 0.25 * total) / std::max(total, 1.0);
    for (KeptTensor& tensor : all) tensor.bytes *= share;
  }
  const bool full = shape.recompute.scope == RecomputeScope::kFull;
  const bool drop = shape.recompute.scope == RecomputeScope::kSelective &&
                    shape.recompute.parts.attention && score_bytes > 0;
  if (!backward) {
    out.work_forward_bytes = total;
    return out;
  }
  out.kept = std::move(all);
  if (score_bytes > 0)
    (drop ? out.recomputed : out.kept).push_back({"attention scores", score_bytes});
  if (drop) out.work_forward_bytes = score_bytes;
  if (full) out.checkpoint_bytes = s.recompute_input_bytes * replicated;
  return out;
}

KeptActivations ActivationsOfHead(double tokens, double hidden, double vocabulary, double tp,
                                  const CostContext& c) {
  (void)hidden;
  KeptActivations out;
  out.kept = {{"logits", c.stack->logit_bytes * tokens * vocabulary / tp}};
  return out;
}

}  // namespace aurum
