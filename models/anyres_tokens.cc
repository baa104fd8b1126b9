#include <algorithm>
#include <cmath>

#include "models/token_rules.h"

namespace aurum {

// LLaVA-1.6 "anyres" (haotian-liu/LLaVA, mm_utils.py select_best_resolution, llava_arch.py
// spatial_unpad).
//
// The image is fitted into the candidate canvas that keeps the most of its pixels, and among equals
// wastes the fewest; the canvas is cut into tiles of the encoder's size, and a base view of the
// whole image goes first. Behind the projector the tiles are put together to one grid of features,
// the rows or columns that only saw padding are cut off, and every row that stays ends with one
// newline token.
//
// 448×448 on a 336 px encoder: 336×672 keeps 336·336 pixels, 672×672 all 448·448. So 2×2 tiles and
// the base view, five encoder sequences of 577; the grid is 48×48, square like the image, nothing
// is cut: 576 + 48·48 + 48 = 2928. 1000×500: 336×672 (h×w) keeps 672·336 = 225,792, 672×672 the
// same and wastes more: 2 tiles, 24×48, 576 + 1152 + 24 = 1752. Cost: one look at every candidate.
//
// LLaVA-OneVision's "anyres_max_9" (huggingface/transformers, modeling_llava_onevision.py
// pack_image_features): a grid of more than 9 tiles' tokens (by a tenth a side) is interpolated to
// about that many.
MediaTokens LlavaAnyres(const ImageRule& rule, std::int64_t width, std::int64_t height) {
  std::int64_t best_h = 0, best_w = 0, best_kept = -1, least_waste = 0;
  for (const std::vector<int>& point : rule.grid_pinpoints) {
    const std::int64_t h = point[0], w = point[1];
    // min(w/width, h/height) in whole pixels, by cross multiplication.
    const bool by_width = w * height <= h * width;
    const std::int64_t scaled_w = by_width ? w : width * h / height;
    const std::int64_t scaled_h = by_width ? height * w / width : h;
    const std::int64_t kept = std::min(scaled_w * scaled_h, width * height);
    const std::int64_t waste = w * h - kept;
    if (kept > best_kept || (kept == best_kept && waste < least_waste)) {
      best_h = h;
      best_w = w;
      best_kept = kept;
      least_waste = waste;
    }
  }
  const std::int64_t side = rule.image_size / rule.patch_size;
  std::int64_t rows = best_h / rule.image_size * side;
  std::int64_t columns = best_w / rule.image_size * side;
  if (width * rows > columns * height) {  // wider than the canvas: padding lies above and below
    rows -= 2 * ((rows - height * columns / width) / 2);
  } else {
    columns -= 2 * ((columns - width * rows / height) / 2);
  }
  const std::int64_t tiles = (best_h / rule.image_size) * (best_w / rule.image_size) + 1;
  if (rule.max_tiles > 1) {
    const double most = static_cast<double>(rule.max_tiles) * static_cast<double>(side * side);
    const double ratio = std::sqrt(static_cast<double>(rows * columns) / most);
    if (ratio > 1.1) {
      const auto shrunk = [ratio](std::int64_t length) {
        return static_cast<std::int64_t>(std::floor(static_cast<double>(length) / ratio));
      };
      rows = shrunk(rows);
      columns = shrunk(columns);
    }
  }
  return {tiles, TileSequence(rule), tiles * rule.tokens_per_tile,
          rule.tokens_per_tile + rows * columns + rows};
}

}  // namespace aurum
