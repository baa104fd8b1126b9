#include "sim/compare/stores.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "sim/core/object_reader.h"
#include "sim/study/sweep.h"
#include "tests/study/scratch.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

// Points at (a, b): a step of a · b · factor, and a peak that does not change. b = "z" fails where it is told to.
void Sweep(const std::string& path, const std::string& shared, double factor, bool z_fails = false,
           const std::vector<std::string>& vary = {"a=1:4:1", "b=1,2,4"}) {
  Study study;
  study.scenario = ParseJson(R"({"kept": )" + shared + "}", "s.json");
  std::vector<Axis> axes;
  for (const std::string& axis : vary) axes.push_back(ParseVary(axis));
  study.design = axes;
  study.tool_version = "test";
  Store store = Store::Open(path, study);
  const PointEvaluator evaluate = [&](const JsonDocument& point) {
    ObjectReader reader(point, point.root, "");
    const double a = reader.Number("a", 0, 100), b = reader.Number("b", 0, 100);
    if (z_fails && b == 4 && a > 2)
      reader.Fail(312, "b", "does not divide", "", "", ExitCode::kInfeasible);
    // The longest rise at a = 4, b = 4; none at a = 1.
    const double step = a * b * (1 + (factor - 1) * (a - 1) / 3 * b / 4);
    return std::vector<Figure>{{"step_time_s", step}, {"peak_gib", 10.0}, {"limit", "compute"}};
  };
  SweepOptions one;
  one.jobs = 1;
  RunSweep(study.scenario, study.design, evaluate, one, &store);
}

TEST_CASE("two sweeps of one scenario are joined by ids, and changes are told") {
  const Scratch scratch;
  const std::string a = scratch.File("a.db"), b = scratch.File("b.db");
  Sweep(a, "1", 1);
  Sweep(b, "1", 1.5);
  StoreOptions options;
  options.shown = 2;
  options.fail_if = {ParseCondition("step_time_s > 20%"), ParseCondition("memory.peak_gib > +0")};
  const StoreComparison c = CompareStores(a, b, options);
  CHECK(c.joined_by == "ids");
  CHECK(c.both == 12);
  CHECK(c.both_ok == 12);
  CHECK(c.only_a == 0);
  CHECK(c.lost == 0);
  REQUIRE(c.spreads.size() == 2);
  CHECK(c.spreads[0].figure == "step_time_s");
  CHECK(c.spreads[0].points == 12);
  CHECK(c.spreads[0].rose == 9);  // not at a = 1
  CHECK(c.spreads[0].fell == 0);
  CHECK(c.spreads[0].most == doctest::Approx(0.5));
  CHECK(c.spreads[0].least == 0);
  CHECK(c.spreads[1].rose == 0);
  REQUIRE(c.rises.size() == 2);
  CHECK(c.rises[0].axis_values == std::vector<std::string>{"4", "4"});
  CHECK(c.rises[0].relative_change == doctest::Approx(0.5));
  CHECK(c.rises[1].axis_values == std::vector<std::string>{"3", "4"});
  CHECK(c.falls.empty());
  REQUIRE(c.judged.size() == 2);
  CHECK(c.judged[0].failed == 3);  // 50 % and 33 % at b = 4, 25 % at a = 4 and b = 2
  CHECK(c.judged[0].points == 12);
  CHECK(c.judged[0].axis_values == std::vector<std::string>{"4", "4"});
  CHECK(c.judged[1].failed == 0);
  CHECK(c.Failed());
  // By axis: at a = 1 nothing changes, and b = 4 doubles b = 2.
  for (const AxisEffect& effect : c.effects) {
    if (effect.path == "a" && effect.value == "1") CHECK(effect.median == 0);
    if (effect.path == "b" && effect.value == "4") CHECK(effect.median == doctest::Approx(0.25));
  }
  const Json json = StoreComparisonJson(c, "test");
  CHECK(json.Find("points")->Find("rises")->items()[0].Find("at")->Find("a")->AsInteger() == 4);
}

TEST_CASE("a sweep and itself: the same at all points") {
  const Scratch scratch;
  Sweep(scratch.File("a.db"), "1", 1);
  const StoreComparison c = CompareStores(scratch.File("a.db"), scratch.File("a.db"), {});
  CHECK(c.summary.find("the same at all") != std::string::npos);
  CHECK(c.rises.empty());
  CHECK(c.falls.empty());
}

TEST_CASE("two scenarios are joined by their axes, in whatever order these are") {
  const Scratch scratch;
  Sweep(scratch.File("a.db"), "1", 1);
  Sweep(scratch.File("b.db"), "2", 2, false, {"b=2,4,8", "a=1:3:1"});
  const StoreComparison c = CompareStores(scratch.File("a.db"), scratch.File("b.db"), {});
  CHECK(c.joined_by == "axis values");
  REQUIRE(c.changes.size() == 1);
  CHECK(c.changes[0].path == "kept");
  CHECK(c.both == 6);
  CHECK(c.only_a == 6);
  CHECK(c.only_b == 3);
  CHECK(c.spreads[0].most == doctest::Approx(2.0 / 3));
}

TEST_CASE("points that lose their result are named") {
  const Scratch scratch;
  Sweep(scratch.File("a.db"), "1", 1);
  Sweep(scratch.File("b.db"), "1", 1, true);
  const StoreComparison c = CompareStores(scratch.File("a.db"), scratch.File("b.db"), {});
  CHECK(c.lost == 2);
  CHECK(c.gained == 0);
  CHECK(c.both_ok == 10);
  REQUIRE(c.lost_points.size() == 2);
  CHECK(c.lost_points[0] == "a = 3, b = 4");
  CHECK(CompareStores(scratch.File("b.db"), scratch.File("a.db"), {}).gained == 2);
}

TEST_CASE("what cannot be joined or found is refused") {
  const Scratch scratch;
  Sweep(scratch.File("a.db"), "1", 1);
  Sweep(scratch.File("b.db"), "2", 1, false, {"a=1:2:1", "b=1,2", "c=1,2"});
  CHECK(ThrownBy([&] { CompareStores(scratch.File("a.db"), scratch.File("b.db"), {}); }).code ==
        885);
  StoreOptions options;
  options.by = "step_tim_s";
  const Diagnostic d =
      ThrownBy([&] { CompareStores(scratch.File("a.db"), scratch.File("a.db"), options); });
  CHECK(d.code == 881);
  CHECK(d.help.find("step_time_s") != std::string::npos);
  options.by = "limit";  // a text
  CHECK(ThrownBy([&] {
          CompareStores(scratch.File("a.db"), scratch.File("a.db"), options);
        }).code == 881);
  CHECK(ThrownBy([&] { CompareStores(scratch.File("a.db"), scratch.File("no.db"), {}); }).code ==
        201);
}

}  // namespace
}  // namespace aurum
