#include <doctest/doctest.h>

#include <cmath>

#include "tests/plan/space.h"

namespace aurum {
namespace {

// Experts over two nodes of eight, an all-to-all of all sixteen GPUs.
JsonDocument Experts(const std::vector<std::string>& changes) {
  return Document("qwen3-30b-a3b", "16xa100-hdr", Join({"plan.backbone.ep=16"}, changes));
}
// The first dispatch of the step: its bytes and seconds.
struct Exchange {
  double bytes = 0, seconds = 0;
};
Exchange FirstOf(const Evaluation& e) {
  for (OpId op = 0; op < e.program.graph.op_count(); ++op) {
    const OpInfo& info = e.program.info[op];
    if (info.kind == OpKind::kExpertCollective)
      return {info.bytes,
              Seconds(e.outcome.schedule.end[op]) - Seconds(e.outcome.schedule.start[op])};
  }
  return {};
}
std::string Buffer(double bytes) {
  return "plan.backbone.expert_buffer_mb=" + std::to_string(bytes / 1e6);
}

TEST_CASE("an all-to-all through a buffer pays its latency once a piece") {
  const Exchange whole = FirstOf(EvaluateDocument(Experts({})));
  REQUIRE(whole.bytes > 1e6);
  const auto at = [&](double pieces) {
    return FirstOf(EvaluateDocument(Experts({Buffer(whole.bytes / pieces)})));
  };
  // t = pieces · latency + flow: the differences are 1, 2 and 4 latencies.
  const double latency = at(2).seconds - whole.seconds;
  CHECK(latency > 1e-6);
  CHECK(at(4).seconds - at(2).seconds == doctest::Approx(2 * latency).epsilon(1e-4));
  CHECK(at(8).seconds - at(4).seconds == doctest::Approx(4 * latency).epsilon(1e-4));
  CHECK(at(8).bytes == whole.bytes);
  // A larger buffer than there are bytes changes nothing; a part of a piece is a piece.
  CHECK(at(0.5).seconds == whole.seconds);
  CHECK(at(2.5).seconds == doctest::Approx(at(3).seconds).epsilon(1e-6));
}

TEST_CASE("all levels say the same of it") {
  for (const char* algorithm : {"direct", "hierarchical"}) {
    CAPTURE(algorithm);
    const JsonDocument document =
        Experts({"plan.collectives.expert_parallel=" + std::string(algorithm),
                 "workload.global_batch_size=16", Buffer(4e6)});
    const Exchange priced = FirstOf(EvaluateDocument(document));
    CHECK(FirstOf(EvaluateDocument(document, Level::kFlow)).seconds ==
          doctest::Approx(priced.seconds).epsilon(1e-3));
  }
}

TEST_CASE("the experts' algorithm is the plan's") {
  const Evaluation direct = EvaluateDocument(Experts({"plan.collectives.expert_parallel=direct"}));
  const Evaluation own = EvaluateDocument(Experts({}));
  const Evaluation levels =
      EvaluateDocument(Experts({"plan.collectives.expert_parallel=hierarchical"}));
  CHECK(direct.outcome.signature == own.outcome.signature);  // what a library does
  CHECK(FirstOf(levels).bytes == FirstOf(direct).bytes);
  CHECK(FirstOf(levels).seconds != FirstOf(direct).seconds);
  // Inside of one node there is but one level.
  const RefusedPlan refused =
      RefusalOf(Experts({"plan.backbone.ep=8", "plan.collectives.expert_parallel=hierarchical"}));
  CHECK(refused.diagnostic.code == 562);
}

}  // namespace
}  // namespace aurum
