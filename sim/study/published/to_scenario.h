#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/core/json.h"
#include "sim/study/published/record.h"
#include "sim/study/published/sources.h"

namespace aurum {

// The facts of a record as the documents that `aurum simulate` reads. Takes RecordFacts and cannot
// see what was measured.
struct Translation {
  // Why nothing, no time or no memory of this record is predicted; "" = it is.
  std::string skip, skip_time, skip_memory;
  Json scenario;                         // "aurum.scenario/1"
  std::string model_name, cluster_name;  // as the scenario names them
  Json model, cluster;                   // their documents; null: of the catalogue
  std::vector<Json> ends;                // scenarios in which untold facts take their end values
  std::vector<std::string> assumed;      // "recompute not told: full (…)"
  // How to read what is predicted.
  MemoryLevel level = MemoryLevel::kDevice;
  MemoryRank rank = MemoryRank::kHeaviest;
  double memory_unit_bytes = 0;
  bool time_of_micro_batch = false;
  // How to read what was measured: tokens/s and samples/s are of these.
  double samples_per_step = 0, tokens_per_sample = 0, gpus = 0;
  std::int64_t micro_batches = 1;
};

// `data_root`: where the catalogue of clusters is.
Translation ToScenario(const RecordFacts& facts, const PublishedSources& sources,
                       const std::string& data_root);

// Parts of the walk, for tests.
//
// The model document of told dimensions; "" in *skip, or why there is none.
Json ModelDocument(const ModelFacts& model, std::string* skip);
// Puts the told encoder and a projector of two matrices (LLaVA-1.5's) before a language model; false
// where its dimensions are not all told.
bool AddEncoder(const ModelFacts& model, Json* document);
// Why a record's model is of a kind that the grammar of models has no words for; "" = it is not.
std::string KindNotSimulated(const RecordFacts& facts);
// Layers of each of `positions` pipeline chunks where the number does not divide: embedding and head
// count as a layer each where that comes out even (Megatron-LM's usual split), else the first chunks
// after the embedding's take one more.
std::vector<std::int64_t> SplitLayers(std::int64_t layers, std::int64_t positions);
// NICs of a node as printed: "4x100Gb RoCE per node", "1600 Gbps per node", "RDMA 400Gb/s per GPU",
// "8x50GB/s InfiniBand". Nothing where the text tells none.
struct Nics {
  std::int64_t count = 0;
  double gbit_per_s = 0;
};
std::optional<Nics> ReadNics(const std::string& internode, std::int64_t gpus_per_node);
// The first of a GPU's profiles that is there; "" where none is (or none is named).
std::string ProfileOf(const GpuReading& gpu, const std::string& data_root);
// The cluster document, or nothing and why.
std::optional<Json> ClusterDocument(const HardwareFacts& hardware, const GpuReading& gpu,
                                    const std::string& data_root, std::vector<std::string>* assumed,
                                    std::string* skip);

}  // namespace aurum
