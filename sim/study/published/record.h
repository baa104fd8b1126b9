#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/core/json.h"

namespace aurum {

// A published measurement, split where it is read: what was run (facts) and what was seen (measured).
// A prediction is made of RecordFacts alone; nothing of RecordMeasured has a way to it.
//
// Absent values are facts nobody told. Text is kept as the source prints it; sources.h says what it
// means.

struct MoeFacts {
  std::int64_t experts = 0;
  std::int64_t experts_per_token = 0;
  std::int64_t expert_intermediate = 0;
  std::int64_t shared_intermediate = 0;  // of all experts that every token visits together
  std::optional<std::int64_t> first_dense_layers;

  bool operator==(const MoeFacts&) const = default;
};

struct LatentFacts {  // multi-head latent attention
  std::int64_t q_rank = 0, kv_rank = 0, nope_dim = 0, rope_dim = 0, value_dim = 0;

  bool operator==(const LatentFacts&) const = default;
};

struct TowerFacts {  // of a contrastive model
  std::int64_t layers = 0, width = 0, heads = 0, intermediate = 0;
  std::int64_t patch = 0, image = 0;  // vision: pixels
  std::int64_t context = 0;           // text: tokens
};

struct ModelFacts {
  std::string name;       // as printed
  std::string reference;  // the name of a known model that the record refers to for its shapes
  std::optional<std::int64_t> layers, hidden, heads, kv_heads, head_dim, intermediate, vocabulary;
  std::optional<std::int64_t> sequence;    // tokens of a sample, media included
  std::optional<std::int64_t> parameters;  // as printed: a check, not an input
  std::int64_t window = 0;                 // tokens that one token sees; 0 = all
  bool window_alternates = false;          // on every second layer only
  std::optional<bool> gated, biased, tied, layer_norm, squared_relu;
  std::optional<std::int64_t> positions;  // rows of a learned position table
  std::optional<MoeFacts> moe;
  std::optional<LatentFacts> latent;
  bool vision = false;  // has an encoder
  // A diffusion transformer: blocks over one joint sequence of text and latent tokens, all of which
  // see each other; no vocabulary. Parameters beyond the blocks' own (modulation, a second stream of
  // weights for the text) are the printed total less these.
  bool joint_sequence = false;
  std::optional<TowerFacts> vision_tower, text_tower;  // both: a contrastive model
  bool TwoTowers() const { return vision_tower.has_value() && text_tower.has_value(); }
  std::optional<double> about_parameters;  // "11.9" billion, as printed
  bool encoder_only = false;               // no language model with these dimensions
  std::string blocks;                      // what it is made of, in words: "SD v2 UNet 865M"
  bool audio = false;                      // reads sound
  std::optional<TowerFacts> encoder;       // what is told of the vision encoder of a language model
  // Of the one image size of all samples; max_pixels bounds images of natural sizes from above.
  std::optional<std::int64_t> image_width, image_height, images, max_pixels;
  std::optional<std::int64_t> visual_tokens;  // of one image, in the language model
  // `sequence` is a limit that shorter samples do not fill ("max length 2048", natural lengths).
  bool sequence_is_limit = false;
};

struct HardwareFacts {
  std::string gpu;  // as printed
  std::string intranode, internode;
  std::optional<std::int64_t> gpus, gpus_per_node;
  std::optional<double> power_limit_w;  // of one GPU, where the record tells it
};

struct PlanFacts {
  std::optional<std::int64_t> tp, pp, vpp, cp, ep, expert_tp, dp;
  std::optional<std::int64_t> zero, micro_batch, global_batch, accumulation;
  std::optional<std::int64_t> adapter_rank;
  std::optional<bool> sequence_parallel;
  std::optional<bool> tensor_parallel_overlap, gather_overlap;
  std::optional<bool> dropout;
  std::optional<bool> trains_embeddings;      // an adapter run that trains embedding and head too
  std::optional<bool> reshard_after_forward;  // FSDP
  std::optional<double> expert_imbalance;     // work of the heaviest expert rank over the mean
  std::optional<double> offload_activations, offload_optimizer, offload_parameters;  // shares
  std::vector<std::int64_t> layers_per_stage;
  std::string schedule, sharding, recompute, offload;  // as printed
  std::string attention;                               // "", "flash", "unfused"
  std::string attention_kernel;  // "", "flash1", "flash2", "flash3": the generation, where told
  std::optional<bool> compiled;  // torch.compile
  std::string loss;              // "", "plain", "fused", "chunked", "liger": the loss kernel
  std::string optimizer;         // as printed
  std::string adapter_targets;   // comma-separated names of the grammar
  std::string frozen;            // modules, comma-separated
};

struct RecordFacts {
  std::string id;
  std::string source;   // whose table it is: the key of sources.json
  std::string cluster;  // rows that are near copies of one another share it
  std::string group;    // of cases: "ranking", "oom", …
  std::string set;      // rows of one comparison share it
  std::string task;     // "pretrain", "lora", …
  std::string precision, software, quality;
  std::string memory_counts;  // "allocated", "reserved", "device", where the notes tell it
  std::string framework, citation, notes;  // as printed; ReadNotes() reads them
  // Of the software, 100 · major + minor: 2606 of "26.06.01", "container nemo:26.06".
  std::optional<int> version;
  std::vector<std::string> flags;  // why the row is suspect
  bool multimodal = false;
  ModelFacts model;
  HardwareFacts hardware;
  PlanFacts plan;
  std::string not_simulated;  // set by the reader: this row cannot be simulated, and why
};

struct RecordMeasured {
  std::optional<double> iteration_s;
  std::optional<double> tokens_per_s_per_gpu;
  std::optional<double> samples_per_s;  // of all GPUs
  std::optional<double> peak_memory;    // in units of memory_unit_bytes
  double memory_unit_bytes = 0;         // 0: as sources.json says
  std::optional<bool> fits;             // what was reported: it ran, or it ran out of memory

  bool Any() const {
    return iteration_s || tokens_per_s_per_gpu || samples_per_s || peak_memory || fits;
  }
};

struct Record {
  RecordFacts facts;
  RecordMeasured measured;
};

// The first "NN.NN" of a text that is a release of NVIDIA's kind, as 100 · major + minor.
std::optional<int> ReleaseIn(const std::string& text);
// Facts that a record tells in words: in its notes, its task or the printed name of its GPU. The
// phrases are listed in record_notes.cc. A fact that a field tells stays.
void ReadNotes(RecordFacts* facts);

// Reads a file of published measurements: an array of one of three formats, told apart by what the
// rows have.
//   training  "source_class": runs with their step time, throughput or peak memory
//   cases     "group": problems with an observed outcome; a case that compares gives several records
//   memory    neither: peaks; rows of Megatron-LM's CI take their plan from `ci_arguments`, the
//             document "megatron_ci_args.json" (nullptr: such rows are not simulated)
// Unknown keys are left alone: the format is others' own.
// Errors: E0860 not such an array; E0861 a value of a wrong type; E0862 a row without an id, or an id
// twice.
std::vector<Record> ReadRecords(const JsonDocument& document, const JsonDocument* ci_arguments);

}  // namespace aurum
