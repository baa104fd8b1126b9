#include "sim/explain/work_tree.h"

#include <doctest/doctest.h>

#include <map>
#include <tuple>

#include "tests/support/scenario.h"

namespace aurum {
namespace {

TEST_CASE("kernels sum to the ops that run them") {
  for (const char* name :
       {"qwen2.5-vl-72b-64xh100", "qwen2.5-vl-72b-64xh100-sick", "llava-1.6-7b-generate-8xa100",
        "gpt-3-175b-64xa100", "llava-1.6-7b-mixture-8xa100", "loop-ep"}) {
    CAPTURE(name);
    const Evaluation e = EvaluateDocument(Shipped(name));
    const int c = e.outcome.busiest_class;
    const WorkTree work = MakeWorkTree(e, c);
    std::map<std::tuple<int, OpKind, bool>, double> sums;
    for (const KernelGroup& group : work.groups) {
      sums[{group.module, group.kind, group.head}] += group.seconds;
      CHECK(group.seconds ==
            doctest::Approx(group.arithmetic_bound_s + group.memory_bound_s + group.neither_s));
      CHECK(group.Attained() >= 0);
      CHECK(group.Attained() <
            1.3);  // nothing runs much faster than the device (what-if factors: 1)
    }
    double shapes = 0, all = 0;
    for (const TimePart& part : SplitTime(e.program, e.outcome.schedule, c)) {
      if (part.lane != Lane::kMain || !part.own) continue;
      const double seconds = Seconds(part.busy) - part.slowed_s;
      CAPTURE(DescribePart(part, *e.scenario.model));
      const double listed = sums[{part.module, part.kind, part.head}];
      CHECK(listed == doctest::Approx(seconds).epsilon(1e-9));
      all += listed;
    }
    for (const KernelShape& shape : work.shapes) shapes += shape.seconds;
    CHECK(shapes <= all * (1 + 1e-9));
    CHECK(shapes > 0.9 * all);  // nearly all is listed by shape
  }
}

TEST_CASE("large products are bound by arithmetic, decoding and the optimizer by memory") {
  const Evaluation train = EvaluateDocument(Shipped("gpt-3-175b-64xa100"));
  for (const KernelGroup& group : MakeWorkTree(train, train.outcome.busiest_class).groups) {
    if (group.kernel == KernelKind::kGemm && !group.head)
      CHECK(group.Binds() == Bound::kArithmetic);
    if (group.kind == OpKind::kOptimizer) CHECK(group.Binds() == Bound::kMemory);
  }
  const Evaluation decode = EvaluateDocument(Shipped("llava-1.6-7b-generate-8xa100"));
  double memory = 0, arithmetic = 0;
  for (const KernelGroup& group : MakeWorkTree(decode, decode.outcome.busiest_class).groups) {
    if (group.kind != OpKind::kDecode) continue;
    memory += group.memory_bound_s;
    arithmetic += group.arithmetic_bound_s;
  }
  CHECK(memory > 4 * arithmetic);
}

TEST_CASE("executed work is the model's, and recomputation on top of it") {
  const auto flops = [](const std::vector<std::string>& set) {
    const Evaluation e = EvaluateDocument(Shipped("loop-dp", set));
    double executed = 0, model = 0;
    const int c = e.outcome.busiest_class;
    for (const KernelGroup& group : MakeWorkTree(e, c).groups) executed += group.flops;
    for (const TimePart& part : SplitTime(e.program, e.outcome.schedule, c)) model += part.flops;
    return executed / model;
  };
  CHECK(flops({"plan.recompute=none"}) == doctest::Approx(1).epsilon(1e-6));
  // One forward of the layers more, of three: heads and embeddings are not formed again.
  CHECK(flops({"plan.recompute=full"}) > 1.25);
  CHECK(flops({"plan.recompute=full"}) < 4.0 / 3 + 1e-6);
}

}  // namespace
}  // namespace aurum
