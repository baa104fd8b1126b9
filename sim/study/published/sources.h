#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/core/json.h"
#include "sim/study/published/record.h"

namespace aurum {

// calibrate/published/sources.json: what the records of each source mean. Which software stack ran,
// what the printed memory counts, what a scenario may assume where the record is silent; and the
// hardware and models that records call by a name. Data with provenance, read strictly.

// What a printed peak counts.
enum class MemoryLevel {
  kAllocated,  // torch.cuda.max_memory_allocated
  kReserved,   // torch.cuda.max_memory_reserved
  kDevice,     // nvidia-smi: with context and communication buffers
};
std::string_view MemoryLevelName(MemoryLevel level);
enum class MemoryRank { kHeaviest, kFirst, kLast };  // whose peak it is

// A fact that holds where the record does not tell it.
struct Assumption {
  std::string fact;  // a key of SetFact
  Json value;
  std::string why;
};
// A fact that moves the answer where it is not told: predicted at all of these values.
struct Ends {
  std::string fact;
  std::vector<Json> values;
};

// What a flag of a record spoils, by a part of its words.
struct FlagReading {
  std::string contains;  // lower case
  enum class Spoils { kNothing, kTime, kMemory, kEverything } spoils = Spoils::kEverything;
  std::string why;
};

struct SourceReading {
  std::string source;  // of the records; "*": of any that no entry before it describes
  std::string id_prefix, id_contains, task_contains, attention, loss;  // "" = any
  std::optional<bool> single_gpu;
  std::optional<bool> dropout;               // in attention, where told
  std::optional<bool> sharded;               // ZeRO-2, FSDP or more is told
  std::optional<bool> model_parallel;        // tensor or pipeline parallelism is told
  std::vector<std::string> text_contains;    // any of them, in what the record tells in words
  std::vector<std::string> gpu_contains;     // any of them, in the printed GPU
  int version_from = 0, version_to = 0;      // inclusive, as RecordFacts::version; 0 = open
  std::string skip, skip_time, skip_memory;  // reasons
  std::string stack;
  MemoryLevel level = MemoryLevel::kDevice;
  MemoryRank rank = MemoryRank::kHeaviest;
  double memory_unit_bytes = 1024.0 * 1024 * 1024;
  bool time_of_micro_batch = false;  // what is printed as an iteration is one micro-batch
  // Of models with a plain MLP, where the record is silent: GPT-like or not.
  std::optional<bool> biased, tied, layer_norm, positions;
  std::vector<Assumption> assume;
  std::vector<Ends> ends;

  bool Matches(const RecordFacts& facts) const;
};

struct GpuReading {
  // Beginnings of the printed name, as PlainGpuName() leaves them.
  std::vector<std::string> prefixes;
  std::string cluster;  // catalogue: a family's suffix ("h100-ndr") or a file ("1x4090")
  std::string name;
  // Of calibrate/profiles, best first: the first that is there holds. Empty: the catalogue's.
  std::vector<std::string> profiles;
  double memory_gib = 0;             // 0: the catalogue's
  int nvlinks = 0;                   // of one GPU; 0: the catalogue's
  int domain_nodes = 0;              // 0: the catalogue's
  double pcie_gb_per_s = 0;          // one direction; 0: the catalogue's
  std::optional<bool> peer_to_peer;  // over PCIe
  std::int64_t nics = 0;             // of a node where a record tells none; 0: the catalogue's
  double nic_gbit_per_s = 0;         // 0: the catalogue's
  std::string assumed;  // "" = nothing; with several profiles: where the first is not there
  std::string no_time;  // why its step time is not predicted; "" = it is
};

struct ModelReading {
  std::vector<std::string> names;                  // lower case, parts of the printed name
  std::string catalogue;                           // a model of the catalogue, or
  ModelFacts facts;                                // shapes
  std::int64_t image_width = 0, image_height = 0;  // of the one image of a sample; 0 = none
  std::int64_t visual_tokens = 0;
};

// "NVIDIA GeForce RTX4090-24GB (assumed)" → "rtx 4090 24gb assumed": lower case, one blank between
// words, makers' names and brackets left out.
std::string PlainGpuName(std::string_view printed);

// Lower case, every blank and underscore a hyphen.
std::string PlainModelName(std::string_view printed);

struct PublishedSources {
  std::vector<SourceReading> sources;  // the first that matches holds
  std::vector<FlagReading> flags;      // the longest that matches holds
  std::vector<GpuReading> gpus;
  std::vector<ModelReading> models;
  std::vector<std::pair<std::string, Json>> recompute;         // printed → plan.recompute
  std::vector<std::pair<std::string, std::string>> precision;  // part of what is printed → plan's
  std::string hash;

  const SourceReading* FindSource(const RecordFacts& facts) const;
  const FlagReading* FindFlag(std::string_view flag) const;       // longest part
  const GpuReading* FindGpu(std::string_view printed) const;      // longest prefix, of whole words
  const ModelReading* FindModel(std::string_view printed) const;  // longest part
};

// Sets `fact` if the record does not tell it; whether it did. E0863 no such fact, or the wrong type.
bool SetFact(const std::string& fact, const Json& value, RecordFacts* facts);

// Besides E01xx and E02xx: E0863.
PublishedSources ReadPublishedSources(const JsonDocument& document);
PublishedSources OpenPublishedSources(const std::string& data_root);

}  // namespace aurum
