#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "models/hf_parts.h"
#include "sim/core/object_reader.h"

namespace aurum {

void ImportTextOnly(HfConfig& root, Model* model) {
  model->modules.push_back(ImportText(root, root, model->family));
  model->max_positions = root.LongOr("max_position_embeddings", root.LongOr("n_positions", 0));
}

// PaliGemma: one biased matrix. Gemma-3: patches are averaged to mm_tokens_per_image, a norm, one
// matrix without bias.
void ImportGemmaVision(HfConfig& root, Model* model) {
  const bool third = model->family == "gemma3";
  HfConfig vision = root.Child("vision_config", "SiglipVisionConfig");
  HfConfig text = root.Child("text_config", "");
  Module tower = ImportSiglipVision(vision);
  Module backbone = ImportText(text, root, third ? "gemma3_text" : "gemma");
  ReadLength(text, model);
  ImageRule& rule = model->image;
  rule.kind = ImageRuleKind::kFixed;
  const int side = ImageSide(vision, 224, 16, &rule);
  rule.tokens_per_tile = side * side;
  Module connector;
  root.set_class_name(third ? "Gemma3Config" : "PaliGemmaConfig");
  if (third) {
    rule.tokens_per_tile = root.IntOr("mm_tokens_per_image", 256);
    int pooled = 1;
    while (pooled * pooled < rule.tokens_per_tile && pooled < 65536 / 2) ++pooled;
    if (rule.tokens_per_tile < 1 || pooled * pooled != rule.tokens_per_tile || side % pooled != 0) {
      root.Fail(603, "mm_tokens_per_image",
                std::to_string(side) + "x" + std::to_string(side) +
                    " patches cannot be averaged to " + std::to_string(rule.tokens_per_tile) +
                    " tokens");
    }
    connector = MakeConnector("connector", Modality::kVision, backbone.hidden,
                              {{tower.hidden, backbone.hidden}}, tower.hidden);
    root.Assume("no pan-and-scan crops: one view of an image");
  } else {
    if (root.Has("projection_dim"))
      RequireWidth(root, "projection_dim", root.Int("projection_dim"), backbone.hidden);
    connector = MakeConnector("connector", Modality::kVision, backbone.hidden,
                              {{tower.hidden, backbone.hidden, true}}, 0);
  }
  FramesAsImages(root, model);
  model->modules = {std::move(tower), std::move(connector), std::move(backbone)};
}

// Gemma-4: pooled native shape, a norm without parameters and one matrix without bias.
void ImportGemma4(HfConfig& root, Model* model) {
  HfConfig text = root.Child("text_config", "");
  Module backbone = ImportText(text, root, "gemma4_text");
  ReadLength(text, model);
  if (root.Has("audio_config")) root.Unknown("audio_config", "present", {"null"});
  if (root.Has("vision_config")) {
    HfConfig vision = root.Child("vision_config", "");
    Module tower = ImportGemma4Vision(vision);
    ImageRule& rule = model->image;
    rule.kind = ImageRuleKind::kBudget;
    rule.patch_size = vision.Int("patch_size");
    rule.merge = vision.Int("pooling_kernel_size");
    rule.tokens_per_tile = root.AnyIntOr({"vision_soft_tokens_per_image"}, 280);
    if (rule.merge < 1 || rule.merge > 1024)
      vision.Fail(603, "pooling_kernel_size",
                  "a pool of " + std::to_string(rule.merge) + " patches a side");
    Module connector = MakeConnector("connector", Modality::kVision, backbone.hidden,
                                     {{tower.hidden, backbone.hidden}}, 0);
    model->video.kind = VideoRuleKind::kFrames;
    model->video.tokens_per_frame = 70;
    root.Assume(
        "a frame of a video has at most 70 tokens (max_soft_tokens of its video processor)");
    model->modules = {std::move(tower), std::move(connector)};
  }
  model->modules.push_back(std::move(backbone));
}

void ImportGlm4v(HfConfig& root, Model* model) {
  HfConfig vision = root.ChildOrDefaults("vision_config", "Glm4vVisionConfig");
  Module backbone;
  if (root.Has("text_config")) {
    HfConfig text = root.Child("text_config", "");
    backbone = ImportText(text, root, "glm4v_text");
    ReadLength(text, model);
  } else {
    backbone = ImportText(root, root, "glm4v");
    ReadLength(root, model);
  }
  std::vector<Module> parts = ImportGlm4vVision(vision);
  RequireWidth(vision, "out_hidden_size", parts[1].hidden, backbone.hidden);
  ImageRule& rule = model->image;
  rule.kind = ImageRuleKind::kNativeMerge;
  rule.patch_size = vision.IntOr("patch_size", 14);
  rule.merge = vision.IntOr("spatial_merge_size", 2);
  // Its limits count both frames of a patch: an image may have half of them.
  AssumeArea(root, 6272, 4816896,
             "preprocessor_config.json of GLM-4.1V, half of its limits for two frames", &rule);
  VideoRule& video = model->video;
  video.kind = VideoRuleKind::kNativeMerge;
  video.temporal_patch = vision.IntOr("temporal_patch_size", 2);
  video.max_total_pixels = 47040000;
  root.Assume("videos of at most 47040000 pixels in all frames (video processor of GLM-4.1V)");
  model->modules = {std::move(parts[0]), std::move(parts[1]), std::move(backbone)};
}

// InternVL 2 to 3: pixel shuffle by downsample_ratio, norm, two biased matrices.
void ImportInternVl(HfConfig& root, Model* model) {
  HfConfig vision = root.Child("vision_config", "InternVisionConfig");
  HfConfig text = root.Child("llm_config", "");
  Module tower = ImportInternVit(vision);
  Module backbone = ImportText(text, text, "");
  ReadLength(text, model);
  root.set_class_name("InternVLChatConfig");
  tower.layers_skipped =
      SkippedLayers(root, "select_layer", root.SignedOr("select_layer", -1), tower.Layers());
  const double ratio = root.NumberOr("downsample_ratio", 0.5);
  if (!(ratio > 0.01 && ratio <= 1))
    root.Fail(603, "downsample_ratio", "downsample_ratio must lie in 0.01 … 1");
  const int shrink = static_cast<int>(1 / ratio + 0.5);
  const std::int64_t merged = std::int64_t{tower.hidden} * shrink * shrink;
  ImageRule& rule = model->image;
  rule.kind = ImageRuleKind::kTiles;
  const int side = ImageSide(vision, 224, 14, &rule);
  if (root.Has("force_image_size") && root.Int("force_image_size") != rule.image_size) {
    root.Fail(603, "force_image_size",
              "force_image_size = " + std::to_string(root.Int("force_image_size")) +
                  " is not the tower's image_size = " + std::to_string(rule.image_size));
  }
  rule.class_tokens = 1;
  rule.merge = shrink;
  rule.tokens_per_tile = (side / shrink) * (side / shrink);
  rule.max_tiles =
      root.FlagOr("dynamic_image_size", false) ? root.IntOr("max_dynamic_patch", 6) : 1;
  if (rule.max_tiles < 1 || rule.max_tiles > 1024)
    root.Fail(603, "max_dynamic_patch",
              "at most " + std::to_string(rule.max_tiles) + " tiles an image");
  rule.thumbnail = root.FlagOr("use_thumbnail", false);
  FramesAsImages(root, model);
  Module connector = MakeConnector(
      "connector", Modality::kVision, backbone.hidden,
      {{merged, backbone.hidden, true}, {backbone.hidden, backbone.hidden, true}}, 2 * merged);
  model->modules = {std::move(tower), std::move(connector), std::move(backbone)};
}

// Kimi-K2.5 (modeling_kimi_k25.py): MoonViT, norm, 2×2 neighbours, two biased matrices.
void ImportKimi(HfConfig& root, Model* model) {
  HfConfig vision = root.Child("vision_config", "MoonViTConfig");
  HfConfig text = root.Child("text_config", "");
  Module tower = ImportMoonVit(vision);
  Module backbone = ImportText(text, root, "");
  ReadLength(text, model);
  const std::string projector = vision.TextOr("mm_projector_type", "patchmerger");
  if (projector != "patchmerger") vision.Unknown("mm_projector_type", projector, {"patchmerger"});
  if (vision.Has("mm_hidden_size"))
    RequireWidth(vision, "mm_hidden_size", vision.Int("mm_hidden_size"), tower.hidden);
  if (vision.Has("text_hidden_size"))
    RequireWidth(vision, "text_hidden_size", vision.Int("text_hidden_size"), backbone.hidden);
  const std::vector<int> kernel = vision.Ints("merge_kernel_size");
  if (!kernel.empty() && kernel != std::vector<int>{2, 2})
    vision.Fail(604, "merge_kernel_size", "only a merge of 2x2 patches is known");
  const std::int64_t merged = 4 * std::int64_t{tower.hidden};
  Module connector = MakeConnector("connector", Modality::kVision, backbone.hidden,
                                   {{merged, merged, true}, {merged, backbone.hidden, true}},
                                   2 * std::int64_t{tower.hidden});
  ImageRule& rule = model->image;
  rule.kind = ImageRuleKind::kNativeMerge;
  rule.patch_size = vision.IntOr("patch_size", 14);
  rule.merge = 2;
  AssumeArea(root, 0, 16384 * std::int64_t{rule.patch_size} * rule.patch_size,
             "16384 patches, in_patch_limit of its image processor", &rule);
  VideoRule& video = model->video;
  video.kind = VideoRuleKind::kNativeMerge;
  video.temporal_pool = vision.IntOr("init_pos_emb_time", 4);
  if (video.temporal_pool < 1 || video.temporal_pool > 1024)
    vision.Fail(603, "init_pos_emb_time",
                "groups of " + std::to_string(video.temporal_pool) + " frames");
  video.max_pixels = 4096 * std::int64_t{rule.patch_size} * rule.patch_size;
  root.Assume(
      "a frame of a video has at most 4096 patches (in_patch_limit_each_frame of its image "
      "processor)");
  model->modules = {std::move(tower), std::move(connector), std::move(backbone)};
}

// MoonViT before a Qwen2, connector as in Eagle and InternVL: norm of the merged width,
// mlp_connector_layers matrices.
void ImportLocateAnything(HfConfig& root, Model* model) {
  HfConfig vision = root.Child("vision_config", "MoonViTConfig");
  HfConfig text = root.Child("text_config", "");
  Module tower = ImportMoonVit(vision);
  const std::vector<int> kernel = vision.Ints("merge_kernel_size");
  if (!kernel.empty() && kernel != std::vector<int>{2, 2})
    vision.Fail(604, "merge_kernel_size", "only a merge of 2x2 patches is known");
  Module backbone = ImportText(text, text, "qwen2");
  ReadLength(text, model);
  root.set_class_name("LocateAnythingConfig");
  const int depth = root.IntOr("mlp_connector_layers", 2);
  if (depth < 1 || depth > 16)
    root.Fail(603, "mlp_connector_layers", "a connector of " + std::to_string(depth) + " matrices");
  const std::int64_t merged = 4 * std::int64_t{tower.hidden};
  std::vector<Linear> output = {{merged, backbone.hidden, true}};
  for (int i = 1; i < depth; ++i) output.push_back({backbone.hidden, backbone.hidden, true});
  root.Assume(
      "connector: LayerNorm of the merged width, then mlp_connector_layers biased matrices");
  Module connector =
      MakeConnector("connector", Modality::kVision, backbone.hidden, std::move(output), 2 * merged);
  ImageRule& rule = model->image;
  rule.kind = ImageRuleKind::kNativeMerge;
  rule.patch_size = vision.IntOr("patch_size", 14);
  rule.merge = 2;
  AssumeArea(root, 0, 4096 * std::int64_t{rule.patch_size} * rule.patch_size,
             "4096 patches, in_patch_limit of Kimi-VL's image processor", &rule);
  model->modules = {std::move(tower), std::move(connector), std::move(backbone)};
}

// MiniCPM-V 2.6 (openbmb, resampler.py): query_num learned queries of the backbone's width, heads
// of 128, norms of queries, keys and output, and a square matrix behind.
void ImportMiniCpmV(HfConfig& root, Model* model) {
  HfConfig vision = root.Child("vision_config", "SiglipVisionConfig");
  Module tower = ImportSiglipVision(vision);
  if (root.FlagOr("drop_vision_last_layer", false)) {
    // The dropped layer is not in the checkpoint.
    if (tower.runs.back().count < 2)
      root.Fail(603, "drop_vision_last_layer", "the vision tower has no layer to drop");
    --tower.runs.back().count;
  }
  Module backbone = ImportText(root, root, "minicpmv");
  ReadLength(root, model);
  const int hidden = backbone.hidden;
  const int queries = root.Int("query_num");
  if (queries < 1) root.Fail(603, "query_num", "a resampler without queries");
  Module connector = MakeConnector("connector", Modality::kVision, hidden, {{hidden, hidden}},
                                   6 * std::int64_t{hidden});
  connector.resampler = {queries, tower.hidden, std::max(1, hidden / 128)};
  ImageRule& rule = model->image;
  rule.kind = ImageRuleKind::kSlices;
  rule.image_size = 448;
  rule.patch_size = vision.IntOr("patch_size", 16);
  rule.tokens_per_tile = queries;
  root.Assume("slices of about 448x448 pixels (scale_resolution of its image processor)");
  rule.max_tiles = 9;
  if (root.Has("slice_config")) {
    HfConfig slices = root.Child("slice_config", "MiniCPMVSliceConfig");
    rule.max_tiles = slices.IntOr("max_slice_nums", 1);
    if (rule.max_tiles < 1 || rule.max_tiles > 1024)
      slices.Fail(603, "max_slice_nums", "at most " + std::to_string(rule.max_tiles) + " slices");
  } else {
    root.Assume("slice_config.max_slice_nums = 9 (that of MiniCPM-V 2.6)");
  }
  model->video.kind = VideoRuleKind::kFrames;
  root.Assume("frames of a video are not sliced (max_slice_nums = 1)");
  model->modules = {std::move(tower), std::move(connector), std::move(backbone)};
}

// Molmo (allenai/molmo): CLIP-L/14-336 without its last layer, outputs of two layers side by side;
// every 2×2 patches are pooled by an attention whose one query is their mean; a gated MLP as wide
// as the backbone's. As matrices: keys and values per patch, query, output and MLP per pooled
// token.
void ImportMolmo(HfConfig& root, Model* model) {
  Module backbone = ImportText(root, root, "molmo");
  ReadLength(root, model);
  Module tower = ImportNamedTower(root, kClipLarge336, 23);
  tower.embedding_parameters -= 2 * std::int64_t{tower.hidden};  // no norm behind the layers
  const std::int64_t width = tower.hidden;
  const std::int64_t intermediate = backbone.runs[0].layer.mlp.intermediate;
  const std::int64_t hidden = backbone.hidden;
  Module connector = MakeConnector("connector", Modality::kVision, backbone.hidden,
                                   {{2 * width, width, true},
                                    {width, width, true},
                                    {width, intermediate},
                                    {width, intermediate},
                                    {intermediate, hidden}},
                                   2 * 2 * width);  // two pad embeddings
  connector.input = {{2 * width, width, true}, {2 * width, width, true}};
  root.Assume(
      "vision tower of 23 layers, 2x2 attention pool and connector as in Molmo's code; config.json "
      "tells none of them");
  ImageRule& rule = model->image;
  rule.kind = ImageRuleKind::kOverlapCrops;
  rule.image_size = 336;
  rule.patch_size = 14;
  rule.class_tokens = 1;
  rule.merge = 2;
  rule.tokens_per_tile = 144;
  rule.max_tiles = 12;
  model->modules = {std::move(tower), std::move(connector), std::move(backbone)};
}

// Fuyu: no encoder; one biased matrix from the pixels of a patch to the backbone.
void ImportFuyu(HfConfig& root, Model* model) {
  Module backbone;
  if (root.Has("text_config")) {
    HfConfig text = root.Child("text_config", "");
    backbone = ImportText(text, root, "persimmon");
  } else {
    backbone = ImportText(root, root, "fuyu");
  }
  ReadLength(root, model);
  ImageRule& rule = model->image;
  rule.kind = ImageRuleKind::kRowNewline;
  rule.patch_size = root.IntOr("patch_size", 30);
  const int channels = root.IntOr("num_channels", 3);
  if (rule.patch_size < 1 || rule.patch_size > 4096)
    root.Fail(603, "patch_size", "a patch of " + std::to_string(rule.patch_size) + " pixels");
  if (channels < 1 || channels > 64)
    root.Fail(603, "num_channels", "an image of " + std::to_string(channels) + " channels");
  rule.grid_pinpoints = {{1080, 1920}};
  root.Assume("images larger than 1920x1080 are scaled down into it (size of FuyuImageProcessor)");
  const std::int64_t pixels = std::int64_t{rule.patch_size} * rule.patch_size * channels;
  Module connector = MakeConnector("connector", Modality::kVision, backbone.hidden,
                                   {{pixels, backbone.hidden, true}}, 0);
  model->modules = {std::move(connector), std::move(backbone)};
}

// CLIPModel: two towers, one pooled vector each, projections without bias, a temperature.
void ImportClip(HfConfig& root, Model* model) {
  model->task = ModelTask::kContrastive;
  HfConfig vision = root.Child("vision_config", "CLIPVisionConfig");
  HfConfig text = root.Child("text_config", "CLIPTextConfig");
  Module tower = ImportClipVision(vision);
  Module words = ImportClipText(text);
  model->max_positions = text.LongOr("max_position_embeddings", 77);
  root.set_class_name("CLIPConfig");
  const int width = root.IntOr("projection_dim", 512);
  if (width < 1) root.Fail(603, "projection_dim", "projection_dim is 0");
  tower.output = {{tower.hidden, width}};
  words.output = {{words.hidden, width}};
  words.embedding_parameters += 1;  // logit_scale
  ImageRule& rule = model->image;
  rule.kind = ImageRuleKind::kFixed;
  ImageSide(vision, 224, 32, &rule);
  rule.class_tokens = 1;
  rule.tokens_per_tile = 1;
  model->modules = {std::move(tower), std::move(words)};
}

}  // namespace aurum
