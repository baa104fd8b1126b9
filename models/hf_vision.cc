#include <string>
#include <utility>
#include <vector>

#include "models/hf_parts.h"
#include "models/hf_tower.h"

namespace aurum {

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

}  // namespace aurum
