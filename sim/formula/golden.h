#pragma once

#include <string>
#include <vector>

#include "sim/plan/program.h"

namespace aurum {

// T = combine_k [ F_k/B_k + G_k/C_k + α·Comm_k ] + β·P_align, every term from the same program that is simulated.
enum class Combine { kMax, kSum, kCriticalPath };

struct GoldenTerm {
  std::string module;        // k
  double flops = 0;          // F_k: FLOP per step on the busiest GPU of k, forward and backward
  double forward_flops = 0;  // the article counts these alone
  double rate_flops_per_s =
      0;                      // B_k: what k's kernels sustain together, memory-bound ones included
  double gradient_bytes = 0;  // G_k: exchanged per step by this GPU
  double gradient_bytes_per_s = 0;  // C_k
  double f_over_b_s = 0, g_over_c_s = 0;
  double comm_s = 0;  // Comm_k: the rest of k's communication with nothing hidden, bubbles included
};

struct Golden {
  std::vector<GoldenTerm> terms;
  GoldenTerm
      path;  // the stage whose modules, run one after another, take longest: for kCriticalPath
  double p_align_s = 0;         // per step
  double not_in_formula_s = 0;  // optimizer and host: in the simulation, not in the formula
};

Golden GoldenTerms(const Scenario& scenario, const Program& program);
// Seconds per step. alpha in [0, 1], beta ≥ 0.
double GoldenSeconds(const Golden& golden, Combine combine, double alpha, double beta);

}  // namespace aurum
