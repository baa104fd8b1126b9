#include "sim/monitor/correlation.h"

#include <cassert>
#include <cmath>
#include <cstddef>

namespace aurum {

Correlation Correlate(const std::vector<double>& a, const std::vector<double>& b) {
  assert(a.size() == b.size());
  Correlation out;
  const auto n = static_cast<double>(a.size());
  if (a.size() < 3) {
    out.reason = "fewer than three pairs";
    return out;
  }
  double mean_a = 0, mean_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    mean_a += a[i] / n;
    mean_b += b[i] / n;
  }
  if (!std::isfinite(mean_a) || !std::isfinite(mean_b)) {
    out.reason = "a value is not finite";
    return out;
  }
  double aa = 0, bb = 0, ab = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
    ab += (a[i] - mean_a) * (b[i] - mean_b);
  }
  // Rounding of the mean leaves a hair of variance in equal numbers.
  const auto still = [n](double squares, double mean) {
    return std::sqrt(squares / n) <= 1e-12 * std::abs(mean) || squares == 0;
  };
  out.spread_a = mean_a == 0 ? 0 : std::sqrt(aa / n) / std::abs(mean_a);
  out.spread_b = mean_b == 0 ? 0 : std::sqrt(bb / n) / std::abs(mean_b);
  if (still(aa, mean_a) || still(bb, mean_b)) {
    out.reason = still(aa, mean_a) ? "MAR does not vary" : "speed does not vary";
    return out;
  }
  out.r = ab / std::sqrt(aa * bb);
  return out;
}

double ChanceOfWeakCorrelation(int n, double bound) {
  assert(n >= 4 && bound > 0 && bound < 1);
  // With r = sin(u) the density's ends, where n < 4 + 2 has a root, become smooth.
  const auto integral = [n](double to) {
    constexpr int kPieces = 2000;
    const double step = std::asin(to) / kPieces;
    double sum = 0;
    for (int i = 0; i <= kPieces; ++i) {
      const double weight = i == 0 || i == kPieces ? 1 : i % 2 == 1 ? 4 : 2;
      sum += weight * std::pow(std::cos(i * step), n - 3);
    }
    return sum * step / 3;
  };
  return integral(bound) / integral(1);
}

bool ArticleDriftRule(const std::vector<double>& mar, const std::vector<double>& asr, int window,
                      double bound) {
  const auto w = static_cast<std::ptrdiff_t>(window);
  if (static_cast<std::ptrdiff_t>(mar.size()) < w || static_cast<std::ptrdiff_t>(asr.size()) < w)
    return false;
  const Correlation c = Correlate({mar.end() - w, mar.end()}, {asr.end() - w, asr.end()});
  return c.r && std::abs(*c.r) < bound;
}

}  // namespace aurum
