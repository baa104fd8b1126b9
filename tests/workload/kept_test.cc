#include "sim/workload/kept.h"

#include <doctest/doctest.h>

#include "models/reader.h"

namespace aurum {
namespace {

struct Inputs {
  explicit Inputs(const std::string& name) : stack(LoadStack(name, ".")) { context.stack = &stack; }
  Stack stack;
  CostContext context;
};

LayerShape Shape(int hidden, double sequences, double tokens, double tp = 1, bool sp = false) {
  LayerShape shape;
  shape.hidden = hidden;
  shape.tp = tp;
  shape.sequence_parallel = sp;
  shape.batches = {{sequences, tokens}};
  return shape;
}

// GPT-3's layer: plain MLP of 4h, LayerNorm.
Layer Gpt(int hidden, int heads) {
  Layer layer;
  layer.attention.heads = layer.attention.kv_heads = heads;
  layer.attention.head_dim = hidden / heads;
  layer.attention.causal = true;
  layer.mlp.intermediate = 4 * hidden;
  layer.mlp.gated = false;
  layer.layer_norm = true;
  layer.norm_parameters = 4 * hidden;
  return layer;
}
Layer Llama(int hidden, int heads, int kv_heads, int intermediate) {
  Layer layer = Gpt(hidden, heads);
  layer.attention.kv_heads = kv_heads;
  layer.mlp.intermediate = intermediate;
  layer.mlp.gated = true;
  layer.layer_norm = false;
  layer.norm_parameters = 2 * hidden;
  return layer;
}

double Kept(const Layer& layer, const LayerShape& shape, const Inputs& in, bool trained = true) {
  return ActivationsOfLayer(layer, shape, trained, true, in.context).KeptBytes();
}

TEST_CASE("Korthikanti et al. 2022: s·b·h·(34 + 5·a·s/h) a layer, exactly") {
  const Inputs in("megatron-core-local");
  struct Row {
    int hidden, heads;
  };
  for (const Row row : {Row{6144, 64}, Row{12288, 96}, Row{20480, 128}, Row{25600, 160}}) {
    CAPTURE(row.hidden);
    const double s = 2048, b = 4, h = row.hidden, a = row.heads, t = 8;
    const Layer layer = Gpt(row.hidden, row.heads);
    const double sbh = s * b * h;
    CHECK(Kept(layer, Shape(row.hidden, b, s), in) ==
          doctest::Approx(sbh * (34 + 5 * a * s / h)).epsilon(1e-12));
    // Tensor parallelism alone leaves 10·s·b·h whole (their equation 2); sequence parallelism
    // divides all (equation 4); selective recomputation drops the scores (equation 6).
    CHECK(Kept(layer, Shape(row.hidden, b, s, t), in) ==
          doctest::Approx(sbh * (10 + 24 / t + 5 * a * s / h / t)).epsilon(1e-12));
    LayerShape shape = Shape(row.hidden, b, s, t, true);
    CHECK(Kept(layer, shape, in) == doctest::Approx(sbh * (34 + 5 * a * s / h) / t).epsilon(1e-12));
    shape.recompute.scope = RecomputeScope::kSelective;
    shape.recompute.parts.attention = true;
    CHECK(Kept(layer, shape, in) == doctest::Approx(sbh * 34 / t).epsilon(1e-12));
    shape.recompute = {RecomputeScope::kFull, {}, 1, -1};
    CHECK(ActivationsOfLayer(layer, shape, true, true, in.context).checkpoint_bytes ==
          doctest::Approx(2 * sbh / t).epsilon(1e-12));
    CHECK(ActivationsOfLayer(layer, Shape(row.hidden, b, s, t), true, true, in.context)
              .checkpoint_bytes == doctest::Approx(2 * sbh).epsilon(1e-12));
  }
}

TEST_CASE("Llama on Transformer Engine: 8h + 4q + 4kv + 6f + 4a a token") {
  const Inputs in("megatron-core");
  const double tokens = 8192, h = 8192, q = 8192, kv = 1024, f = 28672, a = 64;
  const Layer layer = Llama(8192, 64, 8, 28672);
  const double expected = tokens * (8 * h + 4 * q + 4 * kv + 6 * f + 4 * a);
  CHECK(Kept(layer, Shape(8192, 1, tokens), in) == doctest::Approx(expected).epsilon(1e-12));
  CHECK(Kept(layer, Shape(8192, 1, tokens, 4, true), in) ==
        doctest::Approx(expected / 4).epsilon(1e-12));
  LayerShape context = Shape(8192, 1, tokens, 1);
  context.cp = 4;
  CHECK(Kept(layer, context, in) == doctest::Approx(expected / 4).epsilon(1e-12));

  Inputs narrow("megatron-core");
  narrow.context.precision = Precision::kFp8;
  // The inputs of QKV, of the MLP and of the down projection are kept in 8 bits.
  CHECK(Kept(layer, Shape(8192, 1, tokens), narrow) ==
        doctest::Approx(expected - tokens * (2 * h + f)).epsilon(1e-12));

  const Inputs kwai("megatron-kwai");  // SwiGLU not fused
  CHECK(Kept(layer, Shape(8192, 1, tokens), kwai) ==
        doctest::Approx(kwai.stack.activation_factor * (expected + tokens * 2 * f)).epsilon(1e-12));
}

TEST_CASE("Llama in eager PyTorch: 24h + 8f, with keys and values of all heads") {
  const Inputs in("hf-transformers");
  const double tokens = 1000, h = 4096, f = 14336, a = 32;
  const Layer layer = Llama(4096, 32, 8, 14336);
  CHECK(Kept(layer, Shape(4096, 1, tokens), in) ==
        doctest::Approx(tokens * (24 * h + 8 * f + 4 * a)).epsilon(1e-12));
  // Frozen and passed through: 32-bit norm inputs, attention, gate, up and the activation.
  CHECK(Kept(layer, Shape(4096, 1, tokens), in, false) ==
        doctest::Approx(tokens * (16 * h + 6 * f + 4 * a)).epsilon(1e-12));
  // Compiled: 16-bit norms, no copies, grouped keys.
  const Inputs compiled("torchtune");
  CHECK(Kept(layer, Shape(4096, 1, tokens), compiled) ==
        doctest::Approx(tokens * (8 * h + 4 * h + 4 * 1024 + 6 * f + 4 * a)).epsilon(1e-12));
  // Unfused attention of 2023: ten bytes a score.
  const Inputs unfused("hf-transformers-unfused");
  CHECK(Kept(layer, Shape(4096, 1, tokens), unfused) ==
        doctest::Approx(tokens * (24 * h + 8 * f + 10 * a * tokens)).epsilon(1e-12));
}

TEST_CASE("adapters keep their own inputs, bitsandbytes those of frozen matrices") {
  const Layer layer = Llama(4096, 32, 32, 11008);
  const double tokens = 512, h = 4096, f = 11008, a = 32;
  const double frozen = 16 * h + 6 * f + 4 * a;
  LayerShape shape = Shape(4096, 1, tokens);
  shape.adapter.kind = AdapterKind::kLora;
  shape.adapter.rank = 16;
  shape.adapter.targets = {"q", "v"};
  const auto each = [&](const Inputs& in) { return Kept(layer, shape, in, false) / tokens; };
  const Inputs tune("torchtune-eager");  // 16-bit adapters: both read the one input
  const double rank = 2 * 16 * 2;
  CHECK(each(tune) == doctest::Approx(frozen + rank + 2 * h).epsilon(1e-12));
  const Inputs hf("hf-transformers");  // 32-bit adapters: a cast for each
  CHECK(each(hf) == doctest::Approx(frozen + rank + 2 * 2 * h).epsilon(1e-12));
  shape.adapter.dropout = true;  // a dropped copy and a mask for each
  CHECK(each(tune) == doctest::Approx(frozen + rank + 2 * 3 * h).epsilon(1e-12));
  // LitGPT: one dropped copy for the joint projection, and padded updates of q and v.
  const Inputs lit("litgpt");
  CHECK(each(lit) == doctest::Approx(lit.stack.activation_factor * (frozen + rank + 3 * h + 4 * h))
                         .epsilon(1e-12));
  shape.adapter.base = QuantisedBase::kNf4;
  CHECK(each(tune) ==
        doctest::Approx(frozen + rank + 6 * h + (2 * h + 2 * h + 2 * f)).epsilon(1e-12));
  shape.adapter.base = QuantisedBase::kGptq4;  // its kernel keeps none
  CHECK(each(tune) == doctest::Approx(frozen + rank + 6 * h).epsilon(1e-12));
  // A compiler forms the down projection's input again.
  const Inputs compiled("torchtune");
  shape.adapter = {AdapterKind::kLora, 16, false, {"down"}, QuantisedBase::kNone, false};
  CHECK(each(compiled) == doctest::Approx(12 * h + 4 * f + 4 * a).epsilon(1e-12));
  // DoRA keeps two outputs a target.
  shape.adapter.kind = AdapterKind::kDora;
  shape.adapter.targets = {"gate"};
  CHECK(each(tune) == doctest::Approx(frozen + 2 * 16 + 2 * h + 4 * f).epsilon(1e-12));
}

TEST_CASE("experts keep what is routed to them") {
  const Inputs in("megatron-core");
  Layer layer = Llama(4096, 32, 8, 0);
  layer.mlp.experts = 8;
  layer.mlp.experts_per_token = 2;
  layer.mlp.expert_intermediate = 14336;
  const double tokens = 4096, h = 4096, kv = 1024, f = 14336, a = 32;
  const double attention = 4 * h + 4 * h + 4 * kv + 4 * a;
  const double whole = attention + 4 * h + 8 * 8 + 2 * (2 * h + 6 * f);
  LayerShape shape = Shape(4096, 1, tokens);
  shape.experts_sharded = true;
  CHECK(Kept(layer, shape, in) == doctest::Approx(tokens * whole).epsilon(1e-12));
  // A busier rank keeps more of the routed part alone.
  shape.expert_imbalance = 1.5;
  CHECK(Kept(layer, shape, in) ==
        doctest::Approx(tokens * (whole + (2 * h + 6 * f))).epsilon(1e-12));
  shape.expert_imbalance = 1;
  // Sequence parallelism divides all, with whole experts and with experts cut by the same degree,
  // but for the inputs that the GPUs of a cut expert gather.
  shape.tp = 4;
  shape.sequence_parallel = true;
  shape.expert_tp = 1;
  CHECK(Kept(layer, shape, in) == doctest::Approx(tokens * whole / 4).epsilon(1e-12));
  shape.expert_tp = 4;
  CHECK(Kept(layer, shape, in) ==
        doctest::Approx(tokens * (whole / 4 + 2 * 2 * h * 3 / 4)).epsilon(1e-12));
  // Recomputed, the half keeps its input alone.
  shape.expert_tp = 1;
  shape.recompute.scope = RecomputeScope::kSelective;
  shape.recompute.parts.moe = true;
  CHECK(Kept(layer, shape, in) == doctest::Approx(tokens * (attention + 4 * h) / 4).epsilon(1e-12));
}

TEST_CASE("latent attention: low ranks, and per head what is formed from them") {
  const Inputs in("megatron-core");
  Layer layer = Llama(7168, 128, 128, 18432);  // DeepSeek-V3's first layers
  layer.attention.kind = AttentionKind::kLatent;
  layer.attention.head_dim = 128;
  layer.attention.rope_head_dim = 64;
  layer.attention.q_lora_rank = 1536;
  layer.attention.kv_lora_rank = 512;
  const double tokens = 4096, h = 7168, a = 128, n = 128, r = 64, v = 128, f = 18432;
  LayerShape shape = Shape(7168, 1, tokens);
  const double up = 2 * 2 * a * (n + r) + 2 * a * (n + v);
  const double expected = 8 * h + 4 * 1536 + 4 * 512 + 2 * r + up + 2 * a * v + 4 * a + 6 * f;
  CHECK(Kept(layer, shape, in) == doctest::Approx(tokens * expected).epsilon(1e-12));
  shape.recompute.scope = RecomputeScope::kSelective;
  shape.recompute.parts.up_projection = true;
  CHECK(Kept(layer, shape, in) == doctest::Approx(tokens * (expected - up)).epsilon(1e-12));
}

TEST_CASE("more recomputation never keeps more, and what is dropped is formed again") {
  for (const std::string& name : StackCatalogue(".")) {
    CAPTURE(name);
    const Inputs in(name);
    for (const std::string model_name : {"llama-3.1-8b", "mixtral-8x7b", "gpt-3-175b"}) {
      CAPTURE(model_name);
      const Model model = ReadModel(OpenModel(model_name, "."));
      const Layer& layer = model.Backbone().runs[0].layer;
      LayerShape shape = Shape(model.Backbone().hidden, 2, 2048, 2, true);
      const KeptActivations none = ActivationsOfLayer(layer, shape, true, true, in.context);
      CHECK(none.RecomputedBytes() == 0);
      RecomputeParts parts;
      double last = none.KeptBytes();
      shape.recompute.scope = RecomputeScope::kSelective;
      bool RecomputeParts::*const order[] = {
          &RecomputeParts::attention, &RecomputeParts::norm, &RecomputeParts::activation,
          &RecomputeParts::mlp,       &RecomputeParts::moe,  &RecomputeParts::up_projection};
      for (bool RecomputeParts::*const part : order) {
        parts.*part = true;
        shape.recompute.parts = parts;
        const KeptActivations some = ActivationsOfLayer(layer, shape, true, true, in.context);
        CHECK(some.KeptBytes() <= last);
        if (!in.stack.selective_by_operator) {
          CHECK(some.KeptBytes() + some.RecomputedBytes() ==
                doctest::Approx(none.KeptBytes()).epsilon(1e-12));
        }
        last = some.KeptBytes();
      }
      CHECK(none.checkpoint_bytes < last);
      // Frozen layers keep less, and without a gradient nothing.
      shape.recompute = {};
      CHECK(Kept(layer, shape, in, false) < none.KeptBytes());
      const KeptActivations served = ActivationsOfLayer(layer, shape, false, false, in.context);
      CHECK(served.KeptBytes() == 0);
      CHECK(served.checkpoint_bytes == 0);
      CHECK(served.work_forward_bytes > 0);
      CHECK(served.work_forward_bytes < none.KeptBytes() + in.stack.gathered_work_bytes * 2 * 2048 *
                                                               model.Backbone().hidden *
                                                               in.stack.activation_factor);
    }
  }
}

TEST_CASE("the loss keeps the bytes of its kernel") {
  Inputs in("torchtitan");
  const double tokens = 100, vocabulary = 128256;
  const auto logits = [&](double tp) {
    return ActivationsOfHead(tokens, 4096, vocabulary, tp, in.context).kept.at(0).bytes;
  };
  CHECK(logits(1) == doctest::Approx(8 * tokens * vocabulary).epsilon(1e-12));
  CHECK(logits(4) == doctest::Approx(16 * tokens * vocabulary / 4).epsilon(1e-12));
  in.context.loss_kernel = "chunked";
  CHECK(logits(1) == doctest::Approx(2.25 * tokens * vocabulary).epsilon(1e-12));
  const Inputs megatron("megatron-core");
  CHECK(ActivationsOfHead(tokens, 4096, vocabulary, 2, megatron.context).kept.at(0).bytes ==
        doctest::Approx(6 * tokens * vocabulary / 2).epsilon(1e-12));
  CHECK(ActivationsOfHead(0, 4096, vocabulary, 2, megatron.context).KeptBytes() == 0);
}

}  // namespace
}  // namespace aurum
