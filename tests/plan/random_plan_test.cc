// Laws that hold for any plan, over plans that are drawn.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "sim/memory/state.h"
#include "tests/plan/random_plan.h"

namespace aurum {
namespace {

constexpr std::uint64_t kPlans = 400;

std::optional<Evaluation> Try(const JsonDocument& document) {
  try {
    return EvaluateDocument(document);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

TEST_CASE("a plan is simulated to its end, or refused with a number, a place and a remedy") {
  int simulated = 0;
  for (std::uint64_t number = 0; number < kPlans; ++number) {
    CAPTURE(number);
    const JsonDocument document = RandomPlan(number).Make();
    const RefusedPlan refused = RefusalOf(document);
    if (refused.diagnostic.code == 0) {
      const Evaluation e = EvaluateDocument(document);
      ++simulated;
      CHECK(std::isfinite(e.StepSeconds()));
      CHECK(e.StepSeconds() > 0);
      for (std::size_t c = 0; c < e.program.classes.size(); ++c) {
        CHECK(e.outcome.time[c].Sum() == doctest::Approx(e.StepSeconds()).epsilon(1e-9));
        CHECK(e.memory.classes[c].left_bytes == doctest::Approx(0.0));
        CHECK(e.memory.classes[c].peak_bytes > 0);
      }
    } else {
      CHECK((refused.exit_code == ExitCode::kInfeasible ||
             refused.exit_code == ExitCode::kInvalidInput));
      CHECK(!refused.diagnostic.message.empty());
      CHECK(!refused.diagnostic.help.empty());
      CHECK(!refused.diagnostic.where.pointer.empty());
    }
  }
  CHECK(simulated > static_cast<int>(kPlans) / 4);
  CHECK(simulated < static_cast<int>(kPlans));
}

// For each plan that works with all of `variants`: `law`(evaluations of the variants in order).
template <typename Law>
void ForPlans(std::uint64_t from, std::uint64_t to,
              const std::vector<std::vector<std::string>>& variants, Law law) {
  int held = 0;
  for (std::uint64_t number = from; number < to; ++number) {
    CAPTURE(number);
    std::vector<Evaluation> evaluations;
    for (const std::vector<std::string>& changes : variants) {
      std::optional<Evaluation> e = Try(RandomPlan(number).Make(changes));
      if (!e) break;
      evaluations.push_back(std::move(*e));
    }
    if (evaluations.size() < variants.size()) continue;
    ++held;
    law(evaluations);
  }
  CHECK(held >= 10);
}

// What recomputation is about: activations and its working set, at their peak. (All memory may peak where
// one layer is left and gathered parameters are many; there a rebuilt layer beside its input is more.)
double Moving(const ClassMemory& memory) {
  double most = 0;
  for (std::size_t i = 0; i < memory.times.size(); ++i)
    most = std::max(most, memory.activations[i] + memory.workspace[i]);
  return most;
}

// Layers of stages that are deep enough: recomputing the only layer of a stage keeps its input and
// gains nothing. Offload is out of it, because less is kept then, and less moves.
TEST_CASE("more recomputation never needs more memory, and never less time") {
  const std::string deep = R"(plan.backbone={"tp": 2, "pp": 2})";
  const auto with = [&](const char* recompute) {
    return std::vector<std::string>{std::string("plan.recompute=") + recompute, deep,
                                    "plan.schedule=1f1b", "plan.offload={}"};
  };
  const auto law = [](const std::vector<Evaluation>& by) {
    for (std::size_t i = 1; i < by.size(); ++i) {
      CAPTURE(i);
      // Balanced stages are cut anew for the time that recomputation adds.
      if (by[i].program.classes.back().layers != by[i - 1].program.classes.back().layers) continue;
      CHECK(by[i].StepSeconds() >= by[i - 1].StepSeconds() * (1 - 1e-9));
      for (std::size_t c = 0; c < by[i].memory.classes.size(); ++c)
        CHECK(Moving(by[i].memory.classes[c]) <= Moving(by[i - 1].memory.classes[c]) * (1 + 1e-9));
    }
  };
  ForPlans(1000, 1200,
           {with("none"), with("selective"),
            with(R"({"scope": "selective", "parts": ["attention", "norm", "activation"]})")},
           law);
  ForPlans(1000, 1200, {with("none"), with(R"({"scope": "full", "layers": 2})"), with("full")},
           law);
}

TEST_CASE("more sharding never leaves more state on a GPU") {
  ForPlans(2000, 2150, {{"plan.sharding=ddp"}, {"plan.sharding=zero1"}, {"plan.sharding=fsdp"}},
           [](const std::vector<Evaluation>& by) {
             const auto state = [](const Evaluation& e, std::size_t c) {
               const LastingMemory m = LastingOf(e.scenario, e.program.classes[c]);
               return m.weights + m.gradients + m.optimizer;
             };
             for (std::size_t i = 1; i < by.size(); ++i) {
               REQUIRE(by[i].program.classes.size() == by[0].program.classes.size());
               for (std::size_t c = 0; c < by[0].program.classes.size(); ++c)
                 CHECK(state(by[i], c) <= state(by[i - 1], c) * (1 + 1e-9));
             }
           });
}

// Hidden communication slows the compute beside it; in a pipeline that may be on the way of all, where
// the same communication alone would have run in a bubble. More than that it cannot cost.
TEST_CASE("what may overlap is never slower for it, but by the compute that it slows") {
  for (const char* knob : {"gradient_reduce", "parameter_gather", "tensor_parallel",
                           "context_parallel", "expert_parallel", "pipeline", "offload"}) {
    CAPTURE(std::string(knob));
    const std::string path = std::string("plan.overlap.") + knob + "=";
    ForPlans(
        3000, 3080, {{path + "true"}, {path + "false"}}, [](const std::vector<Evaluation>& by) {
          double slowed = 0;
          for (const TimeBreakdown& time : by[0].outcome.time) slowed += time.slowed_s;
          const bool pipeline = by[0].scenario.plan.StageCount() > 1;
          CHECK(by[0].StepSeconds() <= by[1].StepSeconds() * (1 + 1e-9) + (pipeline ? slowed : 0));
        });
  }
}

TEST_CASE("more bandwidth is never slower") {
  for (const char* links : {"nvlink_factor", "pcie_factor", "network_factor"}) {
    CAPTURE(std::string(links));
    ForPlans(4000, 4080, {{}, {std::string("what_if.") + links + "=2"}},
             [](const std::vector<Evaluation>& by) {
               CHECK(by[1].StepSeconds() <= by[0].StepSeconds() * (1 + 1e-9));
             });
  }
}

TEST_CASE("two ways to say a plan are one plan") {
  struct Same {
    const char* model;
    std::vector<std::string> one, other;
  };
  for (const Same& same : std::vector<Same>{
           {kLayers8, {"plan.sharding=fsdp"}, {"plan.sharding=zero3"}},
           {kLayers8, {}, {R"(plan.backbone={"tp": 1, "cp": 1, "pp": 1, "vpp": 1})"}},
           {kLayers8,
            {R"(plan.backbone={"tp": 2, "pp": 2})"},
            {R"(plan.backbone={"pp": 2, "tp": 2, "sequence_parallel": true})",
             "plan.schedule=1f1b"}},
           {kLayers8,
            {"plan.backbone.pp=2"},
            {R"(plan.backbone={"pp": 2, "layers_per_stage": [4, 4]})"}},
           {kLayers8,
            {R"(plan.backbone={"pp": 2, "vpp": 2})"},
            {R"(plan.backbone={"pp": 2, "vpp": 2, "layers_per_stage": [2, 2, 2, 2]})",
             "plan.schedule=interleaved"}},
           {kLayers8,
            {"plan.backbone.pp=4", "plan.schedule=zb-v"},
            {R"(plan.backbone={"pp": 4, "vpp": 2})", "plan.schedule=zb-v"}},
           {kLayers8,
            {"plan.recompute=selective"},
            {R"(plan.recompute={"scope": "selective", "parts": ["attention"]})"}},
           {kLayers8,
            {"plan.recompute=full"},
            {R"(plan.recompute={"scope": "full", "block_layers": 1})"}},
           {kLayers8,
            {"plan.recompute=full"},
            {R"(plan.recompute={"scope": "full", "layers": 8})"}},
           {kLayers8,
            {"plan.recompute=none"},
            {R"(plan.recompute={"scope": "full", "layers": 0})"}},
           {kLayers8, {"plan.sharding=fsdp"}, {"plan.sharding=hsdp", "plan.shard_group=8"}},
           {kMoe8, {"plan.backbone.tp=2"}, {R"(plan.backbone={"tp": 2, "ep": 1, "expert_tp": 2})"}},
           {kVit8,
            {kOneImage, "plan.backbone.pp=2"},
            {kOneImage, "plan.backbone.pp=2", "plan.vision.micro_batch_size=1",
             "plan.vision.placement=first_stage"}},
       }) {
    CAPTURE(same.one.empty() ? "" : same.one.back());
    CAPTURE(same.other.back());
    const Evaluation a = EvaluateDocument(Document(same.model, "8xh100-hgx", same.one));
    const Evaluation b = EvaluateDocument(Document(same.model, "8xh100-hgx", same.other));
    CHECK(a.outcome.schedule.makespan == b.outcome.schedule.makespan);
    CHECK(a.memory.Heaviest().peak_bytes ==
          doctest::Approx(b.memory.Heaviest().peak_bytes).epsilon(1e-12));
  }
}

}  // namespace
}  // namespace aurum
