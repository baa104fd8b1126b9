#include "sim/compare/fail_if.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "tests/compare/sides.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

bool Fails(const std::string& text, double a, double b) {
  return Judge(ParseCondition(text), "x", a, b).failed;
}

TEST_CASE("percentages are of A, signed numbers are changes, others are B's own") {
  CHECK(Fails("x > 5%", 100, 105.1));
  CHECK_FALSE(Fails("x > 5%", 100, 105));
  CHECK(Fails("x >= 5 %", 100, 105));
  CHECK_FALSE(Fails("x > 5%", 100, 80));
  CHECK(Fails("x < -5%", 100, 94));
  CHECK_FALSE(Fails("x < -5%", 100, 95));
  CHECK(Fails("x > +2", 70, 72.5));
  CHECK_FALSE(Fails("x > +2", 70, 72));
  CHECK(Fails("x < -2", 70, 67));
  CHECK(Fails("x<=-2", 70, 68));
  CHECK(Fails("x > 75", 90, 76));
  CHECK_FALSE(Fails("x > 75", 90, 75));
  CHECK(Fails("x < 1e-3", 1, 9e-4));
  // A figure that was 0 and is not grew beyond any percentage; one that stays 0 did not.
  CHECK(Fails("x > 1000%", 0, 1e-9));
  CHECK_FALSE(Fails("x > 0%", 0, 0));
  // A share of a negative figure is of its size.
  CHECK(Fails("x > 5%", -10, -9));
}

TEST_CASE("what is no condition is refused by what is wrong with it") {
  const auto refused = [](const char* text) {
    const Diagnostic d = ThrownBy([&] { ParseCondition(text); });
    CHECK(d.code == 882);
    CHECK(d.help.find("--fail-if") != std::string::npos);
    return d.message;
  };
  CHECK(refused("step_time_s").find("none of") != std::string::npos);
  CHECK(refused("> 5%").find("no figure") != std::string::npos);
  CHECK(refused("step_time_s > five").find("'five' is no number") != std::string::npos);
  CHECK(refused("step_time_s > 5%%").find("no number") != std::string::npos);
  CHECK(refused("step_time_s > inf").find("no number") != std::string::npos);
  CHECK(refused("step_time_s > nan%").find("no number") != std::string::npos);
  CHECK(refused("step_time_s > +-2").find("no number") != std::string::npos);
  CHECK(refused("step_time_s >").find("no number") != std::string::npos);
  CHECK(refused("step time_s > 2").find("no name") != std::string::npos);
  CHECK(refused("step_time_s >> 2").find("no number") != std::string::npos);
  CHECK(refused("").find("none of") != std::string::npos);
}

TEST_CASE("figures are known by their path, or by its last word where that is enough") {
  const Json result =
      ResultJson(EvaluateDocument(Shipped("llava-1.6-7b-finetune-8xa100")), {}, "test");
  const NamedFigures figures = FiguresOfResult(result);
  CHECK(FindFigure(figures, "memory.peak_gib").second ==
        result.Find("memory")->Find("peak_gib")->AsNumber());
  CHECK(FindFigure(figures, "peak_gib").first == "memory.peak_gib");
  CHECK(FindFigure(figures, "fits").second == 1);
  CHECK(FindFigure(figures, "step_time_s").first ==
        "step_time_s");  // formula.step_time_s is another
  const Diagnostic typo = ThrownBy([&] { FindFigure(figures, "memory.peak_gb"); });
  CHECK(typo.code == 881);
  CHECK(typo.help.find("memory.peak_gib") != std::string::npos);
  const Diagnostic several = ThrownBy([&] { FindFigure(figures, "max_s"); });
  CHECK(several.code == 881);
  // What is no figure of the step is none here.
  for (const auto& [name, value] : figures) {
    CHECK(name.rfind("scenario", 0) != 0);
    CHECK(name != "simulation_wall_s");
    CHECK(std::isfinite(value));
  }
}

TEST_CASE("several figures of one last word are told") {
  const Json result = ParseJson(R"({"a": {"x_s": 1}, "b": {"x_s": 2}})", "r.json").root;
  const Diagnostic d = ThrownBy([&] { FindFigure(FiguresOfResult(result), "x_s"); });
  CHECK(d.code == 881);
  CHECK(d.help.find("a.x_s, b.x_s") != std::string::npos);
}

TEST_CASE("a verdict says what it compared") {
  CHECK(Judge(ParseCondition("x > 5%"), "step_time_s", 10, 11).said ==
        "step_time_s rose by 10 %: 10 → 11");
  CHECK(Judge(ParseCondition("x > +2"), "peak_gib", 10, 8).said == "peak_gib fell by 2: 10 → 8");
  CHECK(Judge(ParseCondition("x < 0.5"), "mfu", 0.6, 0.4).said == "mfu is 0.4 (0.6 in A)");
  CHECK(Judge(ParseCondition("x > 5%"), "x", 3, 3).said == "x stays 3");
}

}  // namespace
}  // namespace aurum
