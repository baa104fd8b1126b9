#include "models/shape.h"

#include <doctest/doctest.h>

#include <string>

#include "models/hf_import.h"
#include "models/reader.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

ModelShape Llama(const char* name, int layers, int hidden, int heads, int kv_heads, int ffn,
                 std::int64_t vocabulary) {
  return {.name = name,
          .source = "its config.json",
          .layers = layers,
          .hidden = hidden,
          .heads = heads,
          .kv_heads = kv_heads,
          .ffn = ffn,
          .vocabulary = vocabulary};
}

// deepseek-ai/DeepSeek-V3, config.json.
ModelShape DeepSeekV3() {
  ModelShape shape = Llama("deepseek-v3", 61, 7168, 128, 0, 18432, 129280);
  shape.head_dim = 128;
  shape.moe = MoeShape{.experts = 256,
                       .top_k = 8,
                       .expert_ffn = 2048,
                       .shared_ffn = 2048,
                       .first_dense = 3,
                       .score_bias = true};
  shape.mla = MlaShape{
      .q_lora_rank = 1536, .kv_lora_rank = 512, .rope_head_dim = 64, .value_head_dim = 128};
  return shape;
}

TEST_CASE("published counts from the numbers alone") {
  CHECK(ModelParameters(MakeModel(Llama("llama-2-7b", 32, 4096, 32, 0, 11008, 32000))) ==
        6738415616);
  CHECK(ModelParameters(MakeModel(Llama("llama-2-13b", 40, 5120, 40, 0, 13824, 32000))) ==
        13015864320);
  CHECK(ModelParameters(MakeModel(Llama("llama-2-70b", 80, 8192, 64, 8, 28672, 32000))) ==
        68976648192);
  CHECK(ModelParameters(MakeModel(Llama("llama-3.1-8b", 32, 4096, 32, 8, 14336, 128256))) ==
        8030261248);
  CHECK(ModelParameters(MakeModel(Llama("llama-3.1-405b", 126, 16384, 128, 8, 53248, 128256))) ==
        405853388800);

  // Qwen2-7B: biases of queries, keys and values.
  ModelShape qwen2 = Llama("qwen2-7b", 28, 3584, 28, 4, 18944, 152064);
  qwen2.qkv_bias = true;
  CHECK(ModelParameters(MakeModel(qwen2)) == 7615616512);

  ModelShape mixtral = Llama("mixtral-8x7b", 32, 4096, 32, 8, 0, 32000);
  mixtral.moe = MoeShape{.experts = 8, .top_k = 2, .expert_ffn = 14336};
  CHECK(ModelParameters(MakeModel(mixtral)) == 46702792704);
  // 12.9B active (mistral.ai): two of eight experts, embedding included.
  CHECK(static_cast<double>(ActiveParameters(MakeModel(mixtral)) + 32000 * 4096) ==
        doctest::Approx(12.9e9).epsilon(0.005));

  ModelShape qwen3 = Llama("qwen3-30b-a3b", 48, 2048, 32, 4, 6144, 151936);
  qwen3.head_dim = 128;
  qwen3.qk_norm = true;
  qwen3.moe = MoeShape{.experts = 128, .top_k = 8, .expert_ffn = 768};
  CHECK(ModelParameters(MakeModel(qwen3)) == 30532122624);
}

TEST_CASE("GPT-3: learned positions, LayerNorm, a bias everywhere, a tied head") {
  const Model model = MakeModel({.name = "gpt-3-175b",
                                 .source = "arXiv:2005.14165, table 2.1",
                                 .layers = 96,
                                 .hidden = 12288,
                                 .heads = 96,
                                 .vocabulary = 50257,
                                 .gated = false,
                                 .tied = true,
                                 .learned_positions = 2048,
                                 .layer_norm = true,
                                 .qkv_bias = true,
                                 .output_bias = true,
                                 .mlp_bias = true});
  CHECK(ModelParameters(model) == 174604259328);
  CHECK(model.max_positions == 2048);
  // The catalogue's model is the same one, by another road.
  CHECK(model.modules == ReadModel(OpenModel("gpt-3-175b", ".")).modules);
}

