#include "models/tokens.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "models/token_rules.h"
#include "sim/core/diagnostic.h"
#include "sim/core/rounding.h"

namespace aurum {
namespace {

struct Grid {
  std::int64_t rows = 1;
  std::int64_t columns = 1;
};

bool HasEncoder(const Model& model, Modality modality) {
  for (const Module& module : model.modules) {
    if (module.kind == ModuleKind::kEncoder && module.modality == modality) return true;
  }
  return false;
}

// Fuyu and Pixtral: patches row by row, a newline token after each row (Pixtral's last one is
// [IMG_END]). An image larger than grid_pinpoints[0] = [height, width] is scaled down into it.
//
// Fuyu, 448×448, patch 30: 15 rows of 15 and 15 newlines = 240. There is no encoder: one linear map
// per patch.
MediaTokens RowNewline(const Model& model, std::int64_t width, std::int64_t height) {
  const ImageRule& rule = model.image;
  if (!rule.grid_pinpoints.empty()) {
    const std::int64_t most_h = rule.grid_pinpoints[0][0], most_w = rule.grid_pinpoints[0][1];
    if (height > most_h || width > most_w) {
      const std::int64_t h = height, w = width;
      const bool by_height = most_h * w <= most_w * h;  // most_h/h is the smaller scale
      height = std::max<std::int64_t>(1, by_height ? most_h : h * most_w / w);
      width = std::max<std::int64_t>(1, by_height ? w * most_h / h : most_w);
    }
  }
  const std::int64_t step = std::int64_t{rule.patch_size} * rule.merge;
  const std::int64_t rows = CeilDivide<std::int64_t>(height, step);
  const std::int64_t columns = CeilDivide<std::int64_t>(width, step);
  const std::int64_t tokens = rows * columns;
  MediaTokens media{0, 0, tokens, tokens + rows};
  if (HasEncoder(model, Modality::kVision)) {
    media.sequences = 1;
    media.sequence_tokens = tokens * rule.merge * rule.merge;
  }
  return media;
}

// InternVL (OpenGVLab/InternVL, dynamic_preprocess): of all grids of at most max_tiles tiles the
// one whose shape is nearest to the image's; among equals a larger one only if the image has more
// than half of its pixels. More than one tile adds a thumbnail of the whole.
//
// 448×448: 1×1 is as near as 2×2, and 448² is not more than half of 4·448²: one tile, 256 tokens.
// 1344×896: 3×2 fits exactly; 7 sequences of 1025, 7·256 = 1792 tokens.
MediaTokens Tiles(const ImageRule& rule, std::int64_t width, std::int64_t height) {
  const double shape = static_cast<double>(width) / static_cast<double>(height);
  const double tile_area = static_cast<double>(rule.image_size) * rule.image_size;
  Grid best;
  double nearest = -1;
  for (std::int64_t tiles = 1; tiles <= rule.max_tiles; ++tiles) {
    for (std::int64_t columns = 1; columns <= tiles; ++columns) {
      if (tiles % columns != 0) continue;
      const std::int64_t rows = tiles / columns;
      const double distance =
          std::abs(shape - static_cast<double>(columns) / static_cast<double>(rows));
      const bool enough_pixels = static_cast<double>(width) * static_cast<double>(height) >
                                 0.5 * tile_area * static_cast<double>(tiles);
      if (nearest < 0 || distance < nearest || (distance == nearest && enough_pixels)) {
        nearest = distance;
        best = {rows, columns};
      }
    }
  }
  std::int64_t tiles = best.rows * best.columns;
  if (rule.thumbnail && tiles > 1) ++tiles;
  return {tiles, TileSequence(rule), tiles * rule.tokens_per_tile, tiles * rule.tokens_per_tile};
}

// Llama-3.2-Vision and Llama-4 (huggingface/transformers, get_optimal_tiled_canvas, get_best_fit):
// of all canvases of at most max_tiles tiles the one that needs the least enlargement, or, if all
// are too small, the least reduction; of equals the smallest. 560×560 on 560 px tiles: one tile;
// 1000×500: 2 columns × 1 row, scale 1.12.
Grid BestCanvas(const ImageRule& rule, std::int64_t width, std::int64_t height) {
  Grid best;
  double best_scale = -1;
  std::int64_t best_tiles = 0;
  for (std::int64_t columns = 1; columns <= rule.max_tiles; ++columns) {
    for (std::int64_t rows = 1; rows * columns <= rule.max_tiles; ++rows) {
      const double scale =
          std::min(static_cast<double>(columns * rule.image_size) / static_cast<double>(width),
                   static_cast<double>(rows * rule.image_size) / static_cast<double>(height));
      const std::int64_t tiles = rows * columns;
      const bool enlarges = scale >= 1;
      const bool best_enlarges = best_scale >= 1;
      const bool better =
          best_scale < 0 || (enlarges && !best_enlarges) ||
          (enlarges == best_enlarges && (enlarges ? scale < best_scale : scale > best_scale)) ||
          (scale == best_scale && tiles < best_tiles);
      if (better) {
        best = {rows, columns};
        best_scale = scale;
        best_tiles = tiles;
      }
    }
  }
  return best;
}

// Llama-3.2-Vision: the tiles of the canvas are one encoder sequence (each tile padded to a
// multiple of 8 tokens: 1601 to 1608); 1601 tokens a tile leave it as keys of the cross-attention,
// and none enters the text.
MediaTokens Canvas(const ImageRule& rule, std::int64_t width, std::int64_t height) {
  const Grid grid = BestCanvas(rule, width, height);
  const std::int64_t tiles = grid.rows * grid.columns;
  return {1, tiles * CeilDivide<std::int64_t>(TileSequence(rule), 8) * 8,
          tiles * TileSequence(rule), 0};
}

// Llama-4: each tile is one sequence; in the text a separator follows every tile
// (<|tile_x_separator|>, at the row's end
// <|tile_y_separator|>), and a global view comes last when there is more than one tile.
// 336×336: 144. 672×672 on 336 px tiles: 4·144 + 4 + 144 = 724.
MediaTokens CanvasSeparated(const ImageRule& rule, std::int64_t width, std::int64_t height) {
  const Grid grid = BestCanvas(rule, width, height);
  const std::int64_t tiles = grid.rows * grid.columns;
  const std::int64_t views = tiles > 1 ? tiles + 1 : 1;
  const std::int64_t tokens = views * rule.tokens_per_tile;
  return {views, TileSequence(rule), tokens, tokens + (tiles > 1 ? tiles : 0)};
}

// Patches of an image that MiniCPM-V scales to about image_size² pixels, sides a multiple of the
// patch.
std::int64_t ScaledPatches(const ImageRule& rule, double width, double height) {
  const double shape = width / height;
  const double h = std::floor(rule.image_size / std::sqrt(shape));
  const double w = std::floor(h * shape);
  const auto patches = [&rule](double side) {
    return std::max<std::int64_t>(
        1, static_cast<std::int64_t>(std::nearbyint(side / rule.patch_size)));
  };
  return patches(w) * patches(h);
}

// MiniCPM-V (openbmb, image_processing_minicpmv.py): about area / image_size² slices, at most
// max_tiles; of the grids with that many slices, one less or one more, the one whose shape is
// nearest by logarithm. Each slice and the overview keep their shape at about image_size² pixels,
// and the resampler makes tokens_per_tile of each. Slices stand between <slice> and
// </slice>, rows of them are parted by a newline. The encoder pads all to the longest.
//
// 448×448: no slices, 1024 patches, 64 tokens. 896×896: 2×2 slices, 5·64 + 4·2 + 1 = 329 tokens.
MediaTokens Slices(const ImageRule& rule, std::int64_t width, std::int64_t height) {
  const double w = static_cast<double>(width), h = static_cast<double>(height);
  const double tile_area = static_cast<double>(rule.image_size) * rule.image_size;
  const std::int64_t overview = ScaledPatches(rule, w, h);
  const std::int64_t wanted = std::min<std::int64_t>(
      static_cast<std::int64_t>(std::ceil(w * h / tile_area)), rule.max_tiles);
  if (wanted <= 1) return {1, overview, rule.tokens_per_tile, rule.tokens_per_tile};
  Grid best;
  double nearest = -1;
  for (std::int64_t slices = wanted - 1; slices <= wanted + 1; ++slices) {
    if (slices == 1 || slices > rule.max_tiles) continue;
    for (std::int64_t columns = 1; columns <= slices; ++columns) {
      if (slices % columns != 0) continue;
      const double distance =
          std::abs(std::log(w / h) -
                   std::log(static_cast<double>(columns) / static_cast<double>(slices / columns)));
      if (nearest < 0 || distance < nearest) {
        nearest = distance;
        best = {slices / columns, columns};
      }
    }
  }
  const std::int64_t slices = best.rows * best.columns;
  const std::int64_t slice = ScaledPatches(rule, w / static_cast<double>(best.columns),
                                           h / static_cast<double>(best.rows));
  const std::int64_t tokens = (slices + 1) * rule.tokens_per_tile;
  return {slices + 1, std::max(overview, slice), tokens, tokens + 2 * slices + best.rows - 1};
}

// Molmo (allenai/molmo, image_preprocessing_molmo.py): crops overlap by 4 patches on each side, so
// that of a crop's 24×24 patches 16×16 are new. The grid of crops is chosen like a canvas, on the
// image less its outer margin. The grid of (16·rows + 8) × (16·columns + 8) patches and the 24×24
// overview are pooled 2×2, and each row ends with a column token.
//
// 448×448: 336 px without the margin need 2×2 windows of 224 px: 40×40 patches, 20·20 + 20, and
// 12·12 + 12: 576 tokens; five sequences of 577.
MediaTokens OverlapCrops(const ImageRule& rule, std::int64_t width, std::int64_t height) {
  constexpr std::int64_t kMargin = 4;
  const std::int64_t side = rule.image_size / rule.patch_size;
  const std::int64_t fresh = side - 2 * kMargin;
  const std::int64_t margin_pixels = 2 * kMargin * rule.patch_size;
  ImageRule window = rule;
  window.image_size = static_cast<int>(fresh * rule.patch_size);
  const Grid grid = BestCanvas(window, std::max<std::int64_t>(1, width - margin_pixels),
                               std::max<std::int64_t>(1, height - margin_pixels));
  const std::int64_t pooled_side = CeilDivide<std::int64_t>(side, rule.merge);
  const std::int64_t rows = CeilDivide<std::int64_t>(grid.rows * fresh + 2 * kMargin, rule.merge);
  const std::int64_t columns =
      CeilDivide<std::int64_t>(grid.columns * fresh + 2 * kMargin, rule.merge);
  const std::int64_t views = grid.rows * grid.columns + 1;
  return {views, TileSequence(rule), views * pooled_side * pooled_side,
          rows * (columns + 1) + pooled_side * (pooled_side + 1)};
}

// Gemma-4 (huggingface/transformers, image_processing_gemma4.py): the image is scaled, up or down
// and with its shape kept, to at most tokens_per_tile squares of merge·patch pixels; the encoder
// sees merge² patches of each.
//
// 448×448, 280 squares of 48 px: 280^½ = 16.7, so 16×16 = 256 tokens of 2304 patches.
MediaTokens Budget(const ImageRule& rule, std::int64_t width, std::int64_t height) {
  const double budget = rule.tokens_per_tile;
  const double shape = static_cast<double>(height) / static_cast<double>(width);
  std::int64_t rows =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(std::floor(std::sqrt(budget * shape))));
  std::int64_t columns =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(std::floor(std::sqrt(budget / shape))));
  rows = std::min<std::int64_t>(rows, rule.tokens_per_tile);
  columns = std::min<std::int64_t>(columns, rule.tokens_per_tile / rows);
  const std::int64_t tokens = rows * columns;
  return {1, tokens * rule.merge * rule.merge, tokens, tokens};
}

}  // namespace

