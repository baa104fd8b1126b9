#include "sim/explain/critical_path.h"

#include <doctest/doctest.h>

#include "tests/support/scenario.h"

namespace aurum {
namespace {

TEST_CASE("the path is contiguous and as long as the step, on every shipped scenario") {
  for (const std::string& name : ShippedScenarios()) {
    CAPTURE(name);
    const Evaluation e = EvaluateDocument(Shipped(name));
    const Schedule& schedule = e.outcome.schedule;
    const CriticalPath path = FindCriticalPath(e.program, schedule);
    REQUIRE_FALSE(path.ops.empty());
    CHECK(schedule.start[path.ops.front()].ps == 0);
    CHECK(schedule.end[path.ops.back()] == schedule.makespan);
    for (std::size_t i = 1; i < path.ops.size(); ++i) {
      // Each starts the moment the one before ends: nothing else could have made it earlier.
      REQUIRE(schedule.start[path.ops[i]] == schedule.end[path.ops[i - 1]]);
    }
    CHECK(path.idle.ps == 0);
    CHECK(path.Length() == schedule.makespan);
    Time stages{};
    for (const Time& time : path.by_stage) stages += time;
    CHECK(stages == schedule.makespan);
  }
}

TEST_CASE("what is on the path lengthens the step by all that it grows") {
  Evaluation e = EvaluateDocument(Shipped("gpt-3-175b-64xa100"));
  const CriticalPath path = FindCriticalPath(e.program, e.outcome.schedule);
  const Time more = TimeFromSeconds(0.25);
  for (const std::size_t i : {std::size_t{1}, path.ops.size() / 3, path.ops.size() - 1}) {
    const OpId op = path.ops[i];
    const Time was = e.program.graph.duration(op);
    e.program.graph.SetDuration(op, was + more);
    CHECK(EvaluateMaxPlus(e.program.graph).makespan >= e.outcome.schedule.makespan + more);
    e.program.graph.SetDuration(op, was);
  }
}

TEST_CASE("a pipeline's path crosses from stage to stage, one GPU's does not") {
  const Evaluation pipeline = EvaluateDocument(Shipped("gpt-3-175b-64xa100"));
  const CriticalPath crossing = FindCriticalPath(pipeline.program, pipeline.outcome.schedule);
  // Down through seven borders and up again, at least.
  CHECK(crossing.crossings >= 14);
  const Evaluation one = EvaluateDocument(Shipped("llama-2-7b-1x4090"));
  const CriticalPath alone = FindCriticalPath(one.program, one.outcome.schedule);
  CHECK(alone.crossings == 0);
  for (const TimePart& part : alone.parts) CHECK(part.lane == Lane::kMain);
}

}  // namespace
}  // namespace aurum
