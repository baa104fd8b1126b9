#pragma once

#include <vector>

#include "sim/plan/scenario.h"
#include "sim/workload/layer_cost.h"

namespace aurum {

// A unit is what a pipeline stage runs without a choice in between: an embedding, one layer, a connector, the head. Costs are
// those of one micro-batch on one GPU.
struct Unit {
  std::size_t module = 0;
  bool head = false;
  PassCost first;   // attention half, or everything of a unit that is no layer
  PassCost second;  // MLP half; unused where has_second is false
  bool has_second = false;
  bool tp_collectives = false;   // each half ends in a tensor-parallel collective
  double tp_bytes = 0;           // whose size is this
  bool backward = false;         // gradients flow through it
  bool trained = false;          // its weights get gradients
  double parameters = 0;         // on this GPU
  double kept_bytes = 0;         // from the end of forward to the end of backward
  double work_bytes = 0;         // while forward or backward of this unit runs, kept_bytes included
  bool logits = false;           // its memory is the loss's
  double kv_cache_bytes = 0;     // generation: per token of context and sequence
  const Layer* layer = nullptr;  // of a layer unit
};

// The units of one pipeline stage in forward order; units[fusion] is the first of the backbone, where modalities meet.
struct Stage {
  std::vector<Unit> units;
  std::size_t fusion = 0;
  int first_layer = 0, last_layer = -1;  // of the backbone, inclusive
};

std::vector<Stage> MakeStages(const Scenario& scenario, const CostContext& context);

// Gradients flow into a module if it is trained, or if anything upstream of it is.
std::vector<bool> ModulesWithBackward(const Model& model, const Plan& plan);

// Forward FLOPs of one sample over the whole model, over the tokens of its backbone sequence: the article's FLOPs/token.
double ForwardFlopsPerToken(const Scenario& scenario, const CostContext& context);

}  // namespace aurum
