#pragma once

#include <cstdint>
#include <string>

#include "models/model.h"
#include "models/tokens.h"

namespace aurum {

// Parts of the token rules that images and videos share.

inline constexpr std::int64_t kMostSide = 65536;  // pixels

// One image by `rule`, whatever the model's own says. E0610, E0612 as ImageTokens.
MediaTokens TokensByRule(const Model& model, const ImageRule& rule, std::int64_t width,
                         std::int64_t height);
// Patches of one square tile, class tokens and registers included: CLIP-L/14 at 336 px has 24·24 +
// 1 = 577.
inline std::int64_t TileSequence(const ImageRule& rule) {
  const std::int64_t side = rule.image_size / rule.patch_size;
  return side * side + rule.class_tokens;
}
// Of LLaVA-1.6 and its heirs, see anyres_tokens.cc.
MediaTokens LlavaAnyres(const ImageRule& rule, std::int64_t width, std::int64_t height);
// One still image of native shape, see native_tokens.cc. E0612 for a shape of more than 200 to 1.
MediaTokens NativeMerge(const std::string& model_name, const ImageRule& rule, std::int64_t width,
                        std::int64_t height);

}  // namespace aurum
