#include "sim/workload/workload.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include "sim/core/object_reader.h"
#include "sim/workload/typical_load.h"

namespace aurum {
namespace {

constexpr std::int64_t kMaxTokens = 100'000'000;
constexpr std::int64_t kMostRows = 4'000'000;  // about 1 GB

Diagnostic Warn(int code, std::string message, std::string help) {
  Diagnostic d;
  d.code = code;
  d.warning = true;
  d.message = std::move(message);
  d.help = std::move(help);
  return d;
}

std::shared_ptr<const SampleFile> OpenSamples(ObjectReader* reader, SampleFileCache* cache) {
  const std::filesystem::path named = reader->String("samples");
  // Beside the file that names it; of --set, beside the scenario.
  const std::filesystem::path folder =
      std::filesystem::path(reader->document().sources.front().name).parent_path();
  const std::string path = (folder / named).lexically_normal().string();
  try {
    return cache != nullptr ? cache->Get(path)
                            : std::make_shared<const SampleFile>(SampleFile::Read(path));
  } catch (const InputError& error) {
    const Diagnostic& d = error.diagnostic();
    if (!d.where.file.empty()) throw;
    reader->Fail(d.code, "samples", d.message, d.help);
  }
}

void ReadPlainSample(ObjectReader* reader, Workload* workload) {
  workload->text_tokens = reader->Integer("text_tokens", 0, kMaxTokens);
  for (ObjectReader& image : reader->Objects("images")) {
    ImageInput input;
    input.width = image.Integer("width", 1, 65536);
    input.height = image.Integer("height", 1, 65536);
    input.count = image.IntegerOr("count", 1, 1, 100'000);
    image.Finish();
    workload->images.push_back(input);
  }
  workload->audio_s = reader->NumberOr("audio_s", 0, 0, 1e6);
  for (ObjectReader& video : reader->Objects("video")) {
    VideoInput input;
    input.frames = video.Integer("frames", 1, 1'000'000);
    input.width = video.Integer("width", 1, 65536);
    input.height = video.Integer("height", 1, 65536);
    input.count = video.IntegerOr("count", 1, 1, 10'000);
    video.Finish();
    workload->videos.push_back(input);
  }
}

void ReadArrangement(ObjectReader* reader, Workload* workload) {
  if (auto packing = reader->ObjectIf("packing")) {
    const bool packs = packing->Choice("policy", {"none", "length"}) == 1;
    workload->packing.policy = packs ? PackingPolicy::kLength : PackingPolicy::kNone;
    if (packs && !packing->Has("max_tokens")) {
      packing->Fail(621, "", "packing by length has no 'max_tokens' to pack into",
                    "add the length of a packed row, for example \"max_tokens\": 8192");
    }
    if (packing->Has("max_tokens")) {
      workload->packing.max_tokens = packing->Integer("max_tokens", 1, kMaxTokens);
      if (!packs) {
        packing->Fail(621, "max_tokens", "'max_tokens' belongs to the packing policy 'length'",
                      "remove it, or set \"policy\": \"length\"");
      }
    }
    packing->Finish();
  }
  workload->bucketing =
      static_cast<Bucketing>(reader->ChoiceOr("bucketing", 0, {"none", "length", "modality"}));
  workload->balance =
      static_cast<Balance>(reader->ChoiceOr("balance", 0, {"none", "count", "load", "post"}));
  workload->text_only =
      static_cast<TextOnly>(reader->ChoiceOr("text_only", 0, {"idle", "dummy_forward"}));
}

}  // namespace

Workload ReadWorkload(ObjectReader reader, SampleFileCache* cache) {
  Workload workload;
  workload.task = static_cast<Task>(reader.ChoiceOr("task", 0, {"train", "generate", "forward"}));
  workload.global_batch_size = reader.Integer("global_batch_size", 1, 10'000'000);
  const bool mixture = reader.Has("mixture"), file = reader.Has("samples");
  if (mixture || file) {
    const std::string chosen = mixture ? "mixture" : "samples";
    for (const char* key : {"text_tokens", "images", "audio_s", "video", "samples"}) {
      if (key == chosen || !reader.Has(key)) continue;
      reader.Fail(622, key, "'" + std::string(key) + "' stands beside '" + chosen + "'",
                  "remove it: '" + chosen + "' says what every sample holds");
    }
    if (mixture) {
      workload.mixture = ReadMixture(reader.Objects("mixture"));
      if (workload.mixture.empty()) {
        reader.Fail(626, "mixture", "the mixture has no kind of sample",
                    "add one: {\"name\": \"text\", \"weight\": 1, \"text_tokens\": 512}");
      }
    } else {
      workload.samples = OpenSamples(&reader, cache);
    }
  } else {
    ReadPlainSample(&reader, &workload);
  }
  ReadArrangement(&reader, &workload);
  workload.draws =
      static_cast<int>(reader.IntegerOr("draws", workload.Uneven() ? 8 : 1, 1, 10'000));
  workload.seed = static_cast<std::uint64_t>(reader.IntegerOr("seed", 0, 0, std::int64_t{1} << 53));
  if (workload.Uneven()) {
    const std::int64_t together =
        workload.global_batch_size * (workload.bucketing == Bucketing::kNone ? 1 : kBucketWindow);
    if (together > kMostRows) {
      reader.Fail(628, "global_batch_size",
                  std::to_string(together) + " rows would have to be held at once",
                  "at most " + std::to_string(kMostRows) +
                      "; with bucketing those of eight steps: a smaller batch");
    }
    if (workload.global_batch_size * workload.draws > 5 * kMostRows) {
      reader.Fail(628, reader.Has("draws") ? "draws" : "global_batch_size",
                  "more than 20 million samples would be drawn", "fewer draws: 8 tell the mean");
    }
  }
  if (workload.task == Task::kGenerate)
    workload.new_tokens = reader.Integer("new_tokens", 1, 1'000'000);
  if (workload.task != Task::kTrain) {
    for (const char* key : {"mixture", "samples", "packing", "bucketing", "balance", "text_only"}) {
      if (!reader.Has(key)) continue;
      reader.Fail(623, key, "'" + std::string(key) + "' belongs to the task 'train'",
                  "say one sample with text_tokens and images");
    }
  }
  if (workload.task != Task::kGenerate && reader.Has("new_tokens")) {
    reader.Fail(109, "new_tokens", "'new_tokens' belongs to the task 'generate' alone",
                "remove it, or set \"task\": \"generate\"");
  }
  reader.Finish();
  return workload;
}

SampleLoad LoadOfSample(const Model& model, const Workload& workload,
                        std::vector<Diagnostic>* warnings) {
  const SamplePopulation all = LookAtSamples(model, workload);
  const SampleLoad& sample = all.mean;
  if (warnings == nullptr) return sample;
  for (std::size_t i = 0; i < model.modules.size(); ++i) {
    if (model.modules[i].kind == ModuleKind::kEncoder && sample.modules[i].tokens == 0) {
      warnings->push_back(
          Warn(1613, "the workload gives '" + model.modules[i].name + "' nothing to do",
               "add images or audio_s to the workload, or ignore this for text-only steps"));
    }
  }
  const auto whole = [](double tokens) {
    return std::to_string(static_cast<std::int64_t>(tokens));
  };
  const double length = all.longest + static_cast<double>(workload.new_tokens);
  if (model.max_positions > 0 && length > static_cast<double>(model.max_positions)) {
    warnings->push_back(
        Warn(1614,
             "a sequence of " + whole(length) + " tokens is longer than the " +
                 std::to_string(model.max_positions) + " positions that '" + model.name +
                 "' was made for",
             "media tokens come on top of text_tokens; use fewer or smaller images, or less text"));
  }
  if (workload.packing.policy == PackingPolicy::kLength && all.too_long > 0) {
    warnings->push_back(
        Warn(1620,
             "samples are longer than packing.max_tokens = " +
                 std::to_string(workload.packing.max_tokens) + ": the longest has " +
                 whole(all.longest) + " tokens",
             "each gets a row of its own; frameworks cut or drop it: raise max_tokens, or take the "
             "sample out"));
  }
  if (!workload.Uneven() &&
      (workload.bucketing != Bucketing::kNone || workload.balance != Balance::kNone)) {
    const bool bucketing = workload.bucketing != Bucketing::kNone;
    warnings->push_back(Warn(1621,
                             std::string(bucketing ? "bucketing" : "balance") +
                                 " changes nothing: every sample is alike",
                             "describe the data with 'mixture' or 'samples'"));
  }
  return sample;
}

}  // namespace aurum
