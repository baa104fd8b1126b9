#include "reports/text.h"

#include <doctest/doctest.h>

namespace aurum {
namespace {

TEST_CASE("three significant digits, grouped, without a negative zero") {
  CHECK(NumberText(0) == "0");
  CHECK(NumberText(0.012345) == "0.0123");
  CHECK(NumberText(12.345) == "12.3");
  CHECK(NumberText(999) == "999");
  CHECK(NumberText(1234) == "1,234");
  CHECK(NumberText(-1234567) == "-1,234,567");
  CHECK(NumberText(-123) == "-123");
  CHECK(NumberText(8192, 4) == "8,192");
  CHECK(FixedText(-0.04, 1) == "0.0");
  CHECK(FixedText(-0.06, 1) == "-0.1");
}

TEST_CASE("counts are whole and settings are short") {
  CHECK(CountText(47) == "47");
  CHECK(CountText(72000) == "72,000");
  CHECK(TickText(16) == "16");
  CHECK(TickText(14.61) == "14.6");
  CHECK(TickText(0.5) == "0.5");
  CHECK(TickText(1234.5) == "1230");
}

TEST_CASE("an interval is in the unit of its figure") {
  CHECK(SecondsIntervalText(0.95, 1.06, 1.0) == " [0.95–1.06]");
  CHECK(SecondsIntervalText(0.95, 1.06, 0.999) == " [950–1060]");
  CHECK(SignedSecondsText(0.231) == "+231 ms");
  CHECK(SignedSecondsText(-0.061) == "-61.0 ms");
  CHECK(SignedSecondsText(0) == "0 s");
}

TEST_CASE("a time is in the unit in which it is at least one") {
  CHECK(SecondsText(0) == "0 s");
  CHECK(SecondsText(2.5e-6) == "2.50 µs");
  CHECK(SecondsText(0.0125) == "12.5 ms");
  CHECK(SecondsText(1) == "1.00 s");
  CHECK(SecondsText(3600) == "3,600 s");
}

TEST_CASE("a signed percentage has its sign, and none where it rounds to zero") {
  CHECK(SignedPercentText(0.101) == "+10.1 %");
  CHECK(SignedPercentText(-0.101) == "-10.1 %");
  CHECK(SignedPercentText(0.0001) == "0.0 %");
  CHECK(PercentText(0.5, 0) == "50 %");
  // Ties as JavaScript's toFixed(), away from zero; what only looks like one is none.
  CHECK(PercentText(0.825, 0) == "83 %");
  CHECK(FixedText(-82.5, 0) == "-83");
  CHECK(FixedText(12.25, 1) == "12.3");
  CHECK(FixedText(0.15, 1) == "0.1");  // 0.1499999999999999944
  CHECK(FixedText(2.5, 0) == "3");
}

}  // namespace
}  // namespace aurum
