#pragma once

#include "sim/plan/program.h"

namespace aurum {

// What lasts for the whole step on one GPU of a rank class, bytes.
struct LastingMemory {
  double weights = 0;
  double gradients = 0;  // of stacks whose buffers persist, cached dummy gradients included
  double optimizer = 0;
  double communication = 0;  // root window, buckets
  double workspace = 0;      // libraries, the one matrix that is unpacked
  double kv_cache = 0;
  double host = 0;     // offloaded: in host memory for this GPU
  double loading = 0;  // while a checkpoint is loaded, instead of all of the above; 0 = no more
};

// GPUs among which a class's state is shared out.
struct StateShards {
  double weights = 1, gradients = 1, optimizer = 1;                       // of dense parameters
  double expert_weights = 1, expert_gradients = 1, expert_optimizer = 1;  // of routed experts
};
StateShards ShardsOf(const Plan& plan, const Stack& stack);

// Bytes per parameter of master weights and moments, by the plan's optimizer and precision;
// `embedding`: of an embedding or output head.
double OptimizerBytes(const Stack& stack, OptimizerKind optimizer, Precision precision,
                      bool embedding);

LastingMemory LastingOf(const Scenario& scenario, const RankClass& rank_class);

}  // namespace aurum
