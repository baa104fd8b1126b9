#include "sim/study/boundary.h"

#include <doctest/doctest.h>

#include "sim/study/golden_points.h"
#include "tests/support/scenario.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

// A step of two modules on one rank: 3 s and 1 s of kernels, nothing else.
FormulaPoint Plain() {
  FormulaPoint p;
  p.modules = {"backbone", "vision"};
  p.f_over_b_s = {3, 1};
  p.g_over_c_s = p.comm_s = p.bubble_s = {0, 0};
  p.path_f_over_b_s = 4;
  p.compute_s = p.step_s = 4;
  return p;
}

TEST_CASE("each way to fail has its name") {
  const auto fails = [](const FormulaPoint& p, Combine combine = Combine::kMax) {
    return FailureOf(p, combine, 1, 1, 0.1);
  };
  FormulaPoint p = Plain();
  CHECK(fails(p) == FormulaFailure::kModulesLeftOut);
  CHECK(fails(p, Combine::kSum) == FormulaFailure::kNone);
  CHECK(fails(p, Combine::kCriticalPath) == FormulaFailure::kNone);

  // Beside each other on ranks of their own: a sum adds what max sees.
  p = Plain();
  p.compute_s = p.step_s = 3;
  CHECK(fails(p) == FormulaFailure::kNone);
  CHECK(fails(p, Combine::kSum) == FormulaFailure::kModulesElsewhere);

  p = Plain();
  p.path_g_over_c_s = 1;  // hidden whole
  CHECK(fails(p, Combine::kCriticalPath) == FormulaFailure::kReduceHidden);
  p.dp_reduce_s = p.exposed_comm_s = 1;
  p.step_s = 5;
  CHECK(fails(p, Combine::kCriticalPath) == FormulaFailure::kNone);

  p = Plain();
  p.path_comm_s = 2;
  CHECK(fails(p, Combine::kCriticalPath) == FormulaFailure::kCommHidden);
  CHECK(FailureOf(p, Combine::kCriticalPath, 0, 1, 0.1) == FormulaFailure::kNone);
  p.path_bubble_s = 2;
  CHECK(fails(p, Combine::kCriticalPath) == FormulaFailure::kBubbleLess);

  p = Plain();
  p.p_align_s = 1;
  CHECK(fails(p, Combine::kCriticalPath) == FormulaFailure::kAlignmentHidden);

  const auto longer = [](double FormulaPoint::*part) {
    FormulaPoint late = Plain();
    late.*part = 1;
    late.step_s = 5;
    return late;
  };
  CHECK(fails(longer(&FormulaPoint::outside_s), Combine::kCriticalPath) ==
        FormulaFailure::kOutside);
  FormulaPoint starved = longer(&FormulaPoint::outside_s);
  starved.data_wait_s = 0.6;  // of it; the optimizer has the smaller part
  CHECK(fails(starved, Combine::kCriticalPath) == FormulaFailure::kDataWait);
  starved.data_wait_s = 0.4;
  CHECK(fails(starved, Combine::kCriticalPath) == FormulaFailure::kOutside);
  CHECK(fails(longer(&FormulaPoint::exposed_comm_s), Combine::kCriticalPath) ==
        FormulaFailure::kCommExposed);
  CHECK(fails(longer(&FormulaPoint::bubble_sim_s), Combine::kCriticalPath) ==
        FormulaFailure::kBubbleMore);
  CHECK(fails(longer(&FormulaPoint::straggler_s), Combine::kCriticalPath) ==
        FormulaFailure::kBubbleMore);
  CHECK(fails(longer(&FormulaPoint::alignment_wait_s), Combine::kCriticalPath) ==
        FormulaFailure::kAlignmentMore);
  FormulaPoint slow = Plain();
  slow.slowed_s = 1;
  slow.compute_s = slow.step_s = 5;
  CHECK(fails(slow, Combine::kCriticalPath) == FormulaFailure::kSlowed);
  FormulaPoint shared = longer(&FormulaPoint::exposed_comm_s);
  shared.dp_reduce_s = 1;
  CHECK(fails(shared, Combine::kCriticalPath) == FormulaFailure::kReduceMore);
}

