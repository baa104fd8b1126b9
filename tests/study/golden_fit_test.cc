#include "sim/study/golden_fit.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/support/shared.h"

namespace aurum {
namespace {

// Steps of `subnetworks` modalities whose times follow the formula, but for a relative error of
// size `noise`.
std::vector<GoldenRow> GoldenRows(std::size_t count, std::size_t subnetworks, Combine combine,
                                  double alpha, double beta, double noise, unsigned seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::normal_distribution<double> normal(0, 1);
  std::vector<GoldenRow> rows(count);
  for (GoldenRow& row : rows) {
    const double size = std::pow(10, 2 * uniform(random) - 1);  // steps from 0.1 s to 10 s
    for (std::size_t k = 0; k < subnetworks; ++k) {
      row.f_over_b.push_back(size * (0.3 + uniform(random)));
      row.g_over_c.push_back(size * 0.3 * uniform(random));
      row.comm.push_back(size * uniform(random));
    }
    row.p_align = size * 0.5 * uniform(random);
    row.simulated_s = GoldenTime(row, combine, alpha, beta) * (1 + noise * normal(random));
  }
  return rows;
}

const std::vector<Combine> kAll = {Combine::kMax, Combine::kSum, Combine::kCriticalPath};

TEST_CASE("the formula, by hand") {
  const GoldenRow row = {{1, 2}, {0.5, 0.25}, {4, 1}, 2, 1};
  // 1.5 + 4a against 2.25 + a: equal at a = 0.25.
  CHECK(GoldenTime(row, Combine::kMax, 0, 0) == 2.25);
  CHECK(GoldenTime(row, Combine::kMax, 0.5, 0.25) == 1.5 + 2 + 0.5);
  CHECK(GoldenTime(row, Combine::kSum, 0.5, 0.25) == 3.75 + 2.5 + 0.5);
  CHECK(GoldenTime(row, Combine::kCriticalPath, 0.5, 0.25) == 3.75 + 2.5 + 0.5);
}

TEST_CASE("a synthetic truth is recovered exactly") {
  for (const Combine combine : kAll) {
    for (const double alpha : {0.05, 0.37, 0.93}) {
      for (const double beta : {0.2, 1.0, 3.0}) {
        for (const std::size_t subnetworks : {1, 2, 5}) {
          const GoldenFit fit =
              FitGolden(GoldenRows(200, subnetworks, combine, alpha, beta, 0, 3), combine);
          CAPTURE(alpha);
          CAPTURE(beta);
          CAPTURE(subnetworks);
          REQUIRE(fit.alpha.value);
          REQUIRE(fit.beta.value);
          CHECK(std::abs(*fit.alpha.value - alpha) < 1e-12);
          CHECK(std::abs(*fit.beta.value - beta) < 1e-12);
          CHECK(std::abs(*fit.alpha.low - alpha) < 1e-9);
          CHECK(std::abs(*fit.beta.high - beta) < 1e-9);
          CHECK(!fit.alpha.at_bound);
          CHECK(*fit.r2 > 1 - 1e-12);
          CHECK(fit.rms_relative_error < 1e-12);
          CHECK(fit.within_ten_percent == 1);
        }
      }
    }
  }
}

TEST_CASE("a truth on a bound is recovered, and a truth beyond it gives the bound") {
  for (const Combine combine : kAll) {
    for (const double alpha : {0.0, 1.0}) {
      const GoldenFit fit = FitGolden(GoldenRows(100, 3, combine, alpha, 0, 0, 5), combine);
      CHECK(std::abs(*fit.alpha.value - alpha) < 1e-12);
      CHECK(std::abs(*fit.beta.value) < 1e-12);
      CHECK(*fit.alpha.low >= 0);
      CHECK(*fit.alpha.high <= 1);
    }
    const GoldenFit beyond = FitGolden(GoldenRows(100, 3, combine, 1.6, 0.5, 0, 6), combine);
    CHECK(*beyond.alpha.value == 1);
    CHECK(beyond.alpha.at_bound);
    CHECK(*beyond.alpha.high == 1);
    CHECK(beyond.rms_relative_error > 0.01);
  }
}

TEST_CASE("no alpha and beta of a fine grid fit better") {
  // Times that no parameters explain, where alternation from a bad start gets stuck.
  for (unsigned seed = 0; seed < 30; ++seed) {
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> uniform(0, 1);
    for (const Combine combine : kAll) {
      std::vector<GoldenRow> rows = GoldenRows(12, 3, combine, 0.5, 0.5, 0, seed);
      for (GoldenRow& row : rows) row.simulated_s *= 0.5 + uniform(random);
      const GoldenFit fit = FitGolden(rows, combine);
      const auto cost = [&](double alpha, double beta) {
        double squares = 0;
        for (const GoldenRow& row : rows) {
          const double error = GoldenTime(row, combine, alpha, beta) / row.simulated_s - 1;
          squares += error * error;
        }
        return std::sqrt(squares / static_cast<double>(rows.size()));
      };
      CHECK(std::abs(cost(*fit.alpha.value, *fit.beta.value) - fit.rms_relative_error) < 1e-12);
      double grid = std::numeric_limits<double>::infinity();
      for (int a = 0; a <= 60; ++a) {
        for (int b = 0; b <= 40; ++b) grid = std::min(grid, cost(a / 60.0, b / 10.0));
      }
      CHECK(fit.rms_relative_error <= grid + 1e-12);
    }
  }
}

TEST_CASE("the intervals contain the truth as often as they claim") {
  for (const Combine combine : kAll) {
    int alpha_in = 0;
    int beta_in = 0;
    const int runs = 1000;
    for (unsigned seed = 0; seed < runs; ++seed) {
      const GoldenFit fit =
          FitGolden(GoldenRows(40, 2, combine, 0.4, 0.8, 0.03, 1000 + seed), combine);
      if (*fit.alpha.low <= 0.4 && 0.4 <= *fit.alpha.high) ++alpha_in;
      if (*fit.beta.low <= 0.8 && 0.8 <= *fit.beta.high) ++beta_in;
      CHECK(*fit.alpha.low < *fit.alpha.value);
      CHECK(*fit.alpha.value < *fit.alpha.high);
    }
    // 95 % of 1,000 is 950 with a standard deviation of 7. With `max` a row near its kink may
    // change sides, which the intervals leave out.
    CHECK(alpha_in > 925);
    CHECK(alpha_in < 975);
    CHECK(beta_in > 925);
    CHECK(beta_in < 975);
  }
}

TEST_CASE("with three rows the interval is the textbook's") {
  // One subnetwork, no alignment: relative errors of alpha·a about r. a = 1 in each row, so alpha
  // is the mean of -r.
  std::vector<GoldenRow> rows;
  for (const double base : {0.5, 0.6, 0.4}) rows.push_back({{base}, {0}, {1}, 0, 1});
  const GoldenFit fit = FitGolden(rows, Combine::kSum);
  CHECK(std::abs(*fit.alpha.value - 0.5) < 1e-15);
  // Standard error 0.1/sqrt(3); Student's 97.5 % point with 2 degrees of freedom is 4.302653.
  CHECK(std::abs(*fit.alpha.high - (0.5 + 4.302653 * 0.1 / std::sqrt(3.0))) < 1e-6);
  CHECK(std::abs(*fit.alpha.low - (0.5 - 4.302653 * 0.1 / std::sqrt(3.0))) < 1e-6);
  CHECK(!fit.beta.value);
  CHECK(!fit.r2);  // all times are 1
}

TEST_CASE("what the rows do not determine is absent, with the reason") {
  for (const Combine combine : kAll) {
    std::vector<GoldenRow> rows = GoldenRows(50, 2, combine, 0.3, 0.7, 0, 9);
    for (GoldenRow& row : rows) row.comm = {0, 0};
    for (GoldenRow& row : rows) row.simulated_s = GoldenTime(row, combine, 0, 0.7);
    GoldenFit fit = FitGolden(rows, combine);
    CHECK(!fit.alpha.value);
    CHECK(!fit.alpha.low);
    CHECK(fit.alpha.reason.find("communicates") != std::string::npos);
    CHECK(std::abs(*fit.beta.value - 0.7) < 1e-12);

    rows = GoldenRows(50, 2, combine, 0.3, 0.7, 0, 9);
    for (GoldenRow& row : rows) row.p_align = 0;
    for (GoldenRow& row : rows) row.simulated_s = GoldenTime(row, combine, 0.3, 0);
    fit = FitGolden(rows, combine);
    CHECK(!fit.beta.value);
    CHECK(fit.beta.reason.find("P_align") != std::string::npos);
    CHECK(std::abs(*fit.alpha.value - 0.3) < 1e-12);

    for (GoldenRow& row : rows) row.comm = {0, 0};
    for (GoldenRow& row : rows) row.simulated_s = GoldenTime(row, combine, 0, 0) * 1.1;
    fit = FitGolden(rows, combine);
    CHECK(!fit.alpha.value);
    CHECK(!fit.beta.value);
    CHECK(std::abs(fit.rms_relative_error - 0.1 / 1.1) < 1e-12);
  }
  std::vector<GoldenRow> rows = GoldenRows(20, 1, Combine::kSum, 0.3, 0.7, 0, 9);
  for (GoldenRow& row : rows) row.p_align = row.comm[0] * 0.1;
  GoldenFit fit = FitGolden(rows, Combine::kSum);
  CHECK(!fit.alpha.value);
  CHECK(!fit.beta.value);
  CHECK(fit.alpha.reason.find("proportional") != std::string::npos);
  fit = FitGolden({rows[0]}, Combine::kSum);
  CHECK(fit.beta.reason.find("one row") != std::string::npos);
  fit = FitGolden(GoldenRows(2, 1, Combine::kSum, 0.3, 0.7, 0, 4), Combine::kSum);
  CHECK(std::abs(*fit.alpha.value - 0.3) < 1e-9);
  CHECK(!fit.alpha.low);
  CHECK(fit.alpha.reason.find("too few rows") != std::string::npos);
}

TEST_CASE("max names the subnetwork that decides") {
  const std::vector<GoldenRow> rows = {{{1, 2}, {0, 0}, {2, 0}, 0.1, 2.05},
                                       {{1, 1.2}, {0, 0}, {2, 0}, 0.3, 2.15},
                                       {{1, 5}, {0, 0}, {2, 0}, 0.2, 5.1}};
  const GoldenFit fit = FitGolden(rows, Combine::kMax);
  CHECK(std::abs(*fit.alpha.value - 0.5) < 1e-12);
  CHECK(std::abs(*fit.beta.value - 0.5) < 1e-12);
  CHECK(fit.active[1] == 0);
  CHECK(fit.active[2] == 1);
}

TEST_CASE("rows that cannot be fitted are refused by number") {
  const std::vector<GoldenRow> good = GoldenRows(3, 2, Combine::kSum, 0.3, 0.7, 0, 9);
  const auto refused = [&](auto change) {
    std::vector<GoldenRow> rows = good;
    change(&rows[1]);
    const Diagnostic d = ThrownBy([&] { FitGolden(rows, Combine::kSum); });
    CHECK(d.code == 740);
    return d.message;
  };
  CHECK(ThrownBy([] { FitGolden({}, Combine::kMax); }).code == 740);
  CHECK(refused([](GoldenRow* row) { row->comm.push_back(1); }).find("row 1 ") !=
        std::string::npos);
  CHECK(refused([](GoldenRow* row) { row->comm[1] = -1; }).find("Comm of subnetwork 1") !=
        std::string::npos);
  CHECK(refused([](GoldenRow* row) { row->f_over_b[0] = std::nan(""); }).find("F/B") !=
        std::string::npos);
  CHECK(refused([](GoldenRow* row) {
          row->p_align = std::numeric_limits<double>::infinity();
        }).find("P_align") != std::string::npos);
  CHECK(refused([](GoldenRow* row) { row->simulated_s = 0; }).find("above 0") != std::string::npos);
}

}  // namespace
}  // namespace aurum
