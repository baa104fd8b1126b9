#include "sim/monitor/correlation.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "sim/core/random.h"

namespace aurum {
namespace {

TEST_CASE("correlation of lines, and where it has no value") {
  CHECK(*Correlate({1, 2, 3, 4}, {2, 4, 6, 8}).r == doctest::Approx(1));
  CHECK(*Correlate({1, 2, 3, 4}, {8, 6, 4, 2}).r == doctest::Approx(-1));
  CHECK(*Correlate({1, 2, 3, 4}, {1, -1, -1, 1}).r == doctest::Approx(0));
  const Correlation still = Correlate({0.7, 0.7, 0.7, 0.7}, {1, 2, 3, 4});
  CHECK_FALSE(still.r);
  CHECK(still.reason == "MAR does not vary");
  // The mean of three 0.1 is not 0.1: rounding must not make a correlation of nothing.
  CHECK_FALSE(Correlate({0.1, 0.1, 0.1}, {1, 2, 4}).r);
  CHECK(Correlate({1, 2, 3}, {5, 5, 5}).reason == "speed does not vary");
  CHECK_FALSE(Correlate({1, 2}, {1, 2}).r);
  CHECK_FALSE(Correlate({1, 2, std::nan("")}, {1, 2, 3}).r);
  CHECK_FALSE(Correlate({1, 2, std::numeric_limits<double>::infinity()}, {1, 2, 3}).r);
}

TEST_CASE("chance of a weak correlation: closed forms, and the same by drawing") {
  // n = 4: r is uniform in (-1, 1). n = 5: the density is that of a half circle.
  CHECK(ChanceOfWeakCorrelation(4, 0.65) == doctest::Approx(0.65).epsilon(1e-9));
  const double pi = std::acos(-1.0), b = 0.65;
  CHECK(ChanceOfWeakCorrelation(5, b) ==
        doctest::Approx(2 / pi * (b * std::sqrt(1 - b * b) + std::asin(b))).epsilon(1e-9));
  CHECK(ChanceOfWeakCorrelation(32, 0.65) > 0.9999);
  int weak = 0;
  constexpr int kTrials = 20000;
  for (int i = 0; i < kTrials; ++i) {
    std::vector<double> x, y;
    for (std::uint64_t j = 0; j < 5; ++j) {
      x.push_back(RandomNormal(7, 1, 5 * static_cast<std::uint64_t>(i) + j));
      y.push_back(RandomNormal(7, 2, 5 * static_cast<std::uint64_t>(i) + j));
    }
    weak += ArticleDriftRule(x, y) ? 1 : 0;
  }
  const double p = ChanceOfWeakCorrelation(5, 0.65);
  CHECK(static_cast<double>(weak) / kTrials ==
        doctest::Approx(p).epsilon(4 * std::sqrt((1 - p) / p / kTrials)));
}

TEST_CASE("the article's rule: NaN and strong negative correlation are no alarm to it") {
  CHECK_FALSE(ArticleDriftRule({1, 2, 3, 4}, {4, 1, 3, 2}));  // shorter than its window
  CHECK_FALSE(ArticleDriftRule({0.5, 0.5, 0.5, 0.5, 0.5}, {1, 0.8, 0.6, 0.4, 0.2}));
  CHECK_FALSE(ArticleDriftRule({5, 4, 3, 2, 1}, {1, 2, 3, 4, 5}));
  CHECK(ArticleDriftRule({1, 2, 3, 4, 5}, {1, -1, 0, -1, 1}));
}

}  // namespace
}  // namespace aurum
