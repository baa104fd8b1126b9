#include "sim/workload/kept.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string_view>

// What backward needs
// -------------------
// A tensor of the forward pass is kept if, and only if, a gradient is formed from it. So the list of
// kept tensors is read off the layer, kernel by kernel, and the stack says in how many bytes each
// kernel keeps its share:
//
//   norm        its input (in 32 bits where it is written out of elementwise kernels), and where such
//               a norm's scale is trained its normalised copy
//   linear      its input, for the gradient of its weight: a frozen one keeps nothing, unless an
//               adapter reads the same input or the kernel is bitsandbytes', which keeps it all the same
//   attention   queries, keys, values, output, and the log-sum-exp (fused) or the scores (not fused)
//   activation  the outputs of up and gate; where it is not fused with the product, its own result too
//   dropout     a mask of one byte
//
// With sequence parallelism (Korthikanti et al. 2022) what has the hidden width is divided by tp, else
// whole on every GPU; projections, heads and the intermediate width are always divided. With tokens T,
// hidden width h, a heads, s tokens a sequence and f = 4h, 16-bit and unfused with dropout, the sum is
// their T·h·(34 + 5·a·s/h):
//
//   norms 2 · 2h, linear inputs 2 · 2h, masks 2 · h, q, k, v and output 8h, up and down input 4f = 16h;
//   scores 5·a·s: softmax 2, its mask 1, its dropped copy 2.
//
// Adapters (LoRA, Hu et al. 2021) keep their own inputs: with dropout a dropped copy and a mask for
// each; in 32-bit adapters under autocast a 16-bit cast for each; else the one tensor that the base's
// linear reads. The memory study found the rest of these rules on public measurements.
//
// Cost: a few dozen additions a layer.

namespace aurum {
namespace {

constexpr double kMaskBytes = 1;

bool Targets(const Adapter& adapter, std::string_view name) {
  return adapter.kind != AdapterKind::kNone &&
         std::find(adapter.targets.begin(), adapter.targets.end(), name) != adapter.targets.end();
}

enum class Again { kNo, kAttention, kNorm, kActivation, kMlp, kMoe, kUpProjection };

class Builder {
 public:
  Builder(const Layer& layer, const LayerShape& shape, bool trained, const CostContext& c)
      : layer_(layer),
        shape_(shape),
        s_(*c.stack),
        // A base under adapters is frozen, whatever else the module trains.
        trained_(trained && shape.adapter.kind == AdapterKind::kNone),
        wide_(BytesOf(StorageType(c.precision)) / kValueBytes),
        narrow_(IsNarrow(c.precision) ? BytesOf(MatrixType(c.precision)) / kValueBytes : 1) {
    for (const SequenceBatch& batch : shape.batches) {
      sequences_ += batch.sequences;
      tokens_ += batch.sequences * batch.tokens / shape.cp;
    }
    replicated_ = tokens_ / (shape.sequence_parallel ? shape.tp : 1);
  }

  double Tokens() const { return tokens_; }
  double Replicated() const { return replicated_; }

  void AttentionHalf() {
    Norm("attention norm input");
    SelfAttention();
    if (layer_.cross.heads > 0) {
      Norm("cross-attention norm input");
      CrossAttention(layer_.cross);
    }
    Mask("attention dropout mask");
    end_of_attention_ = total_;
  }

  void MlpHalf() {
    const Mlp& m = layer_.mlp;
    Norm("MLP norm input");
    const double h = shape_.hidden;
    if (m.experts > 0) {
      Experts();
    } else if (m.intermediate > 0) {
      const double f = m.intermediate / shape_.tp;
      Input("MLP input", replicated_, h, Again::kNorm, {{"gate", f}, {"up", f}});
      Hidden("MLP activation", tokens_, f, h, Again::kMlp);
    }
    Mask("MLP dropout mask");
  }

