#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "models/hf_parts.h"

namespace aurum {

// Llama-3.2-Vision: the outputs of intermediate_layers_indices and the last go side by side to one
// biased matrix.
void ImportMllama(HfConfig& root, Model* model) {
  HfConfig vision = root.Child("vision_config", "MllamaVisionConfig");
  HfConfig text = root.Child("text_config", "");
  Module tower = ImportMllamaVision(vision);
  Module backbone = ImportText(text, text, "mllama_text_model");
  ReadLength(text, model);
  std::vector<int> taken = vision.Ints("intermediate_layers_indices");
  if (taken.empty()) {
    taken = {3, 7, 15, 23, 30};
    vision.Assume(
        "vision_config.intermediate_layers_indices = [3,7,15,23,30] (default of "
        "MllamaVisionConfig)");
  }
  const int width = vision.IntOr("vision_output_dim", 7680);
  RequireWidth(vision, "vision_output_dim", width,
               tower.hidden * (1 + static_cast<int>(std::min<std::size_t>(taken.size(), 64))));
  Module connector = MakeConnector("connector", Modality::kVision, backbone.hidden,
                                   {{width, backbone.hidden, true}}, 0);
  ImageRule& rule = model->image;
  rule.kind = ImageRuleKind::kCanvas;
  ImageSide(vision, 448, 14, &rule);
  rule.class_tokens = 1;
  rule.max_tiles = vision.IntOr("max_num_tiles", 4);
  model->modules = {std::move(tower), std::move(connector), std::move(backbone)};
}

// Llama-4: a ViT with class token, pixel shuffle to an MLP without bias (inside the tower in
// transformers), one matrix.
void ImportLlama4(HfConfig& root, Model* model) {
  HfConfig text = root.Child("text_config", "");
  Module backbone = ImportText(text, root, "llama4_text");
  ReadLength(text, model);
  if (!root.Has("vision_config")) {
    root.Assume(
        "no vision_config in this file: the vision tower is left out, the model takes text only");
    model->modules = {std::move(backbone)};
    return;
  }
  HfConfig vision = root.Child("vision_config", "Llama4VisionConfig");
  // The layers are those of a CLIP tower, with rotary positions beside the learned ones and a bias
  // everywhere.
  Module tower;
  tower.name = "vision";
  tower.kind = ModuleKind::kEncoder;
  tower.modality = Modality::kVision;
  tower.hidden = vision.IntOr("hidden_size", 768);
  if (tower.hidden < 1) vision.Fail(603, "hidden_size", "'hidden_size' is 0");
  const std::int64_t hidden = tower.hidden;
  ImageRule& rule = model->image;
  const int side = ImageSide(vision, 448, 14, &rule);
  const int heads = vision.IntOr("num_attention_heads", 16);
  const int layers = vision.IntOr("num_hidden_layers", 34);
  if (layers < 1 || layers > 4096)
    vision.Fail(603, "num_hidden_layers", "a tower of " + std::to_string(layers) + " layers");
  tower.input = {{3 * std::int64_t{rule.patch_size} * rule.patch_size, hidden}};
  tower.runs = {
      {layers,
       MakeEncoderLayer({.hidden = tower.hidden,
                         .heads = heads,
                         .head_dim = HeadDim(vision, tower.hidden, heads, "num_attention_heads"),
                         .intermediate = vision.IntOr("intermediate_size", 5632)})}};
  tower.embedding_parameters = (std::int64_t{side} * side + 2 + 4) * hidden;
  vision.Require(CheckAttention(tower.runs[0].layer.attention));
  vision.Require(CheckMlp(tower.runs[0].layer.mlp));
  const double ratio = vision.NumberOr("pixel_shuffle_ratio", 0.5);
  if (!(ratio > 0.01 && ratio <= 1))
    vision.Fail(603, "pixel_shuffle_ratio", "pixel_shuffle_ratio must lie in 0.01 … 1");
  rule.merge = static_cast<int>(1 / ratio + 0.5);
  const int middle = vision.IntOr("projector_input_dim", 4096);
  const int projected = vision.IntOr("projector_output_dim", 4096);
  const int width = vision.IntOr("vision_output_dim", 7680);
  RequireWidth(vision, "vision_output_dim", width, projected);
  if (vision.IntOr("intermediate_size", 5632) !=
      tower.hidden * rule.merge * std::int64_t{rule.merge}) {
    vision.Fail(603, "intermediate_size",
                "the pixel shuffle's MLP reads intermediate_size, which must be hidden_size times "
                "the shuffle's " +
                    std::to_string(rule.merge * rule.merge) + " patches");
  }
  Module connector = MakeConnector(
      "connector", Modality::kVision, backbone.hidden,
      {{hidden * rule.merge * rule.merge, middle}, {middle, projected}, {width, backbone.hidden}},
      0);
  rule.kind = ImageRuleKind::kCanvasSeparated;
  rule.class_tokens = 1;
  rule.tokens_per_tile = (side / rule.merge) * (side / rule.merge);
  rule.max_tiles = 16;
  rule.thumbnail = true;
  root.Assume("at most 16 tiles an image (max_patches of its image processor)");
  model->modules = {std::move(tower), std::move(connector), std::move(backbone)};
}

}  // namespace aurum
