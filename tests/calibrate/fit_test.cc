#include <doctest/doctest.h>

#include <cmath>

#include "calibrate/fit_attention.h"
#include "calibrate/fit_collective.h"
#include "calibrate/fit_gemm.h"
#include "calibrate/least_squares.h"
#include "sim/collectives/steps.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

// A fixed sequence in [0, 1): the golden ratio's multiples are spread evenly.
double Spread(int i) { return std::fmod(i * 0.6180339887498949, 1.0); }

TEST_CASE("least squares: the unconstrained optimum, and zero where it would be negative") {
  DesignMatrix a(2);
  const auto add = [&](double x, double y) {
    double* row = a.AddRow();
    row[0] = x;
    row[1] = y;
  };
  add(1, 0);
  add(0, 1);
  add(1, 1);
  // Free optimum of b = (1, 2, 3): exactly (1, 2).
  std::vector<double> x = NonNegativeLeastSquares(a, {1, 2, 3});
  CHECK(x[0] == doctest::Approx(1));
  CHECK(x[1] == doctest::Approx(2));
  // b = (−4, 2, 0): the free optimum is (−10/3, 8/3); with x ≥ 0 it is (0, 1).
  x = NonNegativeLeastSquares(a, {-4, 2, 0});
  CHECK(x[0] == 0);
  CHECK(x[1] == doctest::Approx(1));
  x = NonNegativeLeastSquares(a, {-1, -1, -1});
  CHECK(x[0] == 0);
  CHECK(x[1] == 0);
}

TEST_CASE("least squares: random problems satisfy the optimality conditions") {
  for (int problem = 0; problem < 50; ++problem) {
    const std::size_t columns = 2 + problem % 7;
    DesignMatrix a(columns);
    std::vector<double> b;
    int draw = problem * 1000;
    for (int row = 0; row < 30; ++row) {
      double* line = a.AddRow();
      for (std::size_t j = 0; j < columns; ++j)
        line[j] = Spread(++draw) * std::pow(10.0, 3.0 * static_cast<double>(j));
      b.push_back(Spread(++draw) - 0.3);
    }
    const std::vector<double> x = NonNegativeLeastSquares(a, b);
    // x ≥ 0; gradient of the residual ≥ 0 everywhere and 0 where x > 0 (Karush, Kuhn and Tucker).
    for (std::size_t j = 0; j < columns; ++j) {
      CHECK(x[j] >= 0);
      double gradient = 0;
      double scale = 0;
      for (std::size_t i = 0; i < b.size(); ++i) {
        double residual = -b[i];
        for (std::size_t l = 0; l < columns; ++l) residual += a.values[i * columns + l] * x[l];
        gradient += a.values[i * columns + j] * residual;
        scale += std::abs(a.values[i * columns + j]);
      }
      CHECK(gradient >= -1e-8 * scale);
      if (x[j] > 0) CHECK(std::abs(gradient) <= 1e-8 * scale);
    }
  }
}

TEST_CASE("relative fit: an outlier does not move a line that the other points agree on") {
  DesignMatrix a(2);
  std::vector<double> measured;
  for (int i = 1; i <= 20; ++i) {
    double* row = a.AddRow();
    row[0] = 1;
    row[1] = i;
    measured.push_back((5.0 + 3 * i) * (i == 7 ? 1.5 : 1));
  }
  const std::vector<double> x = FitRelative(a, measured);
  CHECK(x[0] == doctest::Approx(5).epsilon(0.01));
  CHECK(x[1] == doctest::Approx(3).epsilon(0.01));
}

std::vector<GemmRow> Synthetic(const GemmModel& truth, int sm_count) {
  std::vector<GemmRow> rows;
  for (int i = 0; i < 150; ++i) {
    GemmRow row;
    row.m = 256 + std::floor(Spread(i) * 8000);
    row.n = 256 * (1 + std::floor(Spread(i + 1000) * 40));
    row.k = 256 * (1 + std::floor(Spread(i + 2000) * Spread(i + 3000) * 40));
    row.seconds = GemmBurstSeconds(truth, sm_count, 2, 2, row.m, row.n, row.k);
    rows.push_back(row);
  }
  return rows;
}