  KeptActivations Finish(bool backward) {
    KeptActivations out;
    const double h = shape_.hidden;
    const double factor = s_.activation_factor;
    const double half = std::max(end_of_attention_, total_ - end_of_attention_);
    const double gathered =
        shape_.tp > 1 ? s_.gathered_work_bytes * wide_ * h * tokens_ * factor : 0;
    if (!backward) {
      // Nothing is kept; what one half has at once comes and goes.
      out.work_forward_bytes = half * factor + gathered;
      return out;
    }
    const double input = kValueBytes * wide_ * h * replicated_;
    out.checkpoint_bytes = s_.recompute_input_bytes * wide_ * h * replicated_ * factor;
    if (shape_.recompute.scope == RecomputeScope::kSelective && s_.selective_by_operator) {
      out.kept = {{"layer input", input}};
      double shared = 0;
      for (const KeptTensor& tensor : kept_) {
        if (!IsProduct(tensor.name)) continue;
        out.kept.push_back(tensor);
        shared += tensor.bytes;
      }
      for (const KeptTensor& tensor : every_second_) {
        out.kept.push_back(tensor);
        shared += tensor.bytes;
      }
      // The layer's output is not among what backward needs, but its input is, and has its size.
      out.recomputed = {
          {"everything between every second product", std::max(total_ - shared, 0.0)}};
    } else {
      out.kept = kept_;
      out.recomputed = again_;
    }
    for (std::vector<KeptTensor>* list : {&out.kept, &out.recomputed}) {
      for (KeptTensor& tensor : *list) tensor.bytes *= factor;
    }
    if (shape_.recompute.scope == RecomputeScope::kFull)
      out.work_forward_bytes = half * factor + gathered;
    out.work_backward_bytes = s_.work_share * total_ * factor + gathered;
    return out;
  }

 private:
  void Add(const char* name, double bytes, Again again = Again::kNo) {
    if (bytes <= 0) return;
    total_ += bytes;
    const Recompute& r = shape_.recompute;
    bool formed_again = false;
    if (r.scope == RecomputeScope::kSelective && !s_.selective_by_operator) {
      formed_again = (again == Again::kAttention && r.parts.attention) ||
                     (again == Again::kNorm && r.parts.norm) ||
                     (again == Again::kActivation && (r.parts.activation || r.parts.mlp)) ||
                     (again == Again::kMlp && r.parts.mlp) ||
                     (again == Again::kMoe && r.parts.moe) ||
                     (again == Again::kUpProjection && r.parts.up_projection);
    }
    (formed_again ? again_ : kept_).push_back({name, bytes});
  }

  static bool IsProduct(std::string_view name) {
    return name == "queries" || name == "attention output" || name == "log-sum-exp" ||
           name == "attention scores";
  }

  // How many norms of the hidden width a half has: two in four-norm layers (Gemma).
  double NormsOfHalf() const {
    const double each = shape_.hidden * (layer_.layer_norm ? 2.0 : 1.0);
    return std::clamp(std::floor(static_cast<double>(layer_.norm_parameters) / each / 2), 1.0, 2.0);
  }
  // Of a norm's input, per element; a 32-bit copy of a 32-bit value is none.
  double NormBytes() const {
    if (wide_ > 1) return kValueBytes * wide_;
    return layer_.layer_norm ? s_.layer_norm_input_bytes : s_.norm_input_bytes;
  }

  void Norm(const char* name) {
    const double elements = replicated_ * shape_.hidden * NormsOfHalf();
    // Recomputed from the residual stream, a norm keeps that alone.
    const double input = std::min(NormBytes(), kValueBytes * wide_);
    Add(name, input * elements);
    Add("norms' 32-bit copies", (NormBytes() - input) * elements, Again::kNorm);
    if (trained_ && !layer_.layer_norm)
      Add("normalised copies", s_.norm_copy_bytes * wide_ * elements, Again::kNorm);
  }

  void Mask(const char* name) {
    if (s_.hidden_dropout) Add(name, kMaskBytes * replicated_ * shape_.hidden);
  }

  double LinearBytes() const { return s_.linear_input_bytes * wide_ * narrow_; }

  bool QuantisedKeeps() const {
    const QuantisedBase base = shape_.adapter.base;
    return !trained_ && s_.quantised_linears_keep_input &&
           (base == QuantisedBase::kInt8 || base == QuantisedBase::kNf4 ||
            base == QuantisedBase::kNf4Double);
  }

