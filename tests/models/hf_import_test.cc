#include "models/hf_import.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "models/reader.h"
#include "sim/core/text_file.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

constexpr const char* kFixtures = "tests/models/fixtures";

JsonDocument Document(const std::string& fixture) {
  return ReadJsonFile(std::string(kFixtures) + "/" + fixture + ".json");
}
Model Import(const std::string& fixture) { return ImportHuggingFace(Document(fixture)); }

std::vector<std::string> FixtureNames() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFixtures))
    names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

bool Mentions(const std::vector<std::string>& sentences, const std::string& part) {
  return std::any_of(sentences.begin(), sentences.end(), [&](const std::string& sentence) {
    return sentence.find(part) != std::string::npos;
  });
}

// The diagnostic of a fixture whose value at `path` is replaced by `value` (JSON); "" removes the
// key.
Diagnostic Broken(const std::string& fixture, const std::string& path, const std::string& value) {
  JsonDocument document = Document(fixture);
  if (value.empty()) {
    const std::size_t dot = path.rfind('.');
    Json* parent = dot == std::string::npos
                       ? &document.root
                       : const_cast<Json*>(FindPath(document.root, path.substr(0, dot)));
    REQUIRE(parent != nullptr);
    auto& members = parent->members();
    const std::string key = dot == std::string::npos ? path : path.substr(dot + 1);
    members.erase(std::remove_if(members.begin(), members.end(),
                                 [&](const auto& member) { return member.first == key; }),
                  members.end());
  } else {
    ApplyOverride(&document, path + "=" + value);
  }
  return ThrownBy([&] { ImportHuggingFace(document); });
}

TEST_CASE("every architecture's parts and what was assumed") {
  const Model llava = Import("llava_next");
  REQUIRE(llava.modules.size() == 3);
  CHECK(llava.modules[0].name == "vision");
  CHECK(llava.modules[0].layers_skipped == 1);
  CHECK(llava.modules[1].kind == ModuleKind::kConnector);
  CHECK(llava.name == "llava_next");
  CHECK(llava.Backbone().runs[0].layer.attention.kv_heads == 8);

  const Model latent = Import("deepseek_v3");
  CHECK(latent.Backbone().runs.size() == 2);
  CHECK(latent.Backbone().runs[0].count == 1);
  CHECK(latent.Backbone().runs[1].layer.attention.kind == AttentionKind::kLatent);
  CHECK(latent.Backbone().runs[1].layer.mlp.shared_intermediate == 40);
  CHECK(Mentions(latent.assumed, "multi-token prediction"));

  const Model crossing = Import("mllama");
  int cross_layers = 0;
  for (const LayerRun& run : crossing.Backbone().runs) {
    if (run.layer.attention.kind == AttentionKind::kCross) cross_layers += run.count;
  }
  CHECK(cross_layers == 8);
  CHECK(crossing.Backbone().Layers() == 40);
  CHECK(crossing.Backbone().vocabulary == 128264);

  const Model hybrid = Import("qwen3_5_moe");
  REQUIRE(hybrid.Backbone().runs.size() == 2);
  CHECK(hybrid.Backbone().runs[0].count == 3);
  CHECK(hybrid.Backbone().runs[0].layer.attention.kind == AttentionKind::kLinear);
  CHECK(hybrid.Backbone().runs[1].layer.attention.output_gate);

  const Model gemma = Import("gemma3");
  CHECK(gemma.Backbone().runs[0].count == 5);
  CHECK(gemma.Backbone().runs[0].layer.attention.window == 1024);
  CHECK(gemma.Backbone().runs[1].count == 1);
  CHECK(gemma.Backbone().runs[1].layer.attention.window == 0);
  CHECK(Mentions(gemma.assumed,
                 "text_config.sliding_window_pattern = 6 (default of Gemma3TextConfig)"));

  const Model whisper = Import("whisper");
  CHECK(whisper.Backbone().runs[0].layer.cross.heads == 20);
  CHECK(whisper.modules[0].input[0].repeats == 2);

  const Model clip = Import("clip");
  CHECK(clip.task == ModelTask::kContrastive);
  CHECK(clip.Backbone().name == "text");
  CHECK(clip.Backbone().head_vocabulary == 0);

  const Model windows = Import("qwen2_5_vl");
  CHECK(windows.modules[0].runs[0].count == 7);
  CHECK(windows.modules[0].runs[0].layer.attention.window == 64);
  CHECK(windows.modules[0].runs[1].layer.attention.window == 0);

  const Model scout = Import("llama4");
  CHECK(scout.Backbone().runs[0].count == 3);
  CHECK(scout.Backbone().runs[0].layer.attention.window == 8192);
  CHECK(scout.Backbone().runs[1].layer.attention.window == 0);
}

