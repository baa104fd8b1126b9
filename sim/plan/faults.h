#pragma once

#include <string>
#include <vector>

#include "sim/core/object_reader.h"
#include "sim/network/event_loop.h"
#include "topologies/cluster.h"

namespace aurum {

// What is not as it should be on a cluster.
struct Faults {
  std::vector<double> gpu_slowdown;  // by GPU, ≥ 1: its kernels take so much longer; empty: none
  std::vector<double> link_factor;   // by link of the cluster, for the whole step; empty: none
  std::vector<LinkChange> link_changes;  // during the step
  std::vector<std::string> told;         // each fault in words, with the devices it fell on
  bool Any() const {
    return !gpu_slowdown.empty() || !link_factor.empty() || !link_changes.empty();
  }
};

// Spread of the durations from run to run.
struct Variation {
  // Every op of every rank takes exp(σz − σ²/2) times its duration (mean 1): z standard normal, of
  // (seed, rank or group, op); σ² = log(1 + cv²).
  double kernel_cv = 0;         // coefficient of variation of kernels
  double communication_cv = 0;  // of collectives and transfers
  int seeds = 0;                // steps that are drawn; 0: no variation
};

// Reads the scenario's "faults", an array. Each: {"gpus": [13], "slowdown": 1.3}, {"nics":
// ["node3/nic2"], "factor": 0.5}, {"links": ["leaf0 - spine3"], "retransmission_rate": 0.01}; instead
// of a list {"share": 0.01, "seed": 1}, that share of all; NICs and links take from_s and until_s.
// Errors: E0350 no such GPU, NIC or link; E0351 no effect, or two; E0352 times that contradict; E0353
// a factor of 0 for good.
Faults ReadFaults(std::vector<ObjectReader> readers, const Cluster& cluster);

// {"kernel_cv": 0.02, "communication_cv": 0.1, "seeds": 100}
Variation ReadVariation(ObjectReader reader);

}  // namespace aurum
