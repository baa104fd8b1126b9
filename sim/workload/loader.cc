#include "sim/workload/loader.h"

#include <algorithm>
#include <cmath>

#include "sim/core/random.h"
#include "sim/workload/typical_load.h"

namespace aurum {
namespace {

constexpr double kBytesPerPixel = 3;  // 8-bit RGB
constexpr double kBytesPerAudioSecond =
    64'000;                           // 16 kHz, 32-bit: what speech encoders are fed with
constexpr double kBytesPerToken = 8;  // a 64-bit id

void Add(const Sample& sample, SampleVolume* volume) {
  volume->text_tokens += static_cast<double>(sample.text_tokens);
  for (const MediaItem& item : sample.media) {
    const double count = static_cast<double>(item.count);
    const double frames = item.kind == MediaKind::kVideo ? static_cast<double>(item.frames) : 1.0;
    volume->pixels += count * frames * static_cast<double>(item.width * item.height);
    volume->audio_s += count * item.seconds;
  }
}

}  // namespace

Loader ReadLoader(ObjectReader reader) {
  Loader loader;
  loader.read_bytes_per_s = reader.Number("read_gb_per_s", 1e-6, 1e6) * 1e9;
  loader.bytes_per_pixel = reader.NumberOr("bytes_per_pixel", 0, 0, 1e3);
  loader.bytes_per_audio_s = reader.NumberOr("bytes_per_audio_s", 0, 0, 1e9);
  loader.bytes_per_text_token = reader.NumberOr("bytes_per_text_token", 4, 0, 1e6);
  loader.decode_s_per_megapixel = reader.NumberOr("decode_ms_per_megapixel", 0, 0, 1e6) * 1e-3;
  loader.decode_s_per_audio_s = reader.NumberOr("decode_ms_per_audio_s", 0, 0, 1e6) * 1e-3;
  loader.workers = static_cast<int>(reader.IntegerOr("workers", 1, 1, 10'000));
  loader.prefetch = static_cast<int>(reader.IntegerOr("prefetch", 2, 0, 10'000));
  loader.copies = static_cast<int>(reader.IntegerOr("copies", 1, 0, 100));
  loader.copy_bytes_per_s = reader.NumberOr("copy_gb_per_s", 0, 0, 1e6) * 1e9;
  loader.decode_cv = reader.NumberOr("decode_cv", 0, 0, 10);
  reader.Finish();
  return loader;
}

SampleVolume MeanVolume(const Workload& workload) {
  SampleVolume volume;
  const std::size_t count = SamplesLookedAt(workload);
  if (workload.samples != nullptr) {
    for (std::size_t i = 0; i < count; ++i) Add(workload.samples->At(i), &volume);
  } else if (!workload.mixture.empty()) {
    const std::uint64_t seed = RandomBits(workload.seed, /*stream=*/0x10ade5, /*counter=*/0);
    for (std::size_t i = 0; i < count; ++i) Add(DrawSample(workload.mixture, seed, i), &volume);
  } else {
    Sample sample;
    sample.text_tokens = workload.text_tokens;
    for (const ImageInput& image : workload.images)
      sample.media.push_back({MediaKind::kImage, image.width, image.height, 0, 0, image.count});
    for (const VideoInput& video : workload.videos) {
      sample.media.push_back(
          {MediaKind::kVideo, video.width, video.height, video.frames, 0, video.count});
    }
    if (workload.audio_s > 0)
      sample.media.push_back({MediaKind::kAudio, 0, 0, 0, workload.audio_s, 1});
    Add(sample, &volume);
  }
  const double n = static_cast<double>(count);
  return {volume.text_tokens / n, volume.pixels / n, volume.audio_s / n};
}

LoaderWork WorkOfBatch(const Loader& loader, const SampleVolume& sample, double samples,
                       int workers) {
  LoaderWork work;
  work.read_bytes = samples * (sample.text_tokens * loader.bytes_per_text_token +
                               sample.pixels * loader.bytes_per_pixel +
                               sample.audio_s * loader.bytes_per_audio_s);
  work.decoded_bytes =
      samples * (sample.text_tokens * kBytesPerToken + sample.pixels * kBytesPerPixel +
                 sample.audio_s * kBytesPerAudioSecond);
  work.read_s = work.read_bytes / loader.read_bytes_per_s;
  // Fewer samples than workers leave some idle.
  const double busy = std::min(static_cast<double>(workers), std::max(samples, 1.0));
  work.decode_s = samples *
                  (sample.pixels / 1e6 * loader.decode_s_per_megapixel +
                   sample.audio_s * loader.decode_s_per_audio_s) /
                  busy;
  if (loader.copy_bytes_per_s > 0)
    work.copy_s = loader.copies * work.decoded_bytes / loader.copy_bytes_per_s;
  return work;
}

DynamicBatch BatchWithin(double cost, double budget) {
  DynamicBatch batch;
  batch.samples = std::max(1.0, std::floor(budget / cost * (1 + 1e-12)));
  batch.utilisation = batch.samples * cost / budget;
  return batch;
}

}  // namespace aurum