ShapeProblem CheckImageRule(const ImageRule& rule) {
  const auto needs = [](const char* key) {
    return ShapeProblem{key, std::string("this image rule needs ") + key};
  };
  if (rule.kind == ImageRuleKind::kNone) return {};
  if (rule.patch_size < 1) return needs("patch_size");
  const bool tiled = rule.kind != ImageRuleKind::kNativeMerge &&
                     rule.kind != ImageRuleKind::kRowNewline && rule.kind != ImageRuleKind::kBudget;
  if (tiled && rule.image_size < rule.patch_size) {
    return {"image_size", "image_size = " + std::to_string(rule.image_size) +
                              " is less than patch_size = " + std::to_string(rule.patch_size)};
  }
  switch (rule.kind) {
    case ImageRuleKind::kLlavaAnyres:
      if (rule.grid_pinpoints.empty()) return needs("image_grid_pinpoints");
      for (const std::vector<int>& point : rule.grid_pinpoints) {
        if (point[0] % rule.image_size != 0 || point[1] % rule.image_size != 0 || point[0] < 1 ||
            point[1] < 1) {
          return {"image_grid_pinpoints",
                  "a pinpoint of " + std::to_string(point[0]) + "x" + std::to_string(point[1]) +
                      " is not made of whole tiles of " + std::to_string(rule.image_size)};
        }
      }
      break;
    case ImageRuleKind::kNativeMerge:
      if (rule.max_pixels > 0 && rule.min_pixels > rule.max_pixels) {
        return {"min_pixels", "min_pixels = " + std::to_string(rule.min_pixels) +
                                  " exceeds max_pixels = " + std::to_string(rule.max_pixels)};
      }
      break;
    case ImageRuleKind::kTiles:
    case ImageRuleKind::kCanvasSeparated:
    case ImageRuleKind::kSlices:
    case ImageRuleKind::kBudget:
      if (rule.tokens_per_tile < 1) return needs("tokens_per_tile");
      break;
    case ImageRuleKind::kOverlapCrops:
      if (rule.image_size / rule.patch_size <= 8)
        return {"image_size", "crops that overlap by 8 patches must be larger"};
      break;
    default:
      break;
  }
  return {};
}

