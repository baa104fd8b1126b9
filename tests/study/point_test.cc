#include "sim/study/point.h"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "sim/core/object_reader.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

const char* kText = R"({"model": "m", "plan": {"tp": 1, "list": [1, 2]}, "sweep": {"axes": []}})";

TEST_CASE("points are row-major and the cursor sets exactly their values") {
  const JsonDocument scenario = ParseJson(kText, "s.json");
  const std::vector<Axis> axes = {ParseVary("plan.tp=1,2"), ParseVary("made.up=x,y,z"),
                                  ParseVary("/plan/list/1=7,8")};
  CHECK(CheckAxes(axes) == 12);
  PointCursor cursor(scenario, axes);
  cursor.MoveTo(0);
  CHECK(cursor.document().root.Dump() ==
        R"({"model":"m","plan":{"tp":1,"list":[1,7]},"made":{"up":"x"}})");
  cursor.MoveTo(11);
  CHECK(cursor.document().root.Dump() ==
        R"({"model":"m","plan":{"tp":2,"list":[1,8]},"made":{"up":"z"}})");
  cursor.MoveTo(3);
  CHECK(cursor.document().root.Dump() ==
        R"({"model":"m","plan":{"tp":1,"list":[1,8]},"made":{"up":"y"}})");
  CHECK(Design(axes).Rows(3) == std::vector<std::size_t>{0, 1, 1});
  CHECK(scenario.root.Dump() == ParseJson(kText, "").root.Dump());
}

TEST_CASE("an error at a point names the axis and its value") {
  const JsonDocument scenario = ParseJson(kText, "s.json");
  const std::vector<Axis> axes = {ParseVary("plan.tp=1,two")};
  PointCursor cursor(scenario, axes);
  cursor.MoveTo(1);
  const Diagnostic d = ThrownBy([&] {
    ObjectReader reader(cursor.document(), cursor.document().root, "");
    reader.Object("plan").Integer("tp", 1, 8);
  });
  CHECK(d.where.file == "axis plan.tp = \"two\"");
  CHECK(d.where.pointer == "/plan/tp");
}

TEST_CASE("a path through a number cannot be set") {
  const JsonDocument scenario = ParseJson(kText, "s.json");
  const std::vector<Axis> axes = {ParseVary("model.size=1")};
  CHECK(ThrownBy([&] { PointCursor cursor(scenario, axes); }).code == 106);
}

TEST_CASE("an id is of the content, not of the ordinal or the order of the axes") {
  const JsonDocument scenario = ParseJson(kText, "s.json");
  const std::vector<Axis> axes = {ParseVary("a=1,2,3"), ParseVary("b=x,y")};
  const std::vector<Axis> larger = {ParseVary("/b=w,x,y,z"), ParseVary("a=0:3:1")};
  // a = 2, b = y
  const Hash128 id = PointId(scenario, axes, 3);
  CHECK(PointId(scenario, larger, 2 * 4 + 2) == id);
  // The sweep section and white space play no part; every other value does.
  CHECK(PointId(ParseJson(R"({"model":"m","plan":{"tp":1,"list":[1,2]}})", "other"), axes, 3) ==
        id);
  CHECK(!(PointId(ParseJson(R"({"model":"n","plan":{"tp":1,"list":[1,2]}})", "s"), axes, 3) == id));
  std::set<std::string> ids;
  for (std::size_t i = 0; i < 6; ++i) ids.insert(PointId(scenario, axes, i).Hex());
  CHECK(ids.size() == 6);
  // A number and the word that looks like it are different points.
  CHECK(!(PointId(scenario, Design({ParseVary("a=1")}), 0) ==
          PointId(scenario, Design({ParseVary("a=\"1\"")}), 0)));
}

}  // namespace
}  // namespace aurum