TEST_CASE("omni models: eyes, ears and one backbone") {
  const Model omni = Import("qwen3_omni");
  REQUIRE(omni.modules.size() == 5);
  CHECK(omni.Find("vision")->modality == Modality::kVision);
  const Module* audio = omni.Find("audio");
  REQUIRE(audio != nullptr);
  CHECK(audio->runs[0].layer.attention.window == 104);  // eight seconds
  CHECK(audio->runs[0].layer.attention.key_bias);
  CHECK(audio->input.size() == 4);
  CHECK(audio->input[3].in == 480 * 16);
  CHECK(omni.Find("audio_connector")->output[1].out == 2048);
  CHECK(omni.video.kind == VideoRuleKind::kNativeMerge);
  CHECK(Mentions(omni.assumed, "the thinker alone"));
  // The public count is that of the thinker alone, tower by tower.
  CHECK(ModelParameters(omni) == 31719205488);
  const Model second = Import("qwen2_5_omni");
  CHECK(second.Find("audio")->runs[0].layer.attention.window == 100);
  CHECK_FALSE(second.Find("audio")->runs[0].layer.attention.key_bias);
  CHECK(second.Find("vision")->runs[0].layer.attention.window == 64);
  CHECK(Broken("qwen3_omni", "thinker_config.audio_config", "").code == 602);
  CHECK(Broken("qwen3_omni", "thinker_config.audio_config.output_dim", "1024").code == 603);
  const Diagnostic window =
      Broken("qwen3_omni", "thinker_config.audio_config.n_window_infer", "10");
  CHECK(window.code == 603);
  CHECK(window.where.pointer == "/thinker_config/audio_config/n_window_infer");
  CHECK(Broken("qwen2_5_omni", "thinker_config.vision_config.out_hidden_size", "3580").code == 603);
}

TEST_CASE("a Q-Former between a tower and a text model") {
  const Model blip = Import("blip2");
  CHECK(blip.modules[1].queries == 32);
  CHECK(blip.image.tokens_per_tile == 32);
  CHECK(blip.max_positions == 2048);
  // InstructBLIP's has a second MLP in every layer, and embeddings of words and positions.
  const std::int64_t mlp = 2 * 768 * 3072 + 3072 + 768 + 2 * 768;
  CHECK(ModuleParameters(Import("instructblip").modules[1]) - ModuleParameters(blip.modules[1]) ==
        12 * mlp + (30523 + 512) * 768 + 769 * (4096 - 2560));
  CHECK(Broken("blip2", "qformer_config.encoder_hidden_size", "1024").code == 603);
  CHECK(Broken("blip2", "qformer_config.cross_attention_frequency", "0").code == 603);
  CHECK(Broken("blip2", "qformer_config.use_qformer_text_input", "true").code == 604);
  CHECK(Broken("blip2", "num_query_tokens", "0").code == 603);
  CHECK(Broken("blip2", "text_config.model_type", "t5").code == 601);
  CHECK(Broken("opt", "do_layer_norm_before", "false").code == 604);
  CHECK(Broken("opt", "word_embed_proj_dim", "512").code == 603);
  CHECK(Broken("llava_onevision", "vision_aspect_ratio", "pad").code == 604);
}

TEST_CASE("video rules that the importer fills in, and says so") {
  for (const char* name :
       {"qwen2_vl", "qwen3_vl", "glm4v", "kimi_k25", "gemma3", "gemma4", "internvl", "minicpmv",
        "llava", "llava_onevision", "paligemma", "vila"}) {
    const Model model = Import(name);
    CAPTURE(name);
    CHECK(model.video.kind != VideoRuleKind::kNone);
    const bool in_config = std::string(name) == "llava_onevision";
    CHECK((in_config || Mentions(model.assumed, "video")));
  }
  for (const char* name : {"llama", "clip", "fuyu", "mllama", "llama4", "molmo", "pixtral",
                           "qwen_vl", "blip2", "llava_next", "locateanything"}) {
    CAPTURE(name);
    CHECK(Import(name).video.kind == VideoRuleKind::kNone);
  }
  CHECK(Broken("kimi_k25", "vision_config.init_pos_emb_time", "0").code == 603);
}

