#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/model.h"
#include "sim/core/json.h"
#include "sim/core/object_reader.h"

namespace aurum {

enum class Task { kTrain, kGenerate };

struct ImageInput {
  std::int64_t width = 0;  // pixels
  std::int64_t height = 0;
  std::int64_t count = 0;  // images of this size in every sample
};

// What one step is fed with: every sample alike.
struct Workload {
  Task task = Task::kTrain;
  std::int64_t global_batch_size = 1;  // samples per step, over all replicas
  std::int64_t text_tokens = 0;        // per sample, media not counted
  std::vector<ImageInput> images;      // per sample
  double audio_s = 0;                  // per sample
  std::int64_t new_tokens = 0;         // kGenerate: decoded per sample
};

// Reads the scenario's "workload" object. E01xx.
Workload ReadWorkload(ObjectReader reader);

// Sequences that one sample sends through one module. Attention stays inside a sequence.
struct SequenceBatch {
  double sequences = 0;
  double tokens = 0;  // of each sequence
};

struct ModuleLoad {
  std::vector<SequenceBatch> batches;
  double tokens = 0;         // through the layers: Σ sequences · tokens
  double output_tokens = 0;  // that leave the module: after pooling, merging or resampling
};

// One sample as every module sees it.
struct SampleLoad {
  std::vector<ModuleLoad> modules;  // as in Model::modules
  double backbone_tokens = 0;       // length of the backbone's sequence: text and media
  double cross_modal_tokens = 0;    // that an encoder or connector produced for the backbone
  double cross_attention_tokens =
      0;  // of them, those that are keys of cross-attention and not in the sequence
};

// Applies the model's own token rules. E0610/E0611 where the model takes no such input; E0612 where nothing is left to do
// (no text and no media), E0613 where an encoder of the model gets no input is only a warning and appended to `warnings`.
SampleLoad LoadOfSample(const Model& model, const Workload& workload,
                        std::vector<Diagnostic>* warnings);

}  // namespace aurum
