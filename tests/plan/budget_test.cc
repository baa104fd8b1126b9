#include "sim/study/budget.h"

#include <doctest/doctest.h>

#include "sim/core/units.h"
#include "tests/support/scenario.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

constexpr const char* kFourCards = "articles/b1-four-gpu-budget";

std::vector<BudgetLine> Lines(const std::vector<std::string>& changes) {
  return JudgeBudget(EvaluateDocument(Shipped(kFourCards, changes)));
}

TEST_CASE("a budget is held against what the simulation uses") {
  const Evaluation e = EvaluateDocument(Shipped(kFourCards, {"target.steps=1000"}));
  const std::vector<BudgetLine> lines = JudgeBudget(e);
  REQUIRE(lines.size() == 5);
  CHECK(lines[0].used == 4);
  CHECK(lines[1].used == e.memory.Heaviest().peak_bytes / kGiB);
  CHECK(lines[2].used == e.StepSeconds());
  CHECK(lines[3].used == doctest::Approx(1000 * e.StepSeconds() / 3600));
  // Four cards of 450 W.
  CHECK(lines[4].used == doctest::Approx(4 * 0.45 * lines[3].used));
  CHECK(lines[4].basis.find("at most") != std::string::npos);
}

TEST_CASE("each item turns at its own limit") {
  const auto exceeded = [](const std::string& budget) {
    const std::vector<BudgetLine> lines = Lines({"budget=" + budget});
    REQUIRE(lines.size() == 1);
    CHECK(Exceeded(lines) == lines[0].exceeded);
    CHECK((DescribeExceeded(lines).find(lines[0].item) == 0) == lines[0].exceeded);
    return lines[0].exceeded;
  };
  CHECK(!exceeded(R"({"gpus":4})"));
  CHECK(exceeded(R"({"gpus":3})"));
  CHECK(!exceeded(R"({"device_gib":24})"));
  CHECK(exceeded(R"({"device_gib":4})"));
  CHECK(exceeded(R"({"step_s":0.01})"));
  CHECK(!exceeded(R"({"hours":1e6})"));
  CHECK(exceeded(R"({"hours":1e-3})"));
  CHECK(exceeded(R"({"energy_kwh":1e-3})"));
}

TEST_CASE("a power limit that was lowered draws less, and takes longer") {
  const Evaluation full = EvaluateDocument(Shipped(kFourCards, {}));
  JsonDocument cluster = OpenCluster("4x4090-pcie", ".");
  ApplyOverride(&cluster, "gpu.power_limit_w=300");
  ApplyOverride(&cluster, "name=slow");
  InputCache cache(".");
  cache.AddCluster("slow", cluster);
  const Evaluation slow =
      Evaluate(ReadScenario(Shipped(kFourCards, {"cluster=slow"}), &cache), Level::kAnalytic);
  CHECK(DeviceWatts(slow.scenario) == 1200);
  CHECK(DeviceWatts(full.scenario) == 1800);
  CHECK(slow.StepSeconds() > full.StepSeconds());
  CHECK(JudgeBudget(slow)[4].used < JudgeBudget(full)[4].used);
}

TEST_CASE("hours without steps are no question, and no budget is no verdict") {
  const Diagnostic error = ThrownBy([] { Lines({"target=null"}); });
  CHECK(error.code == 655);
  CHECK(error.where.pointer == "/budget/hours");
  CHECK(Lines({"budget=null"}).empty());
}

}  // namespace
}  // namespace aurum