TEST_CASE("the traps of real configs") {
  // 1: intermediate_size of the first Qwen and of Molmo counts both halves.
  CHECK(Import("qwen_vl").Backbone().runs[0].layer.mlp.intermediate == 11008);
  CHECK(Import("molmo").Backbone().runs[0].layer.mlp.intermediate == 18944);
  // 2: class defaults, told with their values.
  const JsonDocument sparse = ParseJson(
      R"({"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"], "text_config": {"vocab_size": 32064},
          "vision_config": {"model_type": "clip_vision_model", "hidden_size": 1024, "image_size": 336, "patch_size": 14,
                            "intermediate_size": 4096, "num_attention_heads": 16, "num_hidden_layers": 24}})",
      "sparse/config.json");
  const Model llava = ImportHuggingFace(sparse);
  CHECK(ModelParameters(llava) == 7063427072);  // llava-1.5-7b-hf
  CHECK(llava.name == "sparse");
  CHECK(Mentions(llava.assumed, "text_config.hidden_size = 4096 (default of LlamaConfig)"));
  CHECK(Mentions(llava.assumed, "vision_feature_layer = -2 (default of LlavaConfig)"));
  // 3: Qwen2-VL's vision hidden_size is the output width; one that is not the text's width is a
  // contradiction.
  const Model second = ImportHuggingFace(ParseJson(
      R"({"model_type": "qwen2_vl", "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28,
          "num_attention_heads": 12, "num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": true,
          "vision_config": {"hidden_size": 1536, "spatial_patch_size": 14}})",
      "q/config.json"));
  CHECK(ModelParameters(second) == 2208985600);  // Qwen2-VL-2B
  CHECK(
      Mentions(second.assumed, "vision_config.embed_dim = 1280 (default of Qwen2VLVisionConfig)"));
  CHECK(Broken("qwen2_vl", "vision_config.hidden_size", "1280").code == 603);
  // 4: a head_dim that is not hidden / heads.
  CHECK(Import("qwen3_vl").Backbone().runs[0].layer.attention.head_dim == 128);
  CHECK(Import("pixtral").Backbone().runs[0].layer.attention.head_dim == 128);
  // 7: the width of GLM-4.1V's vision MLP is out_hidden_size, its intermediate_size the merger's.
  const Model glm = Import("glm4v");
  CHECK(glm.modules[0].runs[0].layer.mlp.intermediate == 64);
  CHECK(glm.modules[1].output[2].out == 112);
  // 8: 25 heads stay 25.
  CHECK(Import("internvl_6b").modules[0].runs[0].layer.attention.heads == 25);
  // 9: Llama-4's two widths.
  JsonDocument alternating = Document("llama4");
  ApplyOverride(&alternating, "text_config.interleave_moe_layer_step=2");
  const Model maverick = ImportHuggingFace(alternating);
  CHECK(maverick.Backbone().runs[0].layer.mlp.intermediate == 16384);
  CHECK(maverick.Backbone().runs[1].layer.mlp.expert_intermediate == 8192);
  // 10: quantized files keep the dense shapes, and that is told.
  JsonDocument quantized = Document("llama");
  ApplyOverride(&quantized, R"(quantization_config={"quant_method": "awq", "bits": 4})");
  const Model awq = ImportHuggingFace(quantized);
  CHECK(ModelParameters(awq) == 70553706496);
  CHECK(Mentions(awq.assumed, "quantization_config"));
}

TEST_CASE("keys that change nothing are told") {
  JsonDocument document = Document("qwen3_vl");
  ApplyOverride(&document, "initializer_range=0.02");
  ApplyOverride(&document, "text_config.rope_theta=1000000");
  const Model model = ImportHuggingFace(document);
  CHECK(std::count(model.ignored.begin(), model.ignored.end(), "initializer_range") == 1);
  CHECK(std::count(model.ignored.begin(), model.ignored.end(), "text_config.rope_theta") == 1);
  CHECK_FALSE(Mentions(model.ignored, "hidden_size"));
}

