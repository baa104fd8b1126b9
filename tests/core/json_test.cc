#include "sim/core/json.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/support/shared.h"

namespace aurum {
namespace {

TEST_CASE("a value remembers where it stood") {
  const JsonDocument d = ParseJson(
      "{\n  \"a\": [1, 22, -3.5e2],\n  \"b\": {\"c\": \"x\\\"y\"}, \"t\": true\n}", "f.json");
  const auto at = [&](std::string_view path) {
    const Json* value = FindPath(d.root, path);
    REQUIRE(value != nullptr);
    const SourceLocation where = d.Locate(*value, "");
    return std::to_string(where.line) + ":" + std::to_string(where.column);
  };
  CHECK(at("a") == "2:8");
  CHECK(at("a.0") == "2:9");
  CHECK(at("a.1") == "2:12");
  CHECK(at("a.2") == "2:16");
  CHECK(at("b.c") == "3:14");
  CHECK(at("/b/c") == "3:14");
  CHECK(at("t") == "3:28");
  CHECK(FindPath(d.root, "a.2")->AsNumber() == -350);
  CHECK(FindPath(d.root, "a.9") == nullptr);
}

TEST_CASE("what is not JSON is an error with a place") {
  CHECK(ThrownBy([] { ParseJson("", "f"); }).message.find("empty") != std::string::npos);
  const Diagnostic truncated = ThrownBy([] { ParseJson("{\"a\": [1, 2", "f"); });
  CHECK(truncated.code == 100);
  CHECK(truncated.message.find("ends too early") != std::string::npos);
  const Diagnostic nan = ThrownBy([] { ParseJson("{\n\"a\": NaN}", "f"); });
  CHECK(nan.code == 100);
  CHECK(nan.where.line == 2);
  CHECK(nan.help.find("NaN") != std::string::npos);
  CHECK(ThrownBy([] { ParseJson("[1e999]", "f"); }).message.find("too large") != std::string::npos);
  const Diagnostic duplicate = ThrownBy([] { ParseJson("{\"a\": 1,\n \"a\": 2}", "f"); });
  CHECK(duplicate.code == 104);
  CHECK(duplicate.where.line == 2);
  CHECK(ThrownBy([] { ParseJson(std::string(300, '['), "f"); }).code == 105);
  CHECK(ThrownBy([] { ParseJson("{} x", "f"); }).code == 100);
}

TEST_CASE("overrides set, add and refuse") {
  JsonDocument d = ParseJson("{\"plan\": {\"tp\": 1}, \"list\": [1, 2]}", "f");
  ApplyOverride(&d, "plan.tp=4");
  ApplyOverride(&d, "/plan/zero=fsdp");
  ApplyOverride(&d, "what_if.align_ratio=0.5");
  ApplyOverride(&d, "list.1=7");
  CHECK(d.root.Dump() ==
        R"({"plan":{"tp":4,"zero":"fsdp"},"list":[1,7],"what_if":{"align_ratio":0.5}})");
  CHECK(ThrownBy([&] { ApplyOverride(&d, "plan.tp.x=1"); }).code == 106);
  CHECK(ThrownBy([&] { ApplyOverride(&d, "list.5=1"); }).code == 106);
  CHECK(ThrownBy([&] { ApplyOverride(&d, "nothing"); }).code == 106);
}

TEST_CASE("numbers are written as the shortest that read back the same") {
  CHECK(Json(0.1).Dump() == "0.1");
  CHECK(Json(1e300).Dump() == "1e+300");
  CHECK(Json(std::int64_t{9007199254740993}).Dump() == "9007199254740993");
  CHECK(Json(1.0 / 0.0).Dump() == "null");
}

}  // namespace
}  // namespace aurum
