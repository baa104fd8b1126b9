#include <string>
#include <utility>
#include <vector>

#include "models/hf_parts.h"
#include "models/hf_tower.h"

namespace aurum {

Module MakeTower(int hidden) {
  Module module;
  module.name = "vision";
  module.kind = ModuleKind::kEncoder;
  module.modality = Modality::kVision;
  module.hidden = hidden;
  return module;
}

int NonZero(HfConfig& c, std::string_view key, int value) {
  if (value < 1) c.Fail(603, key, "'" + std::string(key) + "' is 0");
  return value;
}

int LayerCount(HfConfig& c, std::string_view key, int value) {
  if (value < 1 || value > 4096)
    c.Fail(603, key, "a tower of " + std::to_string(value) + " layers");
  return value;
}

std::int64_t PatchInputs(HfConfig& c, int patch) {
  if (patch < 1 || patch > 4096)
    c.Fail(603, "patch_size", "a patch of " + std::to_string(patch) + " pixels");
  return 3 * std::int64_t{patch} * patch;
}

void CheckTower(HfConfig& c, const Module& module) {
  for (const LayerRun& run : module.runs) {
    c.Require(CheckAttention(run.layer.attention));
    c.Require(CheckMlp(run.layer.mlp));
  }
}

int HeadDim(HfConfig& c, int hidden, int heads, const char* heads_key) {
  if (heads < 1) c.Fail(603, heads_key, std::string(heads_key) + " is 0");
  if (hidden % heads != 0) {
    c.Fail(603, heads_key,
           "the width " + std::to_string(hidden) + " is not a multiple of " + heads_key + " = " +
               std::to_string(heads));
  }
  return hidden / heads;
}

int PatchesPerSide(HfConfig& c, int image_size, int patch_size) {
  if (patch_size < 1) c.Fail(603, "patch_size", "patch_size is 0");
  if (image_size > 65536 || image_size < patch_size) {
    c.Fail(603, "image_size",
           "image_size = " + std::to_string(image_size) +
               " does not fit patch_size = " + std::to_string(patch_size));
  }
  return image_size / patch_size;
}

void RequireWidth(const HfConfig& c, std::string_view key, int given, int wanted) {
  if (given != wanted) {
    c.Fail(603, key,
           "'" + std::string(key) + "' is " + std::to_string(given) +
               ", but the part that it meets has width " + std::to_string(wanted));
  }
}

int ImageSide(HfConfig& vision, int size_default, int patch_default, ImageRule* rule) {
  rule->image_size = vision.IntOr("image_size", size_default);
  rule->patch_size = vision.IntOr("patch_size", patch_default);
  return PatchesPerSide(vision, rule->image_size, rule->patch_size);
}

void AssumeArea(HfConfig& root, std::int64_t least, std::int64_t most, const std::string& source,
                ImageRule* rule) {
  rule->min_pixels = least;
  rule->max_pixels = most;
  root.Assume("images of " + std::to_string(least) + " … " + std::to_string(most) + " pixels (" +
              source + ")");
}

void FramesAsImages(HfConfig& root, Model* model) {
  model->video.kind = VideoRuleKind::kFrames;
  root.Assume("every frame of a video is an image of one tile");
}

void ReadLength(HfConfig& text, Model* model) {
  model->max_positions = text.LongOr("max_position_embeddings", 0);
}

int SkippedLayers(const HfConfig& root, std::string_view key, int layer, int layers) {
  const int skipped = layer < 0 ? -1 - layer : layers - layer;
  if (skipped < 0 || skipped >= layers) {
    root.Fail(603, key,
              "'" + std::string(key) + "' = " + std::to_string(layer) +
                  " is not one of the tower's " + std::to_string(layers) + " layers");
  }
  return skipped;
}

Layer MakeEncoderLayer(const EncoderLayerShape& shape) {
  Layer layer;
  layer.attention.heads = layer.attention.kv_heads = shape.heads;
  layer.attention.head_dim = layer.attention.value_head_dim = shape.head_dim;
  layer.attention.qkv_bias = shape.qkv_bias;
  layer.attention.output_bias = shape.output_bias;
  layer.mlp.intermediate = shape.intermediate;
  layer.mlp.gated = shape.gated;
  layer.mlp.bias = shape.mlp_bias;
  layer.layer_norm = shape.layer_norm;
  layer.norm_parameters = std::int64_t{shape.hidden} * (shape.layer_norm ? 4 : 2);
  return layer;
}

Module MakeConnector(const std::string& name, Modality modality, int hidden,
                     std::vector<Linear> output, std::int64_t other_parameters) {
  Module module;
  module.name = name;
  module.kind = ModuleKind::kConnector;
  module.modality = modality;
  module.hidden = hidden;
  module.output = std::move(output);
  module.embedding_parameters = other_parameters;
  return module;
}

}  // namespace aurum