TEST_CASE("an unknown architecture is refused, never guessed") {
  const Diagnostic near = Broken("llama", "architectures", R"(["LlamaForCausalLN"])");
  CHECK(near.code == 601);
  CHECK(near.message.find("'LlamaForCausalLN'") != std::string::npos);
  CHECK(near.help.find("'LlamaForCausalLM'") != std::string::npos);
  CHECK(near.where.pointer == "/architectures");
  CHECK(near.where.file.find("--set") == 0);
  CHECK(Broken("llama", "architectures", R"(["RwkvForCausalLM"])").code == 601);
  const Diagnostic type = Broken("llama", "model_type", "lama");
  CHECK(type.code == 601);
  CHECK(type.help.find("'llama'") != std::string::npos);
  const Diagnostic both = Broken("llama", "model_type", "mistral");
  CHECK(both.code == 603);
  CHECK(both.where.pointer == "/model_type");
  const Diagnostic text = Broken("internvl", "llm_config.model_type", "internlm9");
  CHECK(text.code == 601);
  CHECK(text.help.find("'internlm2'") != std::string::npos);
  CHECK(text.where.pointer == "/llm_config/model_type");
  CHECK(ThrownBy([] { ImportHuggingFace(ParseJson("{}", "c.json")); }).code == 602);
  CHECK(ThrownBy([] { ImportHuggingFace(ParseJson("[1]", "c.json")); }).code == 103);
  CHECK(ThrownBy([] { ImportHuggingFace(ParseJson(R"({"architectures": []})", "c.json")); }).code ==
        602);
  // Values inside that nobody has a rule for.
  CHECK(Broken("llava", "vision_config.model_type", "vit_giant").code == 604);
  CHECK(Broken("vila", "mm_projector_cfg.mm_projector_type", "mlp_upsample")
            .help.find("mlp_downsample") != std::string::npos);
  CHECK(Broken("llava_original", "mm_vision_tower", "somebody/tower").code == 604);
  CHECK(Broken("gemma4", "text_config.layer_types.0", "wavy_attention").code == 604);
}

TEST_CASE("a shape without a default, and shapes that contradict") {
  const Diagnostic missing = Broken("minicpmv", "num_attention_heads", "");
  CHECK(missing.code == 602);
  CHECK(missing.message.find("'num_attention_heads'") != std::string::npos);
  CHECK(missing.where.line == 1);
  CHECK(Broken("internvl", "vision_config", "").code == 602);
  CHECK(Broken("gemma4", "text_config.global_head_dim", "0").code == 603);
  const Diagnostic heads = Broken("llama", "num_key_value_heads", "7");
  CHECK(heads.code == 603);
  CHECK(heads.where.pointer == "/num_key_value_heads");
  CHECK(Broken("llama", "num_attention_heads", "60").code == 603);
  CHECK(Broken("llama", "num_hidden_layers", "0").code == 603);
  CHECK(Broken("llama", "hidden_size", "0").code == 603);
  CHECK(Broken("llama", "hidden_size", "\"wide\"").code == 103);
  CHECK(Broken("llama", "hidden_size", "-8").code == 107);
  CHECK(Broken("mixtral", "num_experts_per_tok", "9").code == 603);
  CHECK(Broken("qwen3_vl", "vision_config.out_hidden_size", "2048").code == 603);
  CHECK(Broken("clip", "vision_config.patch_size", "0").code == 603);
  CHECK(Broken("clip", "vision_config.image_size", "16").code == 603);
  CHECK(Broken("llava", "vision_feature_layer", "-25").code == 603);
  CHECK(Broken("llava_next", "image_grid_pinpoints", "[[336, 700]]").code == 603);
  CHECK(Broken("gemma3", "mm_tokens_per_image", "255").code == 603);
  CHECK(Broken("gemma4", "text_config.num_hidden_layers", "7").code == 603);
  CHECK(Broken("qwen_vl", "intermediate_size", "22017").code == 603);
  CHECK(Broken("mllama", "vision_config.vision_output_dim", "1280").code == 603);
  CHECK(Broken("internvl", "downsample_ratio", "0").code == 603);
}

