#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "models/hf_parts.h"

namespace aurum {
namespace {

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

}  // namespace

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

// CLIPVisionModel: class token, learned positions, a norm before and one behind the layers, no bias
// in the patch embedding.
Module ImportClipVision(HfConfig& c) {
  c.set_class_name("CLIPVisionConfig");
  Module module = MakeTower(NonZero(c, "hidden_size", c.IntOr("hidden_size", 768)));
  const int heads = c.IntOr("num_attention_heads", 12);
  const int patch = c.IntOr("patch_size", 32);
  const std::int64_t side = PatchesPerSide(c, c.IntOr("image_size", 224), patch);
  module.input = {{PatchInputs(c, patch), module.hidden}};
  const Layer layer =
      MakeEncoderLayer({.hidden = module.hidden,
                        .heads = heads,
                        .head_dim = HeadDim(c, module.hidden, heads, "num_attention_heads"),
                        .intermediate = c.IntOr("intermediate_size", 3072)});
  module.runs = {{LayerCount(c, "num_hidden_layers", c.IntOr("num_hidden_layers", 12)), layer}};
  module.embedding_parameters = (1 + side * side + 1 + 4) * module.hidden;
  CheckTower(c, module);
  return module;
}

// SiglipVisionModel without its pooling head (the language models read the patches): no class
// token, positions, a norm behind the layers.
Module ImportSiglipVision(HfConfig& c) {
  c.set_class_name("SiglipVisionConfig");
  Module module = MakeTower(NonZero(c, "hidden_size", c.IntOr("hidden_size", 768)));
  const int heads = c.IntOr("num_attention_heads", 12);
  const int patch = c.IntOr("patch_size", 16);
  const std::int64_t side = PatchesPerSide(c, c.IntOr("image_size", 224), patch);
  module.input = {{PatchInputs(c, patch), module.hidden, true}};
  const Layer layer =
      MakeEncoderLayer({.hidden = module.hidden,
                        .heads = heads,
                        .head_dim = HeadDim(c, module.hidden, heads, "num_attention_heads"),
                        .intermediate = c.IntOr("intermediate_size", 3072)});
  module.runs = {{LayerCount(c, "num_hidden_layers", c.IntOr("num_hidden_layers", 12)), layer}};
  module.embedding_parameters = (side * side + 2) * module.hidden;
  CheckTower(c, module);
  return module;
}

// PixtralVisionModel: RMSNorm, gated MLP, no biases, 2D rotary positions, a norm before the layers.
Module ImportPixtralVision(HfConfig& c) {
  c.set_class_name("PixtralVisionConfig");
  Module module = MakeTower(NonZero(c, "hidden_size", c.IntOr("hidden_size", 1024)));
  const int heads = c.IntOr("num_attention_heads", 16);
  const int head_dim = c.Has("head_dim") ? c.Int("head_dim")
                                         : HeadDim(c, module.hidden, heads, "num_attention_heads");
  module.input = {{PatchInputs(c, c.IntOr("patch_size", 16)), module.hidden}};
  const Layer layer = MakeEncoderLayer({.hidden = module.hidden,
                                        .heads = heads,
                                        .head_dim = head_dim,
                                        .intermediate = c.IntOr("intermediate_size", 4096),
                                        .gated = true,
                                        .qkv_bias = false,
                                        .output_bias = false,
                                        .mlp_bias = false,
                                        .layer_norm = false});
  module.runs = {{LayerCount(c, "num_hidden_layers", c.IntOr("num_hidden_layers", 24)), layer}};
  module.embedding_parameters = module.hidden;
  CheckTower(c, module);
  return module;
}

// InternViT (OpenGVLab, modeling_intern_vit.py): class token, positions, two layer scales a layer,
// no norm around the layers. 300M: LayerNorm and biases; 6B: RMSNorm, norms of queries and keys, no
// q/k/v bias.
Module ImportInternVit(HfConfig& c) {
  c.set_class_name("InternVisionConfig");
  Module module = MakeTower(NonZero(c, "hidden_size", c.IntOr("hidden_size", 3200)));
  const int heads = c.IntOr("num_attention_heads", 25);
  const int patch = c.IntOr("patch_size", 14);
  const std::int64_t side = PatchesPerSide(c, c.IntOr("image_size", 224), patch);
  const std::string norm = c.TextOr("norm_type", "rms_norm");
  if (norm != "rms_norm" && norm != "layer_norm")
    c.Unknown("norm_type", norm, {"rms_norm", "layer_norm"});
  module.input = {{PatchInputs(c, patch), module.hidden, true}};
  Layer layer =
      MakeEncoderLayer({.hidden = module.hidden,
                        .heads = heads,
                        .head_dim = HeadDim(c, module.hidden, heads, "num_attention_heads"),
                        .intermediate = c.IntOr("intermediate_size", 12800),
                        .qkv_bias = c.FlagOr("qkv_bias", false),
                        .layer_norm = norm == "layer_norm"});
  if (c.FlagOr("qk_normalization", true)) layer.norm_parameters += 2 * std::int64_t{module.hidden};
  layer.other_parameters = 2 * std::int64_t{module.hidden};
  module.runs = {{LayerCount(c, "num_hidden_layers", c.IntOr("num_hidden_layers", 48)), layer}};
  module.embedding_parameters = (1 + side * side + 1) * module.hidden;
  CheckTower(c, module);
  return module;
}

// MoonViT (moonshotai, modeling_kimi_vl.py): native resolution, a learned grid of positions that is
// interpolated, rotary positions too, LayerNorm, biases everywhere, a norm behind the layers.
// Kimi-K2.5 spells the keys with "vt_".
Module ImportMoonVit(HfConfig& c) {
  c.set_class_name("MoonViTConfig");
  Module module =
      MakeTower(NonZero(c, "hidden_size", c.AnyIntOr({"hidden_size", "vt_hidden_size"}, 1152)));
  const int heads = c.AnyIntOr({"num_attention_heads", "vt_num_attention_heads"}, 16);
  module.input = {{PatchInputs(c, c.IntOr("patch_size", 14)), module.hidden, true}};
  const Layer layer = MakeEncoderLayer(
      {.hidden = module.hidden,
       .heads = heads,
       .head_dim = HeadDim(c, module.hidden, heads, "num_attention_heads"),
       .intermediate = c.AnyIntOr({"intermediate_size", "vt_intermediate_size"}, 4304)});
  module.runs = {{LayerCount(c, "num_hidden_layers",
                             c.AnyIntOr({"num_hidden_layers", "vt_num_hidden_layers"}, 27)),
                  layer}};
  const std::int64_t positions =
      std::int64_t{c.IntOr("init_pos_emb_height", 64)} * c.IntOr("init_pos_emb_width", 64);
  module.embedding_parameters = (positions + 2) * module.hidden;
  CheckTower(c, module);
  return module;
}

// MllamaVisionModel: class token, gated positions of a tile and of its place in the canvas, two
// gated embeddings of the canvas' shape, local layers, then global layers with a gate for attention
// and MLP. Attention without bias, MLP with.
Module ImportMllamaVision(HfConfig& c) {
  c.set_class_name("MllamaVisionConfig");
  Module module = MakeTower(NonZero(c, "hidden_size", c.IntOr("hidden_size", 1280)));
  const std::int64_t hidden = module.hidden;
  const int heads = c.AnyIntOr({"attention_heads", "num_attention_heads"}, 16);
  const int patch = c.IntOr("patch_size", 14);
  const std::int64_t side = PatchesPerSide(c, c.IntOr("image_size", 448), patch);
  const int tiles = c.IntOr("max_num_tiles", 4);
  if (tiles < 1 || tiles > 1024)
    c.Fail(603, "max_num_tiles", "a canvas of " + std::to_string(tiles) + " tiles");
  module.input = {{PatchInputs(c, patch), hidden}};
  Layer layer = MakeEncoderLayer({.hidden = module.hidden,
                                  .heads = heads,
                                  .head_dim = HeadDim(c, module.hidden, heads, "attention_heads"),
                                  .intermediate = c.IntOr("intermediate_size", 5120),
                                  .qkv_bias = false,
                                  .output_bias = false});
  module.runs = {{LayerCount(c, "num_hidden_layers", c.IntOr("num_hidden_layers", 32)), layer}};
  layer.other_parameters = 2;
  module.runs.push_back(
      {LayerCount(c, "num_global_layers", c.IntOr("num_global_layers", 8)), layer});
  std::int64_t shapes = 0;  // width × height tiles
  for (int w = 1; w <= tiles; ++w) shapes += tiles / w;
  const std::int64_t tokens = side * side + 1;
  module.embedding_parameters =
      hidden + tokens * hidden + 1 +             // class token, positions and their gate
      (shapes + 1) * tiles * tokens * hidden +   // positions by canvas shape
      2 * ((shapes + 1) * tiles * hidden + 1) +  // before and behind the local layers, gated
      4 * hidden;                                // norms before and behind
  CheckTower(c, module);
  return module;
}

// Gemma4VisionModel: native shape, factored position table (x and y), rotary positions, four
// RMSNorms and norms of queries and keys a layer, gated MLP, no biases.
Module ImportGemma4Vision(HfConfig& c) {
  c.set_class_name("Gemma4VisionConfig");
  Module module = MakeTower(NonZero(c, "hidden_size", c.Int("hidden_size")));
  const int heads = c.Int("num_attention_heads");
  module.input = {{PatchInputs(c, c.Int("patch_size")), module.hidden}};
  const bool bias = c.FlagOr("attention_bias", false);
  Layer layer = MakeEncoderLayer({.hidden = module.hidden,
                                  .heads = heads,
                                  .head_dim = c.Int("head_dim"),
                                  .intermediate = c.Int("intermediate_size"),
                                  .gated = true,
                                  .qkv_bias = bias,
                                  .output_bias = bias,
                                  .mlp_bias = false,
                                  .layer_norm = false});
  layer.attention.kv_heads = c.Int("num_key_value_heads");
  layer.norm_parameters = 4 * std::int64_t{module.hidden} + 2 * layer.attention.head_dim;
  module.runs = {{LayerCount(c, "num_hidden_layers", c.Int("num_hidden_layers")), layer}};
  module.embedding_parameters = 2 * std::int64_t{c.Int("position_embedding_size")} * module.hidden;
  CheckTower(c, module);
  return module;
}

// Qwen-VL's "visual" (Qwen/Qwen-VL, visual.py): OpenCLIP ViT-bigG without class token and pooling,
// positions for the patches of a 224 px image that are interpolated to image_size.
Module ImportOpenClipVision(HfConfig& c, int positions) {
  c.set_class_name("VisionTransformer of Qwen-VL");
  Module module = MakeTower(NonZero(c, "width", c.Int("width")));
  const int heads = c.Int("heads");
  const double ratio = c.NumberOr("mlp_ratio", 4.0);
  if (ratio > 64) c.Fail(603, "mlp_ratio", "an MLP of 64 times the width or more");
  module.input = {{PatchInputs(c, c.Int("patch_size")), module.hidden}};
  const Layer layer = MakeEncoderLayer({.hidden = module.hidden,
                                        .heads = heads,
                                        .head_dim = HeadDim(c, module.hidden, heads, "heads"),
                                        .intermediate = static_cast<int>(module.hidden * ratio)});
  module.runs = {{LayerCount(c, "layers", c.Int("layers")), layer}};
  module.embedding_parameters = (std::int64_t{positions} + 2) * module.hidden;
  CheckTower(c, module);
  return module;
}

// Qwen2-VL, Qwen2.5-VL, Qwen3-VL and Qwen3.5: two frames make a patch (a still image is doubled),
// rotary positions, and a merger of merge² neighbours to the backbone's width.
//   qwen2_vl    LayerNorm, MLP of mlp_ratio; embed_dim is the width and hidden_size the merger's
//   output (!) qwen2_5_vl  RMSNorm, gated MLP, windows of window_size pixels but for
//   fullatt_block_indexes qwen3_vl    LayerNorm, biased patch embedding, learned positions, one
//   more merger for each deepstack index
std::vector<Module> ImportQwenVision(HfConfig& c, const std::string& family, int text_hidden) {
  const bool second = family == "qwen2_vl";
  const bool second_half = family == "qwen2_5_vl";
  c.set_class_name(second        ? "Qwen2VLVisionConfig"
                   : second_half ? "Qwen2_5_VLVisionConfig"
                                 : "Qwen3VLVisionConfig");
  const int hidden = NonZero(
      c, "hidden_size",
      second ? c.IntOr("embed_dim", 1280) : c.IntOr("hidden_size", second_half ? 3584 : 1152));
  Module tower = MakeTower(hidden);
  const int heads = c.AnyIntOr({"num_heads", "num_attention_heads"}, 16);
  const int patch =
      c.AnyIntOr({"patch_size", "spatial_patch_size"}, second || second_half ? 14 : 16);
  const int merge = c.IntOr("spatial_merge_size", 2);
  const int frames = c.IntOr("temporal_patch_size", 2);
  if (merge < 1 || merge > 64)
    c.Fail(603, "spatial_merge_size", "a merge of " + std::to_string(merge) + " patches a side");
  if (frames < 1 || frames > 64)
    c.Fail(603, "temporal_patch_size", "a patch of " + std::to_string(frames) + " frames");
  tower.input = {{PatchInputs(c, patch) * frames, hidden, !second && !second_half}};
  EncoderLayerShape shape{
      .hidden = hidden, .heads = heads, .head_dim = HeadDim(c, hidden, heads, "num_heads")};
  if (second) {
    const double ratio = c.NumberOr("mlp_ratio", 4);
    if (ratio > 64) c.Fail(603, "mlp_ratio", "an MLP of 64 times the width or more");
    shape.intermediate = static_cast<int>(hidden * ratio);
  } else {
    shape.intermediate = c.IntOr("intermediate_size", second_half ? 3420 : 4304);
  }
  shape.gated = second_half;
  shape.layer_norm = !second_half;
  const Layer layer = MakeEncoderLayer(shape);
  const int layers = LayerCount(
      c, "depth", c.AnyIntOr({"depth", "num_hidden_layers"}, second || second_half ? 32 : 27));
  if (second_half) {
    const int window = c.IntOr("window_size", 112);
    std::vector<int> full = c.Ints("fullatt_block_indexes");
    if (full.empty()) {
      full = {7, 15, 23, 31};
      c.Assume(
          "vision_config.fullatt_block_indexes = [7,15,23,31] (default of Qwen2_5_VLVisionConfig)");
    }
    const int side = window / patch;  // 112 / 14 = 8 patches: 64 tokens a window
    if (side < 1 || side > 4096)
      c.Fail(603, "window_size", "a window of " + std::to_string(side) + " patches a side");
    for (int i = 0; i < layers; ++i) {
      Layer next = layer;
      const bool is_full = std::find(full.begin(), full.end(), i) != full.end();
      next.attention.window = is_full ? 0 : side * side;
      AppendLayer(&tower, next);
    }
  } else {
    tower.runs = {{layers, layer}};
  }
  if (!second && !second_half)
    tower.embedding_parameters = std::int64_t{c.IntOr("num_position_embeddings", 2304)} * hidden;
  CheckTower(c, tower);

  const std::int64_t merged = std::int64_t{hidden} * merge * merge;
  const int out = second ? c.IntOr("hidden_size", 3584) : c.IntOr("out_hidden_size", 3584);
  if (out != text_hidden) {
    c.Fail(603, second ? "hidden_size" : "out_hidden_size",
           "the vision tower gives tokens of width " + std::to_string(out) +
               ", the text model reads " + std::to_string(text_hidden));
  }
  std::vector<Linear> mergers = {{merged, merged, true}, {merged, out, true}};
  std::int64_t norms = std::int64_t{hidden} * (second_half ? 1 : 2);
  int deepstack = 0;
  if (!second && !second_half) {
    std::vector<int> deep = c.Ints("deepstack_visual_indexes");
    if (deep.empty() && !c.Has("deepstack_visual_indexes")) {
      deep = {8, 16, 24};
      c.Assume(
          "vision_config.deepstack_visual_indexes = [8,16,24] (default of Qwen3VLVisionConfig)");
    }
    deepstack = static_cast<int>(std::min<std::size_t>(deep.size(), 4096));
    for (std::size_t i = 0; i < deep.size(); ++i) {
      mergers.push_back({merged, merged, true});
      mergers.push_back({merged, out, true});
      norms += 2 * merged;
    }
  }
  Module connector = MakeConnector("connector", Modality::kVision, out, std::move(mergers), norms);
  connector.deepstack = deepstack;
  return {std::move(tower), std::move(connector)};
}

// Glm4vVisionModel. A trap: vision_config.intermediate_size is the width of the merger's MLP; the
// layers' MLP is as wide as out_hidden_size (Glm4vVisionMLP). RMSNorm, gated MLP, learned
// positions; behind the layers a 2×2 convolution to out_hidden_size, a projection with LayerNorm,
// and a gated MLP.
std::vector<Module> ImportGlm4vVision(HfConfig& c) {
  c.set_class_name("Glm4vVisionConfig");
  Module tower = MakeTower(NonZero(c, "hidden_size", c.IntOr("hidden_size", 1536)));
  const std::int64_t hidden = tower.hidden;
  const int heads = c.AnyIntOr({"num_heads", "num_attention_heads"}, 12);
  const int patch = c.IntOr("patch_size", 14);
  const std::int64_t side = PatchesPerSide(c, c.IntOr("image_size", 336), patch);
  const int merge = c.IntOr("spatial_merge_size", 2);
  const int frames = c.IntOr("temporal_patch_size", 2);
  if (merge < 1 || merge > 64)
    c.Fail(603, "spatial_merge_size", "a merge of " + std::to_string(merge) + " patches a side");
  if (frames < 1 || frames > 64)
    c.Fail(603, "temporal_patch_size", "a patch of " + std::to_string(frames) + " frames");
  const int out = NonZero(c, "out_hidden_size", c.IntOr("out_hidden_size", 4096));
  const std::int64_t context = c.IntOr("intermediate_size", 13696);
  tower.input = {{PatchInputs(c, patch) * frames, hidden, true}};
  const Layer layer = MakeEncoderLayer({.hidden = tower.hidden,
                                        .heads = heads,
                                        .head_dim = HeadDim(c, tower.hidden, heads, "num_heads"),
                                        .intermediate = out,
                                        .gated = true,
                                        .qkv_bias = c.FlagOr("attention_bias", false),
                                        .output_bias = false,
                                        .mlp_bias = false,
                                        .layer_norm = false});
  tower.runs = {{LayerCount(c, "depth", c.AnyIntOr({"depth", "num_hidden_layers"}, 24)), layer}};
  tower.embedding_parameters =
      (side * side + 2) * hidden;  // positions, norms before and behind the layers
  CheckTower(c, tower);
  if (context < 1)
    c.Fail(603, "intermediate_size", "the merger's MLP has no width: intermediate_size is 0");
  std::vector<Linear> merger = {{hidden * merge * merge, out, true},
                                {out, out},
                                {out, context},
                                {out, context},
                                {context, out}};
  return {tower, MakeConnector("connector", Modality::kVision, out, std::move(merger),
                               2 * std::int64_t{out})};
}

}  // namespace aurum
