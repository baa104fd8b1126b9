#include "models/prune.h"

#include <doctest/doctest.h>

#include "models/reader.h"
#include "tests/support/catalogue.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

struct Result {
  PrunedModel pruned;
  std::vector<Diagnostic> warnings;
};
Result Prune(const Model& model, const std::string& text, bool training = true) {
  const JsonDocument document = ParseJson(text, "prune.json");
  Result out;
  out.pruned =
      PruneModel(model, ObjectReader(document, document.root, ""), training, &out.warnings);
  return out;
}

std::int64_t Layers(const Module& m) {
  std::int64_t total = 0;
  for (const LayerRun& run : m.runs) total += run.count * LayerParameters(run.layer, m.hidden);
  return total;
}

TEST_CASE("a cut through one width takes its share, through two the square") {
  const Model clip = NamedModel("clip-vit-l-14");
  const double whole = static_cast<double>(Layers(clip.modules[0]));
  const auto share = [&](const char* text) {
    return static_cast<double>(Layers(Prune(clip, text).pruned.model.modules[0])) / whole;
  };
  // 1024 channels: 870 are 85 %.
  CHECK(share(R"({"vision": {"keep_hidden": 0.85}})") ==
        doctest::Approx(870.0 / 1024).epsilon(1e-3));
  // Heads are a third of a layer, the MLP two thirds.
  CHECK(share(R"({"vision": {"keep_heads": 0.5}})") == doctest::Approx(1 - 0.5 / 3).epsilon(1e-3));
  CHECK(share(R"({"vision": {"keep_ffn": 0.5}})") ==
        doctest::Approx(1 - 0.5 * 2 / 3).epsilon(1e-3));
  CHECK(share(R"({"vision": {"keep_layers": 0.5}})") == 0.5);
  // Both dimensions of every matrix: the square, and not the 0.594 of a published 85 %.
  const double both =
      share(R"({"vision": {"keep_hidden": 0.85, "keep_heads": 0.8125, "keep_ffn": 0.85}})");
  CHECK(both == doctest::Approx(0.85 * (0.8125 / 3 + 0.85 * 2 / 3)).epsilon(2e-3));
  CHECK(both > 0.70);
}

TEST_CASE("channels take their neighbours' matrices with them") {
  const Model llava = NamedModel("llava-1.5-7b");
  const Model half = Prune(llava, R"({"vision": {"keep_hidden": 0.5}})").pruned.model;
  CHECK(half.modules[0].hidden == 512);
  CHECK(half.modules[0].input[0].out == 512);
  CHECK(half.modules[1].output[0].in == 512);
  CHECK(half.modules[1].output[0].out == 4096);
  CHECK(half.modules[2] == llava.modules[2]);
  const Model thin = Prune(llava, R"({"backbone": {"keep_hidden": 2048}})").pruned.model;
  CHECK(thin.modules[2].hidden == 2048);
  CHECK(thin.modules[1].output[0].out == 2048);
  CHECK(thin.modules[1].output[1].in == 2048);
  CHECK(thin.modules[1].output[1].out == 2048);
  CHECK(thin.modules[0] == llava.modules[0]);
  // A model that is cut to all of itself is itself.
  CHECK(Prune(llava, R"({"vision": {"keep_hidden": 1, "keep_heads": 16}})").pruned.model == llava);
}

TEST_CASE("a merger of several tokens keeps its number of tokens") {
  const Model internvl = NamedModel("internvl2-4b");  // four patches side by side: 4096 in
  const Model half = Prune(internvl, R"({"vision": {"keep_hidden": 0.5}})").pruned.model;
  CHECK(half.modules[1].output[0].in == 2048);
}

