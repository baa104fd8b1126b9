#include <algorithm>
#include <utility>

#include "models/model_file.h"
#include "models/reader.h"

namespace aurum {

namespace {

using model_file::DefaultCausal;
using model_file::DefaultNorms;
using model_file::kAttentions;
using model_file::kKinds;
using model_file::kModalities;
using model_file::kNorms;
using model_file::kRules;
using model_file::kSchema;
using model_file::kTasks;
using model_file::kVideoRules;

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
  SetUnless(&j, "queries", m.queries, 0);
  SetUnless(&j, "deepstack", m.deepstack, 0);
  if (!m.output.empty()) j.Set("output", WriteLinears(m.output));
  if (m.mtp_layers > 0) j.Set("multi_token_prediction", WriteRun({m.mtp_layers, m.mtp_layer}, m));
  return j;
}

Json WriteImage(const ImageRule& i) {
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
  return image;
}

Json WriteVideo(const VideoRule& v) {
  Json video = Json::Object();
  video.Set("rule", kVideoRules[static_cast<std::size_t>(v.kind)]);
  SetUnless(&video, "max_frames", v.max_frames, 0);
  SetUnless(&video, "tokens_per_frame", v.tokens_per_frame, 0);
  SetUnless(&video, "newlines_per_frame", v.newlines_per_frame, 0);
  SetUnless(&video, "newlines", v.newlines, 0);
  SetUnless(&video, "image_size", v.image_size, 0);
  SetUnless(&video, "patch_size", v.patch_size, 0);
  SetUnless(&video, "clip_frames", v.clip_frames, 0);
  SetUnless(&video, "tokens_per_clip", v.tokens_per_clip, 0);
  SetUnless(&video, "temporal_patch_size", v.temporal_patch, 1);
  SetUnless(&video, "temporal_pool_size", v.temporal_pool, 1);
  SetUnless(&video, "min_pixels", v.min_pixels, 0);
  SetUnless(&video, "max_pixels", v.max_pixels, 0);
  SetUnless(&video, "max_total_pixels", v.max_total_pixels, 0);
  return video;
}

Json WriteAudio(const AudioRule& a) {
  Json audio = Json::Object();
  audio.Set("encoder_tokens_per_s", a.encoder_tokens_per_s);
  if (a.backbone_tokens_per_s != 0) audio.Set("backbone_tokens_per_s", a.backbone_tokens_per_s);
  if (a.chunk_s != 0) audio.Set("chunk_s", a.chunk_s);
  return audio;
}

Json WriteStrings(const std::vector<std::string>& strings) {
  Json array = Json::Array();
  for (const std::string& string : strings) array.Append(string);
  return array;
}

}  // namespace

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
  if (!(model.image == ImageRule{})) j.Set("image", WriteImage(model.image));
  if (!(model.video == VideoRule{})) j.Set("video", WriteVideo(model.video));
  if (model.audio.present) j.Set("audio", WriteAudio(model.audio));
  return j;
}

}  // namespace aurum
