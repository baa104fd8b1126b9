#include "sim/monitor/exposition.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "sim/monitor/metrics.h"
#include "tests/monitor/exposition_parser.h"

namespace aurum {
namespace {

TEST_CASE("what is written parses back, escapes and special values included") {
  const std::string text =
      Exposition({{"a_seconds", "Line\nbreak and \\", MetricType::kGauge, {{{}, 0.25}}},
                  {"b_total",
                   "Counts.",
                   MetricType::kCounter,
                   {{{{"name", "q\"uote\\ and\nline"}}, 3}, {{{"name", "x"}, {"other", ""}}, 4}}},
                  {"c_ratio",
                   "Odd.",
                   MetricType::kGauge,
                   {{{{"k", "nan"}}, std::nan("")},
                    {{{"k", "up"}}, std::numeric_limits<double>::infinity()},
                    {{{"k", "down"}}, -std::numeric_limits<double>::infinity()}}},
                  {"empty", "None.", MetricType::kGauge, {}}});
  const ParsedExposition parsed = ParseExposition(text);
  REQUIRE(parsed.error == "");
  CHECK(parsed.families.size() == 3);
  CHECK(parsed.families.at("a_seconds").help == "Line\nbreak and \\");
  CHECK(parsed.families.at("b_total").type == "counter");
  CHECK(parsed.Value("a_seconds") == 0.25);
  CHECK(parsed.Value("b_total", {{"name", "q\"uote\\ and\nline"}}) == 3);
  CHECK(parsed.Value("b_total", {{"name", "x"}, {"other", ""}}) == 4);
  CHECK(std::isnan(parsed.Value("c_ratio", {{"k", "nan"}})));
  CHECK(parsed.Value("c_ratio", {{"k", "down"}}) < -1e300);
}

TEST_CASE("the parser of this test finds what is wrong") {
  CHECK(ParseExposition("# TYPE a gauge\na 1\n").error == "");
  CHECK(ParseExposition("# TYPE a gauge\na 1").error != "");         // no last newline
  CHECK(ParseExposition("# TYPE a gauge\na 1\na 2\n").error != "");  // twice
  CHECK(ParseExposition("a 1\n# TYPE a gauge\n").error != "");       // TYPE behind
  CHECK(ParseExposition("# TYPE a gauge\n# TYPE b gauge\nb 1\na 1\n").error != "");  // apart
  CHECK(ParseExposition("# TYPE a gauge\n1a 1\n").error != "");
  CHECK(ParseExposition("# TYPE a gauge\na{b=\"c} 1\n").error != "");
  CHECK(ParseExposition("# TYPE a gauge\na one\n").error != "");
  CHECK(ParseExposition("# TYPE a count\na 1\n").error != "");
}

TEST_CASE("a monitor's metrics are valid before, in and after the baseline") {
  Monitor monitor({});
  StepReader reader;
  for (int step = 0; step < 60; ++step) {
    const ParsedExposition parsed = ParseExposition(Exposition(MonitorMetrics(monitor, reader)));
    REQUIRE(parsed.error == "");
    CHECK(parsed.Value("aurum_monitor_steps_total") == step);
    CHECK(parsed.Value("aurum_monitor_undetermined", {{"signal", "slowdown"}}) ==
          (step <= 25 ? 1 : 0));
    const auto record =
        reader.Read("{\"step\": " + std::to_string(step) + ", \"step_time_s\": 1, \"mar\": 0.9}");
    monitor.Add(*record);
  }
}

TEST_CASE("a result's metrics are valid, in base units, and shares sum to 1") {
  InputCache cache(".");
  const Evaluation e =
      Evaluate(ReadScenario(ReadJsonFile("scenarios/qwen2.5-vl-72b-64xh100.json"), &cache),
               Level::kAnalytic);
  const std::string text = Exposition(ResultMetrics(e, "aurum 1"));
  CHECK(text == Exposition(ResultMetrics(e, "aurum 1")));
  const ParsedExposition parsed = ParseExposition(text);
  REQUIRE(parsed.error == "");
  CHECK(parsed.Value("aurum_step_time_seconds") == e.StepSeconds());
  double parts = 0, shares = 0;
  const std::string rank_class = e.program.classes[0].name;
  for (const auto& [labels, value] : parsed.families.at("aurum_step_part_seconds").samples)
    parts += labels.at("rank_class") == rank_class ? value : 0;
  for (const auto& [labels, value] : parsed.families.at("aurum_busy_ratio").samples)
    shares += labels.at("rank_class") == rank_class ? value : 0;
  CHECK(parts == doctest::Approx(e.StepSeconds()).epsilon(1e-9));
  CHECK(shares == doctest::Approx(1).epsilon(1e-9));
}

}  // namespace
}  // namespace aurum
