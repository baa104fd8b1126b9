#include "models/reader.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include "sim/core/object_reader.h"

namespace aurum {
namespace {

constexpr const char* kSchema = "aurum.model/1";

// Bounds of single fields. Their products may still be absurd; CheckModel refuses what could
// overflow.
constexpr std::int64_t kMostWidth = std::int64_t{1} << 24;
constexpr std::int64_t kMostLayers = 4096;
constexpr std::int64_t kMostExperts = 1 << 16;
constexpr std::int64_t kMostLoose = std::int64_t{1}
                                    << 42;  // parameters that are stated as a number
constexpr std::int64_t kMostPixels = std::int64_t{1} << 34;

const std::vector<std::string> kTasks = {"generative", "contrastive"};
const std::vector<std::string> kKinds = {"encoder", "connector", "backbone"};
const std::vector<std::string> kModalities = {"text", "vision", "audio"};
const std::vector<std::string> kAttentions = {"self", "latent", "linear", "cross"};
const std::vector<std::string> kNorms = {"rms", "layer"};
const std::vector<std::string> kRules = {
    "none",        "fixed",         "llava_anyres", "native_merge",
    "row_newline", "tiles",         "canvas",       "canvas_separated",
    "slices",      "overlap_crops", "budget"};

int Int(ObjectReader& r, std::string_view key, std::int64_t fallback, std::int64_t high) {
  return static_cast<int>(r.IntegerOr(key, fallback, 0, high));
}

// An audio or image model's two forms of default: what a reader fills in and a writer leaves out.
bool DefaultCausal(const Module& module, AttentionKind kind) {
  return module.kind == ModuleKind::kBackbone && kind != AttentionKind::kCross;
}
std::int64_t DefaultNorms(const Module& module, bool layer_norm) {
  return std::int64_t{module.hidden} * (layer_norm ? 4 : 2);
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

AudioRule ReadAudio(ObjectReader r) {
  AudioRule a;
  a.present = true;
  a.encoder_tokens_per_s = r.Number("encoder_tokens_per_s", 1e-3, 1e6);
  a.backbone_tokens_per_s = r.NumberOr("backbone_tokens_per_s", 0, 0, 1e6);
  a.chunk_s = r.NumberOr("chunk_s", 0, 0, 1e6);
  r.Finish();
  return a;
}

// Only what differs from a reader's default is written: a file stays short enough to edit by hand.
void SetUnless(Json* object, std::string_view key, std::int64_t value, std::int64_t fallback) {
  if (value != fallback) object->Set(key, Json(value));
}
void SetFlag(Json* object, std::string_view key, bool value, bool fallback) {
  if (value != fallback) object->Set(key, Json(value));
}

Json WriteAttention(const Attention& a, const Module& module) {
  Json j = Json::Object();
  if (a.kind != AttentionKind::kSelf) j.Set("kind", kAttentions[static_cast<std::size_t>(a.kind)]);
  j.Set("num_attention_heads", a.heads);
  SetUnless(&j, "num_key_value_heads", a.kv_heads, a.heads);
  if (a.heads == 0 || module.hidden % a.heads != 0 || module.hidden / a.heads != a.head_dim)
    j.Set("head_dim", a.head_dim);
  SetUnless(&j, "v_head_dim", a.value_head_dim, a.head_dim);
  SetFlag(&j, "causal", a.causal, DefaultCausal(module, a.kind));
  SetUnless(&j, "sliding_window", a.window, 0);
  SetFlag(&j, "attention_bias", a.qkv_bias, false);
  SetFlag(&j, "key_bias", a.key_bias, true);
  SetFlag(&j, "output_bias", a.output_bias, false);
  SetFlag(&j, "output_gate", a.output_gate, false);
  SetFlag(&j, "shared_key_value", a.shared_key_value, false);
  SetUnless(&j, "q_lora_rank", a.q_lora_rank, 0);
  SetUnless(&j, "kv_lora_rank", a.kv_lora_rank, 0);
  SetUnless(&j, "qk_rope_head_dim", a.rope_head_dim, 0);
  SetUnless(&j, "kv_hidden_size", a.kv_input, 0);
  return j;
}

Json WriteRun(const LayerRun& run, const Module& module) {
  const Layer& layer = run.layer;
  Json j = Json::Object();
  j.Set("num_hidden_layers", run.count);
  j.Set("attention", WriteAttention(layer.attention, module));
  if (layer.cross.heads > 0) j.Set("cross_attention", WriteAttention(layer.cross, module));
  Json mlp = Json::Object();
  SetUnless(&mlp, "intermediate_size", layer.mlp.intermediate, 0);
  SetFlag(&mlp, "gated", layer.mlp.gated, true);
  SetFlag(&mlp, "bias", layer.mlp.bias, false);
  SetUnless(&mlp, "num_local_experts", layer.mlp.experts, 0);
  SetUnless(&mlp, "num_experts_per_tok", layer.mlp.experts_per_token, 0);
  SetUnless(&mlp, "moe_intermediate_size", layer.mlp.expert_intermediate, 0);
  SetUnless(&mlp, "shared_expert_intermediate_size", layer.mlp.shared_intermediate, 0);
  j.Set("mlp", std::move(mlp));
  if (layer.layer_norm) j.Set("norm", kNorms[1]);
  SetUnless(&j, "norm_parameters", layer.norm_parameters, DefaultNorms(module, layer.layer_norm));
  SetUnless(&j, "other_parameters", layer.other_parameters, 0);
  return j;
}

// Runs that alternate (dense, experts, dense, experts, …) are written once with "repeat". At every
// place the period that covers the most runs wins, the shortest one of equals: Gemma-3's 34 layers
// become 5 × {5 local, 1 global} and 4 local.
Json WriteRuns(const Module& module) {
  const std::vector<LayerRun>& runs = module.runs;
  Json array = Json::Array();
  std::size_t at = 0;
  while (at < runs.size()) {
    std::size_t best_period = 1;
    std::size_t best_times = 1;
    for (std::size_t period = 2; period <= 8 && at + 2 * period <= runs.size(); ++period) {
      std::size_t times = 1;
      while (at + (times + 1) * period <= runs.size() &&
             std::equal(runs.begin() + static_cast<std::ptrdiff_t>(at),
                        runs.begin() + static_cast<std::ptrdiff_t>(at + period),
                        runs.begin() + static_cast<std::ptrdiff_t>(at + times * period))) {
        ++times;
      }
      if (times > 1 && times * period > best_times * best_period) {
        best_period = period;
        best_times = times;
      }
    }
    if (best_times == 1) {
      array.Append(WriteRun(runs[at], module));
      ++at;
      continue;
    }
    Json pattern = Json::Array();
    for (std::size_t i = 0; i < best_period; ++i) pattern.Append(WriteRun(runs[at + i], module));
    Json repeated = Json::Object();
    repeated.Set("repeat", static_cast<std::int64_t>(best_times));
    repeated.Set("layers", std::move(pattern));
    array.Append(std::move(repeated));
    at += best_times * best_period;
  }
  return array;
}

Json WriteLinears(const std::vector<Linear>& linears) {
  Json array = Json::Array();
  for (const Linear& linear : linears) {
    Json j = Json::Object();
    j.Set("in_features", linear.in);
    j.Set("out_features", linear.out);
    SetFlag(&j, "bias", linear.bias, false);
    SetUnless(&j, "repeats", linear.repeats, 1);
    array.Append(std::move(j));
  }
  return array;
}

Json WriteModule(const Module& m) {
  Json j = Json::Object();
  j.Set("name", m.name);
  j.Set("kind", kKinds[static_cast<std::size_t>(m.kind)]);
  j.Set("modality", kModalities[static_cast<std::size_t>(m.modality)]);
  j.Set("hidden_size", m.hidden);
  SetUnless(&j, "vocab_size", m.vocabulary, 0);
  SetUnless(&j, "head_vocab_size", m.head_vocabulary,
            m.kind == ModuleKind::kBackbone ? m.vocabulary : 0);
  SetFlag(&j, "tie_word_embeddings", m.tied_head, false);
  SetUnless(&j, "embedding_parameters", m.embedding_parameters, 0);
  if (!m.input.empty()) j.Set("input", WriteLinears(m.input));
  if (!m.runs.empty()) j.Set("layers", WriteRuns(m));
  SetUnless(&j, "layers_skipped", m.layers_skipped, 0);
  if (m.resampler.queries > 0) {
    Json r = Json::Object();
    r.Set("queries", m.resampler.queries);
    r.Set("kv_hidden_size", m.resampler.kv_input);
    r.Set("num_attention_heads", m.resampler.heads);
    j.Set("resampler", std::move(r));
  }
  if (!m.output.empty()) j.Set("output", WriteLinears(m.output));
  return j;
}

Json WriteStrings(const std::vector<std::string>& strings) {
  Json array = Json::Array();
  for (const std::string& string : strings) array.Append(string);
  return array;
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

Json WriteModel(const Model& model) {
  Json j = Json::Object();
  j.Set("schema", kSchema);
  j.Set("name", model.name);
  if (!model.family.empty()) j.Set("family", model.family);
  if (model.task != ModelTask::kGenerative)
    j.Set("task", kTasks[static_cast<std::size_t>(model.task)]);
  j.Set("source", model.source);
  if (!model.assumed.empty()) j.Set("assumed", WriteStrings(model.assumed));
  if (!model.ignored.empty()) j.Set("ignored", WriteStrings(model.ignored));
  SetUnless(&j, "max_position_embeddings", model.max_positions, 0);
  Json modules = Json::Array();
  for (const Module& module : model.modules) modules.Append(WriteModule(module));
  j.Set("modules", std::move(modules));
  if (!(model.image == ImageRule{})) {
    const ImageRule& i = model.image;
    Json image = Json::Object();
    image.Set("rule", kRules[static_cast<std::size_t>(i.kind)]);
    SetUnless(&image, "image_size", i.image_size, 0);
    SetUnless(&image, "patch_size", i.patch_size, 0);
    SetUnless(&image, "spatial_merge_size", i.merge, 1);
    SetUnless(&image, "class_tokens", i.class_tokens, 0);
    SetUnless(&image, "tokens_per_tile", i.tokens_per_tile, 0);
    SetUnless(&image, "max_tiles", i.max_tiles, 1);
    SetFlag(&image, "use_thumbnail", i.thumbnail, false);
    SetUnless(&image, "min_pixels", i.min_pixels, 0);
    SetUnless(&image, "max_pixels", i.max_pixels, 0);
    if (!i.grid_pinpoints.empty()) {
      Json points = Json::Array();
      for (const std::vector<int>& point : i.grid_pinpoints) {
        Json pair = Json::Array();
        for (const int side : point) pair.Append(side);
        points.Append(std::move(pair));
      }
      image.Set("image_grid_pinpoints", std::move(points));
    }
    j.Set("image", std::move(image));
  }
  if (model.audio.present) {
    Json audio = Json::Object();
    audio.Set("encoder_tokens_per_s", model.audio.encoder_tokens_per_s);
    if (model.audio.backbone_tokens_per_s != 0)
      audio.Set("backbone_tokens_per_s", model.audio.backbone_tokens_per_s);
    if (model.audio.chunk_s != 0) audio.Set("chunk_s", model.audio.chunk_s);
    j.Set("audio", std::move(audio));
  }
  return j;
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
