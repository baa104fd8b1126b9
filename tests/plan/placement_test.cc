#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "sim/collectives/collective.h"
#include "sim/plan/rank_groups.h"
#include "tests/plan/space.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

InputCache& Cache() {
  static InputCache cache(".");
  return cache;
}

// The longest op of a kind.
double Longest(const Program& program, OpKind kind) {
  double longest = 0;
  for (OpId op = 0; op < program.graph.op_count(); ++op) {
    if (program.info[op].kind == kind)
      longest = std::max(longest, Seconds(program.graph.duration(op)));
  }
  return longest;
}

Program Lowered(const std::vector<std::string>& changes) {
  return Lower(ReadScenario(Document(kLayers8, "16xh100-ndr", changes), &Cache()));
}

const std::vector<std::string> kTwoNodes = {"plan.backbone.tp=2", "plan.backbone.pp=4",
                                            "plan.backbone.sequence_parallel=false"};

TEST_CASE("every order puts every rank on a GPU of its own, what is first beside it") {
  Plan plan;
  plan.tp = 2;
  plan.cp = 3;
  plan.dp = 4;
  plan.pp = 5;
  RankOrder order = kDefaultRankOrder;
  int orders = 0;
  do {
    plan.rank_order = order;
    std::set<int> gpus;
    for (int rank = 0; rank < 120; ++rank) gpus.insert(GpuOf(plan, rank));
    CHECK(gpus.size() == 120);
    CHECK(*gpus.begin() == 0);
    CHECK(*gpus.rbegin() == 119);
    // The second of the first dimension is the next GPU. Ranks count tp, cp, dp, pp.
    constexpr int kStride[] = {1, 2, 6, 24};
    CHECK(GpuOf(plan, kStride[static_cast<int>(order[0])]) == 1);
    ++orders;
  } while (std::next_permutation(order.begin(), order.end()));
  CHECK(orders == 24);
}

TEST_CASE("stages beside each other: transfers stay in the node and gradients leave it") {
  const auto with = [](const char* order) {
    return Lowered(Join(kTwoNodes, {"plan.rank_order=" + std::string(order)}));
  };
  const Program replicas = with("tp-cp-dp-pp");  // node 0: stages 0 and 1, both replicas
  const Program stages = with("tp-cp-pp-dp");    // node 0: all stages of replica 0
  CHECK(Longest(stages, OpKind::kPipelineTransfer) <
        Longest(replicas, OpKind::kPipelineTransfer) / 2);
  CHECK(Longest(stages, OpKind::kGradientReduce) > 2 * Longest(replicas, OpKind::kGradientReduce));
  CHECK(Longest(stages, OpKind::kTpCollective) == Longest(replicas, OpKind::kTpCollective));
  // tp last: its pairs are on two nodes.
  CHECK(Longest(with("dp-pp-cp-tp"), OpKind::kTpCollective) >
        3 * Longest(stages, OpKind::kTpCollective));
}

TEST_CASE("orders that differ by groups of one rank are one plan") {
  const auto signature = [](const char* order) {
    return EvaluateDocument(Document(kLayers8, "16xh100-ndr",
                                     Join(kTwoNodes, {"plan.rank_order=" + std::string(order)})))
        .outcome.signature;
  };
  CHECK(signature("tp-cp-dp-pp") == signature("cp-tp-dp-pp"));
  CHECK(signature("tp-cp-dp-pp") == signature("tp-dp-pp-cp"));
  CHECK(signature("tp-cp-dp-pp") != signature("tp-cp-pp-dp"));
}

TEST_CASE("at the flow level an order moves the bytes, too") {
  for (const char* order : {"tp-cp-dp-pp", "tp-cp-pp-dp", "pp-dp-cp-tp"}) {
    const JsonDocument document = Document(
        kLayers8, "16xh100-ndr", Join(kTwoNodes, {"plan.rank_order=" + std::string(order)}));
    const Evaluation folded = EvaluateDocument(document, Level::kFlow, Fold::kVerify);
    REQUIRE(folded.fold_check);
    CHECK(folded.fold_check->equal);
    CHECK(folded.StepSeconds() >= EvaluateDocument(document).StepSeconds() * (1 - 1e-9));
  }
}

