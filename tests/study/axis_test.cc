#include "sim/study/axis.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/shared.h"

namespace aurum {
namespace {

std::string Values(const Axis& axis) { return Json::Array(axis.values).Dump(); }
std::string Vary(const std::string& text) { return Values(ParseVary(text)); }
int VaryError(const std::string& text) {
  return ThrownBy([&] { ParseVary(text); }).code;
}
JsonDocument WithAxes(const std::string& axes) {
  return ParseJson("{\"model\": \"m\",\n\"sweep\": {\"axes\": [\n" + axes + "\n]}}", "s.json");
}
std::string Scenarios(const std::string& axis) { return Values(ReadAxes(WithAxes(axis)).at(0)); }

TEST_CASE("a list holds numbers, words, quoted strings and JSON") {
  CHECK(ParseVary("plan.tp=1,2").path == "plan.tp");
  CHECK(Vary("a=1,2,8") == "[1,2,8]");
  CHECK(Vary("a= 1 , 2.5,-3e2, +4,.5") == "[1,2.5,-300,4,0.5]");
  CHECK(Vary("a=zero1,8xh100-hgx") == R"(["zero1","8xh100-hgx"])");
  CHECK(Vary(R"(a="x,y","1",true,null)") == R"(["x,y","1",true,null])");
  CHECK(Vary(R"(a={"tp": 2, "s": "},"},[1,2])") == R"([{"tp":2,"s":"},"},[1,2]])");
  CHECK(Vary("a=full") == R"(["full"])");
  CHECK(Vary("a=16:9,4:3") == R"(["16:9","4:3"])");
  CHECK(Vary("a=tcp:host:port") == R"(["tcp:host:port"])");
  CHECK(Vary(R"(a="1:2:3")") == R"(["1:2:3"])");
  // 2^53 + 1 is not a double.
  CHECK(Vary("a=9007199254740993") == "[9007199254740993]");
}

TEST_CASE("numbers without a fraction are one value however they are spelled") {
  CHECK(Vary("a=8.0") == "[8]");
  CHECK(Vary("a=1e3") == "[1000]");
  CHECK(Vary("a=-0.0") == "[0]");
  CHECK(VaryError("a=8,8.0") == 707);
  CHECK(Scenarios(R"({"path": "a", "values": [1.0, 2.5]})") == "[1,2.5]");
}

TEST_CASE("a range adds in decimal and reaches its end") {
  CHECK(Vary("a=1:4:1") == "[1,2,3,4]");
  CHECK(Vary("a=0:1:0.1") == "[0,0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9,1]");
  CHECK(Vary("a=-0.2:0.2:0.1") == "[-0.2,-0.1,0,0.1,0.2]");
  CHECK(Vary("a=1:2:0.3") == "[1,1.3,1.6,1.9]");
  CHECK(Vary("a=8:2:-3") == "[8,5,2]");
  CHECK(Vary("a=1e9:3e9:1e9") == "[1000000000,2000000000,3000000000]");
  CHECK(Vary("a=5:5:1") == "[5]");
  // Too many digits for exact arithmetic: the end is still reached.
  CHECK(ParseVary("a=0.1234567890123456789:0.2234567890123456789:0.1").values.size() == 2);
  CHECK(ParseVary("a=1e-300:3e-300:1e-300").values.size() == 3);
}

TEST_CASE("a factor multiplies exactly and reaches its end") {
  CHECK(Vary("a=1:64:*2") == "[1,2,4,8,16,32,64]");
  CHECK(Vary("a=1:1099511627776:*1048576") == "[1,1048576,1099511627776]");
  CHECK(Vary("a=0.001:1:*10") == "[0.001,0.01,0.1,1]");
  CHECK(Vary("a=1:1.5:*1.1") == "[1,1.1,1.21,1.331,1.4641]");
  CHECK(Vary("a=3:20:*2") == "[3,6,12]");
}

