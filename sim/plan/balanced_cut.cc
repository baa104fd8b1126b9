#include "sim/plan/balanced_cut.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace aurum {

std::vector<int> BalancedCut(const std::vector<double>& weights, int parts) {
  assert(parts > 0);
  const auto n = static_cast<int>(weights.size());
  std::vector<double> prefix(weights.size() + 1, 0);
  for (std::size_t i = 0; i < weights.size(); ++i) prefix[i + 1] = prefix[i] + weights[i];
  const double far = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> best(static_cast<std::size_t>(parts) + 1,
                                        std::vector<double>(weights.size() + 1, far));
  std::vector<std::vector<int>> from(best.size(), std::vector<int>(weights.size() + 1, 0));
  best[0][0] = 0;
  const auto at = [](int i) { return static_cast<std::size_t>(i); };
  for (int k = 1; k <= parts; ++k) {
    for (int end = 0; end <= n; ++end) {
      for (int begin = 0; begin <= end; ++begin) {
        const double heaviest =
            std::max(best[at(k - 1)][at(begin)], prefix[at(end)] - prefix[at(begin)]);
        if (heaviest < best[at(k)][at(end)] * (1 - 1e-12)) {
          best[at(k)][at(end)] = heaviest;
          from[at(k)][at(end)] = begin;
        }
      }
    }
  }
  std::vector<int> counts(at(parts));
  for (int k = parts, end = n; k > 0; --k) {
    const int begin = from[at(k)][at(end)];
    counts[at(k - 1)] = end - begin;
    end = begin;
  }
  return counts;
}

}  // namespace aurum
