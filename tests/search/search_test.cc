#include "sim/search/search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "sim/search/twins.h"
#include "tests/plan/space.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

PlanSpace Space(const std::vector<std::string>& vary) {
  PlanSpace space;
  space.name = "test";
  for (const std::string& each : vary) Vary(each, &space);
  return space;
}

// Small enough to simulate all of it, and with every reason to reject a plan in it.
struct Small {
  JsonDocument document;
  PlanSpace space;
};
std::vector<Small> SmallSpaces() {
  std::vector<Small> all;
  all.push_back({Document(kLayers96, "8xa100-hgx", {"workload.text_tokens=4096"}),
                 Space({"plan.backbone.tp=1,2,4,3", "plan.backbone.pp=1,2,4",
                        "plan.backbone.vpp=1,2", "plan.micro_batch_size=1,2,4",
                        "plan.recompute=none,full", "plan.sharding=zero1,fsdp"})});
  all.push_back({Document(kMoe8, "16xh100-ndr"),
                 Space({"plan.backbone.tp=1,2", "plan.backbone.ep=1,2,4,8", "plan.backbone.pp=1,2",
                        "plan.micro_batch_size=1,2,4", "plan.overlap.expert_parallel=true,false",
                        "plan.rank_order=tp-cp-dp-pp,tp-cp-pp-dp"})});
  all.push_back({Document(kVit8, "8xh100-hgx", {kOneImage}),
                 Space({"plan.backbone.tp=1,2", "plan.backbone.pp=1,2,4",
                        "plan.vision.placement=first_stage,colocated_dp,balanced,in_bubbles",
                        "plan.micro_batch_size=1,2", "plan.offload.activations=0,1"})});
  return all;
}

SearchReport Run(const Small& small, SearchOptions options) {
  return Search(small.document, small.space, &SharedCache(), options);
}

void CheckAccounted(const SearchReport& report) {
  const SearchCounts& c = report.counts;
  CHECK(c.total == report.space.Combinations());
  CHECK(c.Accounted() == c.total);
  std::uint64_t rejected = 0;
  for (const RejectedPlans& r : report.rejected) rejected += r.count;
  CHECK(rejected + c.valued == c.total);
}

TEST_CASE("the bound never costs the best plan: against all of a small space") {
  for (const Small& small : SmallSpaces()) {
    SearchOptions options;
    options.top = 1;
    const SearchReport pruned = Run(small, options);
    options.top = 1'000'000;
    const SearchReport all = Run(small, options);
    CheckAccounted(pruned);
    CheckAccounted(all);
    CHECK(all.counts.bounded == 0);
    CHECK(pruned.counts.bounded > 0);
    CHECK(pruned.simulations < all.simulations);
    REQUIRE(pruned.best.size() == 1);
    CHECK(pruned.best[0].step_s == all.best[0].step_s);
    for (const FoundPlan& plan : all.best) CHECK(plan.bound_s <= plan.step_s);

    // And all of it is what simulating one plan after the other says.
    double best = INFINITY;
    std::uint64_t fit = 0, refused = 0;
    std::set<double> steps, steps_found;  // twins have the same
    ChoiceIndices at(small.space.dimensions.size(), 0);
    while (true) {
      JsonDocument document = small.document;
      small.space.Apply(at, &document);
      try {
        const Evaluation e = EvaluateDocument(document);
        if (e.memory.verdict == Fit::kFits) {
          ++fit;
          steps.insert(e.StepSeconds());
          best = std::min(best, e.StepSeconds());
        }
      } catch (const InputError&) {
        ++refused;
      }
      std::size_t d = at.size();
      while (d-- > 0) {
        if (++at[d] < small.space.dimensions[d].choices.size()) break;
        at[d] = 0;
      }
      if (d == SIZE_MAX) break;
    }
    CHECK(all.best[0].step_s == best);
    for (const FoundPlan& plan : all.best) steps_found.insert(plan.step_s);
    CHECK(steps_found == steps);
    CHECK(all.counts.valued <= fit);
    CHECK(all.counts.valued + all.counts.alike >= fit);
    CHECK(all.counts.refused == refused);
  }
}

