#pragma once

#include <cstddef>
#include <vector>

#include "models/model.h"
#include "sim/workload/step_draw.h"
#include "sim/workload/workload.h"

namespace aurum {

// Loads that stand for many: the mean, for time and communication, and the longest, for memory.

// How many samples stand for all: all of the file, or the first of the mixture (kMeanSamples, or as
// many as all draws take if those are more, kMostMeanSamples at most); 1 where all are alike.
std::size_t SamplesLookedAt(const Workload& workload);

// What those look like.
struct SamplePopulation {
  SampleLoad mean;                   // see LoadOfSample
  double longest = 0;                // sequence of the backbone, tokens
  std::vector<ModuleLoad> heaviest;  // per module, of the sample that gives it the most tokens
  std::size_t too_long = 0;          // samples longer than packing.max_tokens
};
SamplePopulation LookAtSamples(const Model& model, const Workload& workload);

// The mean over all replicas, micro-batches and steps, padding included. One batch a module, of the
// number and length that give the mean of tokens and of their squares.
SampleLoad MeanMicroBatch(const std::vector<StepLoads>& steps);

// What memory must hold: per module the heaviest micro-batch that may come, each module's own.
// Backbone: the longest of the drawn ones, or one that holds the longest sample (of the whole file,
// or of those that LoadOfSample looks at) with its padding, or whose packed rows are full. Others:
// the heaviest drawn, or a mean one with the heaviest sample in it.
// `population`: of LookAtSamples, where the caller has it.
SampleLoad LongestLoad(const Model& model, const Workload& workload,
                       const std::vector<StepLoads>& steps,
                       const SamplePopulation* population = nullptr);
SampleLoad LongestLoad(const Model& model, const Workload& workload, const StepShape& shape);

}  // namespace aurum
