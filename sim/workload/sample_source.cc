#include "sim/workload/sample_source.h"

#include <algorithm>
#include <string>
#include <utility>

#include "sim/core/random.h"

namespace aurum {
namespace {

constexpr double kMostItems = 10'000;  // of one list entry of a mixture

Distribution OptionalCount(ObjectReader* reader) {
  return reader->Has("count") ? ReadDistribution(reader, "count", 0, kMostItems, true)
                              : ConstantDistribution(1);
}

}  // namespace

std::vector<SampleKind> ReadMixture(std::vector<ObjectReader> readers) {
  std::vector<SampleKind> kinds;
  double sum = 0;
  for (ObjectReader& reader : readers) {
    SampleKind kind;
    kind.name = reader.String("name", "kind " + std::to_string(kinds.size() + 1));
    kind.weight = reader.NumberOr("weight", 1, 0, 1e12);
    kind.text_tokens = ReadDistribution(&reader, "text_tokens", 0, kMostSampleTokens, true);
    for (ObjectReader& image : reader.Objects("images")) {
      ImageSpread spread;
      spread.width = ReadDistribution(&image, "width", 1, kMostMediaSide, true);
      spread.height = ReadDistribution(&image, "height", 1, kMostMediaSide, true);
      spread.count = OptionalCount(&image);
      image.Finish();
      kind.images.push_back(std::move(spread));
    }
    kind.audio_s = reader.Has("audio_s")
                       ? ReadDistribution(&reader, "audio_s", 0, kMostAudioSeconds, false)
                       : ConstantDistribution(0);
    for (ObjectReader& video : reader.Objects("video")) {
      VideoSpread spread;
      spread.frames = ReadDistribution(&video, "frames", 1, kMostVideoFrames, true);
      spread.width = ReadDistribution(&video, "width", 1, kMostMediaSide, true);
      spread.height = ReadDistribution(&video, "height", 1, kMostMediaSide, true);
      spread.count = OptionalCount(&video);
      video.Finish();
      kind.videos.push_back(std::move(spread));
    }
    reader.Finish();
    sum += kind.weight;
    kinds.push_back(std::move(kind));
  }
  if (!kinds.empty() && !(sum > 0)) {
    readers.front().Fail(626, "weight", "the weights of the mixture sum to nothing",
                         "give at least one kind of sample a weight above 0");
  }
  return kinds;
}

Sample DrawSample(const std::vector<SampleKind>& mixture, std::uint64_t seed, std::uint64_t index,
                  std::size_t* kind_out) {
  // Number `slot` of sample `index`: the same whatever else is drawn before.
  std::uint64_t slot = 0;
  const auto next = [&] { return RandomUniform(seed, index, slot++); };
  const auto draw = [&](const Distribution& d) {
    return d.Constant() ? d.first : d.Quantile(next());
  };
  const auto whole = [&](const Distribution& d) { return static_cast<std::int64_t>(draw(d)); };

  double sum = 0;
  for (const SampleKind& kind : mixture) sum += kind.weight;
  double left = next() * sum;
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < mixture.size(); ++i) {
    if (mixture[i].weight <= 0) continue;
    chosen = i;  // the last of positive weight takes what rounding leaves
    left -= mixture[i].weight;
    if (left < 0) break;
  }
  if (kind_out != nullptr) *kind_out = chosen;
  const SampleKind& kind = mixture[chosen];

  Sample sample;
  const auto add = [&](MediaItem item) {
    if (!sample.media.empty()) {  // equal neighbours are one entry
      MediaItem last = sample.media.back();
      last.count = item.count;
      if (last == item) {
        sample.media.back().count += item.count;
        return;
      }
    }
    sample.media.push_back(item);
  };
  sample.text_tokens = whole(kind.text_tokens);
  for (const ImageSpread& spread : kind.images) {
    const std::int64_t count = whole(spread.count);
    for (std::int64_t i = 0; i < count; ++i) {
      MediaItem item;
      item.width = whole(spread.width);
      item.height = whole(spread.height);
      add(item);
    }
  }
  const double seconds = draw(kind.audio_s);
  if (seconds > 0) {
    MediaItem item;
    item.kind = MediaKind::kAudio;
    item.seconds = seconds;
    add(item);
  }
  for (const VideoSpread& spread : kind.videos) {
    const std::int64_t count = whole(spread.count);
    for (std::int64_t i = 0; i < count; ++i) {
      MediaItem item;
      item.kind = MediaKind::kVideo;
      item.frames = whole(spread.frames);
      item.width = whole(spread.width);
      item.height = whole(spread.height);
      add(item);
    }
  }
  return sample;
}

}  // namespace aurum
