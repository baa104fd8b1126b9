#include "sim/workload/workload.h"

#include <algorithm>
#include <string>

#include "models/tokens.h"
#include "sim/core/object_reader.h"

namespace aurum {
namespace {

constexpr std::int64_t kMaxTokens = 100'000'000;

Diagnostic Warn(int code, std::string message, std::string help) {
  Diagnostic d;
  d.code = code;
  d.warning = true;
  d.message = std::move(message);
  d.help = std::move(help);
  return d;
}

void Add(const MediaTokens& media, double count, bool resamples, ModuleLoad* encoder,
         ModuleLoad* connector, SampleLoad* sample) {
  const auto real = [&](std::int64_t tokens) { return static_cast<double>(tokens) * count; };
  if (encoder != nullptr) {
    encoder->batches.push_back({real(media.sequences), static_cast<double>(media.sequence_tokens)});
    encoder->tokens += real(media.sequences * media.sequence_tokens);
    encoder->output_tokens += real(media.connector_tokens);
  }
  if (connector != nullptr) {
    if (resamples) {  // reads everything that the encoder made
      connector->batches.push_back(
          {real(media.sequences), static_cast<double>(media.sequence_tokens)});
    } else {
      connector->batches.push_back({real(1), static_cast<double>(media.connector_tokens)});
    }
    connector->tokens += connector->batches.back().sequences * connector->batches.back().tokens;
    // Separators (newline tokens) are learned embeddings: they never pass the connector.
    connector->output_tokens +=
        real(media.backbone_tokens > 0 ? std::min(media.connector_tokens, media.backbone_tokens)
                                       : media.connector_tokens);
  }
  sample->backbone_tokens += real(media.backbone_tokens);
  if (media.backbone_tokens > 0) {
    sample->cross_modal_tokens += real(media.backbone_tokens);
  } else {
    sample->cross_modal_tokens += real(media.connector_tokens);
    sample->cross_attention_tokens += real(media.connector_tokens);
  }
}

}  // namespace

Workload ReadWorkload(ObjectReader reader) {
  Workload workload;
  workload.task =
      reader.ChoiceOr("task", 0, {"train", "generate"}) == 0 ? Task::kTrain : Task::kGenerate;
  workload.global_batch_size = reader.Integer("global_batch_size", 1, 10'000'000);
  workload.text_tokens = reader.Integer("text_tokens", 0, kMaxTokens);
  for (ObjectReader& image : reader.Objects("images")) {
    ImageInput input;
    input.width = image.Integer("width", 1, 65536);
    input.height = image.Integer("height", 1, 65536);
    input.count = image.IntegerOr("count", 1, 1, 100'000);
    image.Finish();
    workload.images.push_back(input);
  }
  workload.audio_s = reader.NumberOr("audio_s", 0, 0, 1e6);
  if (workload.task == Task::kGenerate) {
    workload.new_tokens = reader.Integer("new_tokens", 1, 1'000'000);
  } else if (reader.Has("new_tokens")) {
    reader.Fail(109, "new_tokens", "'new_tokens' belongs to the task 'generate', not to 'train'",
                "remove it, or set \"task\": \"generate\"");
  }
  reader.Finish();
  return workload;
}

SampleLoad LoadOfSample(const Model& model, const Workload& workload,
                        std::vector<Diagnostic>* warnings) {
  SampleLoad sample;
  sample.modules.resize(model.modules.size());
  const auto add = [&](const MediaTokens& media, double count, Modality modality) {
    ModuleLoad* encoder = nullptr;
    ModuleLoad* connector = nullptr;
    bool resamples = false;
    for (std::size_t i = 0; i + 1 < model.modules.size(); ++i) {
      const Module& module = model.modules[i];
      if (module.modality != modality) continue;
      if (module.kind == ModuleKind::kEncoder) encoder = &sample.modules[i];
      if (module.kind == ModuleKind::kConnector) {
        connector = &sample.modules[i];
        resamples = module.resampler.queries > 0;
      }
    }
    Add(media, count, resamples, encoder, connector, &sample);
  };
  for (const ImageInput& image : workload.images) {
    add(ImageTokens(model, image.width, image.height), static_cast<double>(image.count),
        Modality::kVision);
  }
  if (workload.audio_s > 0) {
    add(AudioTokens(model, workload.audio_s), 1, Modality::kAudio);
  }
  // Two towers never join into one sequence: the last module reads the text alone.
  if (model.task == ModelTask::kContrastive) {
    sample.backbone_tokens = sample.cross_modal_tokens = sample.cross_attention_tokens = 0;
  }
  sample.backbone_tokens += static_cast<double>(workload.text_tokens);
  if (sample.backbone_tokens <= 0) {
    ThrowInput(612, "a sample of this workload has no tokens for the backbone",
               "set workload.text_tokens or add images");
  }
  ModuleLoad& backbone = sample.modules.back();
  backbone.batches = {{1, sample.backbone_tokens}};
  backbone.tokens = backbone.output_tokens = sample.backbone_tokens;
  for (std::size_t i = 0; i < model.modules.size() && warnings != nullptr; ++i) {
    if (model.modules[i].kind == ModuleKind::kEncoder && sample.modules[i].tokens == 0) {
      warnings->push_back(
          Warn(1613, "the workload gives '" + model.modules[i].name + "' nothing to do",
               "add images or audio_s to the workload, or ignore this for text-only steps"));
    }
  }
  const double length = sample.backbone_tokens + static_cast<double>(workload.new_tokens);
  if (model.max_positions > 0 && length > static_cast<double>(model.max_positions) &&
      warnings != nullptr) {
    warnings->push_back(
        Warn(1614,
             "a sequence of " + std::to_string(static_cast<std::int64_t>(length)) +
                 " tokens is longer than the " + std::to_string(model.max_positions) +
                 " positions that '" + model.name + "' was made for",
             "media tokens come on top of text_tokens; use fewer or smaller images, or less text"));
  }
  return sample;
}

}  // namespace aurum
