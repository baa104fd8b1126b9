#include "models/reader.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "models/hf_import.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

Model Read(const std::string& text) { return ReadModel(ParseJson(text, "m.json")); }

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

const char* const kSmall = R"({
  "schema": "aurum.model/1",
  "name": "small",
  "source": "of our own",
  "modules": [
    {"name": "vision", "kind": "encoder", "modality": "vision", "hidden_size": 32,
     "layers": [{"num_hidden_layers": 2, "attention": {"num_attention_heads": 4}, "mlp": {"intermediate_size": 64}}]},
    {"name": "backbone", "kind": "backbone", "hidden_size": 64, "vocab_size": 100,
     "layers": [{"repeat": 2, "layers": [
       {"num_hidden_layers": 3, "attention": {"num_attention_heads": 8, "num_key_value_heads": 2, "sliding_window": 16},
        "mlp": {"intermediate_size": 96}},
       {"num_hidden_layers": 1, "attention": {"num_attention_heads": 8, "num_key_value_heads": 2},
        "mlp": {"num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}}]}]}
  ],
  "image": {"rule": "fixed", "image_size": 28, "patch_size": 14, "tokens_per_tile": 4}
})";

TEST_CASE("a small model and its defaults") {
  const Model model = Read(kSmall);
  REQUIRE(model.modules.size() == 2);
  const Module& backbone = model.Backbone();
  CHECK(backbone.Layers() == 8);
  REQUIRE(backbone.runs.size() == 4);
  CHECK(backbone.runs[2].layer == backbone.runs[0].layer);
  const Layer& local = backbone.runs[0].layer;
  CHECK(local.attention.causal);
  CHECK(local.attention.window == 16);
  CHECK(local.attention.head_dim == 8);
  CHECK(local.attention.value_head_dim == 8);
  CHECK(local.norm_parameters == 128);
  CHECK(backbone.runs[1].layer.mlp.experts == 4);
  CHECK(backbone.head_vocabulary == 100);
  CHECK_FALSE(model.modules[0].runs[0].layer.attention.causal);
  CHECK(model.modules[0].runs[0].layer.attention.kv_heads == 4);
}

TEST_CASE("what is written reads back the same") {
  const auto check = [](const Model& model) {
    CAPTURE(model.name);
    for (const int indent : {-1, 2}) {
      CHECK(ReadModel(ParseJson(WriteModel(model).Dump(indent), "written")) == model);
    }
  };
  check(Read(kSmall));
  for (const std::string& name : ModelCatalogue(".")) check(ReadModel(OpenModel(name, ".")));
  for (const auto& entry : std::filesystem::directory_iterator("tests/models/fixtures")) {
    check(ImportHuggingFace(ReadJsonFile(entry.path().string())));
  }
  // No default hides a value: every field apart from its default.
  Model odd = Read(kSmall);
  Module& m = odd.modules.back();
  Attention& a = m.runs[0].layer.attention;
  a = {AttentionKind::kLatent, 8, 4, 5, 7, false, 9, true, true, 3, 2, 6, 11, false, true, false};
  m.runs[0].layer.cross = {AttentionKind::kCross, 2, 1, 3, 3, true};
  m.runs[0].layer.cross.shared_key_value = true;
  m.runs[0].layer.mlp = {12, false, true, 0, 0, 0, 0};
  m.runs[1].layer.mlp = {0, false, true, 4, 3, 2, 1};
  m.runs[0].layer.layer_norm = true;
  m.runs[0].layer.norm_parameters = 0;
  m.runs[1].layer.other_parameters = 5;
  m.input = {{3, 4, true, 2}, {5, 6, false, 1}};
  m.output = {{7, 8, true, 3}};
  m.layers_skipped = 1;
  m.embedding_parameters = 13;
  m.vocabulary = 90;
  m.head_vocabulary = 0;
  m.resampler = {4, 32, 8};
  m.modality = Modality::kAudio;
  odd.task = ModelTask::kContrastive;
  odd.family = "odd";
  odd.max_positions = 77;
  odd.assumed = {"one", "two"};
  odd.ignored = {"three"};
  odd.image = {ImageRuleKind::kLlavaAnyres, 14, 7, 3, 2, 5, 6, true, 8, 9, {{14, 28}, {28, 14}}};
  odd.audio = {true, 12.5, 6.25, 0.1};
  odd.video = {VideoRuleKind::kFrames, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  m.mtp_layers = 2;
  m.mtp_layer = m.runs[0].layer;
  m.head_vocabulary = 80;
  Module former = odd.modules[0];
  former.name = "former";
  former.kind = ModuleKind::kConnector;
  former.runs[0].layer.cross = {AttentionKind::kCross, 1, 1, 3, 3};
  former.queries = 12;
  former.deepstack = 13;
  check(odd);
  Model queried = odd;
  queried.modules.insert(queried.modules.begin() + 1, former);
  check(queried);
  m.mtp_layers = 0;
  m.mtp_layer = {};
  m.head_vocabulary = 0;
  check(odd);
  m.head_vocabulary = 90;
  m.tied_head = true;
  check(odd);
}

TEST_CASE("the catalogue is short enough to edit by hand: alternating layers are written once") {
  const Json written = WriteModel(ReadModel(OpenModel("qwen2.5-vl-7b", ".")));
  const Json* layers = FindPath(written, "modules.0.layers");
  REQUIRE(layers != nullptr);
  REQUIRE(layers->items().size() == 1);
  CHECK(layers->items()[0].Find("repeat")->AsInteger() == 4);
}

TEST_CASE("a name, a path, an unknown name") {
  CHECK(ReadModel(OpenModel("llava-1.6-7b", ".")).name == "llava-1.6-7b");
  CHECK(ReadModel(OpenModel("./models/catalogue/llama-2-7b.json", "nowhere")).name == "llama-2-7b");
  const std::vector<std::string> names = ModelCatalogue(".");
  CHECK(std::is_sorted(names.begin(), names.end()));
  const Diagnostic typo = ThrownBy([] { OpenModel("lava-1.6-7b", "."); });
  CHECK(typo.code == 210);
  CHECK(typo.help.find("did you mean 'llava-1.6-7b'?") != std::string::npos);
  CHECK(typo.help.find("gpt-3-175b") != std::string::npos);
  CHECK(ThrownBy([] { OpenModel("x", "nowhere"); }).help.find("no catalogue") != std::string::npos);
  CHECK(ThrownBy([] { OpenModel("nowhere.json", "."); }).code == 201);
}

TEST_CASE("contradictions name the place") {
  const auto broken = [](const std::string& from, const std::string& to) {
    return ThrownBy([&] { Read(Replaced(kSmall, from, to)); });
  };
  const Diagnostic heads =
      broken("\"num_key_value_heads\": 2, \"sliding", "\"num_key_value_heads\": 3, \"sliding");
  CHECK(heads.code == 603);
  CHECK(heads.where.line == 10);
  CHECK(heads.where.pointer == "/modules/1/layers/0/layers/0/attention/num_key_value_heads");
  CHECK(heads.message == "num_attention_heads = 8 is not a multiple of num_key_value_heads = 3");
  const Diagnostic width = broken("\"hidden_size\": 32", "\"hidden_size\": 33");
  CHECK(width.code == 603);
  CHECK(width.where.pointer == "/modules/0/layers/0/attention/num_attention_heads");
  CHECK(broken("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 0").code == 603);
  CHECK(broken("\"hidden_size\": 64", "\"hidden_size\": 0").code == 603);
  const Diagnostic layers = broken(
      "\"layers\": [{\"num_hidden_layers\": 2, \"attention\": {\"num_attention_heads\": 4}, "
      "\"mlp\": {\"intermediate_size\": 64}}]",
      "\"layers\": []");
  CHECK(layers.code == 603);
  CHECK(layers.message == "module 'vision' has no layers");
  CHECK(layers.where.pointer == "/modules/0/layers");
  const Diagnostic experts = broken("\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 5");
  CHECK(experts.code == 603);
  CHECK(experts.where.pointer == "/modules/1/layers/0/layers/1/mlp/num_experts_per_tok");
  CHECK(broken("\"num_local_experts\": 4, ", "").code == 603);
  CHECK(broken("\"intermediate_size\": 96", "\"intermediate_size\": 0").code == 603);
  const Diagnostic no_backbone = broken("\"kind\": \"backbone\"", "\"kind\": \"connector\"");
  CHECK(no_backbone.code == 605);
  CHECK(no_backbone.where.pointer == "/modules");
  const Diagnostic two = broken("\"kind\": \"encoder\"", "\"kind\": \"backbone\"");
  CHECK(two.code == 605);
  CHECK(two.where.pointer == "/modules/0/kind");
  const Diagnostic twins = broken("\"name\": \"backbone\"", "\"name\": \"vision\"");
  CHECK(twins.code == 606);
  CHECK(twins.where.pointer == "/modules/1/name");
  CHECK(broken("\"vocab_size\": 100",
               "\"vocab_size\": 100, \"head_vocab_size\": 99, \"tie_word_embeddings\": true")
            .code == 603);
  CHECK(broken("\"vocab_size\": 100", "\"layers_skipped\": 8").code == 603);
  CHECK(
      broken("\"vocab_size\": 100",
             "\"resampler\": {\"queries\": 4, \"kv_hidden_size\": 32, \"num_attention_heads\": 7}")
          .code == 603);
  CHECK(broken("\"repeat\": 2", "\"repeat\": 4000").code == 603);
  CHECK(broken("\"patch_size\": 14", "\"patch_size\": 0").code == 603);
  CHECK(broken("\"image_size\": 28", "\"image_size\": 7").code == 603);
  CHECK(broken("\"rule\": \"fixed\"", "\"rule\": \"llava_anyres\"").message ==
        "this image rule needs image_grid_pinpoints");
  CHECK(broken("\"rule\": \"fixed\"",
               "\"rule\": \"llava_anyres\", \"image_grid_pinpoints\": [[28, 30]]")
            .code == 603);
  CHECK(broken("\"rule\": \"fixed\"",
               "\"rule\": \"native_merge\", \"min_pixels\": 9, \"max_pixels\": 8")
            .code == 603);
  const Diagnostic queries = broken("\"hidden_size\": 64", "\"hidden_size\": 64, \"queries\": 4");
  CHECK(queries.code == 603);
  CHECK(queries.where.pointer == "/modules/1/queries");
  CHECK(broken("\"hidden_size\": 64", "\"hidden_size\": 64, \"deepstack\": 3").message ==
        "module 'backbone' is no connector: it has no deepstack outputs");
  const char* const kMtp =
      "\"multi_token_prediction\": {\"num_hidden_layers\": 1, \"attention\": "
      "{\"num_attention_heads\": 8}, \"mlp\": {\"intermediate_size\": 64}}";
  CHECK(Read(Replaced(kSmall, "\"vocab_size\": 100", std::string("\"vocab_size\": 100, ") + kMtp))
            .Backbone()
            .mtp_layers == 1);
  const Diagnostic headless = broken("\"vocab_size\": 100", kMtp);
  CHECK(headless.code == 603);
  CHECK(headless.where.pointer == "/modules/1/multi_token_prediction");
  const std::string image = "\"image\": {\"rule\": \"fixed\"";
  CHECK(broken(image, "\"video\": {\"rule\": \"native_merge\"}, " + image).message ==
        "a video of native shape needs the image rule native_merge");
  CHECK(broken(image, "\"video\": {\"rule\": \"clips\"}, " + image).where.pointer == "/video");
  CHECK(broken(image,
               "\"video\": {\"rule\": \"clips\", \"image_size\": 32, \"patch_size\": 16, "
               "\"clip_frames\": 15, \"temporal_patch_size\": 2}, " +
                   image)
            .message == "clip_frames = 15 must be a multiple of temporal_patch_size = 2");
  CHECK(broken(image, "\"video\": {\"rule\": \"frame\"}, " + image).help.find("'frames'") !=
        std::string::npos);
  CHECK(broken(image + ", \"image_size\": 28, \"patch_size\": 14, \"tokens_per_tile\": 4}",
               "\"video\": {\"rule\": \"frames\"}")
            .where.pointer == "/video/rule");
  // More than 10^17 parameters: refused before anything could overflow.
  const std::string wide = Replaced(kSmall, "\"hidden_size\": 64", "\"hidden_size\": 16777216");
  const Diagnostic huge = ThrownBy([&] {
    Read(Replaced(
        wide, "\"num_local_experts\": 4, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 24",
        "\"num_local_experts\": 65536, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": "
        "16777216"));
  });
  CHECK(huge.code == 605);
  CHECK(huge.message.find("10^17") != std::string::npos);
}

TEST_CASE("form: what the strict reader refuses") {
  const auto broken = [](const std::string& from, const std::string& to) {
    return ThrownBy([&] { Read(Replaced(kSmall, from, to)); });
  };
  const Diagnostic typo = broken("\"hidden_size\": 64", "\"hiden_size\": 64");
  CHECK(typo.code == 102);
  CHECK(typo.help.find("hiden_size") != std::string::npos);
  const Diagnostic unknown = broken("\"source\"", "\"licence\": \"none\", \"source\"");
  CHECK(unknown.code == 101);
  CHECK(unknown.where.pointer == "/licence");
  CHECK(broken("\"source\": \"of our own\",", "").code == 102);
  CHECK(broken("\"fixed\"", "\"fixd\"").help.find("did you mean 'fixed'?") != std::string::npos);
  const Diagnostic schema = broken("aurum.model/1", "aurum.model/9");
  CHECK(schema.code == 108);
  CHECK(schema.where.pointer == "/schema");
  CHECK(broken("\"intermediate_size\": 64", "\"intermediate_size\": \"64\"").code == 103);
  CHECK(broken("\"intermediate_size\": 64", "\"intermediate_size\": -64").code == 107);
  CHECK(
      broken("\"rule\": \"fixed\"", "\"rule\": \"fixed\", \"image_grid_pinpoints\": [[1]]").code ==
      103);
  const std::string text = kSmall;
  for (std::size_t cut = 0; cut < text.size(); cut += 7) {
    CHECK(ThrownBy([&] { Read(text.substr(0, cut)); }).code == 100);
  }
}

}  // namespace
}  // namespace aurum
