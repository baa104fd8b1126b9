#include "sim/compare/step_parts.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>

#include "tests/compare/sides.h"

namespace aurum {
namespace {

std::int64_t Sum(const StepParts& parts) {
  std::int64_t sum = 0;
  for (const StepPart& part : parts.parts) sum += part.time.ps;
  return sum;
}

double Of(const StepParts& parts, StepCategory category) {
  double sum = 0;
  for (const StepPart& part : parts.parts) {
    if (part.category == category) sum += Seconds(part.time);
  }
  return sum;
}

TEST_CASE("the parts of every shipped scenario sum to its step, to the picosecond") {
  for (const std::string& name : ShippedScenarios()) {
    CAPTURE(name);
    const Evaluation e = EvaluateDocument(Shipped(name));
    const StepParts parts = PartsOf(e);
    CHECK(parts.step == e.outcome.schedule.makespan);
    CHECK(Sum(parts) == parts.step.ps);
    for (const StepPart& part : parts.parts) CHECK(part.time.ps > 0);
    const TimeBreakdown& t = e.Time();
    CHECK(Of(parts, StepCategory::kCompute) + Of(parts, StepCategory::kSlowed) ==
          doctest::Approx(t.compute_s).epsilon(1e-9));
    CHECK(Of(parts, StepCategory::kSlowed) == doctest::Approx(t.slowed_s).epsilon(1e-6));
    CHECK(Of(parts, StepCategory::kTp) == doctest::Approx(t.tp_s).epsilon(1e-9));
    CHECK(Of(parts, StepCategory::kCp) == doctest::Approx(t.cp_s).epsilon(1e-9));
    CHECK(Of(parts, StepCategory::kEp) == doctest::Approx(t.ep_s).epsilon(1e-9));
    CHECK(Of(parts, StepCategory::kDpGather) == doctest::Approx(t.dp_gather_s).epsilon(1e-9));
    CHECK(Of(parts, StepCategory::kDpReduce) == doctest::Approx(t.dp_reduce_s).epsilon(1e-9));
    CHECK(Of(parts, StepCategory::kPp) == doctest::Approx(t.pp_transfer_s).epsilon(1e-9));
    CHECK(Of(parts, StepCategory::kHost) == doctest::Approx(t.host_s).epsilon(1e-9));
    CHECK(Of(parts, StepCategory::kBubble) == doctest::Approx(t.bubble_s).epsilon(1e-9));
    CHECK(Of(parts, StepCategory::kAlignment) == doctest::Approx(t.alignment_wait_s).epsilon(1e-9));
    CHECK(Of(parts, StepCategory::kOptimizer) == doctest::Approx(t.optimizer_s).epsilon(1e-9));
  }
}

TEST_CASE("a result tells the same categories as the simulation behind it") {
  for (const char* name : {"qwen2.5-vl-72b-64xh100", "gpt-3-175b-64xa100",
                           "llava-1.6-7b-finetune-8xa100", "qwen2.5-vl-72b-64xh100-sick"}) {
    CAPTURE(name);
    const Evaluation e = EvaluateDocument(Shipped(name));
    const StepParts simulated = PartsOf(e), told = PartsOfResult(ResultJson(e, {}, "test"));
    CHECK(told.step == simulated.step);
    CHECK(Sum(told) == told.step.ps);
    CHECK_FALSE(told.detailed);
    for (int i = 0; i < kStepCategories; ++i) {
      const auto category = static_cast<StepCategory>(i);
      CHECK(Of(told, category) == doctest::Approx(Of(simulated, category)).epsilon(1e-6));
    }
    // Doubles of a document leave nanoseconds, never more.
    for (const PartChange& change : CompareParts(told, simulated))
      CHECK(std::abs(change.ChangePs()) < 10'000);
  }
}

TEST_CASE("communication: what a GPU exchanges by Megatron's and ZeRO's own counts") {
  SUBCASE("ZeRO-3 gathers and reduces what every micro-batch needs") {
    const JsonDocument once = Shipped("llava-1.6-7b-finetune-8xa100");
    const auto bytes = [](const JsonDocument& document, StepCategory category) {
      for (const CommunicationPart& part : PartsOf(EvaluateDocument(document)).communication) {
        if (part.category == category) return part.bytes;
      }
      return 0.0;
    };
    const JsonDocument twice = Changed(once, {"plan.micro_batch_size=1"});
    CHECK(bytes(twice, StepCategory::kDpGather) ==
          doctest::Approx(2 * bytes(once, StepCategory::kDpGather)));
    CHECK(bytes(twice, StepCategory::kDpReduce) ==
          doctest::Approx(2 * bytes(once, StepCategory::kDpReduce)));
    CHECK(bytes(once, StepCategory::kTp) == 0);
  }
  SUBCASE("what is exposed is no more than what is busy where one collective runs at a time") {
    const StepParts parts = PartsOf(EvaluateDocument(Shipped("qwen2.5-vl-72b-64xh100")));
    REQUIRE(parts.communication.size() >= 3);
    for (const CommunicationPart& part : parts.communication) {
      CHECK(part.operations > 0);
      CHECK(part.bytes > 0);
      if (part.category == StepCategory::kTp) CHECK(part.exposed <= part.busy);
    }
  }
}

TEST_CASE("changes of parts sum to the change of the step, whichever sides have which parts") {
  const char* kNames[] = {"qwen2.5-vl-72b-64xh100", "llava-1.6-7b-finetune-8xa100",
                          "qwen2.5-vl-72b-64xh100-sick", "llama-2-7b-1x4090"};
  for (const char* name_a : kNames) {
    for (const char* name_b : kNames) {
      const StepParts a = PartsOf(EvaluateDocument(Shipped(name_a)));
      const Evaluation of_b = EvaluateDocument(Shipped(name_b));
      for (const StepParts& b : {PartsOf(of_b), PartsOfResult(ResultJson(of_b, {}, "test"))}) {
        std::int64_t sum = 0, previous = INT64_MAX;
        for (const PartChange& change : CompareParts(a, b)) {
          sum += change.ChangePs();
          CHECK(std::abs(change.ChangePs()) <= previous);
          previous = std::abs(change.ChangePs());
          if (!b.detailed) CHECK(change.a.module.empty());
        }
        CHECK(sum == b.step.ps - a.step.ps);
      }
    }
  }
}

TEST_CASE("seconds with a sign have three digits and the unit that suits") {
  CHECK(SignedSeconds(1.2345) == "+1.23 s");
  CHECK(SignedSeconds(-0.0123456) == "-12.3 ms");
  CHECK(SignedSeconds(123.456) == "+123 s");
  CHECK(SignedSeconds(1e-6) == "+1.00 µs");
  CHECK(SignedSeconds(0) == "0 s");
}

TEST_CASE("a change is described by its largest terms") {
  StepParts a, b;
  a.step = {1'000'000'000'000};
  a.parts = {{StepCategory::kCompute, "backbone", "forward", {600'000'000'000}},
             {StepCategory::kCompute, "backbone", "backward", {399'999'000'000}},
             {StepCategory::kData, "", "", {1'000'000}}};
  b.step = {1'500'000'000'000};
  b.parts = {{StepCategory::kCompute, "backbone", "forward", {700'000'000'000}},
             {StepCategory::kCompute, "backbone", "backward", {199'999'000'000}},
             {StepCategory::kDpReduce, "", "", {600'000'000'000}},
             {StepCategory::kData, "", "", {1'000'000}}};
  CHECK(DescribeChange(a, b) == "+500 ms: gradient reductions +600 ms, compute -100 ms");
  CHECK(DescribeChange(a, b, 1) == "+500 ms: gradient reductions +600 ms");
  CHECK(DescribeChange(a, a) == "0 s");
}

}  // namespace
}  // namespace aurum
