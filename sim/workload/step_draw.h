#pragma once

#include <cstdint>
#include <vector>

#include "models/model.h"
#include "sim/workload/workload.h"

namespace aurum {

// What the micro-batches of one training step really hold, drawn from the workload's samples.
//
// Samples come in the order of an endless stream (SampleStream). A row is one sample, or as many as
// packing fits into one. A step takes replicas · micro_batches · micro_batch_size rows; its
// micro-batch number i is the same for all replicas, which may wait for each other there (FSDP).

struct StepShape {
  int replicas = 1;  // data-parallel copies of the backbone
  std::int64_t micro_batches = 1;
  std::int64_t micro_batch_size = 1;  // rows
  int encoder_ranks = 1;              // GPUs that share the encoders' work of one replica

  std::int64_t Rows() const { return replicas * micro_batches * micro_batch_size; }
  bool operator==(const StepShape&) const = default;
};

struct StepLoads {
  StepShape shape;
  // [replica · shape.micro_batches + i]: the whole micro-batch of one replica, all its samples,
  // padding and dummies in tokens and batches. Encoders and connectors: what the replica computes,
  // wherever the samples are from (Balance::kPost).
  std::vector<SampleLoad> micro_batches;
  // Per module, over the step: tokens that come to it from another replica, which only
  // Balance::kPost has. Encoder (or a connector without one): tokens of its input, media whose
  // sample was loaded elsewhere; a connector works where its encoder does: 0. Backbone: media tokens
  // of its rows that were encoded elsewhere. Text moves as ids of a few bytes and is not counted.
  std::vector<double> moved_tokens;
  // Per module, the backbone last, by forward FLOPs with padding (SequenceWork). The most work of a
  // replica over the mean of all; 1 is even, and what has no work.
  std::vector<double> imbalance;           // of the whole step's work
  std::vector<double> lockstep_imbalance;  // replicas wait in every micro-batch: Σ most / Σ mean
  // Σ over micro-batches of the busiest replica's FLOPs: what policies compare by, as padding that is
  // saved lowers the mean too.
  std::vector<double> lockstep_flops;
  double text_only_share = 0;  // of micro-batches: no media in any of its rows, as they were loaded
  double padding_share = 0;    // of the backbone's tokens
  double pack_fill = 0;        // of rows, of max_tokens at most; 0 = not packed
  std::int64_t samples = 0;    // in the step; more than shape.Rows() when packed
};

// Step number `draw`. A pure function of its arguments: the same on any number of threads. Errors of
// LoadOfSample, and E0628 if a step or window packs more than 8 million samples. Cost: O(rows · log rows), of
// kBucketWindow steps with bucketing.
StepLoads DrawStep(const Model& model, const Workload& workload, const StepShape& shape,
                   std::uint64_t draw);
// Steps 0 … workload.draws − 1.
std::vector<StepLoads> DrawSteps(const Model& model, const Workload& workload,
                                 const StepShape& shape);

}  // namespace aurum