TEST_CASE("what --vary cannot mean") {
  CHECK(VaryError("plan.tp") == 701);
  CHECK(VaryError("=1") == 701);
  CHECK(VaryError("a..b=1") == 701);
  CHECK(VaryError("sweep.axes=1") == 701);
  CHECK(VaryError("a\x01=1") == 701);
  CHECK(VaryError("a=") == 702);
  CHECK(VaryError("a=  ") == 702);
  CHECK(VaryError("a=1,,2") == 702);
  CHECK(VaryError("a=1,") == 702);
  CHECK(VaryError("a=[1,2") == 701);
  CHECK(VaryError("a=\"x") == 701);
  CHECK(VaryError("a={\"x\": }") == 701);
  CHECK(VaryError("a=\xff\xfe") == 701);
  CHECK(VaryError("a=1:10") == 701);
  CHECK(VaryError("a=1:10:2:3") == 701);
  CHECK(VaryError("a=1:x:2") == 701);
  CHECK(VaryError("a=1:4:1,8") == 701);
  CHECK(VaryError("a=1:4:0") == 703);
  CHECK(VaryError("a=1:4:-1") == 703);
  CHECK(VaryError("a=4:1:1") == 703);
  CHECK(VaryError("a=1:4:*1") == 703);
  CHECK(VaryError("a=1:4:*0.5") == 703);
  CHECK(VaryError("a=0:4:*2") == 703);
  CHECK(VaryError("a=8:4:*2") == 703);
  CHECK(VaryError("a=nan") == 704);
  CHECK(VaryError("a=1,-inf") == 704);
  CHECK(VaryError("a=NaN:1:1") == 704);
  CHECK(VaryError("a=1:inf:*2") == 704);
  CHECK(VaryError("a=1e999") == 704);
  CHECK(VaryError("a=0:1:1e-9") == 705);
  CHECK(VaryError("a=1:1e300:*1.0000001") == 705);
  CHECK(VaryError("a=0:1e18:1e-300") == 705);
  CHECK(VaryError("a=1,2,1") == 707);
  const Diagnostic away = ThrownBy([] { ParseVary("a=4:1:1"); });
  CHECK(away.help.find("negative step") != std::string::npos);
}

TEST_CASE("a range to draw from, where a design draws") {
  const AxisRules rules = {.ranges = true, .repeats = false, .product = false};
  const Axis log = ParseVary("a=0.5:8:log", rules);
  CHECK(log.values.empty());
  REQUIRE(log.range);
  CHECK(log.range->from == 0.5);
  CHECK(log.range->to == 8);
  CHECK(log.range->log);
  CHECK(!log.range->integer);
  CHECK(ParseVary("a=1:8:int:log", rules).range->integer);
  CHECK(!ParseVary("a=1:8", rules).range->log);
  CHECK(ParseVary("a=1:8:2", rules).values.size() == 4);  // a step makes a list
  const auto error = [&](const std::string& text) {
    return ThrownBy([&] { ParseVary(text, rules); }).code;
  };
  CHECK(error("a=8:1") == 703);
  CHECK(error("a=1:1") == 703);
  CHECK(error("a=0:1:log") == 703);
  CHECK(error("a=0.5:2:int") == 703);
  CHECK(error("a=1:8:log:log") == 701);
  CHECK(error("a=1:8:cubic") == 701);
  CHECK(error("a=1:nan:log") == 704);
  CHECK(VaryError("a=1:8:log") == 701);
}

TEST_CASE("axes of a scenario") {
  CHECK(ReadAxes(ParseJson("{}", "s")).empty());
  CHECK(Scenarios(R"({"path": "a", "values": ["x", {"b": 1.0}]})") == R"(["x",{"b":1.0}])");
  CHECK(Scenarios(R"({"path": "a", "from": 0.1, "to": 0.5, "count": 5})") ==
        "[0.1,0.2,0.3,0.4,0.5]");
  CHECK(Scenarios(R"({"path": "a", "from": -0.3, "to": 0.3, "count": 7})") ==
        "[-0.3,-0.2,-0.1,0,0.1,0.2,0.3]");
  CHECK(Scenarios(R"({"path": "a", "from": 8, "to": 1, "count": 8, "scale": "linear"})") ==
        "[8,7,6,5,4,3,2,1]");
  CHECK(Scenarios(R"({"path": "a", "from": 1, "to": 1024, "count": 11, "scale": "log"})") ==
        "[1,2,4,8,16,32,64,128,256,512,1024]");
  // sqrt(1.23456789) = 1.11111110605...; ends keep all their digits, what lies between has six.
  CHECK(Scenarios(R"({"path": "a", "from": 1, "to": 1.23456789, "count": 3, "scale": "log"})") ==
        "[1,1.11111,1.23456789]");
}

