#include "sim/study/cost.h"

#include <doctest/doctest.h>

#include "sim/study/budget.h"
#include "tests/plan/space.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

InputCache& Cache() {
  static InputCache cache(".");
  return cache;
}
Scenario Llava(const std::vector<std::string>& changes = {}) {
  return ReadScenario(Shipped("llava-1.6-7b-finetune-8xa100", changes), &Cache());
}

TEST_CASE("an hour of eight GPUs is eight GPU-hours, and is paid by the hour") {
  const RunCost cost = CostOf(Llava({R"(prices={"gpu_hour": 1.5, "currency": "EUR"})"}), 3600);
  CHECK(cost.gpu_hours == doctest::Approx(8));
  CHECK(cost.money_known);
  CHECK(cost.money == doctest::Approx(12));
}

TEST_CASE("energy is every device at its limit, and is paid by the kWh where that has a price") {
  // An A100-SXM4 80 GB draws at most 400 W (NVIDIA's datasheet): eight of them for an hour, 3.2 kWh.
  const Scenario told = Llava({R"(prices={"gpu_hour": 1.5, "kwh": 0.25})"});
  const RunCost cost = CostOf(told, 3600);
  CHECK(cost.energy_known);
  CHECK(cost.energy_kwh == doctest::Approx(3.2));
  CHECK(cost.money == doctest::Approx(8 * 1.5 + 3.2 * 0.25));

  Scenario untold = told;
  auto silent = std::make_shared<Profile>(*told.profile);
  silent->power_limit_w = 0;
  untold.profile = silent;
  const RunCost unknown = CostOf(untold, 3600);
  CHECK_FALSE(unknown.energy_known);
  CHECK_FALSE(unknown.money_known);  // a part of the bill is missing
  untold.prices->kwh = 0;            // now none is
  CHECK(CostOf(untold, 3600).money == doctest::Approx(12));
}

TEST_CASE("without prices there is no money, and GPU-hours and energy all the same") {
  const RunCost cost = CostOf(Llava(), 1800);
  CHECK_FALSE(cost.money_known);
  CHECK(cost.money == 0);
  CHECK(cost.gpu_hours == doctest::Approx(4));
  CHECK(cost.energy_kwh == doctest::Approx(1.6));
}

TEST_CASE("the result tells the cost of a step and of the target, and agrees with the budget") {
  const Evaluation e = EvaluateDocument(
      Shipped("llava-1.6-7b-finetune-8xa100",
              {R"(prices={"gpu_hour": 2, "kwh": 0.5, "currency": "CHF"})", "target.steps=5000",
               "target.steps_factor=0.5", "budget.energy_kwh=1000"}));
  const Json json = ResultJson(e, {}, "test");
  const Json& cost = *json.Find("cost");
  const Json& step = *cost.Find("step");
  const Json& target = *cost.Find("target");
  CHECK(step.Find("gpu_hours")->AsNumber() == doctest::Approx(8 * e.StepSeconds() / 3600));
  for (const char* key : {"gpu_hours", "energy_kwh", "money"}) {
    CHECK(target.Find(key)->AsNumber() == doctest::Approx(2500 * step.Find(key)->AsNumber()));
  }
  CHECK(target.Find("energy_kwh")->AsNumber() == doctest::Approx(JudgeBudget(e).front().used));
  CHECK(step.Find("currency")->AsString() == "CHF");
  CHECK(step.Find("money")->AsNumber() ==
        doctest::Approx(2 * step.Find("gpu_hours")->AsNumber() +
                        0.5 * step.Find("energy_kwh")->AsNumber()));
}

TEST_CASE("a result without prices and target has no cost") {
  const Evaluation e = EvaluateDocument(Shipped("llava-1.6-7b-finetune-8xa100"));
  CHECK(ResultJson(e, {}, "test").Find("cost") == nullptr);
}

}  // namespace
}  // namespace aurum
