#include "models/model.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "models/hf_import.h"
#include "models/reader.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

Model FromCatalogue(const std::string& name) { return ReadModel(OpenModel(name, ".")); }

// The parts by the public functions alone, added up here.
std::int64_t SumOfParts(const Module& module) {
  std::int64_t sum = module.embedding_parameters + module.vocabulary * module.hidden;
  if (!module.tied_head) sum += module.head_vocabulary * module.hidden;
  for (const Linear& linear : module.input) sum += linear.Parameters();
  for (const Linear& linear : module.output) sum += linear.Parameters();
  for (const LayerRun& run : module.runs) {
    const std::int64_t layer = AttentionParameters(run.layer, module.hidden) +
                               MlpParameters(run.layer, module.hidden) + run.layer.norm_parameters +
                               run.layer.other_parameters;
    CHECK(layer == LayerParameters(run.layer, module.hidden));
    sum += run.count * layer;
  }
  if (module.resampler.queries > 0) {
    const std::int64_t h = module.hidden;
    sum += module.resampler.queries * h + module.resampler.kv_input * h + 4 * h * h + 4 * h;
  }
  sum += module.queries * module.hidden + MtpParameters(module);
  return sum;
}

TEST_CASE("attention by kind, matrix by matrix") {
  Layer layer;
  Attention& a = layer.attention;
  a.heads = 4;
  a.kv_heads = 2;
  a.head_dim = a.value_head_dim = 8;
  CHECK(AttentionParameters(layer, 10) == 10 * 32 + 2 * 10 * 16 + 32 * 10);
  a.qkv_bias = true;
  CHECK(AttentionParameters(layer, 10) == 960 + 32 + 16 + 16);
  a.key_bias = false;
  CHECK(AttentionParameters(layer, 10) == 960 + 32 + 16);
  a.output_bias = true;
  CHECK(AttentionParameters(layer, 10) == 960 + 32 + 16 + 10);
  a.output_gate = true;
  CHECK(AttentionParameters(layer, 10) == 960 + 32 + 16 + 10 + 320);
  a = {AttentionKind::kCross, 4, 2, 8, 8};
  a.kv_input = 6;
  CHECK(AttentionParameters(layer, 10) == 10 * 32 + 2 * 6 * 16 + 32 * 10);
  a.kv_input = 0;
  CHECK(AttentionParameters(layer, 10) == 960);
  a.shared_key_value = true;
  CHECK(AttentionParameters(layer, 10) == 960 - 160);
  a = {AttentionKind::kLatent, 4, 4, 8, 5};
  a.kv_lora_rank = 6;
  a.rope_head_dim = 2;
  CHECK(AttentionParameters(layer, 10) == 10 * 40 + 10 * 8 + 6 * 4 * 13 + 20 * 10);
  a.q_lora_rank = 3;
  CHECK(AttentionParameters(layer, 10) == 10 * 3 + 3 * 40 + 10 * 8 + 6 * 4 * 13 + 20 * 10);
  a = {AttentionKind::kLinear, 4, 2, 8, 5};
  CHECK(AttentionParameters(layer, 10) == 10 * (2 * 16 + 20) + 20 * 10);
  layer.cross = {AttentionKind::kCross, 1, 1, 3, 3};
  CHECK(AttentionParameters(layer, 10) == 720 + 4 * 30);
}

TEST_CASE("experts: all of them, and those that a token uses") {
  Layer layer;
  layer.mlp.experts = 8;
  layer.mlp.experts_per_token = 2;
  layer.mlp.expert_intermediate = 20;
  CHECK(MlpParameters(layer, 10) == 8 * 600 + 80);
  CHECK(ActiveMlpParameters(layer, 10) == 2 * 600 + 80);
  layer.mlp.shared_intermediate = 30;
  CHECK(MlpParameters(layer, 10) == 8 * 600 + 80 + 900);
  CHECK(ActiveMlpParameters(layer, 10) == 2 * 600 + 80 + 900);
  layer.mlp = {};
  layer.mlp.intermediate = 20;
  layer.mlp.gated = false;
  layer.mlp.bias = true;
  CHECK(MlpParameters(layer, 10) == 2 * 200 + 30);
  CHECK(ActiveMlpParameters(layer, 10) == MlpParameters(layer, 10));
}

