#pragma once

#include <cstdint>

#include "models/model.h"

namespace aurum {

// What one image, one video or one clip of audio costs, in tokens. `sequences` independent attention sequences
// of `sequence_tokens` each run through the encoder (tiles, or the one native-resolution sequence);
// the connector maps `connector_tokens`; the backbone's sequence grows by `backbone_tokens`
// (newlines and separators included).
struct MediaTokens {
  std::int64_t sequences = 0;
  std::int64_t sequence_tokens = 0;
  std::int64_t connector_tokens = 0;
  std::int64_t backbone_tokens = 0;
};

// width and height in pixels, both 1 … 65536. A model without images: E0610; sides out of range, or
// a shape that the family refuses (Qwen2-VL: more than 200 to 1): E0612. Begin and end marks of the
// chat template are text, not image tokens: Qwen-VL's <img> and </img>, Llama-4's <|image_start|>.
// A contrastive tower gives the text stream nothing; its connector_tokens is the one pooled vector
// that its projection maps.
MediaTokens ImageTokens(const Model& model, std::int64_t width, std::int64_t height);
// A video of `frames` frames (1 … 2^20, after sampling) of width × height pixels. Sequences are its
// frames, or its groups of frames where one patch spans several. A model without a rule for video:
// E0615, with the remedy (its frames as images, where it takes images). A size out of range, more
// frames than the family's limit: E0612. Timestamps between frames are text, not video tokens.
MediaTokens VideoTokens(const Model& model, std::int64_t frames, std::int64_t width,
                        std::int64_t height);
// Of the modules that a video passes: kVideo where the model has such an encoder, else kVision.
Modality VideoModality(const Model& model);
// 0 < seconds <= 10^7, else E0612. A model without audio: E0611.
MediaTokens AudioTokens(const Model& model, double seconds);

}  // namespace aurum
