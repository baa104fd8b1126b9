#include "sim/workload/balance.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <queue>
#include <utility>

namespace aurum {
namespace {

std::vector<std::size_t> HeaviestFirst(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return values[a] != values[b] ? values[a] > values[b] : a < b;
  });
  return order;
}

}  // namespace

SequenceWork::SequenceWork(const Module& module) {
  int left = module.Layers() - module.layers_skipped;
  for (const LayerRun& run : module.runs) {
    const double count = std::clamp(left, 0, run.count);
    left -= run.count;
    const Attention& a = run.layer.attention;
    linear_ += count * 2 *
               static_cast<double>(AttentionParameters(run.layer, module.hidden) +
                                   ActiveMlpParameters(run.layer, module.hidden));
    if (a.kind != AttentionKind::kSelf && a.kind != AttentionKind::kLatent) continue;
    const double keys = a.head_dim + (a.kind == AttentionKind::kLatent ? a.rope_head_dim : 0);
    const double values = a.value_head_dim > 0 ? a.value_head_dim : a.head_dim;
    pairs_.push_back(
        {count * 2 * a.heads * (keys + values), static_cast<double>(a.window), a.causal});
  }
  for (const auto* ends : {&module.input, &module.output}) {
    for (const Linear& linear : *ends) {
      linear_ +=
          2 * static_cast<double>(linear.in) * static_cast<double>(linear.out) * linear.repeats;
    }
  }
  const double hidden = module.hidden;
  if (module.resampler.queries > 0) {  // per token read: keys, values and what they come from
    linear_ += 2 * (module.resampler.kv_input * hidden + 2 * hidden * hidden) +
               4.0 * module.resampler.queries * hidden;
  }
}

double SequenceWork::operator()(double tokens) const {
  double flops = linear_ * tokens;
  for (const Pairs& pairs : pairs_) {
    const bool band = pairs.window > 0 && pairs.window < tokens;
    flops += pairs.flops * tokens * (band ? pairs.window : pairs.causal ? 0.5 * tokens : tokens);
  }
  return flops;
}

double SequenceWork::Of(const std::vector<SequenceBatch>& batches) const {
  double flops = 0;
  for (const SequenceBatch& batch : batches) flops += batch.sequences * (*this)(batch.tokens);
  return flops;
}

// Longest processing time first: no bin ends up with more than 4/3 − 1/(3·bins) of the least
// possible maximum (Graham, "Bounds on multiprocessing timing anomalies", 1969), if any number of
// items may go into one. 5, 4, 3, 3, 3 over two bins: 5+3 | 4+3+3 = 10; the best is 9.
std::vector<int> LongestProcessingTime(const std::vector<double>& loads, int bins,
                                       std::size_t room) {
  assert(bins > 0 && (room == 0 || room * static_cast<std::size_t>(bins) >= loads.size()));
  using Bin = std::pair<double, int>;
  std::priority_queue<Bin, std::vector<Bin>, std::greater<>> lightest;
  for (int i = 0; i < bins; ++i) lightest.emplace(0, i);
  std::vector<std::size_t> held(static_cast<std::size_t>(bins));
  std::vector<int> bin(loads.size());
  for (const std::size_t item : HeaviestFirst(loads)) {
    const auto [load, chosen] = lightest.top();
    lightest.pop();
    bin[item] = chosen;
    if (++held[static_cast<std::size_t>(chosen)] != room) {
      lightest.emplace(load + loads[item], chosen);
    }
  }
  return bin;
}

// Exchanging a longer row of one bin with a shorter one of another never raises the larger of both
// maxima, so some best split is a cut of the rows in order of length. For a bound on the heaviest bin
// the fewest bins are those filled greedily, the longest first; the least bound that `bins` bins
// keep is found by bisection to the last bit that matters (as for padded batches in OrchMLLM, arXiv
// 2503.23830).
std::vector<int> LeastPaddedSplit(const std::vector<double>& lengths, int bins,
                                  const std::function<double(double)>& work) {
  const std::vector<std::size_t> order = HeaviestFirst(lengths);
  std::vector<int> bin(lengths.size());
  if (order.empty()) return bin;
  std::vector<double> cost(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) cost[i] = work(lengths[order[i]]);
  // Whether `bins` bins of at most `bound` take all; fills `bin` as it goes.
  const auto fill = [&](double bound) {
    int used = -1;
    std::size_t first = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (used < 0 || static_cast<double>(i - first + 1) * cost[first] > bound) {
        if (++used == bins) return false;
        first = i;
      }
      bin[order[i]] = used;
    }
    return true;
  };
  double low = cost[0], high = cost[0] * static_cast<double>(order.size());
  if (fill(low)) return bin;  // the longest row alone is the heaviest bin
  for (int step = 0; step < 60 && high - low > 1e-12 * high; ++step) {
    const double middle = 0.5 * (low + high);
    (fill(middle) ? high : low) = middle;
  }
  fill(high);
  return bin;
}

}  // namespace aurum
