#include "sim/explain/comm_tree.h"

#include <doctest/doctest.h>

#include <map>

#include "tests/support/scenario.h"

namespace aurum {
namespace {

CommTree TreeOf(const Evaluation& e) {
  const int c = e.outcome.busiest_class;
  return MakeCommTree(e, SplitTime(e.program, e.outcome.schedule, c), c);
}

TEST_CASE("what is waited for is the breakdown's, and every item is told") {
  for (const std::string name :
       {"qwen2.5-vl-72b-64xh100", "gpt-3-175b-64xa100", "clip-vit-l-14-4x4090", "loop-fsdp",
        "loop-ep", "fuyu-8b-finetune-8xh100", "qwen2.5-vl-72b-64xh100-sick"}) {
    CAPTURE(name);
    const Evaluation e = EvaluateDocument(Shipped(name));
    const CommTree tree = TreeOf(e);
    CHECK(tree.exposed_s + tree.elsewhere_s ==
          doctest::Approx(e.Time().exposed_comm_s + e.Time().alignment_wait_s).epsilon(1e-9));
    CHECK(tree.ExposedShare() <= 1 + 1e-9);
    for (const CommItem& item : tree.items) {
      CAPTURE(DescribePart(item.part, *e.scenario.model));
      CHECK(item.running_s >= Seconds(item.part.busy) * (1 - 1e-9));
      CHECK_FALSE(item.collective.empty());
      // No collective is faster than its wires.
      CHECK(item.Attained() > 0);
      CHECK(item.Attained() <= 1.0 + 1e-6);
    }
  }
}

TEST_CASE("a pair of collectives is told as two, and each by its own name") {
  // Sequence parallelism: in forward a gather before and a scatter behind attention and MLP, in backward the other way
  // around, so there are as many of one as of the other.
  for (const Level level : {Level::kAnalytic, Level::kFlow}) {
    const Evaluation e = EvaluateDocument(Shipped("gpt-3-175b-64xa100"), level);
    bool found = false;
    for (const CommItem& item : TreeOf(e).items) {
      CAPTURE(DescribePart(item.part, *e.scenario.model));
      std::int64_t calls = 0;
      double bytes = 0, running_s = 0;
      for (const CommUse& use : item.uses) {
        calls += use.calls;
        bytes += use.bytes;
        running_s += use.running_s;
      }
      CHECK(calls == item.part.ops);
      CHECK(bytes == doctest::Approx(item.part.bytes).epsilon(1e-9));
      CHECK(running_s == doctest::Approx(item.running_s).epsilon(1e-9));
      if (item.group != CommGroup::kTensor || item.part.head) continue;
      found = true;
      CHECK(item.collective.starts_with("all_gather, "));
      CHECK(item.collective.ends_with("reduce_scatter"));
      std::map<std::string, std::int64_t> by_name;
      for (const CommUse& use : item.uses) by_name[use.collective] = use.calls;
      CHECK(by_name["all_gather"] + by_name["reduce_scatter"] + by_name["all_reduce"] == calls);
      CHECK(by_name["reduce_scatter"] > calls / 4);
      CHECK(by_name["all_gather"] > calls / 4);
    }
    CHECK(found);
  }
  // Without it both are one all-reduce.
  const Evaluation whole = EvaluateDocument(
      Changed(Shipped("gpt-3-175b-64xa100"), {"plan.backbone.sequence_parallel=false"}));
  for (const CommItem& item : TreeOf(whole).items) {
    if (item.group == CommGroup::kTensor && !item.part.head) CHECK(item.collective == "all_reduce");
  }
}

TEST_CASE("groups, collectives and links are those of the plan") {
  const Evaluation e = EvaluateDocument(Shipped("gpt-3-175b-64xa100"));
  bool tensor = false, pipeline = false;
  for (const CommItem& item : TreeOf(e).items) {
    if (item.group == CommGroup::kTensor) {
      tensor = true;
      CHECK(item.ranks == e.scenario.plan.tp);
      CHECK_FALSE(item.over_network);
      CHECK(item.bottleneck == LinkKind::kNvLink);
    }
    if (item.group == CommGroup::kPipeline) {
      pipeline = true;
      CHECK(item.over_network);
      CHECK(item.bottleneck == LinkKind::kNetwork);
      CHECK(item.collective == "transfer");
    }
  }
  CHECK(tensor);
  CHECK(pipeline);
}

}  // namespace
}  // namespace aurum
