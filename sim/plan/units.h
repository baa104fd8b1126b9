#pragma once

#include <span>
#include <vector>

#include "sim/plan/scenario.h"
#include "sim/workload/kept.h"
#include "sim/workload/layer_cost.h"

namespace aurum {

// Parameters of a unit on one GPU, before data parallelism shards them.
struct UnitParameters {
  double dense = 0;      // replicated cp · dp times
  double experts = 0;    // routed, replicated ExpertReplicas() times
  double adapters = 0;   // low-rank matrices, trained
  double quantised = 0;  // of dense and experts, those that a base in few bits stores so
  double embedding = 0;  // of dense, token embedding and head
  double largest_matrix = 0;
};

// A unit is what a pipeline stage runs without a choice in between: an embedding, one layer, a connector, the head. Costs are
// those of one micro-batch of its module on one GPU.
struct Unit {
  std::size_t module = 0;
  bool head = false;
  const char* name = "layer";  // "layer", "embedding", "output", "head"
  PassCost first;              // attention half, or everything of a unit that is no layer
  PassCost shared;             // of a mixture: norm, router and shared expert
  PassCost second;  // MLP half, or a mixture's routed experts; unused where has_second is false
  bool has_second = false;
  bool tp_collectives = false;         // the first half ends in a tensor-parallel collective
  bool tp_collectives_second = false;  // and the second
  double tp_bytes = 0;                 // whose size is this
  double ring_bytes = 0;     // context parallelism: keys and values that go around, all of them
  double ulysses_bytes = 0;  // or heads that are exchanged, both ways together
  double dispatch_bytes = 0, combine_bytes = 0;  // of a mixture, per GPU
  double feature_bytes = 0;    // of a contrastive loss: features of all replicas, gathered
  double expert_tp_bytes = 0;  // gathered and reduced inside of an expert's tensor-parallel group
  bool backward = false;       // gradients flow through it
  bool trained = false;        // its weights get gradients
  UnitParameters parameters;
  KeptActivations memory;
  bool recomputed = false;       // whole, in backward
  bool block_start = true;       // recomputed: its input is what its block keeps
  bool logits = false;           // its memory is the loss's
  double kv_cache_bytes = 0;     // generation: per token of context and sequence
  const Layer* layer = nullptr;  // of a layer unit
  // An encoder's own micro-batch: it runs once for `every` of the backbone's, or in `pieces`.
  int every = 1, pieces = 1;
  double AllParameters() const { return parameters.dense + parameters.experts; }
  double TrainedParameters() const { return (trained ? AllParameters() : 0) + parameters.adapters; }
  // Kernels of the backward pass, both gradients, without what is recomputed.
  KernelCost Backward() const;
  KernelCost Forward() const { return first.forward + shared.forward + second.forward; }
};

// The units of one chunk of a pipeline stage in forward order; units[fusion] is the first of the
// backbone where modalities meet, or past the end.
struct Chunk {
  std::vector<Unit> units;
  std::size_t fusion = 0;
  bool meets = false;                    // modalities meet in this chunk
  int first_layer = 0, last_layer = -1;  // of the backbone, inclusive
  double sent_bytes = 0;  // what its last unit hands to the next chunk, on one GPU of this stage
};

struct StageUnits {
  std::vector<Chunk> chunks;
  Chunk bubbles;  // encoders that run while this stage waits
};

// By stage: the encoders' own first, then the backbone's. Where layers lie follows the costs of
// `split_by`, if there is one: devices of several kinds run the same stages.
std::vector<StageUnits> MakeStages(const Scenario& scenario, const CostContext& context,
                                   const CostContext* split_by = nullptr);
// The same stages for each of other loads than scenario.sample, each of a whole micro-batch of the
// backbone. Layers lie where scenario.sample puts them.
std::vector<std::vector<StageUnits>> MakeStagesOfLoads(const Scenario& scenario,
                                                       std::span<const SampleLoad> loads,
                                                       const CostContext& context);

// Gradients flow into a module if it is trained, or if anything upstream of it is.
std::vector<bool> ModulesWithBackward(const Model& model, const Plan& plan);

// Forward FLOPs of one sample over the whole model, over the tokens of its backbone sequence: the article's FLOPs/token.
double ForwardFlopsPerToken(const Scenario& scenario, const CostContext& context);

}  // namespace aurum
