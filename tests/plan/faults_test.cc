#include "sim/plan/faults.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "tests/support/scenario.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

Evaluation With(const std::string& name, const std::string& faults, Level level,
                Fold fold = Fold::kVerify) {
  JsonDocument document = Shipped(name);
  ApplyOverride(&document, "faults=" + faults);
  return EvaluateDocument(document, level, fold);
}

TEST_CASE("one slow GPU: every rank waits for it, folded as unfolded") {
  for (const Level level : {Level::kAnalytic, Level::kFlow}) {
    const Evaluation whole = EvaluateDocument(Shipped("gpt-3-175b-64xa100"), level);
    const Evaluation slow =
        With("gpt-3-175b-64xa100", R"([{"gpus": [13], "slowdown": 1.25}])", level);
    REQUIRE(slow.fold_check);
    CHECK_MESSAGE(slow.fold_check->equal, slow.fold_check->difference);
    CHECK(slow.fold_check->ranks == 64);
    // tp 8, pp 8: in every stage the GPU that sends to or through the slow one's place, and the rest.
    CHECK(slow.program.classes.size() == 16);
    CHECK(slow.StepSeconds() > 1.02 * whole.StepSeconds());
    CHECK(slow.StepSeconds() < 1.25 * whole.StepSeconds());
    const TimeBreakdown& companion = slow.outcome.time[slow.program.ClassOf(12)];
    CHECK(companion.straggler_wait_s > 0);
    CHECK(slow.outcome.time[slow.program.ClassOf(13)].straggler_wait_s == 0);
    CHECK(slow.program.classes[slow.program.ClassOf(13)].name == "stage 1, GPU 13");
  }
}

TEST_CASE("a straggler in data parallelism costs its slowdown of the kernels, no more") {
  const Evaluation whole = EvaluateDocument(Shipped("clip-vit-l-14-4x4090"));
  const Evaluation slow =
      With("clip-vit-l-14-4x4090", R"([{"gpus": [2], "slowdown": 1.5}])", Level::kAnalytic);
  CHECK(slow.fold_check->equal);
  CHECK(slow.program.classes.size() == 2);
  const TimeBreakdown& t = whole.Time();
  const double most = whole.StepSeconds() + 0.5 * (t.compute_s - t.slowed_s + t.optimizer_s) + 1e-9;
  CHECK(slow.StepSeconds() <= most);
  CHECK(slow.StepSeconds() > 1.2 * whole.StepSeconds());
}

TEST_CASE("a degraded NIC slows its rail; both levels see it, folded as unfolded") {
  for (const Level level : {Level::kAnalytic, Level::kFlow}) {
    const Evaluation whole = EvaluateDocument(Shipped("qwen2.5-vl-72b-64xh100"), level);
    const Evaluation sick =
        With("qwen2.5-vl-72b-64xh100", R"([{"nics": ["node3/nic2"], "factor": 0.25}])", level);
    CHECK_MESSAGE(sick.fold_check->equal, sick.fold_check->difference);
    CHECK(sick.StepSeconds() > whole.StepSeconds());
    CHECK(sick.program.classes.size() > whole.program.classes.size());
  }
}

TEST_CASE("1 % of the NICs retransmit: exact at both levels") {
  for (const Level level : {Level::kAnalytic, Level::kFlow}) {
    const Evaluation sick =
        With("qwen2.5-vl-72b-64xh100",
             R"([{"nics": {"share": 0.01, "seed": 5}, "retransmission_rate": 0.2}])", level);
    CHECK_MESSAGE(sick.fold_check->equal, sick.fold_check->difference);
    MESSAGE(LevelName(level), ": ", sick.program.classes.size(), " classes of 64 ranks");
  }
}

TEST_CASE("a rate of retransmission is the same as a factor of one less") {
  const Evaluation a =
      With("qwen2.5-vl-72b-64xh100", R"([{"nics": ["node0/nic0"], "retransmission_rate": 0.25}])",
           Level::kFlow, Fold::kOn);
  const Evaluation b =
      With("qwen2.5-vl-72b-64xh100", R"([{"nics": ["node0/nic0"], "factor": 0.75}])", Level::kFlow,
           Fold::kOn);
  CHECK(a.outcome.signature == b.outcome.signature);
}

