#pragma once

#include <cstdint>

#include "models/model.h"

namespace aurum {

// What one image or one clip of audio costs, in tokens. `sequences` independent attention sequences of
// `sequence_tokens` each run through the encoder (tiles, or the one native-resolution sequence); the connector maps
// `connector_tokens`; the backbone's sequence grows by `backbone_tokens` (newlines and separators included).
struct MediaTokens {
  std::int64_t sequences = 0;
  std::int64_t sequence_tokens = 0;
  std::int64_t connector_tokens = 0;
  std::int64_t backbone_tokens = 0;
};

// width and height in pixels, both 1 … 65536. A model without images: E0610.
MediaTokens ImageTokens(const Model& model, std::int64_t width, std::int64_t height);
// seconds > 0. A model without audio: E0611.
MediaTokens AudioTokens(const Model& model, double seconds);

}  // namespace aurum