TEST_CASE("published counts of the catalogue, the towers and the fixtures") {
  const JsonDocument published = ReadJsonFile("tests/models/published_counts.json");
  std::map<std::string, int> catalogue;
  for (const std::string& name : ModelCatalogue(".")) catalogue[name] = 0;
  CHECK(catalogue.size() >= 43);
  for (const Json& row : published.root.items()) {
    const bool fixture = row.Find("fixture") != nullptr;
    const std::string name = row.Find(fixture ? "fixture" : "model")->AsString();
    CAPTURE(name);
    const Model model =
        fixture ? ImportHuggingFace(ReadJsonFile("tests/models/fixtures/" + name + ".json"))
                : FromCatalogue(name);
    if (!fixture) ++catalogue[name];
    std::int64_t counted = ModelParameters(model);
    if (const Json* part = row.Find("module"); part != nullptr) {
      const Module* module = model.Find(part->AsString());
      REQUIRE(module != nullptr);
      counted = ModuleParameters(*module);
    }
    const double wanted = row.Find("parameters")->AsNumber();
    CHECK_MESSAGE(std::abs(static_cast<double>(counted) - wanted) <=
                      row.Find("tolerance")->AsNumber() * wanted,
                  name, ": counted ", counted);
  }
  for (const auto& [name, times] : catalogue)
    CHECK_MESSAGE(times > 0, name, " has no published count to be checked against");
}

TEST_CASE("parts sum to modules, modules to the model") {
  for (const std::string& name : ModelCatalogue(".")) {
    CAPTURE(name);
    const Model model = FromCatalogue(name);
    CHECK(model.name == name);
    CHECK(!model.source.empty());
    std::int64_t sum = 0;
    for (const Module& module : model.modules) {
      CHECK(SumOfParts(module) == ModuleParameters(module));
      sum += ModuleParameters(module);
    }
    CHECK(sum == ModelParameters(model));
    CHECK(ApproximateParameters(model) == doctest::Approx(static_cast<double>(sum)).epsilon(1e-12));
  }
}

// tokens/s/GPU · (6·N_active + 6·layers·length·heads·head_dim): the causal count of NVIDIA's
// published rows. For latent attention, heads·head_dim is heads·(192 + 128)/2.
double TeraflopsPerGpu(const Model& model, double tokens_per_s, double length) {
  const Module& backbone = model.Backbone();
  const Attention& a = backbone.runs.back().layer.attention;
  const double width = a.kind == AttentionKind::kLatent
                           ? a.heads * (a.head_dim + a.rope_head_dim + a.value_head_dim) / 2.0
                           : a.heads * a.head_dim;
  return tokens_per_s *
         (6.0 * static_cast<double>(ActiveParameters(model)) +
          6.0 * backbone.Layers() * length * width) /
         1e12;
}

