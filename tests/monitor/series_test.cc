#include "sim/monitor/series.h"

#include <doctest/doctest.h>

#include "sim/plan/scenario_file.h"
#include "sim/study/evaluate.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

constexpr const char* kFile = "scenarios/series/a18-alignment-monitor.json";
constexpr const char* kScenario = "scenarios/articles/a18-alignment-monitor.json";

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

// A series of one fault that is one assignment, of a shipped scenario.
Series OneFault(const std::string& scenario, const std::string& path, const std::string& value,
                InputCache* cache) {
  return ReadSeries(
      ParseJson(
          R"({"schema": "aurum.series/1", "scenario": ")" + scenario +
              R"(", "steps": 100, "fault_step": 50, "seeds": 4, "cases": [{"name": "fault", )" +
              R"("set": {")" + path + R"(": )" + value + "}}]}",
          "series.json"),
      ".", cache);
}

double Evaluated(const std::string& scenario, const std::vector<std::string>& set,
                 InputCache* cache) {
  JsonDocument document = ReadJsonFile(scenario);
  for (const std::string& assignment : set) ApplyOverride(&document, assignment);
  return Evaluate(ReadScenario(document, cache), Level::kAnalytic).StepSeconds();
}

TEST_CASE("a loader that does not keep up is a fault: the step is Evaluate's, and it is told") {
  InputCache cache(".");
  const std::string file = "scenarios/articles/b18-loader.json";
  const Series series = OneFault(file, "workload.loader.decode_ms_per_megapixel", "800", &cache);
  SeriesSimulator simulator(series, &cache);
  const double healthy = simulator.StepSeconds(-1, -1, 1), faulty = simulator.StepSeconds(0, -1, 1);
  CHECK(healthy == Evaluated(file, {"what_if.align_ratio=1"}, &cache));
  CHECK(faulty ==
        Evaluated(file, {"what_if.align_ratio=1", "workload.loader.decode_ms_per_megapixel=800"},
                  &cache));
  CHECK(faulty > 1.3 * healthy);
  // 64 samples of 1920 · 1080 pixels, 16 workers: 6.64 s of decoding, which no step can hide.
  CHECK(faulty > 6.6);
  const std::vector<CaseScore> scores = ScoreSeries(series, &cache);
  const RuleScore& ours = scores[1].by_watcher[static_cast<std::size_t>(WatchedBy::kOurs)];
  CHECK(ours.detected_share == doctest::Approx(1));
  CHECK(ours.mean_delay_steps < 8);
  CHECK(ours.false_step_share == 0);
}

TEST_CASE("drawn samples and faults during a step are as Evaluate has them") {
  InputCache cache(".");
  const std::string file = "scenarios/llava-1.6-7b-mixture-8xa100.json";
  const Series drawn = OneFault(file, "workload.global_batch_size", "256", &cache);
  SeriesSimulator simulator(drawn, &cache);
  CHECK(simulator.StepSeconds(-1, -1, 1) == Evaluated(file, {"what_if.align_ratio=1"}, &cache));
  const Series during = OneFault(
      kScenario, "faults",
      R"([{"nics": ["node1/nic2"], "factor": 0.1, "from_s": 0.1, "until_s": 0.2}])", &cache);
  CHECK(ThrownBy([&] { SeriesSimulator(during, &cache).StepSeconds(0, -1, 1); }).code == 354);
}

TEST_CASE("what a fault hardly costs cannot be regained") {
  InputCache cache(".");
  Series series = ReadSeries(ReadJsonFile(kFile), ".", &cache);
  series.seeds = 1;
  series.noise = {0, 0, 0, 0, 1, 0};
  for (const CaseScore& score : ScoreSeries(series, &cache)) {
    CAPTURE(score.name);
    for (const ActionEffect& effect : score.actions) {
      if (score.faulty_s - score.healthy_s < 0.005 * score.healthy_s) {
        CHECK_FALSE(effect.regained_share);
      } else {
        REQUIRE(effect.regained_share);
        CHECK(*effect.regained_share == doctest::Approx((score.faulty_s - effect.step_s) /
                                                        (score.faulty_s - score.healthy_s)));
      }
    }
    if (score.name == "alignment falls") CHECK_FALSE(score.actions[0].regained_share);
    if (score.name == "slow GPU") CHECK(score.actions[0].regained_share);
  }
}

TEST_CASE("a plain scenario gets the cases that it can have") {
  InputCache cache(".");
  const Series one = ReadSeries(ReadJsonFile("scenarios/llama-2-7b-1x4090.json"), ".", &cache);
  CHECK(one.cases.size() == 2);  // one GPU, no network, no images
  const Series many =
      ReadSeries(ReadJsonFile("scenarios/qwen2.5-vl-72b-64xh100.json"), ".", &cache);
  CHECK(many.cases.size() == 4);
  const Series loader = ReadSeries(ReadJsonFile("scenarios/articles/b18-loader.json"), ".", &cache);
  bool storage = false;
  for (const SeriesCase& each : loader.cases) storage = storage || each.name == "slow storage";
  CHECK(storage);
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
