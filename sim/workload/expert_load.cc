#include "sim/workload/expert_load.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

#include "sim/core/random.h"

namespace aurum {

// Who is among the first k
// ------------------------
// A router's top-k is a draw without replacement. Drawing one after another in proportion to what is
// left is the same as a race: expert e arrives at an exponential time of rate p_e, and the first k are
// chosen (the exponential clocks behind the Gumbel top-k trick: Kool, van Hoof, Welling, "Stochastic
// Beams and Where to Find Them", 2019). So
//
//   P(e chosen) = ∫ p_e·exp(−p_e·t) · P(fewer than k of the others have arrived by t) dt.
//
// By t, the others have arrived independently, j with chance 1 − exp(−p_j·t): their number is
// Poisson-binomial, and a table over "how many of the first j" gives it. Two tables, from the left and
// from the right, give it without any one expert: never divided out, which would cancel.
//
// Example: two of three experts with popularity 2, 1, 1. By hand, the first one is missed with chance
// 2 · 1/4 · 1/3 = 1/6, so its share is 5/6 and that of the others 7/12 each; the sum is 2.
//
// In x = ln t the integrand falls off at both ends faster than any power, so plain sums over equal
// steps converge geometrically (Trefethen, Weideman, "The exponentially convergent trapezoidal rule",
// 2014).
std::vector<double> ChosenShare(const std::vector<double>& popularity, int choices) {
  const auto n = popularity.size();
  const auto k = static_cast<std::size_t>(choices);
  assert(k >= 1 && k <= n);
  if (k == n) return std::vector<double>(n, 1.0);
  const auto [least, most] = std::minmax_element(popularity.begin(), popularity.end());
  assert(*least > 0);
  if (*least == *most)
    return std::vector<double>(n, static_cast<double>(choices) / static_cast<double>(n));

  constexpr double kStep = 0.02;
  const double begin = std::log(1e-13 / *most), end = std::log(40 / *least);
  // [j][a]: a of the first j have arrived, a < k; and of those from j on, at most a.
  std::vector<double> before((n + 1) * k), behind((n + 1) * k), share(n, 0), late(n);
  for (double x = begin; x <= end; x += kStep) {
    const double t = std::exp(x);
    for (std::size_t j = 0; j < n; ++j) late[j] = std::exp(-popularity[j] * t);
    std::fill(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(k), 0.0);
    before[0] = 1;
    for (std::size_t j = 0; j < n; ++j) {
      const double* from = &before[j * k];
      double* to = &before[(j + 1) * k];
      to[0] = from[0] * late[j];
      for (std::size_t a = 1; a < k; ++a) to[a] = from[a] * late[j] + from[a - 1] * (1 - late[j]);
    }
    std::fill(behind.end() - static_cast<std::ptrdiff_t>(k), behind.end(), 1.0);  // none: at most a
    for (std::size_t j = n; j-- > 0;) {
      const double* from = &behind[(j + 1) * k];
      double* to = &behind[j * k];
      to[0] = from[0] * late[j];
      for (std::size_t a = 1; a < k; ++a) to[a] = from[a] * late[j] + from[a - 1] * (1 - late[j]);
    }
    for (std::size_t e = 0; e < n; ++e) {
      double open = 0;
      for (std::size_t a = 0; a < k; ++a)
        open += before[e * k + a] * behind[(e + 1) * k + k - 1 - a];
      share[e] += kStep * t * popularity[e] * late[e] * open;
    }
  }
  return share;
}

std::vector<double> ZipfPopularity(int experts, double zipf, std::uint64_t seed,
                                   std::uint64_t stream) {
  std::vector<std::size_t> order(static_cast<std::size_t>(experts));
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = order.size(); i > 1; --i) {
    const double u = RandomUniform(seed, stream, i);
    std::swap(order[i - 1], order[static_cast<std::size_t>(u * static_cast<double>(i))]);
  }
  std::vector<double> popularity(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    popularity[order[i]] = std::pow(static_cast<double>(i + 1), -zipf);
  return popularity;
}

ExpertLoad LoadOfExperts(const std::vector<ExpertTraffic>& traffic, int experts, int choices,
                         int ranks, double capacity_factor, std::uint64_t seed) {
  assert(ranks >= 1 && experts % ranks == 0 && choices <= experts);
  ExpertLoad load;
  load.offered.assign(static_cast<std::size_t>(experts), 0);
  for (const ExpertTraffic& of : traffic) {
    if (of.tokens <= 0) continue;
    const std::vector<double> share =
        ChosenShare(ZipfPopularity(experts, of.zipf, seed, of.stream), choices);
    for (std::size_t e = 0; e < share.size(); ++e) load.offered[e] += of.tokens * share[e];
  }
  load.kept = load.offered;
  const double all = std::accumulate(load.offered.begin(), load.offered.end(), 0.0);
  if (all <= 0) return load;
  if (capacity_factor > 0) {
    // Rounding must not drop a token of an even load at a factor of one.
    const double room = capacity_factor * all / experts * (1 + 1e-9);
    for (double& tokens : load.kept) tokens = std::min(tokens, room);
  }
  const double kept = std::accumulate(load.kept.begin(), load.kept.end(), 0.0);
  load.dropped_share = std::max(0.0, 1 - kept / all);
  load.expert_imbalance = *std::max_element(load.kept.begin(), load.kept.end()) * experts / kept;
  const auto each = static_cast<std::size_t>(experts / ranks);
  double busiest = 0;
  for (std::size_t first = 0; first < load.kept.size(); first += each) {
    double rank = 0;
    for (std::size_t e = first; e < first + each; ++e) rank += load.kept[e];
    busiest = std::max(busiest, rank);
  }
  load.rank_imbalance = std::max(1.0, busiest * ranks / kept);
  return load;
}

}  // namespace aurum
