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
// One still image of native shape, see native_tokens.cc. E0612 for a shape of more than 200 to 1.
MediaTokens NativeMerge(const std::string& model_name, const ImageRule& rule, std::int64_t width,
                        std::int64_t height);

}  // namespace aurum
