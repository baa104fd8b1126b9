#include "models/reader.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "models/model_file.h"
#include "sim/core/object_reader.h"

namespace aurum {

namespace {

using model_file::DefaultCausal;
using model_file::DefaultNorms;
using model_file::kAttentions;
using model_file::kKinds;
using model_file::kModalities;
using model_file::kMostLayers;
using model_file::kMostWidth;
using model_file::kNorms;
using model_file::kRules;
using model_file::kSchema;
using model_file::kTasks;
using model_file::kVideoRules;

// Bounds of single fields. Their products may still be absurd; CheckModel refuses what could
// overflow.
constexpr std::int64_t kMostExperts = 1 << 16;
constexpr std::int64_t kMostLoose = std::int64_t{1}
                                    << 42;  // parameters that are stated as a number
constexpr std::int64_t kMostPixels = std::int64_t{1} << 34;

int Int(ObjectReader& r, std::string_view key, std::int64_t fallback, std::int64_t high) {
  return static_cast<int>(r.IntegerOr(key, fallback, 0, high));
}

Attention ReadAttention(ObjectReader r, const Module& module) {
  Attention a;
  a.kind = static_cast<AttentionKind>(r.ChoiceOr("kind", 0, kAttentions));
  a.heads = static_cast<int>(r.Integer("num_attention_heads", 0, 1 << 16));
  a.kv_heads = Int(r, "num_key_value_heads", a.heads, 1 << 16);
  if (r.Has("head_dim")) {
    a.head_dim = Int(r, "head_dim", 0, kMostWidth);
  } else if (a.heads > 0) {
    if (module.hidden % a.heads != 0) {
      r.Fail(603, "num_attention_heads",
             "hidden_size = " + std::to_string(module.hidden) +
                 " is not a multiple of num_attention_heads = " + std::to_string(a.heads),
             "give head_dim if it is not their quotient");
    }
    a.head_dim = module.hidden / a.heads;
  }
  a.value_head_dim = Int(r, "v_head_dim", a.head_dim, kMostWidth);
  a.causal = r.BoolOr("causal", DefaultCausal(module, a.kind));
  a.window = Int(r, "sliding_window", 0, 1 << 30);
  a.qkv_bias = r.BoolOr("attention_bias", false);
  a.key_bias = r.BoolOr("key_bias", true);
  a.output_bias = r.BoolOr("output_bias", false);
  a.output_gate = r.BoolOr("output_gate", false);
  a.shared_key_value = r.BoolOr("shared_key_value", false);
  a.q_lora_rank = Int(r, "q_lora_rank", 0, kMostWidth);
  a.kv_lora_rank = Int(r, "kv_lora_rank", 0, kMostWidth);
  a.rope_head_dim = Int(r, "qk_rope_head_dim", 0, kMostWidth);
  a.kv_input = Int(r, "kv_hidden_size", 0, kMostWidth);
  r.Finish();
  const ShapeProblem problem = CheckAttention(a);
  if (!problem.message.empty()) r.Fail(603, problem.key, problem.message);
  return a;
}

Mlp ReadMlp(ObjectReader r) {
  Mlp m;
  m.intermediate = Int(r, "intermediate_size", 0, kMostWidth);
  m.gated = r.BoolOr("gated", true);
  m.bias = r.BoolOr("bias", false);
  m.experts = Int(r, "num_local_experts", 0, kMostExperts);
  m.experts_per_token = Int(r, "num_experts_per_tok", 0, kMostExperts);
  m.expert_intermediate = Int(r, "moe_intermediate_size", 0, kMostWidth);
  m.shared_intermediate = Int(r, "shared_expert_intermediate_size", 0, kMostWidth);
  r.Finish();
  const ShapeProblem problem = CheckMlp(m);
  if (!problem.message.empty()) r.Fail(603, problem.key, problem.message);
  return m;
}

LayerRun ReadRun(ObjectReader& r, const Module& module) {
  LayerRun run;
  run.count = static_cast<int>(r.Integer("num_hidden_layers", 0, kMostLayers));
  if (run.count == 0) r.Fail(603, "num_hidden_layers", "a run of zero layers", "leave the run out");
  run.layer.attention = ReadAttention(r.Object("attention"), module);
  if (r.Has("cross_attention"))
    run.layer.cross = ReadAttention(r.Object("cross_attention"), module);
  run.layer.mlp = ReadMlp(r.Object("mlp"));
  run.layer.layer_norm = r.ChoiceOr("norm", 0, kNorms) == 1;
  run.layer.norm_parameters =
      r.IntegerOr("norm_parameters", DefaultNorms(module, run.layer.layer_norm), 0, kMostLoose);
  run.layer.other_parameters = r.IntegerOr("other_parameters", 0, 0, kMostLoose);
  r.Finish();
  return run;
}

void ReadRuns(ObjectReader& parent, Module* module) {
  for (ObjectReader& r : parent.Objects("layers")) {
    if (!r.Has("repeat")) {
      module->runs.push_back(ReadRun(r, *module));
      continue;
    }
    const std::int64_t repeat = r.Integer("repeat", 1, kMostLayers);
    std::vector<LayerRun> pattern;
    for (ObjectReader& inner : r.Objects("layers")) pattern.push_back(ReadRun(inner, *module));
    r.Finish();
    if (pattern.empty()) r.Fail(603, "layers", "a repeated pattern without layers");
    if (repeat * static_cast<std::int64_t>(pattern.size()) > kMostLayers) {
      r.Fail(603, "repeat", "more than " + std::to_string(kMostLayers) + " layers");
    }
    for (std::int64_t i = 0; i < repeat; ++i)
      module->runs.insert(module->runs.end(), pattern.begin(), pattern.end());
  }
}

std::vector<Linear> ReadLinears(ObjectReader& parent, std::string_view key) {
  std::vector<Linear> linears;
  for (ObjectReader& r : parent.Objects(key)) {
    Linear linear;
    linear.in = r.Integer("in_features", 1, kMostWidth);
    linear.out = r.Integer("out_features", 1, kMostWidth);
    linear.bias = r.BoolOr("bias", false);
    linear.repeats = static_cast<int>(r.IntegerOr("repeats", 1, 1, 1 << 16));
    r.Finish();
    linears.push_back(linear);
  }
  return linears;
}

Module ReadModule(ObjectReader& r) {
  Module m;
  m.name = r.String("name");
  m.kind = static_cast<ModuleKind>(r.Choice("kind", kKinds));
  m.modality = static_cast<Modality>(r.ChoiceOr("modality", 0, kModalities));
  m.hidden = static_cast<int>(r.Integer("hidden_size", 0, kMostWidth));
  if (m.hidden == 0) r.Fail(603, "hidden_size", "module '" + m.name + "' has no width");
  m.input = ReadLinears(r, "input");
  ReadRuns(r, &m);
  m.output = ReadLinears(r, "output");
  m.layers_skipped = Int(r, "layers_skipped", 0, kMostLayers);
  m.embedding_parameters = r.IntegerOr("embedding_parameters", 0, 0, kMostLoose);
  m.vocabulary = r.IntegerOr("vocab_size", 0, 0, kMostWidth);
  m.head_vocabulary = r.IntegerOr(
      "head_vocab_size", m.kind == ModuleKind::kBackbone ? m.vocabulary : 0, 0, kMostWidth);
  m.tied_head = r.BoolOr("tie_word_embeddings", false);
  if (r.Has("resampler")) {
    ObjectReader s = r.Object("resampler");
    m.resampler.queries = static_cast<int>(s.Integer("queries", 1, kMostWidth));
    m.resampler.kv_input = static_cast<int>(s.Integer("kv_hidden_size", 1, kMostWidth));
    m.resampler.heads = static_cast<int>(s.Integer("num_attention_heads", 1, 1 << 16));
    s.Finish();
  }
  m.queries = Int(r, "queries", 0, kMostWidth);
  m.deepstack = Int(r, "deepstack", 0, kMostLayers);
  if (r.Has("multi_token_prediction")) {
    ObjectReader s = r.Object("multi_token_prediction");
    const LayerRun run = ReadRun(s, m);
    m.mtp_layers = run.count;
    m.mtp_layer = run.layer;
  }
  r.Finish();
  return m;
}

ImageRule ReadImage(ObjectReader r) {
  ImageRule i;
  i.kind = static_cast<ImageRuleKind>(r.Choice("rule", kRules));
  i.image_size = Int(r, "image_size", 0, 1 << 16);
  i.patch_size = Int(r, "patch_size", 0, 1 << 16);
  i.merge = static_cast<int>(r.IntegerOr("spatial_merge_size", 1, 1, 1 << 10));
  i.class_tokens = Int(r, "class_tokens", 0, 1 << 16);
  i.tokens_per_tile = Int(r, "tokens_per_tile", 0, 1 << 24);
  i.max_tiles = static_cast<int>(r.IntegerOr("max_tiles", 1, 1, 1024));
  i.thumbnail = r.BoolOr("use_thumbnail", false);
  i.min_pixels = r.IntegerOr("min_pixels", 0, 0, kMostPixels);
  i.max_pixels = r.IntegerOr("max_pixels", 0, 0, kMostPixels);
  if (r.Has("image_grid_pinpoints")) {
    const Json& points = r.Value("image_grid_pinpoints");
    if (!points.IsArray())
      r.Fail(103, "image_grid_pinpoints",
             "image_grid_pinpoints must be an array of [height, width]");
    for (const Json& point : points.items()) {
      const bool pair = point.IsArray() && point.items().size() == 2 &&
                        point.items()[0].IsInteger() && point.items()[1].IsInteger() &&
                        point.items()[0].AsInteger() >= 1 && point.items()[1].AsInteger() >= 1 &&
                        point.items()[0].AsInteger() <= (1 << 16) &&
                        point.items()[1].AsInteger() <= (1 << 16);
      if (!pair)
        r.Fail(103, "image_grid_pinpoints", "a grid pinpoint must be [height, width] in pixels");
      i.grid_pinpoints.push_back({static_cast<int>(point.items()[0].AsInteger()),
                                  static_cast<int>(point.items()[1].AsInteger())});
    }
  }
  r.Finish();
  const ShapeProblem problem = CheckImageRule(i);
  if (!problem.message.empty()) r.Fail(603, problem.key, problem.message);
  return i;
}

VideoRule ReadVideo(ObjectReader r, const ImageRule& image) {
  VideoRule v;
  v.kind = static_cast<VideoRuleKind>(r.Choice("rule", kVideoRules));
  v.max_frames = Int(r, "max_frames", 0, 1 << 20);
  v.tokens_per_frame = Int(r, "tokens_per_frame", 0, 1 << 24);
  v.newlines_per_frame = Int(r, "newlines_per_frame", 0, 1 << 16);
  v.newlines = Int(r, "newlines", 0, 1 << 16);
  v.image_size = Int(r, "image_size", 0, 1 << 16);
  v.patch_size = Int(r, "patch_size", 0, 1 << 16);
  v.clip_frames = Int(r, "clip_frames", 0, 1 << 16);
  v.tokens_per_clip = Int(r, "tokens_per_clip", 0, 1 << 24);
  v.temporal_patch = static_cast<int>(r.IntegerOr("temporal_patch_size", 1, 1, 64));
  v.temporal_pool = static_cast<int>(r.IntegerOr("temporal_pool_size", 1, 1, 1024));
  v.min_pixels = r.IntegerOr("min_pixels", 0, 0, kMostPixels);
  v.max_pixels = r.IntegerOr("max_pixels", 0, 0, kMostPixels);
  v.max_total_pixels = r.IntegerOr("max_total_pixels", 0, 0, std::int64_t{1} << 50);
  r.Finish();
  const ShapeProblem problem = CheckVideoRule(v, image);
  if (!problem.message.empty()) r.Fail(603, problem.key, problem.message);
  return v;
}

AudioRule ReadAudio(ObjectReader r) {
  AudioRule a;
  a.present = true;
  a.encoder_tokens_per_s = r.Number("encoder_tokens_per_s", 1e-3, 1e6);
  a.backbone_tokens_per_s = r.NumberOr("backbone_tokens_per_s", 0, 0, 1e6);
  a.chunk_s = r.NumberOr("chunk_s", 0, 0, 1e6);
  r.Finish();
  return a;
}

}  // namespace

Model ReadModel(const JsonDocument& document) {
  ObjectReader r(document, document.root, "");
  const std::string schema = r.String("schema");
  if (schema != kSchema) {
    r.Fail(108, "schema", "this file is '" + schema + "', not a model",
           std::string("a model begins with \"schema\": \"") + kSchema +
               "\"; a config.json is brought in by 'aurum import hf'");
  }
  Model model;
  model.name = r.String("name");
  model.family = r.String("family", "");
  model.task = static_cast<ModelTask>(r.ChoiceOr("task", 0, kTasks));
  model.max_positions = r.IntegerOr("max_position_embeddings", 0, 0, std::int64_t{1} << 40);
  model.source = r.String("source");
  if (r.Has("assumed")) model.assumed = r.Strings("assumed");
  if (r.Has("ignored")) model.ignored = r.Strings("ignored");
  std::vector<ObjectReader> modules = r.Objects("modules");
  for (ObjectReader& module : modules) model.modules.push_back(ReadModule(module));
  if (r.Has("image")) model.image = ReadImage(r.Object("image"));
  if (r.Has("video")) model.video = ReadVideo(r.Object("video"), model.image);
  if (r.Has("audio")) model.audio = ReadAudio(r.Object("audio"));
  r.Finish();
  std::size_t guilty = 0;
  const ShapeProblem problem = CheckModel(model, &guilty);
  if (!problem.message.empty()) {
    const int code = problem.key == "name"                               ? 606
                     : problem.key == "modules" || problem.key == "kind" ? 605
                                                                         : 603;
    (guilty < modules.size() ? modules[guilty] : r).Fail(code, problem.key, problem.message);
  }
  return model;
}

std::vector<std::string> ModelCatalogue(const std::string& data_root) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(data_root + "/models/catalogue", error)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

JsonDocument OpenModel(const std::string& name_or_file, const std::string& data_root) {
  const bool is_path =
      name_or_file.find('/') != std::string::npos || name_or_file.ends_with(".json");
  if (is_path) return ReadJsonFile(name_or_file);
  const std::vector<std::string> names = ModelCatalogue(data_root);
  if (std::find(names.begin(), names.end(), name_or_file) == names.end()) {
    const std::string nearest = NearestName(name_or_file, names);
    std::string help = nearest.empty() ? "" : "did you mean '" + nearest + "'? ";
    if (names.empty()) {
      help += "there is no catalogue under '" + data_root + "'";
    } else {
      help += "known:";
      for (const std::string& name : names) help += " " + name;
    }
    ThrowInput(210, "unknown model '" + name_or_file + "'",
               help + "; a file is named by a path with '/' or ending in .json");
  }
  return ReadJsonFile(data_root + "/models/catalogue/" + name_or_file + ".json");
}

}  // namespace aurum
