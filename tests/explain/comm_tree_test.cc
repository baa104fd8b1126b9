#include "sim/explain/comm_tree.h"

#include <doctest/doctest.h>

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
