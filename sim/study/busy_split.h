#pragma once

#include <vector>

#include "sim/study/evaluate.h"

namespace aurum {

// What the GPU of a class of ranks does over a step. "GPU utilisation", as nvidia-smi and most
// dashboards show it, is the share of time in which any kernel runs, a collective's too: all but the
// last. Two steps with the same utilisation may be bound by quite different things, and want different
// remedies. The four parts sum to the step.
struct BusySplit {
  double compute_bound_s = 0;  // kernels whose arithmetic takes longer than their memory traffic
  double memory_bound_s = 0;   // and those whose traffic takes longer
  double communication_s = 0;  // nothing but a collective or a transfer runs
  double idle_s = 0;           // bubbles, stragglers, tokens and data that are waited for, the host
  double Sum() const { return compute_bound_s + memory_bound_s + communication_s + idle_s; }
  // As nvidia-smi counts.
  double Utilisation() const { return Sum() > 0 ? 1 - idle_s / Sum() : 0; }
};

// One for each class of ranks. The plan is lowered once more, with its kernels; of each op, the kernels'
// own times say how its duration divides (so what-if factors and slow GPUs scale both parts alike).
// A kernel is compute-bound if its FLOPs at the device's rate for its type take longer than its bytes at
// the device's bandwidth: the roofline's side of the ridge. Time that no kernel of an op accounts for
// goes to its larger part; kernels of the host are idle time.
std::vector<BusySplit> SplitBusyTime(const Evaluation& evaluation);
// The same for `simulate -v --json`: [{"rank_class", "compute_bound_s", …}]. Lowers the plan once more.
Json BusyJson(const Evaluation& evaluation);

// Seconds that a kernel's arithmetic and its device memory traffic would take at the device's rates, each
// alone. 0 where a kernel has none of it.
struct KernelSides {
  double arithmetic_s = 0, memory_s = 0;
};
KernelSides SidesOf(const Kernel& kernel, const Profile& profile);

}  // namespace aurum
