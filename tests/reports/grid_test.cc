#include "reports/grid.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "reports/text.h"

namespace aurum {
namespace {

constexpr GridShape kShape = {4, 3, 5};

std::vector<double> Values(auto of) {
  std::vector<double> out;
  for (std::size_t i = 0; i < kShape[0]; ++i) {
    for (std::size_t j = 0; j < kShape[1]; ++j) {
      for (std::size_t k = 0; k < kShape[2]; ++k) out.push_back(of(i, j, k));
    }
  }
  return out;
}

void CheckRoundTrip(const std::vector<double>& values, const Json& field) {
  const FieldReader reader(ParseJson(field.Dump(), "field").root, kShape);
  std::size_t p = 0;
  for (std::size_t i = 0; i < kShape[0]; ++i) {
    for (std::size_t j = 0; j < kShape[1]; ++j) {
      for (std::size_t k = 0; k < kShape[2]; ++k, ++p) {
        if (std::isnan(values[p])) {
          CHECK_FALSE(reader.At(i, j, k));
        } else {
          CHECK(reader.At(i, j, k).value() == values[p]);
        }
      }
    }
  }
}

TEST_CASE("a field keeps only the axes that it depends on, and comes back whole") {
  // Every subset of the three axes.
  for (int subset = 0; subset < 8; ++subset) {
    CAPTURE(subset);
    const auto values = Values([subset](std::size_t i, std::size_t j, std::size_t k) {
      return 1.0 + ((subset & 1) != 0 ? 100.0 * static_cast<double>(i) : 0) +
             ((subset & 2) != 0 ? 10.0 * static_cast<double>(j) : 0) +
             ((subset & 4) != 0 ? static_cast<double>(k) : 0);
    });
    const Json field = EncodeField(values, kShape);
    CheckRoundTrip(values, field);
    if (subset == 7) {
      CHECK(field.IsArray());
      continue;
    }
    std::size_t size = 1;
    for (std::size_t a = 0; a < 3; ++a) size *= (subset >> a & 1) != 0 ? kShape[a] : 1;
    CHECK(field.Find("values")->items().size() == size);
  }
}

TEST_CASE("a category that changes in few places is written as runs") {
  const auto values = Values([](std::size_t i, std::size_t j, std::size_t k) {
    return i < 2 ? 0.0 : i == 2 ? (j == 2 && k > 2 ? 2.0 : 1.0) : 1.0;
  });
  const Json field = EncodeField(values, kShape);
  REQUIRE(field.Find("runs") != nullptr);
  CHECK(field.Find("runs")->Dump() == "[[0,30],[1,13],[2,2],[1,15]]");
  CheckRoundTrip(values, field);
}

TEST_CASE("a failed point stays failed in every form") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto dense = Values([nan](std::size_t i, std::size_t j, std::size_t k) {
    return i == 1 && j == 1 && k == 1 ? nan : static_cast<double>(15 * i + 5 * j + k + 1);
  });
  CheckRoundTrip(dense, EncodeField(dense, kShape));
  const auto runs = Values([nan](std::size_t i, std::size_t j, std::size_t k) {
    return i == 1 && j == 1 && k == 1 ? nan : 3.0;
  });
  const Json field = EncodeField(runs, kShape);
  CHECK(field.Find("runs")->Dump() == "[[3,21],[null,1],[3,38]]");
  CheckRoundTrip(runs, field);
  const auto slab =
      Values([nan](std::size_t i, std::size_t, std::size_t) { return i == 1 ? nan : 1.0; });
  CHECK(EncodeField(slab, kShape).Find("values")->Dump() == "[1,null,1,1]");
  CheckRoundTrip(slab, EncodeField(slab, kShape));
}

TEST_CASE("rounding to significant digits gives the nearest short decimal") {
  CHECK(RoundSignificant(0.123456, 4) == 0.1235);
  CHECK(RoundSignificant(123456, 2) == 120000);
  CHECK(RoundSignificant(-9.9996, 4) == -10);
  CHECK(RoundSignificant(0, 4) == 0);
  // Values that differ only beyond the digits kept do not count as a dependence on the axis.
  const auto noise = Values(
      [](std::size_t, std::size_t, std::size_t k) { return 1 + 1e-9 * static_cast<double>(k); });
  CHECK(EncodeField(noise, kShape).Find("values")->Dump() == "[1]");
}

TEST_CASE("the operating point is exact where the island has it, else the nearest grid point") {
  const Json sweep = *ReadJsonFile("tests/reports/fixtures/island.json").root.Find("sweep");
  const std::vector<Json>& models = sweep.Find("models")->items();
  const SweepGrid exact(sweep, models[0]);
  CHECK(exact.ReferenceIsExact());
  CHECK(exact.AtReference().simulated_step_time_s.value() == 1.9);
  CHECK(exact.AtReference().modality == 1);
  CHECK(exact.AtReference().f_over_b_s == 1.25);
  CHECK(exact.AtReference().Gap().value() == doctest::Approx(1.8 / 1.9 - 1));

  Json near = models[0];
  auto& members = near.members();
  std::erase_if(members, [](const auto& m) { return m.first == "at_reference"; });
  const SweepGrid nearest(sweep, near);
  CHECK_FALSE(nearest.ReferenceIsExact());
  // 14.6 GFLOP/token, 24.3 GB/s, 0.86 on axes 8 16 32, 25 100, 0.5 1.
  CHECK(nearest.AtReference().formula_step_time_s == nearest.At(1, 0, 1).formula_step_time_s);
}

TEST_CASE("a model may have axes of its own, and failed points limit nothing") {
  const Json sweep = *ReadJsonFile("tests/reports/fixtures/island.json").root.Find("sweep");
  const std::vector<Json>& models = sweep.Find("models")->items();
  const SweepGrid own(sweep, models[2]);
  CHECK(own.cluster == "cluster Y");
  CHECK(own.comm_bw_gb_per_s == std::vector<double>{50, 200});
  std::size_t points = 0;
  for (const std::size_t n : SweepGrid(sweep, models[1]).CountLimits(3)) points += n;
  CHECK(points == 11);  // 3 × 2 × 2, one failed
}

}  // namespace
}  // namespace aurum