TEST_CASE("scattered transfers: a share from every rank, and a gather of the whole") {
  const auto with = [](const char* scatter) {
    return Lowered({"plan.backbone.tp=4", "plan.backbone.pp=4",
                    "plan.backbone.sequence_parallel=false",
                    "plan.backbone.scatter_gather=" + std::string(scatter)});
  };
  const Scenario s = ReadScenario(
      Document(kLayers8, "16xh100-ndr", {"plan.backbone.tp=4", "plan.backbone.pp=4"}), &Cache());
  const double bytes = 2.0 * 1024 * s.model->Backbone().hidden;
  const CollectiveOptions options{.network_efficiency = s.stack->network_efficiency,
                                  .intra_factor = s.stack->tp_communication_factor};
  const double gather =
      PriceCollective(CollectiveKind::kAllGather, bytes, PlacedGroups(s.plan, 1, GroupKind::kTp),
                      *s.cluster, *s.profile, options)
          .seconds;
  const double whole = Longest(with("false"), OpKind::kPipelineTransfer);
  const double shared = Longest(with("true"), OpKind::kPipelineTransfer);
  CHECK(shared < whole);
  CHECK(shared > gather);
  // A quarter of the bytes on the wire; latency stays.
  CHECK(shared - gather < 0.6 * whole);
  CHECK(shared - gather > 0.25 * whole);
}

TEST_CASE("what moves no rank is said, and what names GPUs does not go with an order") {
  const Scenario warned = ReadScenario(
      Document(kLayers8, "16xh100-ndr",
               {"plan.backbone.tp=2", "plan.backbone.pp=2", "plan.backbone.scatter_gather=true"}),
      &Cache());
  CHECK_FALSE(warned.plan.scatter_gather);
  CHECK(std::any_of(warned.warnings.begin(), warned.warnings.end(),
                    [](const Diagnostic& d) { return d.code == 1392; }));
  for (const char* with : {R"(faults=[{"gpus": [3], "slowdown": 2}])",
                           R"(pools=[{"nodes": [1], "profile": "a100-pcie-80"}])"}) {
    const RefusedPlan refused =
        RefusalOf(Document(kLayers8, "16xh100-ndr", {with, "plan.rank_order=tp-cp-pp-dp"}));
    CHECK(refused.diagnostic.code == 393);
    CHECK(refused.exit_code == ExitCode::kInfeasible);
  }
  CHECK(RefusalOf(Document(kVit8, "8xh100-hgx",
                           {kOneImage, "plan.vision.placement=own_ranks", "plan.backbone.pp=3",
                            "plan.backbone.layers_per_stage=[2,3,3]", "plan.rank_order=tp-cp-pp-dp",
                            "plan.backbone.tp=2", "plan.vision.tp=2"}))
            .diagnostic.code == 393);
  CHECK(RefusalOf(Document(kLayers8, "16xh100-ndr", {"plan.rank_order=tp-pp"})).diagnostic.code ==
        108);
}

TEST_CASE("gradients of a bucket beside a frozen encoder are reduced") {
  const auto reduced = [](const char* bucket) {
    const Program program = Lower(ReadScenario(
        Document(kVit8, "8xh100-hgx",
                 {kOneImage, R"(plan.frozen=["vision"])", "plan.bucket_mb=" + std::string(bucket)}),
        &Cache()));
    double bytes = 0;
    for (const OpInfo& info : program.info) {
      if (info.kind == OpKind::kGradientReduce) bytes += info.bytes;
    }
    return bytes;
  };
  CHECK(reduced("0") > 0);
  CHECK(reduced("400") == doctest::Approx(reduced("0")).epsilon(1e-12));
  CHECK(reduced("1000000") == doctest::Approx(reduced("0")).epsilon(1e-12));
}

}  // namespace
}  // namespace aurum