TEST_CASE("gemm fit: recovers the truth of each form from its own times") {
  GemmModel truth;
  truth.form = "roofline";
  truth.t0_s = 4e-6;
  truth.rate_flops = 700e12;
  truth.bandwidth_bytes_per_s = 1.2e12;
  GemmModel fit = FitGemm(Synthetic(truth, 132), 132, "roofline");
  CHECK(fit.t0_s == doctest::Approx(4e-6).epsilon(1e-6));
  CHECK(fit.rate_flops == doctest::Approx(700e12).epsilon(1e-6));
  CHECK(fit.bandwidth_bytes_per_s == doctest::Approx(1.2e12).epsilon(1e-6));

  truth.form = "k_saturation";
  truth.k_half = 150;
  fit = FitGemm(Synthetic(truth, 132), 132, "k_saturation");
  CHECK(fit.t0_s == doctest::Approx(4e-6).epsilon(1e-6));
  CHECK(fit.rate_flops == doctest::Approx(700e12).epsilon(1e-6));
  CHECK(fit.k_half == doctest::Approx(150).epsilon(1e-6));
  CHECK(fit.bandwidth_bytes_per_s == doctest::Approx(1.2e12).epsilon(1e-6));

  // α and k_half are found by search: the times come back within 1 %, and the form is preferred.
  truth.form = "tile";
  truth.wave_alpha = 0.8;
  truth.tiles = {{128, 256, 1.0}, {128, 128, 0.9}};
  const std::vector<GemmRow> rows = Synthetic(truth, 132);
  fit = FitGemm(rows, 132, "tile");
  double error = 0;
  for (const GemmRow& row : rows) {
    error +=
        std::abs(GemmBurstSeconds(fit, 132, 2, 2, row.m, row.n, row.k) / row.seconds - 1) / 150;
  }
  CHECK(error < 0.01);
  CHECK(fit.wave_alpha == doctest::Approx(0.8).epsilon(0.1));
}

TEST_CASE("gemm fit: what was split is recognised, and predicted where it was not seen") {
  GemmModel truth;
  truth.form = "split_k";
  truth.t0_s = 4e-6;
  truth.rate_flops = 280e12;
  truth.bandwidth_bytes_per_s = 1.2e12;
  truth.k_half = 150;
  truth.wave_alpha = 0.5;
  truth.tiles = {{128, 256, 1.0}, {256, 128, 1.0}, {128, 128, 0.85}, {64, 128, 0.7}};
  truth.most_splits = 8;
  truth.split_overhead_s = 3e-6;
  const std::vector<GemmRow> rows = Synthetic(truth, 108);
  const GemmModel chosen = ChooseGemm(rows, 108, "synthetic");
  CHECK(chosen.form == "split_k");
  CHECK(chosen.quality.holdout_mape < 0.03);
  CHECK(chosen.quality.method.starts_with("split_k"));
  CHECK(chosen.m.low >= 256);
  CHECK(chosen.k.high <= 256 * 40);
  CHECK(chosen.k.Holds(512));
}

TEST_CASE("simplex: the valley of Rosenbrock, and a corner that a bound cuts off") {
  const auto valley = [](const std::vector<double>& x) {
    const double a = 1 - x[0];
    const double b = x[1] - x[0] * x[0];
    return a * a + 100 * b * b;
  };
  const std::vector<double> x = MinimizeBySimplex({-1.2, 1}, {0.5, 0.5}, 4, 200, valley);
  CHECK(x[0] == doctest::Approx(1).epsilon(1e-4));
  CHECK(x[1] == doctest::Approx(1).epsilon(1e-4));
  const std::vector<double> y =
      MinimizeBySimplex({3, 3}, {1, 1}, 3, 100, [](const std::vector<double>& v) {
        return std::abs(std::max(v[0], 1.0) - 0.5) + std::abs(v[1] - 2);
      });
  CHECK(y[0] <= 1);
  CHECK(y[1] == doctest::Approx(2).epsilon(1e-4));
}

TEST_CASE("gemm fit: too few rows is an error") {
  CHECK(ThrownBy([] { FitGemm({}, 132, "roofline"); }).code == 825);
}

