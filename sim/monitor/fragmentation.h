#pragma once

#include <vector>

namespace aurum {

// GPUs that a cluster has and a plan cannot use, since no whole group fits where they are. Tensor-parallel
// groups stay inside of a node and of one kind of device; a replica of the model needs `pp` groups, which may
// lie anywhere. What is left over in a node, and groups beyond whole replicas, idle.
struct Fragmentation {
  int gpus = 0;
  int in_groups = 0;    // whole tensor-parallel groups
  int in_replicas = 0;  // of them, in whole replicas: what trains
  int replicas = 0;
  double StrandedShare() const {
    return gpus > 0 ? 1 - static_cast<double>(in_replicas) / gpus : 0;
  }
};

// `free_by_node`: GPUs of one kind that a node has free; a node with two kinds of devices is two entries.
// tp, pp ≥ 1. O(nodes).
Fragmentation MeasureFragmentation(const std::vector<int>& free_by_node, int tp, int pp);

}  // namespace aurum
