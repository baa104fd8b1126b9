#include "sim/monitor/series.h"

#include <doctest/doctest.h>

#include "tests/support/shared.h"

namespace aurum {
namespace {

constexpr const char* kFile = "scenarios/series/a18-alignment-monitor.json";

TEST_CASE(
    "faults are told within steps and healthy steps are not; the article's rules do neither") {
  InputCache cache(".");
  Series series = ReadSeries(ReadJsonFile(kFile), ".", &cache);
  series.seeds = 10;
  const std::vector<CaseScore> scores = ScoreSeries(series, &cache);
  REQUIRE(scores.size() == 5);
  for (const CaseScore& score : scores) {
    CAPTURE(score.name);
    const RuleScore& code = score.by_watcher[static_cast<std::size_t>(WatchedBy::kArticleCode)];
    const RuleScore& ours = score.by_watcher[static_cast<std::size_t>(WatchedBy::kOurs)];
    // Independent noise: three windows of four have |r| < 0.65.
    CHECK(code.false_step_share > 0.6);
    CHECK(code.false_step_share < 0.9);
    CHECK(ours.false_step_share == 0);
    if (score.name == "healthy") {
      CHECK(ours.fault_step_share == 0);
      continue;
    }
    CHECK(ours.detected_share == doctest::Approx(1));
    // A step change is told by the median and the three in a row, a curve when it has fallen so far.
    CHECK(ours.mean_delay_steps < (score.name == "alignment falls" ? 25 : 8));
    // Tokens that move are hidden behind seconds of kernels: MAR alone tells, and no step time would.
    if (score.name == "alignment falls") {
      CHECK(score.faulty_s < 1.01 * score.healthy_s);
    } else {
      CHECK(score.faulty_s > 1.2 * score.healthy_s);
    }
  }
}

TEST_CASE("steps of a series are the simulator's, MAR follows its curve, and seeds repeat") {
  InputCache cache(".");
  Series series = ReadSeries(ReadJsonFile(kFile), ".", &cache);
  SeriesSimulator simulator(series, &cache);
  CHECK(simulator.MarAt(2, series.fault_step - 1) == 0.95);
  CHECK(simulator.MarAt(2, series.fault_step + 20) == doctest::Approx(0.725));
  CHECK(simulator.MarAt(2, series.steps - 1) == 0.5);
  CHECK(simulator.StepSeconds(-1, -1, 0.3) >= simulator.StepSeconds(-1, -1, 0.9));
  CHECK(simulator.StepSeconds(0, -1, 0.95) > 1.2 * simulator.StepSeconds(-1, -1, 0.95));
  const StepRecord a = simulator.Step(0, 3, 130), b = simulator.Step(0, 3, 130);
  CHECK(StepLine(a) == StepLine(b));
  CHECK(StepLine(a) != StepLine(simulator.Step(0, 4, 130)));
  // Without noise a step is the simulated one.
  series.noise = {0, 0, 0, 0, 1, 0};
  SeriesSimulator still(series, &cache);
  CHECK(*still.Step(0, 3, 130).step_time_s == doctest::Approx(still.StepSeconds(0, -1, 0.95)));
  CHECK(*still.Step(0, 3, 20).step_time_s == doctest::Approx(still.StepSeconds(-1, -1, 0.95)));
}

TEST_CASE("actions move the step as what they take away: fewer images are less work") {
  InputCache cache(".");
  Series series = ReadSeries(ReadJsonFile(kFile), ".", &cache);
  SeriesSimulator simulator(series, &cache);
  for (int which = 0; which < 4; ++which) {
    const double faulty = simulator.StepSeconds(which, -1, 0.5);
    const double lower = simulator.StepSeconds(which, 0, 0.5);
    const double single = simulator.StepSeconds(which, 2, 0.5);
    CHECK(lower < faulty);
    CHECK(single < lower);
  }
}

TEST_CASE("a plain scenario gets the cases that it can have") {
  InputCache cache(".");
  const Series one = ReadSeries(ReadJsonFile("scenarios/llama-2-7b-1x4090.json"), ".", &cache);
  CHECK(one.cases.size() == 2);  // one GPU, no network, no images
  const Series many =
      ReadSeries(ReadJsonFile("scenarios/qwen2.5-vl-72b-64xh100.json"), ".", &cache);
  CHECK(many.cases.size() == 4);
}

TEST_CASE("a series that tests nothing is refused, with the place") {
  InputCache cache(".");
  const auto code = [&](const std::string& set) {
    JsonDocument document = ReadJsonFile(kFile);
    ApplyOverride(&document, set);
    return ThrownBy([&] { ReadSeries(document, ".", &cache); }).code;
  };
  CHECK(code("cases=[]") == 785);
  CHECK(code("cases=[{\"name\": \"nothing\"}]") == 785);
  CHECK(code("cases=[{\"name\": \"curve\", \"mar\": [[3, 0.5], [1, 0.2]]}]") == 785);
  CHECK(code("fault_step=10") == 785);
  CHECK(code("fault_step=240") == 785);
  CHECK(code("scenario=none.json") == 201);
  CHECK(code("actions=[{\"action\": \"pray\"}]") == 108);
}

}  // namespace
}  // namespace aurum
