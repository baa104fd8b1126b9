#pragma once

#include <vector>

#include "sim/plan/price_book.h"
#include "sim/plan/program.h"
#include "sim/plan/schedule.h"

namespace aurum {

// What the passes of a plan cost, without an op of them: what a search knows of a plan before it
// simulates it. Every figure is a part of what the simulation counts, never more, so that what is
// built of them is a lower bound (sim/search/bound.h).

// Of one micro-batch in one chunk, s and bytes. An encoder with a micro-batch of its own runs in every
// so-manieth of the backbone's alone.
struct PassCosts {
  int every = 1;
  double forward_s = 0;          // kernels, alone on the GPU
  double backward_s = 0;         // of the input gradients and of what is formed again
  double weight_s = 0;           // of the weight gradients
  double forward_in_line_s = 0;  // collectives that kernels wait for
  double backward_in_line_s = 0;
  double edge_s = 0;  // of those, the most that run before a pass's first kernel and after its last
  double kept_bytes = 0;  // on the device from forward to backward
  double host_bytes = 0;  // to host memory in forward, and back again
};
struct ChunkCosts {
  std::vector<PassCosts> passes;  // by `every`, all different
  double send_s = 0;              // to the next chunk
  double return_s = 0;            // of its gradient, to the chunk before
};
struct StageCosts {
  RankClass rank;  // parameters and the optimizer
  std::vector<ChunkCosts> chunks;
  // The host's part of the optimizer step, s: gradients to it, its own Adam, parameters back.
  double host_step_s = 0;
  // Reductions of gradients that nothing hides, s.
  double late_reduce_s = 0;
};
struct PlanCosts {
  std::vector<StageCosts> stages;  // the encoders' own first, then the backbone's
  int encoder_stages = 0;
  PipelineShape pipeline;     // of the backbone
  double begin_s = 0;         // before the first kernel
  double host_bandwidth = 0;  // B/s of a GPU to its host; 0 without offload
  bool exact_loads = true;    // false: micro-batches differ, and these are those of a mean one
};

// `communication` = false: nothing is priced that goes over a link, and counts as nothing. `book`: for
// prices that plans have in common (price_book.h); the same costs, sooner.
PlanCosts CostPlan(const Scenario& scenario, bool communication, PriceBook* book = nullptr);

}  // namespace aurum
