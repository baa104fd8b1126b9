#include "sim/study/phases.h"

#include <doctest/doctest.h>

#include "tests/support/scenario.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

PhasesResult PhasesOf(const std::string& name, const std::vector<std::string>& changes = {}) {
  InputCache cache(".");
  return RunPhases(Shipped(name, changes), &cache, Level::kAnalytic);
}

TEST_CASE("phases sum to the whole, each as its own scenario") {
  const PhasesResult curriculum = PhasesOf("articles/b15-curriculum");
  REQUIRE(curriculum.phases.size() == 3);
  double total = 0;
  for (const PhaseResult& phase : curriculum.phases) total += phase.steps * phase.step_s;
  CHECK(curriculum.total_s == doctest::Approx(total + curriculum.reshard_s));
  CHECK(curriculum.phases[0].step_s < curriculum.phases[1].step_s);
  CHECK(curriculum.phases[1].step_s < curriculum.phases[2].step_s);
  CHECK(curriculum.phases[0].idle == std::vector<std::string>{"audio", "audio_connector"});
  CHECK(curriculum.phases[2].idle.empty());
  const Evaluation last = EvaluateDocument(Shipped("articles/b15-curriculum"));
  CHECK(curriculum.phases[2].step_s == last.StepSeconds());
}

TEST_CASE("a plan that lays nothing elsewhere moves nothing, another moves what it must") {
  // FSDP shards over cp · dp: other degrees of context parallelism leave every shard where it is.
  const PhasesResult ring = PhasesOf("articles/a2-sharding-by-batch-mix");
  CHECK(ring.switches == 0);
  CHECK(ring.phases[1].entries == 1000);
  const std::vector<std::string> tensor = {"stack=megatron-core", "plan.sharding=zero1",
                                           R"(/plan/backbone={"tp": 4})",
                                           R"(/phases/1/set/plan.backbone={"tp": 1})"};
  const PhasesResult moved = PhasesOf("articles/a2-sharding-by-batch-mix", tensor);
  CHECK(moved.switches == 1999);
  // From a quarter of the backbone to all of it: three quarters of the weights come to every GPU.
  const Evaluation e = EvaluateDocument(Shipped("articles/a2-sharding-by-batch-mix"));
  const auto weights = 2.0 * static_cast<double>(ModuleParameters(e.scenario.model->Backbone()));
  CHECK(moved.phases[1].reshard.busiest_bytes > 0.75 * weights);
  CHECK(moved.phases[1].reshard.busiest_bytes < 0.75 * weights + 12.0 / 2 * weights);
  CHECK(moved.phases[1].reshard.seconds > 0);
  CHECK(moved.total_s - moved.reshard_s ==
        doctest::Approx(moved.phases[0].steps * moved.phases[0].step_s +
                        moved.phases[1].steps * moved.phases[1].step_s));
}

TEST_CASE("going back and forth moves what lies elsewhere, and staying moves nothing") {
  const Evaluation a = EvaluateDocument(Shipped("gpt-3-175b-64xa100"));
  const Evaluation b =
      EvaluateDocument(Shipped("gpt-3-175b-64xa100", {R"(plan.backbone={"tp": 8, "pp": 4})"}));
  CHECK(ReshardBetween(a.scenario, a.program, a.scenario, a.program).total_bytes == 0);
  const Reshard there = ReshardBetween(a.scenario, a.program, b.scenario, b.program);
  CHECK(there.total_bytes > 0);
  CHECK(there.busiest_bytes * 64 >= there.total_bytes);
}

TEST_CASE("passes that only label take a forward's time and keep nothing") {
  const std::vector<std::string> forward = {"workload.task=forward", "phases=null"};
  const Evaluation label = EvaluateDocument(Shipped("articles/b14-pseudo-labels", forward));
  const Evaluation learn = EvaluateDocument(Shipped("articles/b14-pseudo-labels"));
  CHECK(label.StepSeconds() < learn.StepSeconds() / 2.5);
  CHECK(label.memory.Heaviest().peak_bytes < learn.memory.Heaviest().peak_bytes / 2);
  CHECK(label.Time().optimizer_s == 0);
  const PhasesResult round = PhasesOf("articles/b14-pseudo-labels");
  const PhasesResult more = PhasesOf("articles/b14-pseudo-labels", {"/phases/0/steps=1000"});
  CHECK(more.total_s - round.total_s == doctest::Approx(500 * round.phases[0].step_s));
}

TEST_CASE("phases that cannot be are refused with their name") {
  const auto thrown = [](const std::vector<std::string>& changes) {
    return ThrownBy([&] { PhasesOf("articles/b15-curriculum", changes); });
  };
  CHECK(thrown({R"(/phases/0/set={"model": "llava-1.6-7b"})"}).code == 771);
  CHECK(thrown({R"(/phases/0={"name": "x"})"}).code == 102);
  const Diagnostic inside = thrown({R"(/phases/1/set={"workload.text_tokens": -1})"});
  CHECK(inside.code == 107);
  CHECK(inside.message.find("core: and audio") != std::string::npos);
}

TEST_CASE(
    "a budget bounds the worst phase and the time of all, and no phases are a plain scenario") {
  const PhasesResult within = PhasesOf("articles/b15-curriculum",
                                       {R"(budget={"hours": 11, "device_gib": 79, "step_s": 6})"});
  REQUIRE(within.budget.size() == 3);
  CHECK_FALSE(Exceeded(within.budget));
  for (const BudgetLine& line : within.budget) {
    if (line.item == "hours") CHECK(line.used == doctest::Approx(within.total_s / 3600));
    if (line.item == "step_s") CHECK(line.used == within.phases[2].step_s);
  }
  CHECK(Exceeded(PhasesOf("articles/b15-curriculum", {R"(budget={"hours": 10})"}).budget));
  CHECK(Exceeded(PhasesOf("articles/b15-curriculum", {R"(budget={"step_s": 5})"}).budget));
  CHECK_FALSE(HasPhases(Shipped("articles/b15-curriculum", {"phases=[]"})));
}

TEST_CASE("a target multiplies the step by its steps and factor") {
  const Evaluation e = EvaluateDocument(
      Shipped("articles/b19-faster-kernel", {R"(target={"steps": 1000, "steps_factor": 0.63})"}));
  const Json result = ResultJson(e, {}, "test");
  CHECK(result.Find("time_to_target_s")->AsNumber() == doctest::Approx(630 * e.StepSeconds()));
}

TEST_CASE("a faster kernel helps its own share of the step alone") {
  const auto step = [](const std::vector<std::string>& changes) {
    std::vector<std::string> all = {"what_if={}"};
    all.insert(all.end(), changes.begin(), changes.end());
    return EvaluateDocument(Shipped("articles/b19-faster-kernel", all)).StepSeconds();
  };
  const double plain = step({});
  const double twice = step({"what_if.attention_speedup=2"});
  const double endless = step({"what_if.attention_speedup=1000000"});
  // Amdahl: half of the attention's time goes with twice its speed.
  CHECK(plain - twice == doctest::Approx((plain - endless) / 2).epsilon(1e-3));
  const double gone = (plain - endless) + (plain - step({"what_if.gemm_speedup=1000000"})) +
                      (plain - step({"what_if.memory_speedup=1000000"}));
  CHECK(gone < plain);
  CHECK(gone > 0.8 * plain);
}

}  // namespace
}  // namespace aurum