TEST_CASE("the ten best of a pruned search are the ten best of all") {
  for (const Small& small : SmallSpaces()) {
    SearchOptions options;
    options.top = 10;
    const SearchReport pruned = Run(small, options);
    options.top = 1'000'000;
    const SearchReport all = Run(small, options);
    REQUIRE(pruned.best.size() == 10);
    for (std::size_t i = 0; i < 10; ++i) CHECK(pruned.best[i].step_s == all.best[i].step_s);
  }
}

TEST_CASE("--pareto: the front of a pruned search is the front of all") {
  for (const Small& small : SmallSpaces()) {
    SearchOptions options;
    options.pareto = true;
    const SearchReport pruned = Run(small, options);
    options.pareto = false;
    options.top = 1'000'000;
    const SearchReport all = Run(small, options);
    CheckAccounted(pruned);
    REQUIRE(pruned.front.size() == all.front.size());
    // And the ten best are the ten best.
    REQUIRE(pruned.best.size() == 10);
    for (std::size_t i = 0; i < 10; ++i) CHECK(pruned.best[i].step_s == all.best[i].step_s);
    for (std::size_t i = 0; i < all.front.size(); ++i) {
      CHECK(pruned.front[i].step_s == all.front[i].step_s);
      CHECK(pruned.front[i].peak_bytes == all.front[i].peak_bytes);
    }
    // Along a front of one cluster, who is slower needs less memory.
    for (std::size_t i = 1; i < all.front.size(); ++i)
      CHECK(all.front[i].peak_bytes < all.front[i - 1].peak_bytes);
  }
}

std::uint64_t CountOf(const SearchReport& report, const std::string& reason) {
  for (const RejectedPlans& r : report.rejected) {
    if (r.code == "alike" && r.reason == reason) return r.count;
  }
  return 0;
}

TEST_CASE("what has no effect is searched once, and the twins are counted with the reason") {
  // Of 8 GPUs tp 8 leaves one replica, tp 4 two.
  const Small one = {Document(kLayers8, "8xh100-hgx"),
                     Space({"plan.backbone.tp=8,4", "plan.sharding=fsdp,zero1",
                            "plan.overlap.gradient_reduce=true,false"})};
  const SearchReport report = Run(one, {});
  CheckAccounted(report);
  CHECK(CountOf(report, "sharding has no effect: there is one replica") == 2);
  CHECK(CountOf(report, "gradient_reduce has no effect: there is one replica") == 1);
  std::size_t with_8 = 0;
  for (const FoundPlan& plan : report.best) {
    if (plan.labels[0] != "8") continue;
    ++with_8;
    CHECK(plan.labels[1] == "zero1");  // what divides least, whatever is told first
    CHECK(plan.labels[2] == "false");
  }
  CHECK(with_8 == 1);

  const Small norms = {Document(kLayers8, "8xh100-hgx"),
                       Space({"plan.backbone.tp=1,2", "plan.backbone.sequence_parallel=true,false",
                              "plan.overlap.tensor_parallel=true,false"})};
  const SearchReport of_norms = Run(norms, {});
  CheckAccounted(of_norms);
  CHECK(CountOf(of_norms, "sequence_parallel has no effect: tp is 1") == 2);
  CHECK(CountOf(of_norms, "tensor_parallel has no effect: tp is 1") == 1);

  // dp 1 or pp 1: the two orders deal the same groups. With both there are two plans.
  const Small orders = {Document(kLayers8, "16xh100-ndr", {"workload.global_batch_size=64"}),
                        Space({"plan.backbone.tp=8", "plan.backbone.pp=1,2",
                               "plan.rank_order=tp-cp-dp-pp,tp-cp-pp-dp"})};
  const SearchReport of_orders = Run(orders, {});
  CheckAccounted(of_orders);
  CHECK(CountOf(of_orders,
                "rank_order has no effect: the order of the groups of more than one rank is the "
                "same") == 2);
}

