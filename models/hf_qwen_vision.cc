#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "models/hf_parts.h"
#include "models/hf_tower.h"

namespace aurum {

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