  // The input of linears that share it. `held`: attention keeps the same tensor already.
  void Input(const char* name, double tokens, double width, Again again,
             std::initializer_list<AdapterTarget> targets, bool held = false) {
    const double elements = tokens * width;
    if (trained_) {
      if (!held) Add(name, LinearBytes() * elements, again);
      return;
    }
    const Adapter& adapter = shape_.adapter;
    double adapted = 0;
    for (const AdapterTarget& target : targets) {
      if (!Targets(adapter, target.name)) continue;
      adapted += 1;
      Add("adapters' low rank", kValueBytes * wide_ * adapter.rank * tokens);
      // The gradient of DoRA's magnitudes reads the base's output and the product's.
      if (adapter.kind == AdapterKind::kDora)
        Add("DoRA outputs", 2 * kValueBytes * wide_ * target.out * tokens);
    }
    const bool copies = adapter.dropout || s_.adapter_weight_bytes > kValueBytes;
    const bool read = QuantisedKeeps() || (adapted > 0 && !copies);
    if (read && !held) Add(name, s_.linear_input_bytes * wide_ * elements, again);
    if (adapted > 0 && copies) {
      const double each = kValueBytes * wide_ + (adapter.dropout ? kMaskBytes : 0);
      // A joint projection has one adapter for all that read its input.
      Add("adapters' inputs", each * elements * (s_.adapter_padding ? 1 : adapted));
    }
  }

  void Scores(double heads, double kv_tokens) {
    double scores = 0;
    for (const SequenceBatch& batch : shape_.batches) {
      const double seen = kv_tokens > 0 ? kv_tokens : batch.tokens;
      scores += batch.sequences * heads * batch.tokens / shape_.cp * seen;
    }
    if (s_.fused_attention) {
      Add("log-sum-exp", s_.kept_head_bytes * heads * tokens_, Again::kAttention);
    } else {
      Add("attention scores", s_.score_bytes * wide_ * scores, Again::kAttention);
    }
  }

  double KeyHeads(const Attention& a) const {
    if (s_.keys_expanded) return a.heads / shape_.tp;
    return std::max(a.kv_heads / shape_.tp, std::min(1.0, static_cast<double>(a.kv_heads)));
  }
  static int ValueDim(const Attention& a) {
    return a.value_head_dim > 0 ? a.value_head_dim : a.head_dim;
  }

  void Output(const Attention& a) {
    const double value = a.heads / shape_.tp * ValueDim(a);
    Add("attention output", s_.attention_output_bytes * wide_ * value * tokens_);
    if (a.output_gate) {
      Add("attention output gate", kValueBytes * wide_ * value * tokens_);
      Input("gated attention output", tokens_, value, Again::kNo, {{"o", shape_.hidden * 1.0}});
    } else {
      Input("attention output", tokens_, value, Again::kNo, {{"o", shape_.hidden * 1.0}}, true);
    }
  }

  void SelfAttention() {
    const Attention& a = layer_.attention;
    const double h = shape_.hidden;
    const double heads = a.heads / shape_.tp;
    const double key_heads = KeyHeads(a);
    switch (a.kind) {
      case AttentionKind::kSelf: {
        const double q = heads * a.head_dim;
        const double kv_heads =
            std::max(a.kv_heads / shape_.tp, std::min(1.0, static_cast<double>(a.kv_heads)));
        const double k = kv_heads * a.head_dim, v = kv_heads * ValueDim(a);
        Input("attention input", replicated_, h, Again::kNorm, {{"q", q}, {"k", k}, {"v", v}});
        Padding();
        QueryKeyNorm(a, q, k);
        Add("queries", s_.query_bytes * wide_ * q * tokens_);
        Add("keys and values",
            s_.key_value_bytes * wide_ * key_heads * (a.head_dim + ValueDim(a)) * tokens_);
        every_second_.push_back({"values", kValueBytes * wide_ * v * tokens_});
        Output(a);
        Scores(heads, 0);
        break;
      }
      case AttentionKind::kLatent: {
        const double key_dim = a.head_dim + a.rope_head_dim;
        const double q = heads * key_dim;
        Input("attention input", replicated_, h, Again::kNorm,
              {{"q", q}, {"k", heads * a.head_dim}, {"v", heads * ValueDim(a)}});
        // Both low ranks as they come and normalised, the shared rotary key as it comes.
        Add("low ranks", 2 * kValueBytes * wide_ * (a.q_lora_rank + a.kv_lora_rank) * replicated_ +
                             kValueBytes * wide_ * a.rope_head_dim * replicated_);
        Add("queries", s_.query_bytes * wide_ * q * tokens_, Again::kUpProjection);
        Add("keys", s_.key_value_bytes * wide_ * q * tokens_, Again::kUpProjection);
        Add("values and keys' up projection",
            s_.key_value_bytes * wide_ * heads * (a.head_dim + ValueDim(a)) * tokens_,
            Again::kUpProjection);
        every_second_.push_back({"values", kValueBytes * wide_ * heads * ValueDim(a) * tokens_});
        Output(a);
        Scores(heads, 0);
        break;
      }
      case AttentionKind::kLinear: {
        // Queries and keys belong to key heads, values and gates to value heads; the scan keeps its
        // inputs and its output before the gate. States at chunk borders are left out.
        const double keys = std::max(a.kv_heads / shape_.tp, 1.0) * a.head_dim;
        const double values = heads * ValueDim(a);
        Input("attention input", replicated_, h, Again::kNorm, {{"q", keys}, {"v", values}});
        Add("queries", s_.query_bytes * wide_ * keys * tokens_);
        Add("keys and values", s_.key_value_bytes * wide_ * (keys + values) * tokens_);
        Add("gates", kValueBytes * wide_ * values * tokens_);
        Output(a);
        break;
      }
      case AttentionKind::kCross:
        CrossAttention(a);
        break;
    }
    every_second_.push_back({"layer output", kValueBytes * wide_ * h * replicated_});
  }

