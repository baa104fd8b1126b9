#pragma once

#include <string>
#include <vector>

#include "sim/plan/program.h"

namespace aurum {

// T = combine_k [ F_k/B_k + G_k/C_k + α·Comm_k ] + β·P_align, every term from the same program that is simulated.
enum class Combine { kMax, kSum, kCriticalPath };

// What F_k counts: forward, backward and recomputation, or forward alone, as the article words it.
enum class FlopsReading { kTrain, kForward };

struct GoldenTerm {
  std::string module;        // k
  double flops = 0;          // F_k: FLOP per step on the busiest GPU of k, forward and backward
  double forward_flops = 0;  // the article counts these alone
  double rate_flops_per_s =
      0;                      // B_k: what k's kernels sustain together, memory-bound ones included
  double gradient_bytes = 0;  // G_k: exchanged per step by this GPU
  double gradient_bytes_per_s = 0;  // C_k
  double f_over_b_s = 0, g_over_c_s = 0;
  double forward_over_b_s = 0;  // forward FLOPs at the same rate
  double comm_s = 0;  // Comm_k: the rest of k's communication with nothing hidden, bubbles included
  double bubble_s = 0;  // of comm_s
};

// What a schedule's stages idle while the pipeline fills and drains, s.
struct Bubble {
  double seconds = 0;
  std::string rule;     // "(p − 1) rounds / v", "" without a pipeline
  bool closed = false;  // a closed form of the literature; else the schedule itself, walked without
                        // communication
};

struct Golden {
  std::vector<GoldenTerm> terms;
  GoldenTerm
      path;       // the stage whose modules, run one after another, take longest: for kCriticalPath
  Bubble bubble;  // of the backbone's stages
  double p_align_s = 0;  // per step: wait + move
  // Of it, until the last modality's tokens of the first micro-batch are made, where the text's are
  // there at once; and the time to move tokens to the ranks that take them, in all micro-batches, both
  // ways, with nothing hidden. An encoder that is slower than the backbone makes later micro-batches
  // wait as well: that is F/B of the encoder, and not counted twice.
  double align_wait_s = 0, align_move_s = 0;
  double not_in_formula_s = 0;  // optimizer and host: in the simulation, not in the formula
};

Golden GoldenTerms(const Scenario& scenario, const Program& program);
// Seconds per step. alpha in [0, 1], beta ≥ 0.
double GoldenSeconds(const Golden& golden, Combine combine, double alpha, double beta,
                     FlopsReading reading = FlopsReading::kTrain);

}  // namespace aurum