TEST_CASE("attention fit: recovers rates, half lengths and the cache write") {
  AttentionModel truth;
  truth.t0_s = 10e-6;
  truth.bandwidth_bytes_per_s = 2e12;
  truth.tail = 0.5;
  truth.cache_write_bytes_per_s = 1e12;
  truth.per_head_dim = {{64, 500e12, 800}, {128, 650e12, 700}};
  std::vector<AttentionRow> rows;
  for (int i = 0; i < 200; ++i) {
    AttentionRow row;
    row.batch = 1 + std::floor(Spread(i) * 16);
    row.seq_len = 256 * (1 + std::floor(Spread(i + 500) * 30));
    row.heads = 8 * (1 + std::floor(Spread(i + 900) * 7));
    row.kv_heads = i % 3 == 0 ? row.heads : 8;
    row.head_dim = i % 2 == 0 ? 64 : 128;
    row.seconds = AttentionBurstSeconds(truth, 132, row.batch, row.heads, row.kv_heads, row.seq_len,
                                        row.seq_len, row.head_dim, true) +
                  4 * row.batch * row.kv_heads * row.seq_len * row.head_dim / 1e12;
    rows.push_back(row);
  }
  const AttentionModel fit = FitAttention(rows, 132, "synthetic");
  REQUIRE(fit.per_head_dim.size() == 2);
  CHECK(fit.per_head_dim[0].rate_flops == doctest::Approx(500e12).epsilon(0.01));
  CHECK(fit.per_head_dim[1].rate_flops == doctest::Approx(650e12).epsilon(0.01));
  CHECK(fit.per_head_dim[1].half_length == doctest::Approx(700).epsilon(0.05));
  CHECK(fit.cache_write_bytes_per_s == doctest::Approx(1e12).epsilon(0.05));
  CHECK(fit.quality.holdout_mape < 0.005);
  CHECK(ThrownBy([] { FitAttention({}, 132, "none"); }).code == 825);
}

TEST_CASE("decode fit: recovers start, bandwidth and tokens a row") {
  std::vector<AttentionRow> rows;
  for (int i = 0; i < 60; ++i) {
    AttentionRow row;
    row.batch = 1 + std::floor(Spread(i) * 200);
    row.seq_len = 1;
    row.past_len = 1 + std::floor(std::pow(2.0, 14 * Spread(i + 70)));
    row.heads = 32;
    row.kv_heads = 8;
    row.head_dim = 128;
    row.seconds = 8e-6 + 4 * row.batch * 8 * (row.past_len + 1 + 100) * 128 / 3e12;
    rows.push_back(row);
  }
  const DecodeModel fit = FitDecode(rows, "synthetic");
  CHECK(fit.t0_s == doctest::Approx(8e-6).epsilon(1e-3));
  CHECK(fit.bandwidth_bytes_per_s == doctest::Approx(3e12).epsilon(1e-3));
  CHECK(fit.row_tokens == doctest::Approx(100).epsilon(1e-2));
}

TEST_CASE("envelope fit: three lines from their own envelope; one line stays one") {
  CollectiveEnvelope truth;
  truth.lines = {{10e-6, 5e9}, {20e-6, 50e9}, {80e-6, 300e9}};
  std::vector<SizedTime> points;
  for (double bytes = 512; bytes < 6e8; bytes *= 2)
    points.push_back({bytes, EnvelopeSeconds(truth, bytes)});
  std::vector<EnvelopeLine> lines = FitEnvelope(points, 3);
  REQUIRE(lines.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(lines[i].latency_s == doctest::Approx(truth.lines[i].latency_s).epsilon(1e-6));
    CHECK(lines[i].bytes_per_s == doctest::Approx(truth.lines[i].bytes_per_s).epsilon(1e-6));
  }
  truth.lines = {{10e-6, 50e9}};
  for (SizedTime& point : points) point.seconds = EnvelopeSeconds(truth, point.bytes);
  lines = FitEnvelope(points, 3);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].bytes_per_s == doctest::Approx(50e9).epsilon(1e-9));
}

TEST_CASE("envelope fit: hold-out is honest, short curves are left out") {
  std::vector<CollectiveRow> rows;
  for (int i = 0; i < 11; ++i) {
    const double bytes = 512 * std::pow(4.0, i);
    rows.push_back({CollectiveKind::kAllReduce, 8, bytes, 10e-6 + bytes / 200e9});
    if (i < 5) rows.push_back({CollectiveKind::kAllGather, 8, bytes, 10e-6});
  }
  const auto envelopes = FitCollectives(rows, "synthetic");
  REQUIRE(envelopes.size() == 1);
  const CollectiveEnvelope& reduce = envelopes.at({CollectiveKind::kAllReduce, 8});
  CHECK(reduce.quality.holdout_points == 5);
  CHECK(reduce.quality.holdout_mape < 1e-6);
  CHECK(reduce.busbw_bytes_per_s == doctest::Approx(350e9).epsilon(1e-4));
  CHECK(BusFactor(CollectiveKind::kAllReduce, 2) == 1);
  CHECK(BusFactor(CollectiveKind::kAllGather, 4) == 0.75);
}

TEST_CASE("rounding to significant digits") {
  CHECK(RoundSignificant(123456789.0) == 123460000.0);
  CHECK(RoundSignificant(0.00012345678) == 0.00012346);
  CHECK(RoundSignificant(0) == 0);
  CHECK(RoundSignificant(0.99999999) == 1);
}

}  // namespace
}  // namespace aurum