TEST_CASE("a truncated file is an error with a place") {
  const std::string text = ReadTextFile(std::string(kFixtures) + "/qwen3_vl.json");
  for (std::size_t cut = 0; cut + 2 < text.size(); cut += 13) {
    const Diagnostic d =
        ThrownBy([&] { ImportHuggingFace(ParseJson(text.substr(0, cut), "cut.json")); });
    CHECK(d.code == 100);
    CHECK(d.where.file == "cut.json");
  }
}

// Calls `change` once with every object of the document that has members, and every member's index.
void ForEachMember(Json* value, const std::function<void(Json*, std::size_t)>& change) {
  if (value->IsArray()) {
    for (Json& item : value->items()) ForEachMember(&item, change);
  }
  if (!value->IsObject()) return;
  for (std::size_t i = 0; i < value->members().size(); ++i) {
    ForEachMember(&value->members()[i].second, change);
    change(value, i);
  }
}

TEST_CASE("whatever one key does, the answer is a model or a diagnostic") {
  const std::vector<Json> replacements = {
      Json(),     Json(0),       Json(1),        Json(-1),
      Json(7),    Json(1 << 20), Json(2.5),      Json("x"),
      Json(true), Json::Array(), Json::Object(), Json::Array({Json(3), Json(1 << 20)})};
  int models = 0;
  int refused = 0;
  for (const std::string& name : FixtureNames()) {
    JsonDocument document = Document(name);
    const auto attempt = [&] {
      try {
        const Model model = ImportHuggingFace(document);
        CHECK(ModelParameters(model) > 0);
        CHECK(ActiveParameters(model) > 0);
        if (model.image.kind != ImageRuleKind::kNone) CHECK(!model.modules.empty());
        ++models;
      } catch (const InputError& error) {
        CHECK(error.diagnostic().code >= 100);
        CHECK(!error.diagnostic().message.empty());
        ++refused;
      }
    };
    CAPTURE(name);
    ForEachMember(&document.root, [&](Json* object, std::size_t index) {
      auto& members = object->members();
      const std::pair<std::string, Json> kept = members[index];
      CAPTURE(kept.first);
      members.erase(members.begin() + static_cast<std::ptrdiff_t>(index));
      attempt();
      members.insert(members.begin() + static_cast<std::ptrdiff_t>(index), kept);
      for (const Json& replacement : replacements) {
        members[index].second = replacement;
        attempt();
      }
      members[index] = kept;
    });
    CHECK_NOTHROW(ImportHuggingFace(document));
  }
  CHECK(models > 500);
  CHECK(refused > 500);
}

// Records of other files' counts: data/models.json names the config.json that each belongs to.
TEST_CASE("real configs: every one imports, and counts as recorded") {
  const std::string records_path = SharedPath("data/models.json");
  const std::string configs = SharedPath("data/hf-configs");
  if (records_path.empty() || configs.empty()) return;
  const JsonDocument records = ReadJsonFile(records_path);
  int imported = 0;
  std::map<std::string, Model> models;
  for (const auto& entry : std::filesystem::directory_iterator(configs)) {
    if (!entry.is_directory()) continue;
    const std::string file = entry.path().string() + "/config.json";
    CAPTURE(file);
    const Model model = ImportHuggingFace(ReadJsonFile(file));
    CHECK(ReadModel(ParseJson(WriteModel(model).Dump(), "written")) == model);
    models["hf-configs/" + entry.path().filename().string() + "/config.json"] = model;
    ++imported;
  }
  CHECK(imported >= 34);
  int checked = 0;
  for (const Json& record : records.root.items()) {
    const Json* file = record.Find("hf_config_file");
    const Json* published = record.Find("params_published");
    const Json* tolerance = record.Find("tolerance_for_test");
    const auto number = [](const Json* value) { return value != nullptr && value->IsNumber(); };
    if (file == nullptr || !file->IsString() || !number(published) || !number(tolerance)) continue;
    const std::string name = record.Find("name")->AsString();
    if (name == "Qwen-VL")
      continue;  // its file is that of its text model, which has a record of its own
    REQUIRE(models.contains(file->AsString()));
    const double counted = static_cast<double>(ModelParameters(models[file->AsString()]));
    CHECK_MESSAGE(std::abs(counted / published->AsNumber() - 1) <= tolerance->AsNumber(), name,
                  ": counted ", counted, ", published ", published->AsNumber());
    ++checked;
  }
  CHECK(checked >= 25);
}

}  // namespace
}  // namespace aurum