TEST_CASE("grouped heads go by groups") {
  const Model llama = NamedModel("llama-3.1-8b");  // 32 heads in groups of 4
  const Attention a = Prune(llama, R"({"backbone": {"keep_heads": 0.55}})")
                          .pruned.model.modules[0]
                          .runs[0]
                          .layer.attention;
  CHECK(a.heads == 20);
  CHECK(a.heads == 4 * a.kv_heads);
  CHECK(a.head_dim == 128);
  const Diagnostic error = ThrownBy([&] { Prune(llama, R"({"backbone": {"keep_heads": 18}})"); });
  CHECK(error.code == 651);
  CHECK(error.where.pointer == "/backbone/keep_heads");
}

TEST_CASE("layers go evenly, whatever runs they are in") {
  const Model llama =
      NamedModel("llama-3.2-11b-vision");  // self-attention with cross-attention between
  const Module& whole = llama.Backbone();
  const Model half = Prune(llama, R"({"backbone": {"keep_layers": 20}})").pruned.model;
  CHECK(half.Backbone().Layers() == 20);
  CHECK(half.Backbone().runs.size() > 1);
  CHECK(whole.Layers() == 40);
}

TEST_CASE("a mask saves nothing, and says so") {
  const Model clip = NamedModel("clip-vit-l-14");
  const Result masked = Prune(clip, R"({"vision": {"keep_heads": 0.5, "mode": "mask"}})");
  CHECK(masked.pruned.model == clip);
  REQUIRE(masked.warnings.size() == 1);
  CHECK(masked.warnings[0].code == 1390);
  CHECK(masked.warnings[0].where.pointer == "/vision");
  CHECK(masked.pruned.told.empty());
}

TEST_CASE("branches are parallel in training and merged after it") {
  const Model llava = NamedModel("llava-1.5-7b");
  const char* text = R"({"connector": {"branches": 3}})";
  const Model trained = Prune(llava, text, true).pruned.model;
  CHECK(ModuleParameters(trained.modules[1]) == 3 * ModuleParameters(llava.modules[1]));
  CHECK(Prune(llava, text, false).pruned.model == llava);
}

TEST_CASE("what cannot be pruned is refused where it stands") {
  const Model clip = NamedModel("clip-vit-l-14");
  const auto code = [&](const char* text, const char* pointer) {
    const Diagnostic error = ThrownBy([&] { Prune(clip, text); });
    CHECK(error.where.pointer == pointer);
    CHECK(!error.help.empty());
    return error.code;
  };
  CHECK(code(R"({"visoin": {}})", "/visoin") == 650);
  CHECK(code(R"({"vision": {"keep_heads": 17}})", "/vision/keep_heads") == 652);
  CHECK(code(R"({"vision": {"keep_heads": 0}})", "/vision/keep_heads") == 652);
  CHECK(code(R"({"vision": {"keep_ffn": 2.5}})", "/vision/keep_ffn") == 652);
  CHECK(code(R"({"text": {"keep_tokens": 0.5}})", "/text/keep_tokens") == 653);
  CHECK(code(R"({"vision": {"keep_head": 1}})", "/vision/keep_head") == 101);
  const Model llava = NamedModel("llava-1.5-7b");
  CHECK(ThrownBy([&] { Prune(llava, R"({"connector": {"keep_heads": 0.5}})"); }).code == 653);
  CHECK(ThrownBy([&] { Prune(llava, R"({"vision": {"keep_layers": 0.04}})"); }).code == 652);
}

TEST_CASE("models of low-resource training have the sizes that are published of them") {
  // Phi-3-vision: 4,146,621,440 by its checkpoint's tensors, the two learned separators included.
  CHECK(ModelParameters(NamedModel("phi-3-vision-4.2b")) == 4146621440);
  // Phi-3-mini has 3,821,079,552 (its checkpoint), CLIP's tower without projection 303,507,456.
  const Model joint = NamedModel("clip-l-phi-3-mini");
  CHECK(ModuleParameters(joint.Backbone()) == 3821079552);
  CHECK(ModuleParameters(joint.modules[0]) == 303507456);
  CHECK(static_cast<double>(ModelParameters(NamedModel("vit-tiny-llm-100m"))) ==
        doctest::Approx(100e6).epsilon(0.03));
}

}  // namespace
}  // namespace aurum
