#include "sim/compare/substitute.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/compare/sides.h"

namespace aurum {
namespace {

std::int64_t WalkSum(const Substitution& s) {
  std::int64_t sum = 0;
  for (const WalkStep& step : s.walk) sum += step.change_ps;
  return sum;
}

TEST_CASE("the walk sums to the whole, and the shares alone with the interaction do") {
  const Comparison c = CompareDocuments(OpenQuestion("llava-1.5-13b-8xa100"),
                                        OpenQuestion("llava-1.5-13b-2x4xa100-40"));
  REQUIRE(c.substitution);
  const std::int64_t whole = c.parts_b.step.ps - c.parts_a.step.ps;
  CHECK(WalkSum(*c.substitution) == whole);
  CHECK(c.substitution->alone_sum_ps + c.substitution->interaction_ps == whole);
  double bytes = 0;
  for (const WalkStep& step : c.substitution->walk) bytes += step.memory_change_bytes;
  CHECK(bytes == doctest::Approx(c.b.evaluation->memory.Heaviest().peak_bytes -
                                 c.a.evaluation->memory.Heaviest().peak_bytes));
  CHECK(c.substitution->walk.back().with.step == c.parts_b.step);
}

TEST_CASE("a share alone is the step of A with that one key, re-simulated") {
  const JsonDocument a = Shipped("llava-1.6-7b-finetune-8xa100");
  const JsonDocument b =
      Changed(a, {"plan.micro_batch_size=4", "plan.sharding=zero2", "stack=deepspeed-zero"});
  const Comparison c = CompareDocuments(a, b);
  REQUIRE(c.substitution);
  REQUIRE(c.substitution->alone.size() == 3);
  const std::vector<std::string> paths = {"stack", "plan.micro_batch_size", "plan.sharding"};
  const std::vector<std::string> sets = {"stack=deepspeed-zero", "plan.micro_batch_size=4",
                                         "plan.sharding=zero2"};
  JsonDocument walked = a;
  for (std::size_t i = 0; i < 3; ++i) {
    const AloneChange& alone = c.substitution->alone[i];
    CHECK(alone.what.path == paths[i]);
    REQUIRE(alone.with);
    CHECK(alone.with->step == EvaluateDocument(Changed(a, {sets[i]})).outcome.schedule.makespan);
    walked = Changed(walked, {sets[i]});
    CHECK(c.substitution->walk[i].with.step == EvaluateDocument(walked).outcome.schedule.makespan);
  }
}

TEST_CASE("keys that can only change together go together, and say why they cannot alone") {
  const JsonDocument a = Shipped("gpt-3-175b-64xa100");  // tp 8, pp 8 on 64
  const JsonDocument b = Changed(a, {"cluster=48xa100-hdr", "plan.backbone.pp=6"});
  const Comparison c = CompareDocuments(a, b);
  REQUIRE(c.substitution);
  REQUIRE(c.substitution->alone.size() == 2);
  CHECK_FALSE(c.substitution->alone[0].with);  // 48 GPUs do not hold whole replicas of 64
  REQUIRE(c.substitution->alone[0].refused);
  CHECK(c.substitution->alone[0].refused->code > 0);
  REQUIRE(c.substitution->walk.size() == 1);
  REQUIRE(c.substitution->walk[0].what.size() == 2);
  CHECK(c.substitution->walk[0].change_ps == c.parts_b.step.ps - c.parts_a.step.ps);
}

TEST_CASE("a single difference needs no simulation: A with it is B") {
  const JsonDocument a = Shipped("qwen2.5-vl-72b-64xh100");
  const Comparison c = CompareDocuments(a, Changed(a, {"plan.recompute=full"}));
  REQUIRE(c.substitution);
  CHECK(c.substitution->simulations == 0);
  REQUIRE(c.substitution->walk.size() == 1);
  CHECK(c.substitution->interaction_ps == 0);
}

TEST_CASE("another cluster is other links and other kernels, each with its share") {
  const JsonDocument a = Shipped("llava-1.6-7b-finetune-8xa100");
  const Comparison c = CompareDocuments(a, Changed(a, {"cluster=8xh100-hgx"}));
  REQUIRE(c.changes.size() == 2);
  CHECK(c.changes[0].path == "cluster");
  CHECK(c.changes[1].path == "profile");
  REQUIRE(c.substitution);
  REQUIRE(c.substitution->alone.size() == 2);
  // This step is bound by kernels: faster ones make nearly all of the difference.
  const std::int64_t whole = c.parts_b.step.ps - c.parts_a.step.ps;
  REQUIRE(c.substitution->alone[1].with);
  CHECK(whole < 0);
  CHECK((c.substitution->alone[1].with->step.ps - c.parts_a.step.ps) * 10 < whole * 9);
}

TEST_CASE("what is drawn plays no part") {
  const JsonDocument a =
      Changed(Shipped("loop-pp"), {"variation={\"kernel_cv\": 0.1, \"seeds\": 3}"});
  const JsonDocument b = Changed(a, {"plan.recompute=selective"});
  const Comparison c = CompareDocuments(a, b);
  REQUIRE(c.substitution);
  CHECK(WalkSum(*c.substitution) == c.parts_b.step.ps - c.parts_a.step.ps);
}

}  // namespace
}  // namespace aurum