  void CrossAttention(const Attention& a) {
    const double heads = a.heads / shape_.tp;
    const double q = heads * a.head_dim;
    const double source = sequences_ * shape_.kv_source_tokens;
    const double width = a.kv_input > 0 ? a.kv_input : shape_.hidden;
    Input("attention input", replicated_, shape_.hidden, Again::kNorm, {{"q", q}});
    // Every cross-attention layer reads the same source: its input is kept once, by the module that
    // made it. An adapter's copies are its own.
    Input("cross-attention source", source, width, Again::kNo, {{"k", q}, {"v", q}}, true);
    Add("queries", s_.query_bytes * wide_ * q * tokens_);
    Add("keys and values",
        s_.key_value_bytes * wide_ * KeyHeads(a) * (a.head_dim + ValueDim(a)) * source);
    Output(a);
    if (shape_.kv_source_tokens > 0) Scores(heads, shape_.kv_source_tokens);
  }

  // LitGPT pads the updates of some of q, k and v to the joint projection.
  void Padding() {
    if (!s_.adapter_padding || trained_) return;
    double adapted = 0;
    for (const char* name : {"q", "k", "v"}) adapted += Targets(shape_.adapter, name) ? 1 : 0;
    if (adapted > 0 && adapted < 3)
      Add("padded updates", kValueBytes * wide_ * adapted * shape_.hidden * tokens_);
  }

  // Norms of queries and keys are told by their parameters alone: two head widths beside the
  // layer's own norms.
  void QueryKeyNorm(const Attention& a, double q, double k) {
    const double each = shape_.hidden * (layer_.layer_norm ? 2.0 : 1.0);
    const double rest = std::fmod(static_cast<double>(layer_.norm_parameters), each);
    if (rest != 2.0 * a.head_dim && rest != 4.0 * a.head_dim) return;
    Add("query and key norms' input", NormBytes() * (q + k) * tokens_);
  }

  // Up, gate, activation and down over `tokens` tokens of width `f` here.
  void Hidden(const char* name, double tokens, double f, double out, Again whole) {
    const Mlp& m = layer_.mlp;
    const bool experts = whole == Again::kMoe;
    const double elements = tokens * f * wide_;
    Add(experts ? "experts' up and gate" : "MLP up and gate",
        s_.up_bytes * (m.gated ? 2 : 1) * elements, whole);
    Add(experts ? "experts' activation copy" : "MLP activation copy",
        (m.gated ? s_.gated_copy_bytes : s_.activation_copy_bytes) * elements,
        experts && shape_.recompute.parts.moe ? whole : Again::kActivation);
    if (!experts) every_second_.push_back({"MLP gate", kValueBytes * elements});
    // A compiler forms the down projection's input again where only an adapter reads it.
    if (!trained_ && s_.elementwise_recomputed) return;
    Input(name, tokens, f, experts && shape_.recompute.parts.moe ? whole : Again::kActivation,
          {{"down", out}});
  }

