#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "models/hf_parts.h"
#include "sim/core/object_reader.h"

namespace aurum {
namespace {

// What LLaVA's own files may name as their tower, with the shapes that its authors published.
constexpr NamedTower kOtherTowers[] = {
    kClipLarge336,
    {"openai/clip-vit-large-patch14", false, 224, 1024, 24, 16, 4096},
    {"google/siglip-so400m-patch14-384", true, 384, 1152, 27, 16, 4304},
};

const std::vector<std::vector<int>> kLlavaNextPinpoints = {
    {336, 672}, {672, 336}, {672, 672}, {1008, 336}, {336, 1008}};

void ReadPinpoints(HfConfig& root, ImageRule* rule) {
  rule->kind = ImageRuleKind::kLlavaAnyres;
  rule->grid_pinpoints = root.Pairs("image_grid_pinpoints");
  if (rule->grid_pinpoints.empty()) {
    rule->grid_pinpoints = kLlavaNextPinpoints;
    root.Assume(
        "image_grid_pinpoints = [[336,672],[672,336],[672,672],[1008,336],[336,1008]] (default of "
        "LlavaNextConfig)");
  }
}

}  // namespace

Module ImportNamedTower(HfConfig& root, const NamedTower& tower, int layers) {
  Json shapes = Json::Object();
  shapes.Set("image_size", tower.image_size);
  shapes.Set("patch_size", 14);
  shapes.Set("hidden_size", tower.hidden);
  shapes.Set("num_hidden_layers", layers);
  shapes.Set("num_attention_heads", tower.heads);
  shapes.Set("intermediate_size", tower.intermediate);
  HfConfig vision(ObjectReader(root.reader().document(), shapes, "/" + std::string(tower.name)), "",
                  root.notes());
  root.Assume("the vision tower has the shapes of " + std::string(tower.name));
  return tower.siglip ? ImportSiglipVision(vision) : ImportClipVision(vision);
}

// transformers' LLaVA 1.5 and 1.6, and Pixtral, which it keeps under the same class.
void ImportLlava(HfConfig& root, Model* model) {
  const bool next = model->family == "llava_next";
  root.set_class_name(next ? "LlavaNextConfig" : "LlavaConfig");
  HfConfig vision = root.ChildOrDefaults("vision_config", "CLIPVisionConfig of LlavaConfig");
  HfConfig text = root.ChildOrDefaults("text_config", "LlamaConfig");
  const std::string type = vision.TextOr("model_type", "clip_vision_model");
  const bool pixtral = type == "pixtral";
  Module tower;
  if (type == "clip_vision_model") {
    if (!root.Has("vision_config")) {
      // LlavaConfig's default tower is CLIP-L/14-336, not CLIPVisionConfig's.
      tower = ImportNamedTower(root, kClipLarge336, kClipLarge336.layers);
    } else {
      tower = ImportClipVision(vision);
    }
  } else if (type == "siglip_vision_model") {
    tower = ImportSiglipVision(vision);
  } else if (pixtral) {
    tower = ImportPixtralVision(vision);
  } else {
    vision.Unknown("model_type", type, {"clip_vision_model", "siglip_vision_model", "pixtral"});
  }
  const int feature_layer = root.SignedOr("vision_feature_layer", -2);
  tower.layers_skipped = SkippedLayers(root, "vision_feature_layer", feature_layer, tower.Layers());
  const std::string strategy = root.TextOr("vision_feature_select_strategy", "default");
  if (strategy != "default" && strategy != "full")
    root.Unknown("vision_feature_select_strategy", strategy, {"default", "full"});
  const bool bias = root.FlagOr("multimodal_projector_bias", true);
  Module backbone = ImportText(text, root, "llama");
  ReadLength(text, model);
  Module connector = MakeConnector(
      "connector", Modality::kVision, backbone.hidden,
      {{tower.hidden, backbone.hidden, bias}, {backbone.hidden, backbone.hidden, bias}}, 0);
  ImageRule& rule = model->image;
  int side = 0;
  if (root.Has("vision_config")) {
    side = pixtral                         ? ImageSide(vision, 1024, 16, &rule)
           : type == "siglip_vision_model" ? ImageSide(vision, 224, 16, &rule)
                                           : ImageSide(vision, 224, 32, &rule);
  } else {
    rule.image_size = 336;
    rule.patch_size = 14;
    side = 24;
  }
  if (pixtral) {
    rule.kind = ImageRuleKind::kRowNewline;
    rule.grid_pinpoints = {{rule.image_size, rule.image_size}};
  } else {
    rule.kind = ImageRuleKind::kFixed;
    rule.class_tokens = type == "clip_vision_model" ? 1 : 0;
    rule.tokens_per_tile = side * side + (strategy == "full" ? rule.class_tokens : 0);
    if (next) {
      ReadPinpoints(root, &rule);
      connector.embedding_parameters = backbone.hidden;  // image_newline
    } else {
      FramesAsImages(root, model);
    }
  }
  model->modules = {std::move(tower), std::move(connector), std::move(backbone)};
}

// LLaVA as its authors publish it: the text model flat in the file, the vision tower by name.
void ImportLlavaOriginal(HfConfig& root, Model* model) {
  const std::string tower_name = root.Text("mm_vision_tower");
  const NamedTower* named = nullptr;
  std::vector<std::string> names;
  for (const NamedTower& candidate : kOtherTowers) {
    names.emplace_back(candidate.name);
    if (tower_name == candidate.name) named = &candidate;
  }
  if (named == nullptr) root.Unknown("mm_vision_tower", tower_name, names);
  Module tower = ImportNamedTower(root, *named, named->layers);
  tower.layers_skipped = SkippedLayers(root, "mm_vision_select_layer",
                                       root.SignedOr("mm_vision_select_layer", -2), tower.Layers());
  // The text class hides behind LLaVA's model_type.
  Json flat = root.reader().value();
  flat.Set("model_type", model->family == "llava_mistral" ? "mistral" : "llama");
  HfConfig text(ObjectReader(root.reader().document(), flat, ""), "LlamaConfig", root.notes());
  Module backbone = ImportText(text, text, "llama");
  ReadLength(text, model);
  const int hidden = backbone.hidden;
  const std::string projector = root.TextOr("mm_projector_type", "linear");
  std::vector<Linear> output = {{tower.hidden, hidden, true}};
  if (projector == "mlp2x_gelu") {
    output.push_back({hidden, hidden, true});
  } else if (projector != "linear") {
    root.Unknown("mm_projector_type", projector, {"linear", "mlp2x_gelu"});
  }
  Module connector = MakeConnector("connector", Modality::kVision, hidden, std::move(output), 0);
  ImageRule& rule = model->image;
  rule.image_size = named->image_size;
  rule.patch_size = 14;
  rule.class_tokens = named->siglip ? 0 : 1;
  rule.tokens_per_tile = (named->image_size / 14) * (named->image_size / 14);
  rule.kind = ImageRuleKind::kFixed;
  if (root.Has("image_aspect_ratio") && root.Text("image_aspect_ratio") == "anyres") {
    ReadPinpoints(root, &rule);
    connector.embedding_parameters = hidden;
  } else {
    FramesAsImages(root, model);
  }
  model->modules = {std::move(tower), std::move(connector), std::move(backbone)};
}

// VILA 1.5 (NVlabs/VILA): SigLIP, neighbours of 2×2 patches side by side (an odd grid is padded),
// norm and two matrices.
void ImportVila(HfConfig& root, Model* model) {
  HfConfig text = root.Child("llm_cfg", "LlamaConfig");
  HfConfig vision = root.Child("vision_tower_cfg", "SiglipVisionConfig");
  HfConfig projector = root.Child("mm_projector_cfg", "MultimodalProjectorConfig");
  const std::string type = vision.Text("model_type");
  if (type != "siglip_vision_model") vision.Unknown("model_type", type, {"siglip_vision_model"});
  Module tower = ImportSiglipVision(vision);
  tower.layers_skipped = SkippedLayers(root, "mm_vision_select_layer",
                                       root.SignedOr("mm_vision_select_layer", -2), tower.Layers());
  const std::string kind = projector.Text("mm_projector_type");
  if (kind != "mlp_downsample") projector.Unknown("mm_projector_type", kind, {"mlp_downsample"});
  Module backbone = ImportText(text, text, "llama");
  ReadLength(text, model);
  if (root.Has("mm_hidden_size"))
    RequireWidth(root, "mm_hidden_size", root.Int("mm_hidden_size"), tower.hidden);
  const std::int64_t merged = 4 * std::int64_t{tower.hidden};
  Module connector = MakeConnector(
      "connector", Modality::kVision, backbone.hidden,
      {{merged, backbone.hidden, true}, {backbone.hidden, backbone.hidden, true}}, 2 * merged);
  ImageRule& rule = model->image;
  const int side = (ImageSide(vision, 224, 16, &rule) + 1) / 2;
  rule.kind = ImageRuleKind::kFixed;
  rule.tokens_per_tile = side * side;
  FramesAsImages(root, model);
  model->modules = {std::move(tower), std::move(connector), std::move(backbone)};
}

// LLaVA-OneVision: SigLIP at 384 px, all of its 27·27 tokens, two biased matrices, Qwen2. Images by
// "anyres_max_9": as LLaVA-1.6, the grid of tiles pooled where it has more than 9 tiles' tokens;
// frames of a video pooled 2×2 behind the projector.
void ImportLlavaOnevision(HfConfig& root, Model* model) {
  root.set_class_name("LlavaOnevisionConfig");
  HfConfig vision =
      root.ChildOrDefaults("vision_config", "SiglipVisionConfig of LlavaOnevisionConfig");
  Module tower;
  ImageRule& rule = model->image;
  int side = 27;
  if (root.Has("vision_config")) {
    const std::string type = vision.TextOr("model_type", "siglip_vision_model");
    if (type != "siglip_vision_model") vision.Unknown("model_type", type, {"siglip_vision_model"});
    tower = ImportSiglipVision(vision);
    side = ImageSide(vision, 224, 16, &rule);
  } else {
    tower = ImportNamedTower(root, kOtherTowers[2], 26);
    rule.image_size = 384;
    rule.patch_size = 14;
  }
  tower.layers_skipped = SkippedLayers(root, "vision_feature_layer",
                                       root.SignedOr("vision_feature_layer", -1), tower.Layers());
  const std::string strategy = root.TextOr("vision_feature_select_strategy", "full");
  if (strategy != "full") root.Unknown("vision_feature_select_strategy", strategy, {"full"});
  HfConfig text = root.ChildOrDefaults("text_config", "Qwen2Config");
  Module backbone = ImportText(text, root, "qwen2");
  ReadLength(text, model);
  const bool bias = root.FlagOr("multimodal_projector_bias", true);
  Module connector = MakeConnector(
      "connector", Modality::kVision, backbone.hidden,
      {{tower.hidden, backbone.hidden, bias}, {backbone.hidden, backbone.hidden, bias}},
      backbone.hidden);  // image_newline
  rule.kind = ImageRuleKind::kLlavaAnyres;
  rule.tokens_per_tile = side * side;
  rule.grid_pinpoints = root.Pairs("image_grid_pinpoints");
  if (rule.grid_pinpoints.empty()) {
    for (int rows = 1; rows <= 6; ++rows) {
      for (int columns = 1; columns <= 6; ++columns)
        rule.grid_pinpoints.push_back({rows * rule.image_size, columns * rule.image_size});
    }
    root.Assume("image_grid_pinpoints of 1 … 6 by 1 … 6 tiles (default of LlavaOnevisionConfig)");
  }
  const std::string aspect = root.TextOr("vision_aspect_ratio", "anyres_max_9");
  const std::string prefix = "anyres_max_";
  rule.max_tiles = 0;
  if (aspect.size() == prefix.size() + 1 && aspect.starts_with(prefix))
    rule.max_tiles = aspect.back() - '0';
  if (rule.max_tiles < 1 || rule.max_tiles > 9)
    root.Unknown("vision_aspect_ratio", aspect, {"anyres_max_4", "anyres_max_9"});
  const int pooled = (side + 1) / 2;
  model->video.kind = VideoRuleKind::kFrames;
  model->video.tokens_per_frame = pooled * pooled;
  model->video.newlines = 1;
  model->modules = {std::move(tower), std::move(connector), std::move(backbone)};
}

}  // namespace aurum