TEST_CASE("a key that acts on something has no twin") {
  const auto twins = [](const JsonDocument& document, const std::string& pointer) {
    return WhyWithoutEffect(ReadScenario(document, &SharedCache()), pointer);
  };
  CHECK(twins(Document(kLayers8, "8xh100-hgx"), "/plan/sharding") == "");
  CHECK(twins(Document(kLayers8, "8xh100-hgx", {"plan.backbone.tp=8"}), "/plan/sharding") ==
        "there is one replica");
  // Experts that tensor parallelism does not divide are there more than once.
  CHECK(twins(Document(kMoe8, "8xh100-hgx", {"plan.backbone.tp=8", "plan.backbone.expert_tp=1"}),
              "/plan/sharding") == "");
  // So is an encoder that every tensor rank has whole.
  CHECK(twins(Document(kVit8, "8xh100-hgx", {"plan.backbone.tp=8", kOneImage}), "/plan/sharding") ==
        "");
  CHECK(twins(Document(kLayers8, "8xh100-hgx", {"plan.backbone.tp=2"}),
              "/plan/overlap/tensor_parallel") == "");
  CHECK(twins(Document(kLayers8, "8xh100-hgx"), "/plan/micro_batch_size") == "");

  // Parameters leave for the host under fsdp alone: there it stands for itself.
  const Small offload = {
      Document(kLayers8, "8xh100-hgx",
               {"plan.backbone.tp=8", "plan.offload.parameters=1", "plan.sharding=fsdp"}),
      Space({"plan.sharding=zero1,fsdp"})};
  const SearchReport report = Run(offload, {});
  CheckAccounted(report);
  CHECK(report.best.size() == 1);
}

TEST_CASE("the same report on one thread and on many") {
  for (const Small& small : SmallSpaces()) {
    SearchOptions options;
    options.jobs = 1;
    const std::string one = SearchJson(Run(small, options), "test").Dump();
    options.jobs = 5;
    CHECK(SearchJson(Run(small, options), "test").Dump() == one);
  }
}

TEST_CASE("what a plan is told to set is the plan") {
  const Small small = SmallSpaces()[0];
  const SearchReport report = Run(small, {});
  for (const FoundPlan& plan : report.best) {
    const Evaluation e = EvaluateDocument(Changed(small.document, plan.set));
    CHECK(e.StepSeconds() == plan.step_s);
    CHECK(e.memory.Heaviest().peak_bytes == plan.peak_bytes);
  }
}

TEST_CASE("objectives: GPUs are free for throughput, and not for cost") {
  const Small small = {
      Document(kLayers8, "8xh100-hgx",
               {R"(prices={"currency": "EUR", "gpu_hour": 2})", "workload.global_batch_size=16"}),
      Space(
          {"cluster=8xh100-hgx,16xh100-ndr", "plan.micro_batch_size=1,2", "plan.backbone.pp=1,2"})};
  SearchOptions options;
  options.objective = Objective::kThroughput;
  const SearchReport fast = Run(small, options);
  options.objective = Objective::kCost;
  const SearchReport cheap = Run(small, options);
  CHECK(fast.best[0].gpus == 16);
  CHECK(cheap.best[0].gpus == 8);
  CHECK(cheap.best[0].cost.money < fast.best[0].cost.money);
  CHECK(cheap.best[0].cost.money ==
        doctest::Approx(2 * 8 * cheap.best[0].step_s / 3600).epsilon(1e-12));
}

