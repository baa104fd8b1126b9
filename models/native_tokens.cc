#include <algorithm>
#include <cmath>
#include <string>

#include "models/token_rules.h"
#include "sim/core/diagnostic.h"

namespace aurum {
namespace {

// Python's round(): halves go to the even neighbour. a, b > 0.
std::int64_t RoundHalfEven(std::int64_t a, std::int64_t b) {
  const std::int64_t quotient = a / b;
  const std::int64_t twice = 2 * (a % b);
  if (twice != b) return quotient + (twice > b ? 1 : 0);
  return quotient + quotient % 2;
}

}  // namespace

// Qwen2-VL and its heirs (huggingface/transformers, image_processing_qwen2_vl.py smart_resize):
// both sides go to the nearest multiple of patch·merge; an area outside [min_pixels, max_pixels] is
// brought inside with the shape kept, down by floor and up by ceiling. All patches are one
// attention sequence; merge² of them become one token of the backbone.
//
// 448×448, patch 14, merge 2: 32·32 = 1024 patches, 256 tokens (H·W/784). 1000×700 goes to
// 1008×700: 72·50 = 3600 and 900.
MediaTokens NativeMerge(const std::string& model_name, const ImageRule& rule, std::int64_t width,
                        std::int64_t height) {
  if (std::max(width, height) > 200 * std::min(width, height)) {
    ThrowInput(612,
               "an image of " + std::to_string(width) + "x" + std::to_string(height) +
                   " is more than 200 to 1: " + model_name + " refuses it",
               "crop or split the image");
  }
  const std::int64_t factor = std::int64_t{rule.patch_size} * rule.merge;
  std::int64_t h = std::max(factor, RoundHalfEven(height, factor) * factor);
  std::int64_t w = std::max(factor, RoundHalfEven(width, factor) * factor);
  const double area = static_cast<double>(height) * static_cast<double>(width);
  const auto scaled = [factor](double side, double scale, bool up) {
    const double steps = side * scale / static_cast<double>(factor);
    return std::max<std::int64_t>(
               1, static_cast<std::int64_t>(up ? std::ceil(steps) : std::floor(steps))) *
           factor;
  };
  if (rule.max_pixels > 0 && h * w > rule.max_pixels) {
    const double scale = 1 / std::sqrt(area / static_cast<double>(rule.max_pixels));
    h = scaled(static_cast<double>(height), scale, false);
    w = scaled(static_cast<double>(width), scale, false);
  } else if (h * w < rule.min_pixels) {
    const double scale = std::sqrt(static_cast<double>(rule.min_pixels) / area);
    h = scaled(static_cast<double>(height), scale, true);
    w = scaled(static_cast<double>(width), scale, true);
  }
  const std::int64_t tokens = (h / factor) * (w / factor);
  return {1, tokens * rule.merge * rule.merge, tokens, tokens};
}

}  // namespace aurum
