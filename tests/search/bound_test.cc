#include "sim/search/bound.h"

#include <doctest/doctest.h>

#include <optional>

#include "tests/plan/random_plan.h"

namespace aurum {
namespace {

struct Compared {
  PlanBound without, with;  // communication
  double step_s = 0, peak_bytes = 0;
};

std::optional<Compared> Compare(const JsonDocument& document) {
  try {
    const Scenario s = ReadScenario(document, &SharedCache());
    Compared compared;
    compared.without = BoundOf(s, CostPlan(s, false));
    compared.with = BoundOf(s, CostPlan(s, true));
    const Evaluation e = EvaluateDocument(document);
    compared.step_s = e.StepSeconds();
    compared.peak_bytes = e.memory.Heaviest().peak_bytes;
    return compared;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

void CheckAdmissible(const Compared& c) {
  CHECK(c.without.step_s <= c.with.step_s);
  CHECK(c.with.step_s <= c.step_s);
  CHECK(c.without.memory_bytes <= c.peak_bytes);
  CHECK(c.with.memory_bytes <= c.peak_bytes);
  CHECK(c.with.state_bytes <= c.with.memory_bytes);
}

TEST_CASE("a bound is never above what the simulation says: a thousand plans drawn at random") {
  int compared = 0;
  for (std::uint64_t number = 0; number < 1000; ++number) {
    CAPTURE(number);
    const JsonDocument document = RandomPlan(number).Make();
    CAPTURE(document.root.Dump());
    const auto c = Compare(document);
    if (!c) continue;
    ++compared;
    CheckAdmissible(*c);
  }
  CHECK(compared > 300);
}

TEST_CASE("the same for every schedule, with and without overlap") {
  for (const char* schedule : {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dualpipe"}) {
    for (const char* overlap : {"true", "false"}) {
      for (const char* recompute : {"none", "selective", "full"}) {
        for (const int micro : {8, 16, 48}) {
          CAPTURE(schedule);
          CAPTURE(overlap);
          CAPTURE(recompute);
          CAPTURE(micro);
          const std::string kind = schedule;
          const bool chunks = kind == "interleaved" || kind == "zb-v" || kind == "dualpipe";
          const auto c =
              Compare(Document(kLayers8, "8xh100-hgx",
                               {"plan.backbone.pp=4", "plan.backbone.tp=2", "plan.schedule=" + kind,
                                "plan.backbone.vpp=" + std::string(chunks ? "2" : "1"),
                                "workload.global_batch_size=" + std::to_string(micro),
                                "plan.recompute=" + std::string(recompute),
                                "plan.overlap.tensor_parallel=" + std::string(overlap),
                                "plan.overlap.gradient_reduce=" + std::string(overlap)}));
          REQUIRE(c);
          CheckAdmissible(*c);
          // And it is worth having: without overlap nearly all of a step is in it.
          if (kind != "dualpipe") CHECK(c->with.step_s > 0.85 * c->step_s);
        }
      }
    }
  }
}

TEST_CASE("every shipped scenario's bound holds") {
  for (const std::string& name : ShippedScenarios()) {
    CAPTURE(name);
    JsonDocument document = Shipped(name);
    if (document.root.Find("variation") != nullptr) continue;
    if (const auto c = Compare(document)) CheckAdmissible(*c);
  }
}

TEST_CASE("prices of a book are those that a plan would find itself") {
  PriceBook book;
  int compared = 0;
  for (std::uint64_t number = 0; number < 600; ++number) {
    CAPTURE(number);
    const JsonDocument document = RandomPlan(number % 300).Make();  // every one twice
    try {
      const Scenario s = ReadScenario(document, &SharedCache());
      const PlanCosts own = CostPlan(s, true), booked = CostPlan(s, true, &book);
      REQUIRE(own.stages.size() == booked.stages.size());
      for (std::size_t i = 0; i < own.stages.size(); ++i) {
        const StageCosts &a = own.stages[i], &b = booked.stages[i];
        CHECK(a.late_reduce_s == b.late_reduce_s);
        REQUIRE(a.chunks.size() == b.chunks.size());
        for (std::size_t c = 0; c < a.chunks.size(); ++c) {
          CHECK(a.chunks[c].send_s == b.chunks[c].send_s);
          CHECK(a.chunks[c].return_s == b.chunks[c].return_s);
          for (std::size_t p = 0; p < a.chunks[c].passes.size(); ++p) {
            const PassCosts &x = a.chunks[c].passes[p], &y = b.chunks[c].passes[p];
            CHECK(x.forward_in_line_s == y.forward_in_line_s);
            CHECK(x.backward_in_line_s == y.backward_in_line_s);
            CHECK(x.edge_s == y.edge_s);
          }
        }
      }
      CHECK(BoundOf(s, own).step_s == BoundOf(s, booked).step_s);
      ++compared;
    } catch (const InputError&) {
    }
  }
  CHECK(compared > 200);
}

TEST_CASE("equal stages without communication: the closed form of 1F1B") {
  const JsonDocument document = Document("tests/plan/fixtures/uniform-96-layers.json", "8xh100-hgx",
                                         {"plan.backbone.pp=8", "workload.global_batch_size=32"});
  const Scenario s = ReadScenario(document, &SharedCache());
  PlanCosts costs = CostPlan(s, false);
  // Ends that carry an embedding or a head are made like the others.
  for (StageCosts& stage : costs.stages) {
    stage = costs.stages[1];
    stage.rank.optimizer_s = 0;
  }
  const PassCosts& pass = costs.stages[0].chunks[0].passes[0];
  const double each = pass.forward_s + pass.backward_s + pass.weight_s;
  CHECK(BoundOf(s, costs).step_s ==
        doctest::Approx(costs.begin_s + (32 + 8 - 1) * each).epsilon(1e-6));
}

TEST_CASE("memory: 1F1B keeps as many micro-batches as stages follow, gpipe all of them") {
  const auto kept = [](const char* schedule, int micro) {
    const Scenario s =
        ReadScenario(Document(kLayers8, "8xh100-hgx",
                              {"plan.backbone.pp=4", "plan.backbone.tp=2",
                               "plan.schedule=" + std::string(schedule),
                               "workload.global_batch_size=" + std::to_string(micro)}),
                     &SharedCache());
    const PlanBound bound = BoundOf(s, CostPlan(s, false));
    return bound.memory_bytes;
  };
  CHECK(kept("1f1b", 16) == doctest::Approx(kept("1f1b", 64)).epsilon(1e-9));
  CHECK(kept("gpipe", 64) > kept("gpipe", 16) * 1.5);
  CHECK(kept("gpipe", 4) == doctest::Approx(kept("1f1b", 4)).epsilon(1e-9));
}

}  // namespace
}  // namespace aurum
