#include "sim/workload/layer_cost.h"

#include <doctest/doctest.h>

#include "models/reader.h"

namespace aurum {
namespace {

struct Inputs {
  Profile profile = ReadProfile(OpenProfile("a100", "."));
  Stack stack = ReadStack(OpenStack("megatron-core", "."));
  CostContext context = [this] {
    CostContext c;
    c.profile = &profile;
    c.stack = &stack;
    return c;
  }();
};

LayerShape Shape(int hidden, double sequences, double tokens, double tp = 1) {
  LayerShape shape;
  shape.hidden = hidden;
  shape.tp = tp;
  shape.batches = {{sequences, tokens}};
  return shape;
}

double ForwardFlops(const LayerCost& cost) {
  return cost.attention.forward.flops + cost.mlp.forward.flops;
}
double BackwardFlops(const LayerCost& cost) {
  return cost.attention.input_gradient.flops + cost.attention.weight_gradient.flops +
         cost.mlp.input_gradient.flops + cost.mlp.weight_gradient.flops;
}

TEST_CASE(
    "a causal layer does 2·P·T FLOPs of matrices and 2·T²·d of attention, and twice that "
    "backward") {
  const Inputs in;
  const Model llama = ReadModel(OpenModel("llama-2-7b", "."));
  const Layer& layer = llama.Backbone().runs[0].layer;
  const double tokens = 4096, h = 4096;
  const LayerCost cost = CostOfLayer(layer, Shape(4096, 1, tokens), in.context);
  const double matrices = 4 * h * h + 3 * h * 11008;
  CHECK(ForwardFlops(cost) ==
        doctest::Approx(2 * matrices * tokens + 2 * tokens * tokens * h).epsilon(1e-12));
  CHECK(BackwardFlops(cost) == doctest::Approx(2 * ForwardFlops(cost)).epsilon(1e-12));
}

TEST_CASE("an encoder layer follows 2·n·(4d² + 2df) + 4n²d") {
  const Inputs in;
  const Model llava = ReadModel(OpenModel("llava-1.5-7b", "."));
  const Module& vision = *llava.Find("vision");
  const double n = 577, d = 1024, f = 4096;
  const LayerCost cost = CostOfLayer(vision.runs[0].layer, Shape(1024, 1, n), in.context);
  CHECK(ForwardFlops(cost) ==
        doctest::Approx(2 * n * (4 * d * d + 2 * d * f) + 4 * n * n * d).epsilon(1e-12));
}

TEST_CASE("training FLOPs per token are NVIDIA's 6·N_active + 6·L·s·heads·head_dim") {
  const Inputs in;
  for (const std::string name : {"llama-3.1-8b", "llama-3.1-70b", "mistral-7b", "mixtral-8x7b"}) {
    CAPTURE(name);
    const Model model = ReadModel(OpenModel(name, "."));
    const Module& backbone = model.Backbone();
    const double s = 4096;  // within Mistral's window
    double flops = 0;
    double layers = 0;
    for (const LayerRun& run : backbone.runs) {
      const LayerCost cost = CostOfLayer(run.layer, Shape(backbone.hidden, 1, s), in.context);
      flops += run.count * (ForwardFlops(cost) + BackwardFlops(cost));
      layers += run.count;
    }
    const PassCost head = CostOfHead(s, backbone.hidden,
                                     static_cast<double>(backbone.head_vocabulary), 1, in.context);
    flops += head.forward.flops + head.input_gradient.flops + head.weight_gradient.flops;
    const Attention& a = backbone.runs[0].layer.attention;
    const double expected =
        6 * static_cast<double>(ActiveParameters(model)) + 6 * layers * s * a.heads * a.head_dim;
    CHECK(flops / s ==
          doctest::Approx(expected).epsilon(1e-3));  // norms have parameters and no matrix FLOPs
  }
}

TEST_CASE("tensor parallelism divides FLOPs exactly, never the traffic of what is replicated") {
  const Inputs in;
  const Model llama = ReadModel(OpenModel("llama-2-7b", "."));
  const Layer& layer = llama.Backbone().runs[0].layer;
  const LayerCost whole = CostOfLayer(layer, Shape(4096, 2, 2048), in.context);
  LayerShape shape = Shape(4096, 2, 2048, 4);
  const LayerCost replicated = CostOfLayer(layer, shape, in.context);
  shape.sequence_parallel = true;
  const LayerCost parallel = CostOfLayer(layer, shape, in.context);
  CHECK(ForwardFlops(parallel) == doctest::Approx(ForwardFlops(whole) / 4).epsilon(1e-12));
  CHECK(replicated.mlp.forward.memory_s > parallel.mlp.forward.memory_s);
}

TEST_CASE(
    "the FLOPs scale multiplies matrices and attention, and leaves memory-bound kernels alone") {
  const Inputs in;
  CostContext doubled = in.context;
  doubled.flops_scale = 2;
  const Model llama = ReadModel(OpenModel("llama-2-7b", "."));
  const LayerShape shape = Shape(4096, 1, 2048);
  const LayerCost once = CostOfLayer(llama.Backbone().runs[0].layer, shape, in.context);
  const LayerCost twice = CostOfLayer(llama.Backbone().runs[0].layer, shape, doubled);
  CHECK(twice.attention.forward.gemm_s ==
        doctest::Approx(2 * once.attention.forward.gemm_s).epsilon(1e-12));
  CHECK(twice.attention.forward.attention_s ==
        doctest::Approx(2 * once.attention.forward.attention_s).epsilon(1e-12));
  CHECK(twice.mlp.forward.memory_s == once.mlp.forward.memory_s);
}

TEST_CASE("decoding gets slower with context, by its cache alone") {
  const Inputs in;
  const Model llama = ReadModel(OpenModel("llama-2-7b", "."));
  const Layer& layer = llama.Backbone().runs[0].layer;
  const KernelCost near = CostOfDecodeLayer(layer, 4096, 1, 8, 1000, in.context);
  const KernelCost far = CostOfDecodeLayer(layer, 4096, 1, 8, 30000, in.context);
  CHECK(far.attention_s > near.attention_s);
  CHECK(far.gemm_s == near.gemm_s);
  CHECK(KvCacheBytesPerToken(layer, 1) == 2 * 2 * 4096);  // 524,288 B over 32 layers
}

double Flops(const LayerCost& cost) {
  double flops = 0;
  for (const PassCost* half : {&cost.attention, &cost.shared, &cost.mlp})
    flops += half->forward.flops + half->input_gradient.flops + half->weight_gradient.flops;
  return flops;
}

TEST_CASE("context parallelism shares FLOPs out evenly, in a ring and in Ulysses") {
  const Inputs in;
  const Model llama = ReadModel(OpenModel("llama-3.1-8b", "."));
  const Layer& layer = llama.Backbone().runs[0].layer;
  const double whole = Flops(CostOfLayer(layer, Shape(4096, 1, 8192), in.context));
  for (const auto kind : {ContextParallelKind::kRing, ContextParallelKind::kUlysses}) {
    for (const double cp : {2.0, 4.0, 8.0}) {
      LayerShape shape = Shape(4096, 1, 8192);
      shape.cp = cp;
      shape.cp_kind = kind;
      CHECK(Flops(CostOfLayer(layer, shape, in.context)) * cp ==
            doctest::Approx(whole).epsilon(1e-12));
    }
  }
}

TEST_CASE("experts: what expert parallelism leaves a GPU, all GPUs together do once") {
  const Inputs in;
  const Model mixtral = ReadModel(OpenModel("mixtral-8x7b", "."));
  const Layer& layer = mixtral.Backbone().runs[0].layer;
  const auto experts = [&](double tp, double ep, double expert_tp, double imbalance = 1) {
    LayerShape shape = Shape(4096, 1, 4096, tp);
    shape.sequence_parallel = tp > 1;
    shape.experts_sharded = ep != 1 || expert_tp != tp;
    shape.ep = ep;
    shape.expert_tp = expert_tp;
    shape.expert_imbalance = imbalance;
    return CostOfLayer(layer, shape, in.context);
  };
  const double whole = experts(1, 1, 1).mlp.forward.flops;
  for (const double tp : {1.0, 2.0, 4.0}) {
    for (const double ep : {2.0, 8.0}) {
      for (const double expert_tp : {1.0, 2.0}) {
        // tp GPUs hold the tokens of one micro-batch between them.
        const double each = experts(tp, ep, expert_tp).mlp.forward.flops;
        CHECK(each * tp == doctest::Approx(whole).epsilon(1e-12));
      }
    }
  }
  // The busiest rank takes longer, over the same FLOPs of the model.
  CHECK(experts(1, 8, 1, 1.5).mlp.forward.flops == doctest::Approx(whole).epsilon(1e-12));
  CHECK(experts(1, 8, 1, 1.5).mlp.forward.gemm_s > 1.2 * experts(1, 8, 1).mlp.forward.gemm_s);
  // Every token leaves for its two experts, once per copy.
  CHECK(experts(1, 8, 1).routed_tokens == 2 * 4096);
  CHECK(experts(4, 8, 1).routed_tokens == 2 * 1024);
}

TEST_CASE("an adapter adds its own FLOPs, and only its own gradients") {
  Inputs in;
  in.stack.adapters_joint = false;
  const Model llama = ReadModel(OpenModel("llama-2-7b", "."));
  const Layer& layer = llama.Backbone().runs[0].layer;
  const double tokens = 2048, h = 4096, f = 11008, r = 16;
  LayerShape shape = Shape(4096, 1, tokens);
  const LayerCost plain = CostOfLayer(layer, shape, in.context);
  shape.adapter.kind = AdapterKind::kLora;
  shape.adapter.rank = 16;
  shape.adapter.targets = {"q", "v", "down"};
  const LayerCost with = CostOfLayer(layer, shape, in.context);
  const double extra = 2 * tokens * r * (2 * (h + h) + (f + h));
  CHECK(with.attention.forward.flops + with.mlp.forward.flops ==
        doctest::Approx(plain.attention.forward.flops + plain.mlp.forward.flops + extra)
            .epsilon(1e-12));
  CHECK(with.attention.adapter_gradient.flops + with.mlp.adapter_gradient.flops ==
        doctest::Approx(extra).epsilon(1e-12));
  CHECK(plain.attention.adapter_gradient.flops == 0);
  // A base in four bits is unpacked, forward and back, and computes the same.
  shape.adapter.base = QuantisedBase::kNf4;
  const LayerCost narrow = CostOfLayer(layer, shape, in.context);
  CHECK(narrow.attention.forward.flops == with.attention.forward.flops);
  CHECK(narrow.attention.forward.memory_s > with.attention.forward.memory_s);
}

TEST_CASE("selective recomputation runs again what it names, and no more than all") {
  const Inputs in;
  const Model llama = ReadModel(OpenModel("llama-2-7b", "."));
  const Layer& layer = llama.Backbone().runs[0].layer;
  LayerShape shape = Shape(4096, 1, 2048);
  shape.recompute.scope = RecomputeScope::kSelective;
  double least = 0;
  for (bool RecomputeParts::*part : {&RecomputeParts::norm, &RecomputeParts::activation,
                                     &RecomputeParts::attention, &RecomputeParts::mlp}) {
    shape.recompute.parts = {};
    shape.recompute.parts.*part = true;
    const LayerCost cost = CostOfLayer(layer, shape, in.context);
    const double again = cost.attention.again.Seconds() + cost.mlp.again.Seconds();
    CHECK(again > 0);
    CHECK(again < cost.attention.forward.Seconds() + cost.mlp.forward.Seconds());
    least = std::max(least, again);
  }
  shape.recompute.parts.norm = shape.recompute.parts.attention = true;
  const LayerCost most = CostOfLayer(layer, shape, in.context);
  CHECK(most.attention.again.Seconds() + most.mlp.again.Seconds() > least);
}

TEST_CASE("narrow formats are faster products and more traffic, and only where there are units") {
  Inputs in;
  in.profile = ReadProfile(OpenProfile("h100", "."));
  const Model llama = ReadModel(OpenModel("llama-3.1-70b", "."));
  const Layer& layer = llama.Backbone().runs[0].layer;
  const LayerCost wide = CostOfLayer(layer, Shape(8192, 1, 8192), in.context);
  in.context.precision = Precision::kFp8;
  const LayerCost narrow = CostOfLayer(layer, Shape(8192, 1, 8192), in.context);
  CHECK(narrow.mlp.forward.gemm_s < 0.75 * wide.mlp.forward.gemm_s);
  CHECK(narrow.mlp.forward.memory_s > wide.mlp.forward.memory_s);
  CHECK(narrow.mlp.forward.flops == wide.mlp.forward.flops);
}

}  // namespace
}  // namespace aurum
