#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/model.h"
#include "sim/core/json.h"
#include "sim/core/object_reader.h"
#include "sim/workload/sample_file.h"
#include "sim/workload/sample_source.h"

namespace aurum {

enum class Task {
  kTrain,
  kGenerate,
  kForward,  // one forward pass of every sample, nothing kept: evaluation, pseudo-labels
};

struct ImageInput {
  std::int64_t width = 0;  // pixels
  std::int64_t height = 0;
  std::int64_t count = 0;  // images of this size in every sample
};

struct VideoInput {
  std::int64_t frames = 0;  // as the model gets them
  std::int64_t width = 0;   // pixels
  std::int64_t height = 0;
  std::int64_t count = 1;
};

// How samples become sequences of the backbone.
enum class PackingPolicy {
  kNone,      // one sample a row; a micro-batch is padded to its longest
  kLength,    // rows hold as many whole samples as fit into max_tokens, without padding; attention
              // stays inside of a sample. A batch then counts rows, as training frameworks count.
  kModality,  // the same, rows of samples with the same kinds of media apart
};
struct Packing {
  PackingPolicy policy = PackingPolicy::kNone;
  std::int64_t max_tokens = 0;  // kLength, kModality
  // Encoders attend inside of groups of so many tokens only, which changes what they compute; 0 = no.
  std::int64_t group_tokens = 0;
};

// What becomes of images before the model's own rule sees them.
enum class ResolutionPolicy {
  kNative,    // as they are
  kFixed,     // all resized to `sides[0]`²
  kBucket,    // resized to the square of `sides` whose area is nearest
  kBatchMax,  // padded to the largest width and height of their micro-batch
};
struct Resolution {
  ResolutionPolicy policy = ResolutionPolicy::kNative;
  std::vector<std::int64_t> sides;  // pixels
};

// How samples come from storage to the devices. Rates are of one node.
struct Loader {
  double read_bytes_per_s = 0;  // storage to host
  double bytes_per_pixel = 0;   // of a stored image or frame (JPEG: about 0.2 … 0.5)
  double bytes_per_audio_s = 0;
  double bytes_per_text_token = 4;
  double decode_s_per_megapixel = 0;  // of one worker
  double decode_s_per_audio_s = 0;
  int workers = 1;              // of every GPU
  int prefetch = 2;             // batches that wait ready; 0 = loaded when asked for
  int copies = 1;               // of what was decoded, in host memory
  double copy_bytes_per_s = 0;  // of one such copy; 0 = takes no time
  double decode_cv = 0;         // spread of a batch's time
};

// Which rows go together, among those of kBucketWindow steps: they are put in order, cut into
// micro-batches of all replicas, and these shuffled, the "mega-batches" of Hugging Face's
// group_by_length and of LLaVA's group_by_modality_length.
inline constexpr std::int64_t kBucketWindow = 8;
enum class Bucketing {
  kNone,
  kLength,    // of like length
  kModality,  // with the same kinds of media, and of like length among those
};

// Which replica gets which row of a step.
enum class Balance {
  kNone,   // as they come
  kCount,  // rows with media are dealt out evenly
  kLoad,   // longest processing time first, by the backbone's work for a row
  // As they come, then each phase evens out its own work over the replicas in every micro-batch, by
  // an all-to-all: encoders by single images, the backbone by samples. Packed rows then come apart,
  // as nothing is padded; rows that are padded go together by length. OrchMLLM, arXiv 2503.23830.
  kPost,
};

// Encoders in a micro-batch without anything to encode.
enum class TextOnly { kIdle, kDummyForward };

// What one step is fed with. Every sample alike by the plain keys, or drawn from a mixture or a file.
struct Workload {
  Task task = Task::kTrain;
  std::int64_t global_batch_size = 1;  // samples per step, over all replicas; kLength: packed rows
  std::int64_t text_tokens = 0;        // per sample, media not counted
  std::vector<ImageInput> images;      // per sample
  double audio_s = 0;                  // per sample
  std::vector<VideoInput> videos;      // per sample
  std::int64_t new_tokens = 0;         // kGenerate: decoded per sample

  std::vector<SampleKind> mixture;            // in place of the plain keys
  std::shared_ptr<const SampleFile> samples;  // or in place of both
  Packing packing;
  Bucketing bucketing = Bucketing::kNone;
  Balance balance = Balance::kNone;
  Resolution resolution;
  std::optional<Loader> loader;
  TextOnly text_only = TextOnly::kIdle;
  int draws = 1;           // steps that are drawn
  std::uint64_t seed = 0;  // of all draws

  // Steps and replicas may differ. Otherwise every micro-batch is micro_batch_size equal samples.
  bool Uneven() const { return !mixture.empty() || samples != nullptr; }
};

// Reads the scenario's "workload" object. E01xx, E0620 … E0628; of a file of samples also E0201, E0202 and
// what its lines do wrong. Its path is relative to the scenario's file. With a `cache`, files that
// other scenarios have read are shared.
Workload ReadWorkload(ObjectReader reader, SampleFileCache* cache = nullptr);

// Sequences that one sample sends through one module. Attention stays inside a sequence.
struct SequenceBatch {
  double sequences = 0;
  double tokens = 0;  // of each sequence
};

struct ModuleLoad {
  std::vector<SequenceBatch> batches;
  double tokens = 0;         // through the layers: Σ sequences · tokens, padding included
  double output_tokens = 0;  // that leave the module: after pooling, merging or resampling
  double real_tokens = 0;    // of `tokens`, without padding and dummies
  // Of a connector whose layers run on learned queries (Module::queries, then the tokens above are
  // the queries): tokens of its input, which the layers read by cross-attention.
  double source_tokens = 0;
  // Of an encoder whose work several GPUs of one replica share (StepShape::encoder_ranks): the share
  // of the busiest. Never below 1 / encoder_ranks, 1 where a single image cannot be shared.
  double busiest_share = 1;
};

// One sample as every module sees it, or a whole micro-batch (step_draw.h): then all are sums.
struct SampleLoad {
  std::vector<ModuleLoad> modules;  // as in Model::modules
  double backbone_tokens = 0;     // length of the backbone's sequence: text and media, and padding
  double cross_modal_tokens = 0;  // that an encoder or connector produced for the backbone
  double cross_attention_tokens =
      0;  // of them, those that are keys of cross-attention and not in the sequence
  double real_tokens = 0;  // of backbone_tokens, without padding
  double samples = 1;
};

// One sample by the model's own token rules. Of an uneven workload: the mean sample of the whole file,
// or of the first samples of the mixture (kMeanSamples, or as many as all draws take if those are
// more, kMostMeanSamples at most). Its modules have one batch each, of the length and number that give
// the mean of the tokens and of their squares, so that linear and quadratic costs are both the
// expected ones. Padding is not in it: see MeanMicroBatch (typical_load.h).
// E0610/E0611 where the model takes no such input; E0612 where nothing is left to do (no text and no
// media): of a sample of a file, with its line. Appended to `warnings`: W1613 an encoder that gets no
// input, W1614 a sequence too long for the model, W1620 one too long for packing, W1621 a key that
// changes nothing.
inline constexpr std::int64_t kMeanSamples = 16384;
inline constexpr std::int64_t kMostMeanSamples = 1 << 18;
SampleLoad LoadOfSample(const Model& model, const Workload& workload,
                        std::vector<Diagnostic>* warnings);

}  // namespace aurum
