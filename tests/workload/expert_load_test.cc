#include "sim/workload/expert_load.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "sim/core/random.h"

namespace aurum {
namespace {

double Sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// The same draw, one expert after another.
std::vector<double> Drawn(const std::vector<double>& popularity, int choices, int tokens) {
  std::vector<double> share(popularity.size(), 0);
  for (int t = 0; t < tokens; ++t) {
    std::vector<double> left = popularity;
    for (int c = 0; c < choices; ++c) {
      double u = RandomUniform(9, static_cast<std::uint64_t>(t), static_cast<std::uint64_t>(c)) *
                 Sum(left);
      std::size_t e = 0;
      while (e + 1 < left.size() && (u -= left[e]) > 0) ++e;
      while (left[e] == 0) --e;
      left[e] = 0;
      share[e] += 1.0 / tokens;
    }
  }
  return share;
}

TEST_CASE("the chance to be among the first k, by hand") {
  // 2, 1, 1, two choices: the first is missed with 2 · 1/4 · 1/3.
  const std::vector<double> share = ChosenShare({2, 1, 1}, 2);
  CHECK(share[0] == doctest::Approx(5.0 / 6).epsilon(1e-9));
  CHECK(share[1] == doctest::Approx(7.0 / 12).epsilon(1e-9));
  CHECK(share[2] == share[1]);
  // One choice: the popularity itself.
  const std::vector<double> one = ChosenShare({5, 3, 2}, 1);
  CHECK(one[0] == doctest::Approx(0.5).epsilon(1e-9));
  CHECK(one[2] == doctest::Approx(0.2).epsilon(1e-9));
  // All of them: certain.
  CHECK(ChosenShare({5, 3, 2}, 3) == std::vector<double>{1, 1, 1});
  // As popular as each other: k / n.
  CHECK(ChosenShare(std::vector<double>(128, 0.3), 8)[77] == 8.0 / 128);
}

TEST_CASE("it agrees with a million draws, and sums to the choices whatever the skew") {
  const std::vector<double> popularity = ZipfPopularity(16, 1.2, 3, 0);
  const int tokens = 200'000;
  const std::vector<double> exact = ChosenShare(popularity, 4);
  const std::vector<double> drawn = Drawn(popularity, 4, tokens);
  for (std::size_t e = 0; e < exact.size(); ++e) {
    const double error = std::sqrt(exact[e] * (1 - exact[e]) / tokens);
    CAPTURE(e);
    CHECK(std::abs(drawn[e] - exact[e]) < 4.5 * error);
  }
  for (const int experts : {2, 8, 128, 384}) {
    for (const double zipf : {0.1, 1.0, 4.0}) {
      for (const int choices : {1, 2, 8}) {
        if (choices >= experts) continue;
        const std::vector<double> share = ChosenShare(ZipfPopularity(experts, zipf, 1, 2), choices);
        CAPTURE(experts);
        CAPTURE(zipf);
        CHECK(Sum(share) == doctest::Approx(choices).epsilon(1e-8));
        for (const double s : share) CHECK((s > 0 && s <= 1 + 1e-12));
      }
    }
  }
}

TEST_CASE("even routing is even, and more skew never lightens the busiest expert") {
  const ExpertLoad even = LoadOfExperts({{1000, 0, 0}, {3000, 0, 1}}, 128, 8, 16, 0, 7);
  CHECK(even.rank_imbalance == doctest::Approx(1).epsilon(1e-12));
  CHECK(even.expert_imbalance == doctest::Approx(1).epsilon(1e-12));
  CHECK(even.dropped_share == 0);
  CHECK(Sum(even.offered) == doctest::Approx(4000 * 8));
  for (const int ranks : {2, 8, 128}) {
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      double before = 1;
      for (const double zipf : {0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0}) {
        const ExpertLoad load = LoadOfExperts({{1000, zipf, 0}}, 128, 8, ranks, 0, seed);
        CAPTURE(ranks);
        CAPTURE(zipf);
        CHECK(load.expert_imbalance >= before * (1 - 1e-9));
        before = load.expert_imbalance;
        if (ranks == 128) CHECK(load.rank_imbalance == doctest::Approx(before));
        CHECK(load.expert_imbalance >= load.rank_imbalance * (1 - 1e-12));
        CHECK(load.rank_imbalance <= ranks);
        CHECK(Sum(load.kept) == doctest::Approx(8000).epsilon(1e-8));
      }
    }
  }
  CHECK(LoadOfExperts({{1000, 2, 0}}, 128, 8, 1, 0, 0).rank_imbalance == 1);
}

TEST_CASE("two modalities with favourites of their own are more even than one of both") {
  double apart = 0, alike = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    apart += LoadOfExperts({{500, 1, 0}, {500, 1, 1}}, 64, 4, 64, 0, seed).expert_imbalance;
    alike += LoadOfExperts({{500, 1, 0}, {500, 1, 0}}, 64, 4, 64, 0, seed).expert_imbalance;
  }
  CHECK(apart < 0.8 * alike);
}

TEST_CASE("capacity drops what skew piles up, and nothing where there is room") {
  const std::vector<ExpertTraffic> skewed{{1000, 1.0, 0}};
  double before = 1;
  for (const double factor : {0.5, 1.0, 1.25, 2.0, 4.0}) {
    const ExpertLoad load = LoadOfExperts(skewed, 32, 2, 8, factor, 1);
    CAPTURE(factor);
    CHECK(load.dropped_share <= before);
    before = load.dropped_share;
    const double room = factor * 2000 / 32;
    for (const double kept : load.kept) CHECK(kept <= room * (1 + 1e-8));
    CHECK(Sum(load.kept) == doctest::Approx(2000 * (1 - load.dropped_share)).epsilon(1e-8));
  }
  CHECK(LoadOfExperts(skewed, 32, 2, 8, 1.0, 1).dropped_share > 0.1);
  CHECK(LoadOfExperts(skewed, 32, 2, 8, 0, 1).dropped_share == 0);  // dropless
  CHECK(LoadOfExperts({{1000, 0, 0}}, 32, 2, 8, 1.0, 1).dropped_share == 0);
  // Half of the mean: every expert is full, half is dropped, all ranks are alike.
  const ExpertLoad half = LoadOfExperts({{1000, 0, 0}}, 32, 2, 8, 0.5, 1);
  CHECK(half.dropped_share == doctest::Approx(0.5).epsilon(1e-6));
  CHECK(half.rank_imbalance == doctest::Approx(1).epsilon(1e-9));
}

}  // namespace
}  // namespace aurum