  // Routed tokens land on a GPU once for each expert that they choose there. With sequence
  // parallelism a GPU routes its own tokens, and the GPUs that cut an expert among them all see the
  // tokens of the expert.
  void Experts() {
    const Mlp& m = layer_.mlp;
    const double h = shape_.hidden;
    const double cut = shape_.experts_sharded ? shape_.expert_tp : shape_.tp;
    const double own = shape_.sequence_parallel && shape_.experts_sharded
                           ? tokens_ / shape_.tp * cut
                       : shape_.experts_sharded ? tokens_
                                                : replicated_;
    // Without sharding told, experts are cut like dense layers: each GPU sees every token.
    const double seen = shape_.experts_sharded ? own : tokens_;
    const double routed = seen * m.experts_per_token * shape_.expert_kept * shape_.expert_imbalance;
    const double f = m.expert_intermediate / cut;
    const Again whole = Again::kMoe;
    // The router reads what the experts and the shared expert read.
    Input("MLP input", replicated_, h, Again::kNorm, {});
    Add("router", s_.router_bytes * wide_ * m.experts * replicated_, whole);
    Input("experts' inputs",
          shape_.experts_sharded ? routed : replicated_ * m.experts_per_token * shape_.expert_kept,
          h, whole, {{"gate", f}, {"up", f}});
    Hidden("experts' activation", routed, f, h, whole);
    if (m.shared_intermediate > 0) {
      const double shared = m.shared_intermediate / shape_.tp;
      Add("shared expert's up and gate", s_.up_bytes * wide_ * (m.gated ? 2 : 1) * shared * tokens_,
          whole);
      Add("shared expert's activation copy",
          (m.gated ? s_.gated_copy_bytes : s_.activation_copy_bytes) * wide_ * shared * tokens_,
          shape_.recompute.parts.moe ? whole : Again::kActivation);
      if (trained_ || !s_.elementwise_recomputed) {
        Input("shared expert's activation", tokens_, shared,
              shape_.recompute.parts.moe ? whole : Again::kActivation, {});
      }
    }
  }

  const Layer& layer_;
  const LayerShape& shape_;
  const Stack& s_;
  bool trained_ = false;
  double wide_ = 1;    // 32-bit training keeps twice the bytes
  double narrow_ = 1;  // 8- and 4-bit products keep their quantised inputs
  double sequences_ = 0, tokens_ = 0, replicated_ = 0;
  double total_ = 0, end_of_attention_ = 0;
  std::vector<KeptTensor> kept_, again_, every_second_;
};

double Sum(const std::vector<KeptTensor>& tensors) {
  double bytes = 0;
  for (const KeptTensor& tensor : tensors) bytes += tensor.bytes;
  return bytes;
}

}  // namespace

double KeptActivations::KeptBytes() const { return Sum(kept); }
double KeptActivations::RecomputedBytes() const { return Sum(recomputed); }

KeptActivations ActivationsOfLayer(const Layer& layer, const LayerShape& shape, bool trained,
                                   bool backward, const CostContext& context) {
  Builder builder(layer, shape, trained, context);
  if (builder.Tokens() <= 0) return {};
  builder.AttentionHalf();
  builder.MlpHalf();
  return builder.Finish(backward);
}

KeptActivations ActivationsOfHead(double tokens, double hidden, double vocabulary, double tp,
                                  const CostContext& context) {
  KeptActivations out;
  if (tokens <= 0 || vocabulary <= 0) return out;
  const Stack& s = *context.stack;
  const double wide = BytesOf(StorageType(context.precision)) / kValueBytes;
  out.kept.push_back({"logits and their copies",
                      LogitBytes(s, context.loss_kernel, tp) * vocabulary / tp * tokens});
  // The last norm's input, and what the head reads; divided among tensor-parallel GPUs as sequence
  // parallelism would (without it they are whole, a difference below a percent of the logits).
  out.kept.push_back({"output norm and head input",
                      (s.norm_input_bytes + s.linear_input_bytes) * wide * hidden / tp * tokens});
  out.checkpoint_bytes = s.recompute_input_bytes * wide * hidden / tp * tokens;
  return out;
}

}  // namespace aurum
