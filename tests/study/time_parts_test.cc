#include "sim/study/time_parts.h"

#include <doctest/doctest.h>

#include <set>

#include "sim/plan/scenario_file.h"
#include "sim/study/evaluate.h"

namespace aurum {
namespace {

Evaluation Run(const std::string& file, const std::vector<std::string>& set = {},
               Level level = Level::kAnalytic) {
  InputCache cache(".");
  JsonDocument document = OpenScenarioFile(file);
  for (const std::string& assignment : set) ApplyOverride(&document, assignment);
  return Evaluate(ReadScenario(document, &cache), level);
}

void CheckClosed(const Evaluation& e) {
  for (std::size_t c = 0; c < e.program.classes.size(); ++c) {
    CAPTURE(c);
    const auto parts = SplitTime(e.program, e.outcome.schedule, static_cast<int>(c));
    // To the picosecond.
    CHECK(ExposedOf(parts).ps == e.outcome.schedule.makespan.ps);
    std::set<std::string> names;
    for (const TimePart& part : parts) {
      const bool is_new = names
                              .insert(std::string(TimeCauseName(part.cause)) + ": " +
                                      DescribePart(part, *e.scenario.model))
                              .second;
      CHECK_MESSAGE(is_new, DescribePart(part, *e.scenario.model));
      // What is waited for ran all the while.
      if (part.own) CHECK(part.busy >= part.exposed);
      if (!part.own) CHECK(part.busy.ps == 0);
      if (part.cause == TimeCause::kCompute) CHECK(part.busy == part.exposed);
    }
    for (int i = 0; i < kTimeCauses; ++i) {
      const auto cause = static_cast<TimeCause>(i);
      CAPTURE(TimeCauseName(cause));
      CHECK(Seconds(ExposedOf(parts, cause)) ==
            doctest::Approx(SecondsOf(e.outcome.time[c], cause)).epsilon(1e-9));
    }
  }
}

TEST_CASE("parts sum to the step to the picosecond, and to every category") {
  for (const char* file :
       {"scenarios/qwen2.5-vl-72b-64xh100.json", "scenarios/llava-1.6-7b-finetune-8xa100.json",
        "scenarios/llava-1.6-7b-generate-8xa100.json", "scenarios/qwen2.5-vl-72b-64xh100-sick.json",
        "scenarios/gpt-3-175b-64xa100.json", "scenarios/qwen-vl-finetune-8xa100.json"}) {
    for (const Level level : {Level::kAnalytic, Level::kFlow}) {
      CAPTURE(file);
      CheckClosed(Run(file, {}, level));
    }
  }
  CheckClosed(Run("scenarios/llava-1.6-7b-mixture-8xa100.json"));
  CheckClosed(Run("scenarios/loop-vlm.json", {}, Level::kChunk));
}

TEST_CASE("a breakdown's causes sum to it") {
  const Evaluation e = Run("scenarios/qwen2.5-vl-72b-64xh100.json");
  double sum = 0;
  for (int i = 0; i < kTimeCauses; ++i) sum += SecondsOf(e.Time(), static_cast<TimeCause>(i));
  CHECK(sum == doctest::Approx(e.StepSeconds()).epsilon(1e-9));
}

TEST_CASE("work and bytes are all there") {
  const Evaluation e = Run("scenarios/gpt-3-175b-64xa100.json");
  const int busiest = e.outcome.busiest_class;
  const auto parts = SplitTime(e.program, e.outcome.schedule, busiest);
  double flops = 0, shares = 0, slowed = 0;
  std::int64_t transfers = 0;
  for (const TimePart& part : parts) {
    flops += part.flops;
    slowed += part.slowed_s;
    if (part.kind == OpKind::kPipelineTransfer && part.own) transfers += part.ops;
  }
  for (const ModuleShare& share : e.program.classes[static_cast<std::size_t>(busiest)].modules)
    shares += share.flops * static_cast<double>(e.program.micro_batches);
  CHECK(flops == doctest::Approx(shares).epsilon(1e-9));
  CHECK(slowed == doctest::Approx(e.Time().slowed_s).epsilon(1e-9));
  // Every micro-batch goes on to the next stage, and its gradients come back.
  CHECK(transfers >= 2 * e.program.micro_batches);
}

TEST_CASE("a bubble names the stage's work that is waited for") {
  const Evaluation e = Run("scenarios/gpt-3-175b-64xa100.json");
  const int last = static_cast<int>(e.program.classes.size()) - 1;
  const auto parts = SplitTime(e.program, e.outcome.schedule, last);
  bool waits_for_forward = false;
  for (const TimePart& part : parts) {
    if (part.cause != TimeCause::kPpWarmup) continue;
    CHECK_FALSE(part.own);
    waits_for_forward = waits_for_forward || part.kind == OpKind::kForward;
  }
  CHECK(waits_for_forward);  // the first stages fill the pipeline
}

}  // namespace
}  // namespace aurum