TEST_CASE("plans at risk are told of, and taken when asked for") {
  // All of them: whichever lies between the two limits is in one report and not in the other.
  const Small small = {Document(kLayers96, "8xa100-hgx", {"workload.text_tokens=4096"}),
                       Space({"plan.backbone.tp=1,2,4,8", "plan.backbone.pp=1,2",
                              "workload.text_tokens=2048:8192:256"})};
  SearchOptions options;
  options.top = 1'000'000;
  const SearchReport careful = Run(small, options);
  options.accept_at_risk = true;
  const SearchReport bold = Run(small, options);
  for (const FoundPlan& plan : careful.best) CHECK(plan.verdict == Fit::kFits);
  const auto risky = std::count_if(bold.best.begin(), bold.best.end(), [](const FoundPlan& plan) {
    return plan.verdict == Fit::kAtRisk;
  });
  CHECK(risky > 0);
  CHECK(bold.best.size() == careful.best.size() + static_cast<std::size_t>(risky));
}

TEST_CASE("a budget's plans, a plan of one's own, an objective that is not known") {
  Small small = {Document(kLayers8, "8xh100-hgx", {R"(budget={"step_s": 1e-9})"}),
                 Space({"plan.micro_batch_size=1,2"})};
  const SearchReport none = Run(small, {});
  CHECK(none.best.empty());
  CHECK(none.counts.refused == 2);
  CHECK(none.rejected[0].code == "E0656");

  small.document = Document(kLayers8, "8xh100-hgx", {"plan.micro_batch_size=2"});
  const SearchReport two = Run(small, {});
  REQUIRE(two.told);
  CHECK(two.told_fits);
  CHECK(two.told->step_s == EvaluateDocument(small.document).StepSeconds());
  CHECK(two.best[0].step_s <= two.told->step_s);
}

TEST_CASE("samples that differ: sought for their mean, told as drawn") {
  const Small small = {Shipped("qwen2-vl-7b-samples-8xa100"),
                       Space({"plan.recompute=none,selective,full",
                              "plan.sharding=zero1,zero2,fsdp", "plan.micro_batch_size=1,2"})};
  SearchOptions options;
  options.top = 2;
  const SearchReport report = Run(small, options);
  CHECK(report.uneven);
  CHECK(report.counts.Accounted() == report.counts.total);
  REQUIRE_FALSE(report.best.empty());
  for (const FoundPlan& plan : report.best) {
    const Evaluation e = EvaluateDocument(Changed(small.document, plan.set));
    REQUIRE(e.data);
    CHECK(plan.step_s == e.data->mean_s);
    CHECK(plan.verdict == Fit::kFits);
  }
  CHECK(report.best.front().step_s <= report.best.back().step_s);
}

TEST_CASE("the best of the plans that somebody takes, proven among those") {
  const Small small = SmallSpaces()[0];
  SearchOptions options;
  options.top = 1'000'000;
  const SearchReport all = Run(small, options);
  options.top = 1;
  options.refuses = [](const Scenario& s) -> std::optional<Diagnostic> {
    if (s.plan.sharding == Sharding::kFsdp && s.plan.tp == 2) return std::nullopt;
    Diagnostic d;
    d.code = 950;
    d.message = "not for me";
    return d;
  };
  const SearchReport some = Run(small, options);
  CheckAccounted(some);
  REQUIRE(some.best.size() == 1);
  const auto first = std::find_if(all.best.begin(), all.best.end(), [](const FoundPlan& plan) {
    return plan.labels[0] == "2" && plan.labels[5] == "fsdp";
  });
  REQUIRE(first != all.best.end());
  CHECK(first != all.best.begin());
  CHECK(some.best[0].step_s == first->step_s);
  CHECK(std::any_of(some.rejected.begin(), some.rejected.end(), [](const RejectedPlans& r) {
    return r.code == "E0950" && r.reason == "not for me" && r.count > 0;
  }));
}

TEST_CASE("a search that is stopped says so") {
  const std::atomic<bool> stop{true};
  SearchOptions options;
  options.stop = &stop;
  const SearchReport report = Run(SmallSpaces()[0], options);
  CHECK(report.interrupted);
  CHECK(report.best.empty());
}

}  // namespace
}  // namespace aurum
