#include "sim/study/loader_stall.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/core/random.h"

namespace aurum {

// A loader and its consumer
// -------------------------
// A loader puts batches into `prefetch` slots, one after another; a step takes one and frees its slot.
// With d(n) the moment at which batch n is ready and s(n) that at which step n takes it,
//
//   d(n) = max(d(n − 1), s(n − prefetch)) + load(n)      a slot must be free
//   s(n) = max(d(n), s(n − 1) + step)                    the step before must be over
//
// which is Lindley's recursion of a queue with room for a few (Lindley, "The theory of queues with a
// single server", 1952). Even times settle at once: s(n) − s(n − 1) = max(step, load) with one slot or
// more, and step + load with none, where a batch is begun only when the step before is over. With a
// spread the waits of slow batches are not paid back by fast ones, as no more than `prefetch` can be
// ahead: the mean step is longer than the longer of the two, least so where they differ much or many
// batches wait ready; and all nodes wait for the slowest, as gradients are reduced among all.
//
// Example: batches of 0.9 s on average and steps of 1 s never wait if they are even. With a coefficient
// of variation of 0.5 and one slot, a step waits 0.13 s on average, the mean of max(1, load) less 1;
// with two slots 0.04 s, with four 0.006 s.
double EvenStall(double load_s, double step_s, int prefetch) {
  return prefetch == 0 ? load_s : std::max(0.0, load_s - step_s);
}

double QueuedStall(double load_s, double cv, double step_s, int prefetch, int nodes,
                   std::uint64_t seed, int steps) {
  const double sigma = std::sqrt(std::log1p(cv * cv));
  const int settling = steps / 4;  // from empty slots to the steady state
  const auto all = static_cast<std::size_t>(settling + steps);
  std::vector<double> start(all), ready(static_cast<std::size_t>(nodes), 0);
  const auto spread = [&](std::size_t node, std::size_t n) {
    return std::exp(sigma * RandomNormal(seed, node, n) - sigma * sigma / 2);
  };
  // Few draws of a wide spread have a mean of their own: each node's are scaled to what a batch takes.
  const auto first = static_cast<std::size_t>(settling);
  std::vector<double> scale(ready.size(), 0);
  for (std::size_t i = 0; i < ready.size(); ++i) {
    for (std::size_t n = first + 1; n < all; ++n) scale[i] += spread(i, n);
    scale[i] = load_s * static_cast<double>(all - 1 - first) / scale[i];
  }
  double last = -step_s;
  for (std::size_t n = 0; n < all; ++n) {
    const double before = last + step_s;  // the step before is over
    double begin = before;
    const auto slots = static_cast<std::size_t>(prefetch);
    // A free slot: since that batch was taken; none to wait for at first.
    const double slot = prefetch == 0 ? before : n >= slots ? start[n - slots] : 0;
    for (std::size_t i = 0; i < ready.size(); ++i) {
      ready[i] = std::max(ready[i], slot) + scale[i] * spread(i, n);
      begin = std::max(begin, ready[i]);
    }
    start[n] = last = begin;
  }
  const double mean = (start.back() - start[first]) / static_cast<double>(all - 1 - first);
  // No queue is faster than its server.
  return std::max(EvenStall(load_s, step_s, prefetch), mean - step_s);
}

LoaderStall StallOf(const Scenario& s, double step_s) {
  const Loader& loader = *s.workload.loader;
  double samples = static_cast<double>(s.workload.global_batch_size);
  if (s.steps != nullptr) {
    samples = 0;
    for (const StepLoads& step : *s.steps) samples += static_cast<double>(step.samples);
    samples /= static_cast<double>(s.steps->size());
  }
  const int nodes = std::min(s.cluster->nodes, s.plan.dp);
  LoaderStall stall;
  stall.batch = WorkOfBatch(loader, MeanVolume(s.workload), samples / nodes,
                            loader.workers * s.cluster->gpus_per_node);
  stall.load_s = stall.batch.Seconds();
  stall.step_s = step_s;
  stall.read_gb_per_s_needed = stall.batch.read_bytes / step_s / 1e9;
  if (loader.decode_cv == 0) {
    stall.stall_s = EvenStall(stall.load_s, step_s, loader.prefetch);
  } else {
    const int steps = std::clamp(400'000 / nodes, 200, 4000);
    stall.stall_s =
        QueuedStall(stall.load_s, loader.decode_cv, step_s, loader.prefetch, nodes,
                    RandomBits(s.workload.seed, /*stream=*/0x57a11, /*counter=*/0), steps);
  }
  return stall;
}

}  // namespace aurum
