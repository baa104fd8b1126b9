#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/workload/distribution.h"

namespace aurum {

// The most that a sample may hold.
inline constexpr std::int64_t kMostSampleTokens = 100'000'000;
inline constexpr std::int64_t kMostMediaSide = 65536;  // pixels
inline constexpr std::int64_t kMostVideoFrames = 1'000'000;
inline constexpr double kMostAudioSeconds = 1e6;

enum class MediaKind { kImage, kAudio, kVideo };

// One image, clip or video of a sample, or `count` equal ones.
struct MediaItem {
  MediaKind kind = MediaKind::kImage;
  std::int64_t width = 0, height = 0;  // pixels, of images and videos
  std::int64_t frames = 0;             // of a video, as the model gets them
  double seconds = 0;                  // of audio
  std::int64_t count = 1;

  bool operator==(const MediaItem&) const = default;
};

// What one training sample holds, before any model counts it in tokens.
struct Sample {
  std::int64_t text_tokens = 0;
  std::vector<MediaItem> media;

  bool operator==(const Sample&) const = default;
};

// A kind of sample in a mixture, drawn with probability weight / Σ weights. Every image and video
// draws its own size.
struct ImageSpread {
  Distribution width, height, count;
};
struct VideoSpread {
  Distribution frames, width, height, count;
};
struct SampleKind {
  std::string name;
  double weight = 1;
  Distribution text_tokens, audio_s;
  std::vector<ImageSpread> images;
  std::vector<VideoSpread> videos;
};

std::vector<SampleKind> ReadMixture(std::vector<ObjectReader> kinds);  // E0620, E0626
// Sample number `index` of the endless stream of `seed`; which kind it is goes to `kind` if told.
Sample DrawSample(const std::vector<SampleKind>& mixture, std::uint64_t seed, std::uint64_t index,
                  std::size_t* kind = nullptr);

}  // namespace aurum