MediaTokens ImageTokens(const Model& model, std::int64_t width, std::int64_t height) {
  return TokensByRule(model, model.image, width, height);
}

MediaTokens TokensByRule(const Model& model, const ImageRule& rule, std::int64_t width,
                         std::int64_t height) {
  if (rule.kind == ImageRuleKind::kNone) {
    ThrowInput(610, "model '" + model.name + "' takes no images",
               "leave images out of the data mix, or choose a vision model");
  }
  if (width < 1 || height < 1 || width > kMostSide || height > kMostSide) {
    ThrowInput(612,
               "an image of " + std::to_string(width) + "x" + std::to_string(height) + " pixels",
               "both sides must lie in 1 … " + std::to_string(kMostSide));
  }
  switch (rule.kind) {
    case ImageRuleKind::kNone:
      break;
    case ImageRuleKind::kFixed: {
      // Any image is resized, cropped or padded to image_size²: LLaVA-1.5 24·24 = 576 tokens (577
      // in the encoder), Qwen-VL 32·32 patches resampled to 256, PaliGemma 16·16 = 256, Gemma-3
      // 64·64 pooled to 256.
      const std::int64_t backbone =
          model.task == ModelTask::kContrastive ? 0 : rule.tokens_per_tile;
      return {1, TileSequence(rule), rule.tokens_per_tile, backbone};
    }
    case ImageRuleKind::kLlavaAnyres:
      return LlavaAnyres(rule, width, height);
    case ImageRuleKind::kNativeMerge:
      return NativeMerge(model.name, rule, width, height);
    case ImageRuleKind::kRowNewline:
      return RowNewline(model, width, height);
    case ImageRuleKind::kTiles:
      return Tiles(rule, width, height);
    case ImageRuleKind::kCanvas:
      return Canvas(rule, width, height);
    case ImageRuleKind::kCanvasSeparated:
      return CanvasSeparated(rule, width, height);
    case ImageRuleKind::kSlices:
      return Slices(rule, width, height);
    case ImageRuleKind::kOverlapCrops:
      return OverlapCrops(rule, width, height);
    case ImageRuleKind::kBudget:
      return Budget(rule, width, height);
  }
  return {};
}

MediaTokens AudioTokens(const Model& model, double seconds) {
  const AudioRule& rule = model.audio;
  if (!rule.present) {
    ThrowInput(611, "model '" + model.name + "' takes no audio",
               "leave audio out of the data mix, or choose an audio model");
  }
  if (!(seconds > 0) || seconds > 1e7) {
    ThrowInput(612, "audio of " + std::to_string(seconds) + " s",
               "a clip must last more than 0 and at most 10^7 seconds");
  }
  // Whisper pads to whole chunks of 30 s, each a sequence of its own: 31 s are two sequences of
  // 1500 tokens.
  const double chunk = rule.chunk_s > 0 ? rule.chunk_s : seconds;
  const auto sequences =
      static_cast<std::int64_t>(rule.chunk_s > 0 ? std::ceil(seconds / rule.chunk_s) : 1.0);
  const auto tokens = [chunk](double rate) {
    return static_cast<std::int64_t>(std::ceil(chunk * rate - 1e-9));
  };
  const std::int64_t backbone = sequences * tokens(rule.backbone_tokens_per_s);
  return {sequences, tokens(rule.encoder_tokens_per_s), backbone, backbone};
}

}  // namespace aurum