TEST_CASE("a flap delays a step by no more than it lasts, folded as unfolded") {
  const Evaluation whole = EvaluateDocument(Shipped("qwen2.5-vl-72b-64xh100"), Level::kFlow);
  const Evaluation flap = With(
      "qwen2.5-vl-72b-64xh100",
      R"([{"nics": ["node1/nic0"], "factor": 0, "from_s": 0.001, "until_s": 1.5}])", Level::kFlow);
  CHECK_MESSAGE(flap.fold_check->equal, flap.fold_check->difference);
  CHECK(flap.StepSeconds() > whole.StepSeconds());
  CHECK(flap.StepSeconds() < whole.StepSeconds() + 1.5);
}

TEST_CASE("overlapping faults of a link multiply, and end when they end") {
  const Scenario s = [] {
    JsonDocument document = Shipped("qwen2.5-vl-72b-64xh100");
    ApplyOverride(&document, R"(faults=[
      {"links": ["node0/nic0 - leaf0"], "factor": 0.5, "from_s": 1, "until_s": 3},
      {"links": ["leaf0 - node0/nic0"], "factor": 0.5, "from_s": 2}])");
    return EvaluateDocument(document, Level::kFlow).scenario;
  }();
  const auto& changes = s.faults.link_changes;
  REQUIRE(changes.size() == 6);  // three moments, both directions
  CHECK(changes[0].factor == 0.5);
  CHECK(changes[1].at == TimeFromSeconds(2));
  CHECK(changes[1].factor == 0.25);
  CHECK(changes[2].at == TimeFromSeconds(3));
  CHECK(changes[2].factor == 0.5);
}

TEST_CASE("what is named twice in one fault is hit once; in two faults, twice") {
  const auto step = [](const std::string& faults) {
    return With("qwen2.5-vl-72b-64xh100", faults, Level::kAnalytic, Fold::kOn).outcome.signature;
  };
  CHECK(step(R"([{"nics": ["node3/nic2", "node3/nic2"], "factor": 0.5}])") ==
        step(R"([{"nics": ["node3/nic2"], "factor": 0.5}])"));
  CHECK(step(R"([{"gpus": [1], "slowdown": 1.5}, {"gpus": [1, 1], "slowdown": 2}])") ==
        step(R"([{"gpus": [1], "slowdown": 3}])"));
  CHECK(
      step(
          R"([{"nics": ["node3/nic2"], "factor": 0.5}, {"nics": ["node3/nic2"], "factor": 0.5}])") ==
      step(R"([{"nics": ["node3/nic2"], "factor": 0.25}])"));
}

TEST_CASE("what is no fault is refused, with the place and the remedy") {
  const auto thrown = [](const std::string& faults, Level level = Level::kAnalytic) {
    return ThrownBy([&] { With("qwen2.5-vl-72b-64xh100", faults, level, Fold::kOn); });
  };
  CHECK(thrown(R"([{"gpus": [64], "slowdown": 2}])").code == 350);
  CHECK(thrown(R"([{"gpus": [], "slowdown": 2}])").code == 350);
  CHECK(thrown(R"([{"gpus": [1]}])").code == 351);
  CHECK(thrown(R"([{"gpus": [1], "slowdown": 0.5}])").code == 107);
  CHECK(thrown(R"([{"slowdown": 2}])").code == 351);
  CHECK(thrown(R"([{"gpus": [1], "nics": ["node0/nic0"], "slowdown": 2}])").code == 351);
  CHECK(thrown(R"([{"nics": ["node0/nic9"], "factor": 0.5}])").code == 350);
  CHECK(thrown(R"([{"nics": ["node0/nic0"]}])").code == 351);
  CHECK(thrown(R"([{"nics": ["node0/nic0"], "factor": 0}])").code == 353);
  CHECK(thrown(R"([{"nics": ["node0/nic0"], "factor": 0.5, "from_s": 2, "until_s": 1}])").code ==
        352);
  CHECK(thrown(R"([{"nics": ["node0/nic0"], "factor": 0.5, "until_s": 1}])").code == 354);
  CHECK(thrown(R"([{"links": ["leaf0 - leaf1"], "factor": 0.5}])").code == 350);
  CHECK(thrown(R"([{"gpus": [1], "slowdown": 2, "factor": 0.5}])").code == 101);
  CHECK(thrown(R"([{"nics": ["node0/nic9"], "factor": 0.5}])").help.find("node0/nic") !=
        std::string::npos);
}

}  // namespace
}  // namespace aurum
