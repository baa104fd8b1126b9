#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/core/object_reader.h"

namespace aurum {

// Time to train over days, when GPUs fail: a renewal model around a simulated step.
//
// The job works for an interval τ, then blocks for C while it writes a checkpoint. Failures come as a
// Poisson process of rate λ = GPUs / MTBF and stop the whole job, in work, in a checkpoint or in a
// restart. A failure is noticed after D, in which nothing more can break; then the job restarts from
// its last checkpoint, which takes R and may fail as well. What was done since that checkpoint is
// lost. With s = τ + C, a segment fails e^(λs) − 1 times on average before it succeeds and takes
//
//   E[S] = (e^(λs) − 1) · e^(λR) · (1/λ + D),
//
// which for D = 0 is Daly's equation (J. T. Daly, "A higher order estimate of the optimum checkpoint
// interval for restart dumps", Future Generation Computer Systems 22, 2006). The goodput is τ / E[S].
// Neither R nor D moves the best interval: it solves (1 − λτ) · e^(λτ) = e^(−λC), of which Young's
// √(2C/λ) (Comm. ACM 17, 1974) is the first term.
//
// For example 16,384 GPUs of 45,600 h each fail every 2.8 h; with C = 10 s, D + R = 5 min the best
// interval is 7.4 min and 93 % of the time is training.
struct GoodputSpec {
  double mtbf_s = 0;  // of one GPU, or of one node
  bool mtbf_of_node = false;
  double checkpoint_s = 0;           // how long training stands still for one
  std::optional<double> interval_s;  // work between two; absent: the best
  double restart_s = 0;
  double detection_s = 0;
  double days = 0;  // of training, failures apart
};

// Keys: "mtbf_gpu_hours" or "mtbf_node_hours", "checkpoint_s", "checkpoint_interval_s" (optional),
// "restart_s", "detection_s", "days". Besides E01xx: E0760 not exactly one of the two MTBFs; E0761 no
// interval, and a checkpoint that costs nothing, so that none is best.
GoodputSpec ReadGoodput(ObjectReader reader);

struct Goodput {
  double failures_per_s = 0;  // λ of the fleet
  double interval_s = 0;
  double fraction = 0;       // of the time that advances the training, in [0, 1]
  double expected_s = 0;     // wall time for spec.days of training
  double interruptions = 0;  // expected in that time
  // Where the rest goes; with `fraction` these sum to 1.
  double checkpoint_share = 0, lost_work_share = 0, detection_share = 0, restart_share = 0;
};

// Closed form, O(1). `gpus` and `nodes` ≥ 1. E0762 if failures come so fast that the run never ends.
Goodput ExpectedGoodput(const GoodputSpec& spec, int gpus, int nodes);

// Work between checkpoints that maximises the goodput, s; failures_per_s and checkpoint_s > 0.
// Exact to double precision.
double BestInterval(double failures_per_s, double checkpoint_s);
// Approximations of it, to compare with: Young 1974; Daly 2006, equation 37.
double YoungInterval(double failures_per_s, double checkpoint_s);
double DalyInterval(double failures_per_s, double checkpoint_s);

struct GoodputSamples {
  std::vector<double> wall_s;  // ascending
  double mean_s = 0;
  double standard_error_s = 0;
  double p50_s = 0, p99_s = 0;  // nearest rank
};
// The same process drawn `runs` ≥ 2 times with counter-based random numbers of (seed, run, failure):
// the same on every machine, whatever the order of the runs. O(runs · failures).
GoodputSamples SampleGoodput(const GoodputSpec& spec, int gpus, int nodes, std::uint64_t seed,
                             int runs);

}  // namespace aurum
