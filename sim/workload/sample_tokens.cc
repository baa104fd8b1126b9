#include "sim/workload/sample_tokens.h"

#include <algorithm>
#include <string>
#include <utility>

#include "sim/core/random.h"
#include "sim/workload/resolution.h"

namespace aurum {
MediaTokens TokenCounter::TokensOf(const MediaItem& item) {
  if (item.kind == MediaKind::kAudio) return AudioTokens(model_, item.seconds);
  const std::array<std::int64_t, 3> key = {item.frames, item.width, item.height};
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  const MediaTokens media = item.kind == MediaKind::kVideo
                                ? VideoTokens(model_, item.frames, item.width, item.height)
                                : ImageTokens(model_, item.width, item.height);
  constexpr std::size_t kMostKnown = 1 << 20;
  if (known_.size() < kMostKnown) known_.emplace(key, media);
  return media;
}

CountedSample TokenCounter::Count(const Sample& sample) {
  CountedSample counted;
  counted.text_tokens = static_cast<double>(sample.text_tokens);
  counted.backbone_tokens = counted.text_tokens;
  counted.media.reserve(sample.media.size());
  for (const MediaItem& item : sample.media) {
    CountedMedia media;
    media.kind = item.kind;
    media.modality = item.kind == MediaKind::kAudio   ? Modality::kAudio
                     : item.kind == MediaKind::kVideo ? VideoModality(model_)
                                                      : Modality::kVision;
    media.tokens = TokensOf(item);
    media.count = static_cast<double>(item.count);
    if (item.kind == MediaKind::kImage) {
      media.width = static_cast<std::int32_t>(item.width);
      media.height = static_cast<std::int32_t>(item.height);
    }
    counted.backbone_tokens += InSequence(media);
    counted.media.push_back(media);
  }
  if (counted.backbone_tokens <= 0) {
    ThrowInput(612, "a sample of this workload has no tokens for the backbone",
               "set workload.text_tokens or add images");
  }
  return counted;
}

double TokenCounter::InSequence(const CountedMedia& media) const {
  if (model_.task == ModelTask::kContrastive) return 0;
  return static_cast<double>(media.tokens.backbone_tokens) * media.count;
}

CountedSample TokenCounter::Padded(const CountedSample& sample, std::int32_t width,
                                   std::int32_t height) {
  CountedSample padded = sample;
  for (CountedMedia& media : padded.media) {
    if (media.kind != MediaKind::kImage) continue;
    padded.backbone_tokens -= InSequence(media);
    media.width = width;
    media.height = height;
    media.tokens = TokensOf({MediaKind::kImage, width, height, 0, 0, 1});
    padded.backbone_tokens += InSequence(media);
  }
  return padded;
}

void GrowToHold(const CountedSample& sample, std::int32_t* width, std::int32_t* height) {
  for (const CountedMedia& media : sample.media) {
    *width = std::max(*width, media.width);
    *height = std::max(*height, media.height);
  }
}

SampleStream::SampleStream(const Model& model, const Workload& workload)
    : workload_(workload),
      counter_(model),
      seed_(RandomBits(workload.seed, /*stream=*/0x5a3b1e5, /*counter=*/0)) {
  plain_.text_tokens = workload.text_tokens;
  for (const ImageInput& image : workload.images) {
    plain_.media.push_back({MediaKind::kImage, image.width, image.height, 0, 0, image.count});
  }
  if (workload.audio_s > 0) {
    plain_.media.push_back({MediaKind::kAudio, 0, 0, 0, workload.audio_s, 1});
  }
  for (const VideoInput& video : workload.videos) {
    plain_.media.push_back(
        {MediaKind::kVideo, video.width, video.height, video.frames, 0, video.count});
  }
  ResizeImages(workload.resolution, &plain_);
}

CountedSample SampleStream::OfFile(std::size_t index) {
  const SampleFile& file = *workload_.samples;
  try {
    Sample sample = file.At(index);
    ResizeImages(workload_.resolution, &sample);
    return counter_.Count(sample);
  } catch (const InputError& error) {
    Diagnostic d = error.diagnostic();
    d.where.file = file.path();
    d.where.line = static_cast<int>(file.LineOf(index));
    d.where.column = 1;
    throw InputError(std::move(d), error.exit_code());
  }
}

CountedSample SampleStream::At(std::uint64_t position) {
  if (workload_.samples != nullptr) return OfFile(workload_.samples->IndexAt(seed_, position));
  if (workload_.mixture.empty()) return counter_.Count(plain_);
  std::size_t kind = 0;
  Sample sample = DrawSample(workload_.mixture, seed_, position, &kind);
  ResizeImages(workload_.resolution, &sample);
  try {
    return counter_.Count(sample);
  } catch (const InputError& error) {
    Diagnostic d = error.diagnostic();
    d.where.pointer = "/workload/mixture/" + std::to_string(kind);
    d.message += " (drawn of '" + workload_.mixture[kind].name + "')";
    throw InputError(std::move(d), error.exit_code());
  }
}

MediaChains::MediaChains(const Model& model, const Packing& packing) {
  for (std::size_t i = 0; i + 1 < model.modules.size(); ++i) {
    const Module& module = model.modules[i];
    if (module.modality == Modality::kText) continue;
    MediaChain& chain = of[IndexOf(module.modality)];
    if (module.kind == ModuleKind::kEncoder) {
      chain.encoder = static_cast<int>(i);
      chain.group_tokens = packing.group_tokens;
    }
    if (module.kind == ModuleKind::kConnector) {
      chain.connector = static_cast<int>(i);
      chain.resamples = module.resampler.queries > 0;
      chain.queries = module.queries;
    }
  }
}

void AddGroups(double sequences, std::int64_t tokens, std::int64_t group_tokens,
               std::vector<SequenceBatch>* batches) {
  const std::int64_t groups =
      group_tokens > 0 && tokens > group_tokens ? (tokens + group_tokens - 1) / group_tokens : 1;
  const std::int64_t longer = tokens % groups;  // groups with one token more
  const auto add = [&](std::int64_t count, std::int64_t length) {
    if (count > 0)
      batches->push_back({sequences * static_cast<double>(count), static_cast<double>(length)});
  };
  add(groups - longer, tokens / groups);
  add(longer, tokens / groups + 1);
}

double EncoderTokens(const MediaTokens& media) {
  return static_cast<double>(media.sequences * media.sequence_tokens);
}

double ConnectorTokens(const MediaTokens& media, const MediaChain& chain) {
  if (chain.queries > 0) return static_cast<double>(media.sequences * chain.queries);
  return chain.resamples ? EncoderTokens(media) : static_cast<double>(media.connector_tokens);
}

void AddToChain(const MediaTokens& media, double count, const MediaChain& chain, SampleLoad* load) {
  const auto real = [&](std::int64_t tokens) { return static_cast<double>(tokens) * count; };
  const auto add = [](double sequences, std::int64_t tokens, ModuleLoad* module) {
    module->batches.push_back({sequences, static_cast<double>(tokens)});
    module->tokens += sequences * static_cast<double>(tokens);
    module->real_tokens = module->tokens;
  };
  if (chain.encoder >= 0) {
    ModuleLoad& encoder = load->modules[static_cast<std::size_t>(chain.encoder)];
    AddGroups(real(media.sequences), media.sequence_tokens, chain.group_tokens, &encoder.batches);
    encoder.tokens += real(media.sequences * media.sequence_tokens);
    encoder.real_tokens = encoder.tokens;
    encoder.output_tokens += real(media.connector_tokens);
  }
  if (chain.connector >= 0) {
    ModuleLoad& connector = load->modules[static_cast<std::size_t>(chain.connector)];
    if (chain.queries > 0) {  // pass the layers, and read everything that the encoder made
      add(real(media.sequences), chain.queries, &connector);
      connector.source_tokens += real(media.sequences * media.sequence_tokens);
    } else if (chain.resamples) {  // reads everything that the encoder made
      add(real(media.sequences), media.sequence_tokens, &connector);
    } else {
      add(real(1), media.connector_tokens, &connector);
    }
    // Separators (newline tokens) are learned embeddings: they never pass the connector.
    connector.output_tokens +=
        real(media.backbone_tokens > 0 ? std::min(media.connector_tokens, media.backbone_tokens)
                                       : media.connector_tokens);
  }
}

void AddToBackbone(const Model& model, const MediaTokens& media, double count, SampleLoad* load) {
  if (model.task == ModelTask::kContrastive) return;
  const auto real = [&](std::int64_t tokens) { return static_cast<double>(tokens) * count; };
  load->backbone_tokens += real(media.backbone_tokens);
  if (media.backbone_tokens > 0) {
    load->cross_modal_tokens += real(media.backbone_tokens);
  } else {
    load->cross_modal_tokens += real(media.connector_tokens);
    load->cross_attention_tokens += real(media.connector_tokens);
  }
}

MediaTokens SmallestMedia(const Model& model, Modality modality) {
  const bool images = model.image.kind != ImageRuleKind::kNone;
  const bool videos = model.video.kind != VideoRuleKind::kNone;
  if (modality == Modality::kAudio) {
    if (!model.audio.present) return {};
    const double rate = std::max(model.audio.encoder_tokens_per_s, 1e-6);
    return AudioTokens(model, std::min(1 / rate, 1.0));
  }
  if (modality == Modality::kVision && images) return ImageTokens(model, 1, 1);
  return videos && VideoModality(model) == modality ? VideoTokens(model, 1, 1, 1) : MediaTokens();
}

void MergeBatches(std::vector<SequenceBatch>* batches) {
  std::sort(batches->begin(), batches->end(),
            [](const SequenceBatch& a, const SequenceBatch& b) { return a.tokens < b.tokens; });
  std::size_t kept = 0;
  for (const SequenceBatch& batch : *batches) {
    if (batch.sequences <= 0 || batch.tokens <= 0) continue;
    if (kept > 0 && (*batches)[kept - 1].tokens == batch.tokens) {
      (*batches)[kept - 1].sequences += batch.sequences;
    } else {
      (*batches)[kept++] = batch;
    }
  }
  batches->resize(kept);
}

}  // namespace aurum
