#include "sim/workload/layer_cost.h"

#include <doctest/doctest.h>

#include "models/reader.h"

namespace aurum {
namespace {

struct Inputs {
  Profile profile = ReadProfile(OpenProfile("a100", "."));
  Stack stack = ReadStack(OpenStack("megatron-core", "."));
  CostContext context{&profile, &stack, DType::kBf16, 1};
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

TEST_CASE("tensor parallelism divides FLOPs and sharded memory exactly, never replicated memory") {
  const Inputs in;
  const Model llama = ReadModel(OpenModel("llama-2-7b", "."));
  const Layer& layer = llama.Backbone().runs[0].layer;
  const LayerCost whole = CostOfLayer(layer, Shape(4096, 2, 2048), in.context);
  LayerShape shape = Shape(4096, 2, 2048, 4);
  const LayerCost replicated = CostOfLayer(layer, shape, in.context);
  shape.sequence_parallel = true;
  const LayerCost parallel = CostOfLayer(layer, shape, in.context);
  CHECK(ForwardFlops(parallel) == doctest::Approx(ForwardFlops(whole) / 4).epsilon(1e-12));
  CHECK(parallel.kept_bytes == doctest::Approx(whole.kept_bytes / 4).epsilon(1e-12));
  CHECK(replicated.kept_bytes > parallel.kept_bytes);
  CHECK(replicated.mlp.forward.memory_s > parallel.mlp.forward.memory_s);
}

TEST_CASE("a frozen layer keeps less, a recomputed one keeps its input alone") {
  const Inputs in;
  const Model llama = ReadModel(OpenModel("llama-2-7b", "."));
  const LayerCost cost =
      CostOfLayer(llama.Backbone().runs[0].layer, Shape(4096, 1, 1000), in.context);
  CHECK(cost.kept_frozen_bytes < cost.kept_bytes);
  CHECK(cost.kept_checkpoint_bytes == in.stack.recompute_input_bytes * 1000 * 4096);
  CHECK(cost.kept_checkpoint_bytes < cost.kept_frozen_bytes);
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

}  // namespace
}  // namespace aurum