TEST_CASE("errors in the axes of a scenario point at their place") {
  const auto error = [](const std::string& axes) {
    return ThrownBy([&] { ReadAxes(WithAxes(axes)); });
  };
  const Diagnostic unknown = error(R"({"path": "a", "value": [1]})");
  CHECK(unknown.code == 701);
  CHECK(error(R"({"path": "a", "values": [1], "valeus": 1})").code == 101);
  CHECK(error(R"({"values": [1]})").code == 102);
  CHECK(error(R"({"path": "a", "values": 1})").code == 103);
  CHECK(error(R"({"path": "a", "from": 1, "to": "x", "count": 2})").code == 103);
  CHECK(error(R"({"path": "a", "from": 1, "to": 2, "count": 1})").code == 107);
  CHECK(error(R"({"path": "a", "from": 1, "to": 2, "count": 3, "scale": "cubic"})").code == 108);
  const Diagnostic endless = error(R"({"path": "a", "from": 1, "to": 2})");
  CHECK(endless.code == 701);
  CHECK(endless.help.find("count") != std::string::npos);
  CHECK(error(R"({"path": "a", "values": [1], "from": 1})").code == 701);
  CHECK(error(R"({"path": "", "values": [1]})").code == 701);
  CHECK(error(R"({"path": "a", "values": []})").code == 702);
  const Diagnostic negative =
      error(R"({"path": "a", "from": 0, "to": 2, "count": 3, "scale": "log"})");
  CHECK(negative.code == 703);
  CHECK(negative.where.pointer == "/sweep/axes/0/from");
  CHECK(error(R"({"path": "a", "from": 1, "to": 2, "count": 10000001})").code == 705);
  CHECK(error(R"({"path": "a", "from": 1, "to": 1.00001, "count": 1000, "scale": "log"})").code ==
        707);
  const Diagnostic many = error(
      R"({"path": "a", "from": 1, "to": 2, "count": 4000}, {"path": "b", "from": 1, "to": 2, "count": 2501})");
  CHECK(many.code == 705);
  CHECK(many.message.find("4000 × 2501") != std::string::npos);
  CHECK(many.where.pointer == "/sweep/axes");
  const Diagnostic twice =
      error("{\"path\": \"plan.tp\", \"values\": [1]},\n{\"path\": \"/plan/tp\", \"values\": [2]}");
  CHECK(twice.code == 706);
  CHECK(twice.where.line == 4);
  CHECK(error(R"({"path": "plan", "values": [1]}, {"path": "plan.tp", "values": [2]})").code ==
        706);
  CHECK(ThrownBy([] { ReadAxes(ParseJson(R"({"sweep": {"axis": []}})", "s")); }).code == 101);
  CHECK(ThrownBy([] { ReadAxes(ParseJson(R"({"sweep": [1]})", "s")); }).code == 103);
}

TEST_CASE("--vary replaces the scenario's axis of its path and adds others") {
  const JsonDocument scenario =
      WithAxes(R"({"path": "a.b", "values": [1, 2]}, {"path": "c", "values": [3]})");
  const std::vector<Axis> axes = SweepAxes(scenario, {"d=7,8", "/a/b=5"});
  REQUIRE(axes.size() == 3);
  CHECK(Values(axes[0]) == "[5]");
  CHECK(axes[1].path == "c");
  CHECK(Values(axes[2]) == "[7,8]");
  CHECK(CheckAxes(axes) == 2);
  CHECK(ThrownBy([&] { SweepAxes(scenario, {"d=1", "/d=2"}); }).code == 706);
  CHECK(ThrownBy([&] { SweepAxes(scenario, {"a.b.c=1"}); }).code == 706);
  CHECK(ThrownBy([&] { SweepAxes(scenario, {"x=1:10000:1", "y=1:10000:1"}); }).code == 705);
}

TEST_CASE("axes survive being written and read") {
  const std::vector<Axis> axes = {ParseVary("a=0:1:0.1"),
                                  ParseVary(R"(/b~1c/d="x",{"y": [1.5]},null,true)")};
  const JsonDocument again =
      ParseJson(R"({"sweep": {"axes": )" + AxesToJson(axes).Dump() + "}}", "again");
  CHECK(AxesToJson(ReadAxes(again)).Dump() == AxesToJson(axes).Dump());
}

}  // namespace
}  // namespace aurum