TEST_CASE("DeepSeek-V3 with and without its multi-token prediction module") {
  const Model main = MakeModel(DeepSeekV3());
  CHECK(ModelParameters(main) == 671026419200);  // 671B (deepseek-ai/DeepSeek-V3, README)
  CHECK(MtpParameters(main.Backbone()) == 0);
  // 37B active (README), the embedding of 129280 · 7168 included.
  CHECK(static_cast<double>(ActiveParameters(main) + 129280 * 7168) ==
        doctest::Approx(37.5e9).epsilon(0.01));

  ModelShape shape = DeepSeekV3();
  shape.mtp_layers = 1;
  const Model with = MakeModel(shape);
  const std::int64_t mtp = MtpParameters(with.Backbone());
  CHECK(ModelParameters(with) == ModelParameters(main) + mtp);
  CHECK(ActiveParameters(with) == ActiveParameters(main));
  CHECK(mtp ==
        LayerParameters(main.Backbone().runs.back().layer, 7168) + 2 * 7168 * 7168 + 3 * 7168);
  // README_WEIGHTS.md of deepseek-ai/DeepSeek-V3: 11.5B of its own, which is its layer (11.507B)
  // without the projection's 0.103B. The files repeat embedding and head of 0.9B each: 685B in all.
  CHECK(mtp == 11610068224);
  CHECK(static_cast<double>(LayerParameters(with.Backbone().mtp_layer, 7168)) ==
        doctest::Approx(11.5e9).epsilon(0.001));
  CHECK(static_cast<double>(ModelParameters(with) + 2LL * 129280 * 7168) ==
        doctest::Approx(685e9).epsilon(0.001));
  // The same: 2.4B active, embedding and head of 0.927B each included (its layer and they: 2.44B).
  const std::int64_t projection = 2 * 7168 * 7168;
  CHECK(static_cast<double>(ActiveMtpParameters(with.Backbone()) - projection + 129280 * 7168) ==
        doctest::Approx(2.44e9).epsilon(0.002));
  CHECK(ActiveMtpParameters(main.Backbone()) == 0);
  // Two modules are twice one.
  shape.mtp_layers = 2;
  CHECK(MtpParameters(MakeModel(shape).Backbone()) == 2 * mtp);
}

TEST_CASE("experts: dense layers first, or one in every group") {
  ModelShape shape = Llama("mixed", 8, 64, 4, 0, 128, 100);
  shape.moe = MoeShape{.experts = 4, .top_k = 1, .expert_ffn = 32, .interleave = 2};
  const auto sparse = [](const Model& model) {
    std::string pattern;
    for (const LayerRun& run : model.Backbone().runs)
      pattern +=
          std::string(static_cast<std::size_t>(run.count), run.layer.mlp.experts > 0 ? 'e' : 'd');
    return pattern;
  };
  CHECK(sparse(MakeModel(shape)) == "dededede");
  shape.moe->first_dense = 3;
  CHECK(sparse(MakeModel(shape)) == "dddedede");
  shape.moe->interleave = 1;
  CHECK(sparse(MakeModel(shape)) == "dddeeeee");
}

TEST_CASE("numbers that contradict each other") {
  const auto refused = [](auto change) {
    ModelShape shape = Llama("odd", 2, 64, 4, 2, 128, 100);
    change(&shape);
    const Diagnostic diagnostic = ThrownBy([&] { MakeModel(shape); });
    CHECK(diagnostic.code == 603);
    CHECK(diagnostic.message.find("'odd'") != std::string::npos);
    return diagnostic.message;
  };
  CHECK(refused([](ModelShape* s) { s->layers = 0; }).find("layers = 0") != std::string::npos);
  CHECK(refused([](ModelShape* s) { s->hidden = -1; }).find("hidden = -1") != std::string::npos);
  CHECK(refused([](ModelShape* s) { s->heads = 3; }).find("head_dim is not told") !=
        std::string::npos);
  CHECK(refused([](ModelShape* s) { s->kv_heads = 3; }).find("num_key_value_heads") !=
        std::string::npos);
  CHECK(refused([](ModelShape* s) {
          s->moe = MoeShape{.experts = 4, .top_k = 5, .expert_ffn = 1};
        }).find("5 of 4 experts") != std::string::npos);
  CHECK(refused([](ModelShape* s) {
          s->moe = MoeShape{.experts = 4, .top_k = 1};
        }).find("an expert needs a width") != std::string::npos);
  CHECK(refused([](ModelShape* s) { s->moe = MoeShape{.interleave = 0}; }).find("interleave") !=
        std::string::npos);
  CHECK(refused([](ModelShape* s) { s->mla = MlaShape{}; }).find("rank of its keys") !=
        std::string::npos);
  CHECK(refused([](ModelShape* s) {
          s->mtp_layers = 1;
          s->vocabulary = 0;
        }).find("no output head") != std::string::npos);
  CHECK(refused([](ModelShape* s) {
          s->hidden = 1 << 24;
          s->head_dim = 1 << 24;
          s->heads = s->kv_heads = 1 << 16;
        }).find("10^17") != std::string::npos);
}

}  // namespace
}  // namespace aurum