// A grid whose formula holds from the second value of the first axis and up to the third of the
// second, whatever the third.
TEST_CASE("the region where the formula holds is found, per axis and as a box") {
  BoundaryGrid grid;
  grid.names = {"GFLOP per token", "GB/s", "alignment ratio"};
  grid.values = {std::vector<double>{1, 2, 4}, std::vector<double>{8, 16, 32, 64},
                 std::vector<double>{0, 1}};
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 4; ++j) {
      for (int k = 0; k < 2; ++k) {
        FormulaPoint p = Plain();
        const bool holds = i >= 1 && j <= 2;
        p.outside_s = holds ? 0 : 2;
        p.step_s = 4 + p.outside_s;
        grid.points.emplace_back(p);
      }
    }
  }
  GoldenFit fit;
  fit.alpha.value = 1;
  fit.beta.value = 1;
  const BoundaryOf b = FindBoundary(grid, Combine::kCriticalPath, 0.1, fit);
  CHECK(b.points == 24);
  CHECK(b.inside == doctest::Approx(0.5));
  REQUIRE(b.box);
  CHECK(b.box->first == std::array<std::size_t, 3>{1, 0, 0});
  CHECK(b.box->last == std::array<std::size_t, 3>{2, 2, 1});
  CHECK(b.box->points == 12);
  CHECK(b.inside_by_axis[0] == std::vector<double>{0, 0.75, 0.75});
  CHECK(b.MostCommon() == FormulaFailure::kOutside);
  CHECK(BoxText(grid, *b.box) == "GFLOP per token from 2, GB/s up to 32, any alignment ratio");
  const std::string sentence = BoundarySentence(grid, {b}, 0.1);
  CHECK(sentence.find("at 50 % of the points; trust it at GFLOP per token from 2") !=
        std::string::npos);
  CHECK(sentence.find("optimizer and host are not in the formula") != std::string::npos);

  // A fit that is worse than the mean is not to be trusted, wherever it hits.
  fit.r2 = -13.5;
  const BoundaryOf worse = FindBoundary(grid, Combine::kCriticalPath, 0.1, fit);
  CHECK_FALSE(Trusted(worse));
  const std::string warned = BoundarySentence(grid, {worse}, 0.1);
  CHECK(warned.find("Do not trust it here") == 0);
  CHECK(warned.find("; trust it at") == std::string::npos);
  CHECK(warned.find("R² = -14") != std::string::npos);
  CHECK(warned.find("at 100 % of the points, optimizer and host are not") != std::string::npos);
  fit.r2 = 0.9;
  CHECK(Trusted(FindBoundary(grid, Combine::kCriticalPath, 0.1, fit)));

  // One value of an axis is no range.
  BoundaryBox one = *b.box;
  one.first = one.last = {1, 1, 0};
  CHECK(BoxText(grid, one) == "GFLOP per token 2, GB/s 16, alignment ratio up to 0");

  // A point without a result is neither inside nor outside.
  grid.points[23].reset();
  CHECK(FindBoundary(grid, Combine::kCriticalPath, 0.1, fit).points == 23);
  for (auto& point : grid.points) {
    if (point) point->outside_s = 2, point->step_s = 6;
  }
  const BoundaryOf none = FindBoundary(grid, Combine::kCriticalPath, 0.1, fit);
  CHECK(none.inside == 0);
  CHECK(!none.box);
  // Less than half inside: not to be trusted either, for want of data here.
  for (auto& point : grid.points) {
    if (point) point->data_wait_s = 2;
  }
  const std::string untrusted =
      BoundarySentence(grid, {FindBoundary(grid, Combine::kCriticalPath, 0.1, fit)}, 0.1);
  CHECK(untrusted.find("Do not trust it here") == 0);
  CHECK(untrusted.find("the wait for data and host is not in the formula") != std::string::npos);
}

TEST_CASE("a grid around a scenario: its terms are the formula's, its gaps have reasons") {
  const JsonDocument document = ReadJsonFile("scenarios/llava-1.6-7b-finetune-8xa100.json");
  InputCache cache(".");
  const Evaluation e = EvaluateDocument(document);
  BoundaryAxes axes = AxesAround(document, e, 3);
  CHECK(axes.axes.size() == 3);
  CHECK(axes.grid.values[0][1] ==
        doctest::Approx(e.program.own_flops_per_token / 1e9).epsilon(1e-3));
  CHECK(axes.grid.values[2] == std::vector<double>{0, 0.5, 1});
  RunBoundary(document, &cache, Level::kAnalytic, 1, &axes);
  REQUIRE(axes.grid.points.size() == 27);
  for (const auto& point : axes.grid.points) REQUIRE(point);
  for (const Combine combine : {Combine::kMax, Combine::kSum, Combine::kCriticalPath}) {
    const BoundaryOf b = FindBoundary(axes.grid, combine);
    std::size_t counted = 0;
    for (const std::size_t count : b.failures) counted += count;
    CHECK(counted == 27);
    CHECK(b.inside == doctest::Approx(b.fit.within_ten_percent));
  }
  // The parts of every step sum to it, so that the reasons are whole.
  for (const auto& p : axes.grid.points) {
    CHECK(p->compute_s + p->exposed_comm_s + p->bubble_sim_s + p->straggler_s +
              p->alignment_wait_s + p->outside_s ==
          doctest::Approx(p->step_s).epsilon(1e-9));
  }
}

TEST_CASE("what a plan does not have is no axis") {
  const JsonDocument document = ReadJsonFile("scenarios/llama-2-7b-1x4090.json");
  const BoundaryAxes axes = AxesAround(document, EvaluateDocument(document), 4);
  CHECK(axes.axes.size() == 1);
  CHECK(axes.grid.values[1].size() == 1);
  CHECK(axes.grid.values[2].size() == 1);
}

TEST_CASE("steps of models with other modules are brought to one list") {
  std::vector<FormulaPoint> points = {Plain(), Plain()};
  points[1].modules = {"audio", "backbone"};
  points[1].f_over_b_s = {7, 5};
  JoinModules(&points);
  CHECK(points[0].modules == std::vector<std::string>{"audio", "backbone", "vision"});
  CHECK(points[0].f_over_b_s == std::vector<double>{0, 3, 1});
  CHECK(points[1].f_over_b_s == std::vector<double>{7, 5, 0});
  const GoldenFit fit =
      FitGolden({RowOf(points[0], Combine::kMax), RowOf(points[1], Combine::kMax)}, Combine::kMax);
  const auto counts = ActiveCounts(fit, points[0].modules);
  REQUIRE(counts.size() == 3);
  CHECK(counts[0].second == 1);
  CHECK(counts[1].second == 1);
  CHECK(counts[2].second == 0);
}

TEST_CASE("no database, no points") {
  CHECK(ThrownBy([] { PointsOfStore("tests/study/fixtures/none.db"); }).code == 201);
}

}  // namespace
}  // namespace aurum