TEST_CASE("active parameters reproduce NVIDIA's published TFLOP/s per GPU") {
  // NeMo AutoModel performance summary, 64 H100, BF16, length 8192: 866.77 tokens/s/GPU and 389
  // TFLOP/s.
  CHECK(TeraflopsPerGpu(FromCatalogue("llama-3.1-70b"), 866.77, 8192) ==
        doctest::Approx(389).epsilon(0.002));
  // Megatron-Bridge performance summary, H100, FP8, length 8192: 405B 328 tokens/s and 827; 8B
  // 14451 and 744.
  CHECK(TeraflopsPerGpu(FromCatalogue("llama-3.1-405b"), 328, 8192) ==
        doctest::Approx(827).epsilon(0.003));
  CHECK(TeraflopsPerGpu(FromCatalogue("llama-3.1-8b"), 14451, 8192) ==
        doctest::Approx(744).epsilon(0.002));
  // The same, Qwen3-235B-A22B, length 4096: 1712 and 253.
  const Model qwen = ImportHuggingFace(ReadJsonFile("tests/models/fixtures/qwen3_moe.json"));
  CHECK(TeraflopsPerGpu(qwen, 1712, 4096) == doctest::Approx(253).epsilon(0.005));
  const std::string deepseek = SharedPath("data/hf-configs/DeepSeek-V3/config.json");
  if (deepseek.empty()) return;
  // AutoModel, DeepSeek-V3, 1024 H100, BF16, length 4096: 865 and 216.
  CHECK(TeraflopsPerGpu(ImportHuggingFace(ReadJsonFile(deepseek)), 865, 4096) ==
        doctest::Approx(216).epsilon(0.006));
}

TEST_CASE("multi-token prediction: a layer, a projection and three norms, apart from the rest") {
  Model model = FromCatalogue("llama-2-7b");
  const std::int64_t before = ModelParameters(model);
  const std::int64_t active = ActiveParameters(model);
  Module& backbone = model.modules.back();
  backbone.mtp_layers = 2;
  backbone.mtp_layer = backbone.runs[0].layer;
  const std::int64_t one = LayerParameters(backbone.mtp_layer, 4096) + 2 * 4096 * 4096 + 3 * 4096;
  CHECK(ModelParameters(model) - before == 2 * one);
  CHECK(ActiveParameters(model) == active);
  CHECK(backbone.Layers() == 32);
  backbone.mtp_layer.layer_norm = true;  // its three norms have biases then
  CHECK(MtpParameters(backbone) == 2 * (one + 3 * 4096));
}

TEST_CASE("a Q-Former: queries pass layers of which every second reads the image") {
  const Model model = FromCatalogue("blip2-opt-2.7b");
  const Module* former = model.Find("connector");
  REQUIRE(former != nullptr);
  CHECK(former->queries == 32);
  CHECK(former->Layers() == 12);
  int reading = 0;
  for (const LayerRun& run : former->runs) {
    if (run.layer.cross.heads == 0) continue;
    reading += run.count;
    CHECK(run.layer.cross.kv_input == model.Find("vision")->hidden);
  }
  CHECK(reading == 6);
  // BERT-base without its embeddings is 85.054M; six cross-attentions with keys of width 1408 and
  // their norms, the queries, a norm and the projection come on top.
  const std::int64_t h = 768;
  const std::int64_t bert = 12 * (12 * h * h + 13 * h);
  CHECK(bert == 85054464);
  const std::int64_t cross = 6 * (2 * h * h + 2 * 1408 * h + 4 * h + 2 * h);
  CHECK(ModuleParameters(*former) ==
        bert + cross + 32 * h + 2 * h + former->output[0].Parameters());
}

TEST_CASE("DeepStack: three more mergers, told apart for what they send") {
  const Model model = FromCatalogue("qwen3-vl-30b-a3b");
  const Module* merger = model.Find("connector");
  REQUIRE(merger != nullptr);
  CHECK(merger->deepstack == 3);
  CHECK(merger->output.size() == 8);  // two matrices each
  CHECK(FromCatalogue("qwen2.5-vl-7b").Find("connector")->deepstack == 0);
}

TEST_CASE("active parameters: the head counts, tied or not, the input embedding never") {
  const Model model = FromCatalogue("gpt-3-175b");
  const Module& backbone = model.Backbone();
  CHECK(backbone.tied_head);
  CHECK(ActiveParameters(model) ==
        ModelParameters(model));  // the embedding's weights once, as the head's
  const Model llama = FromCatalogue("llama-2-7b");
  CHECK(ActiveParameters(llama) == ModelParameters(llama) - 32000 * 4096);
}

}  // namespace
}  // namespace aurum
