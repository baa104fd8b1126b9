#include "sim/study/published/media.h"

#include <algorithm>
#include <cmath>

#include "models/tokens.h"
#include "sim/core/diagnostic.h"

namespace aurum {
namespace {

constexpr std::int64_t kUsualSide = 448, kSmallSide = 224, kLargeSide = 896;
// Pictures that fill a budget of tokens whatever their shape (Gemma-4).
constexpr std::int64_t kBudgetSide = 896;

MediaFacts Pictures(const Model& model, std::int64_t count, std::int64_t width,
                    std::int64_t height) {
  MediaFacts media{count, width, height, 0};
  try {
    media.visual_tokens = ImageTokens(model, width, height).backbone_tokens;
  } catch (const InputError&) {
    media.images = 0;  // the model has no rule for it: a sample of text
  }
  return media;
}

}  // namespace

MediaReading ReadMedia(const RecordFacts& facts, const ModelReading* named, const Model& model) {
  MediaReading out;
  const ModelFacts& m = facts.model;
  if (named != nullptr && named->image_width > 0) {
    out.nominal = {1, named->image_width, named->image_height, named->visual_tokens};
    return out;
  }
  if (m.TwoTowers()) {
    out.nominal = {1, m.vision_tower->image, m.vision_tower->image, 0};
    return out;
  }
  if (model.image.kind == ImageRuleKind::kNone) return out;
  const std::int64_t count = m.images.value_or(1);
  if (m.image_width && m.image_height) {
    out.nominal = Pictures(model, count, *m.image_width, *m.image_height);
    return out;
  }
  const std::string one = m.images ? "" : "one picture a sample; ";
  if (model.image.kind == ImageRuleKind::kFixed) {
    out.nominal = Pictures(model, count, model.image.image_size, model.image.image_size);
    if (!m.images) out.assumed = "pictures of a sample not told: one";
    return out;
  }
  if (model.image.kind == ImageRuleKind::kBudget) {
    out.nominal = Pictures(model, count, kBudgetSide, kBudgetSide);
    out.assumed = one + "sizes not told: the model scales them to its budget of tokens";
    return out;
  }
  if (m.max_pixels) {
    const auto side = std::max<std::int64_t>(
        28, std::llround(
                std::sqrt(static_cast<double>(std::min<std::int64_t>(*m.max_pixels, 1 << 26)))));
    out.nominal = Pictures(model, count, side, side);
    out.assumed = one + "sizes not told: the most pixels that the record allows";
    out.ends = {Pictures(model, count, side / 2, side / 2), out.nominal};
    return out;
  }
  out.nominal = Pictures(model, count, kUsualSide, kUsualSide);
  out.assumed = one + "sizes not told: 448 x 448";
  out.skip_time = "what the samples' media are is not told";
  out.ends = {Pictures(model, count, kSmallSide, kSmallSide),
              Pictures(model, count, kLargeSide, kLargeSide)};
  return out;
}

}  // namespace aurum
