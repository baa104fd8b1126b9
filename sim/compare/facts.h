#pragma once

#include <vector>

#include "sim/compare/compare.h"

namespace aurum {

// What differs between two sides beneath the keys of their scenarios: the rates behind a cluster's or profile's name,
// the size behind a model's, the tokens of a sample, what a plan comes to (replicas, micro-batches). In the order model,
// data, plan, cluster, profile, stack. Of results that were not simulated again: the inputs whose content differs.
std::vector<FactChange> CompareFacts(const Side& a, const Side& b);

}  // namespace aurum
