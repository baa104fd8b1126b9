#include "sim/plan/simulate.h"

#include <doctest/doctest.h>

#include <cmath>

#include "sim/network/event_loop.h"
#include "tests/support/scenario.h"

namespace aurum {
namespace {

TEST_CASE(
    "both engines give every shipped scenario the same schedule where nothing contends, to the "
    "bit") {
  for (const std::string& name : ShippedScenarios()) {
    CAPTURE(name);
    const Evaluation e = EvaluateDocument(Shipped(name));
    Fabric fabric;
    for (const Link& link : e.scenario.cluster->links())
      fabric.capacity_bytes_per_s.push_back(link.bandwidth_bytes_per_s);
    const Schedule events = RunEventLoop(e.program.graph, fabric);
    CHECK(events.makespan == e.outcome.schedule.makespan);
    CHECK(Signature(events) == e.outcome.signature);
  }
}

TEST_CASE("with the traffic on the links, sharing only ever delays") {
  for (const std::string& name : ShippedScenarios()) {
    CAPTURE(name);
    const Evaluation analytic = EvaluateDocument(Shipped(name));
    if (!Small(analytic) || !HasTraffic(analytic)) continue;
    const Evaluation flow = EvaluateDocument(Shipped(name), Level::kFlow);
    CHECK(flow.StepSeconds() >= analytic.StepSeconds() - 1e-9);
    CHECK(flow.StepSeconds() <= 1.25 * analytic.StepSeconds());
  }
}

TEST_CASE("the breakdown of every class sums to the step, and its gaps fill what the ops leave") {
  for (const std::string& name : ShippedScenarios()) {
    CAPTURE(name);
    const Evaluation e = EvaluateDocument(Shipped(name));
    for (std::size_t c = 0; c < e.program.classes.size(); ++c) {
      CHECK(e.outcome.time[c].Sum() == doctest::Approx(e.StepSeconds()).epsilon(1e-9));
      Time before;
      for (const Gap& gap : e.outcome.gaps[c]) {
        CHECK(gap.start >= before);
        CHECK(gap.end > gap.start);
        before = gap.end;
      }
      if (e.program.classes.size() == 1) CHECK(e.outcome.time[c].bubble_s == 0);
    }
  }
}

TEST_CASE(
    "a step is never shorter than the busiest stream, nor than the kernels of the heaviest "
    "module") {
  for (const std::string& name : ShippedScenarios()) {
    CAPTURE(name);
    const Evaluation e = EvaluateDocument(Shipped(name));
    for (const GoldenTerm& term : e.golden.terms)
      CHECK(e.StepSeconds() >= term.f_over_b_s * (1 - 1e-9));
  }
}

TEST_CASE("more bandwidth is never slower, less never faster") {
  for (const std::string& name : ShippedScenarios()) {
    const Evaluation base = EvaluateDocument(Shipped(name));
    if (base.scenario.cluster->GpuCount() > 64) continue;
    for (const std::string knob : {"nvlink_factor", "pcie_factor", "network_factor"}) {
      CAPTURE(name);
      CAPTURE(knob);
      const double half =
          EvaluateDocument(Shipped(name, {"what_if." + knob + "=0.5"})).StepSeconds();
      const double twice =
          EvaluateDocument(Shipped(name, {"what_if." + knob + "=2"})).StepSeconds();
      CHECK(half >= base.StepSeconds() * (1 - 1e-9));
      CHECK(twice <= base.StepSeconds() * (1 + 1e-9));
    }
  }
}

TEST_CASE("the link that a plan waits for is the link that matters") {
  const auto step = [](const std::vector<std::string>& changes) {
    return EvaluateDocument(Shipped("fuyu-8b-finetune-8xh100", changes)).StepSeconds();
  };
  CHECK(step({"what_if.nvlink_factor=0.25"}) > 1.1 * step({}));  // tensor parallelism over NVLink
  const auto across = [](const std::vector<std::string>& changes) {
    std::vector<std::string> all = {"cluster=32xa100-hdr"};
    all.insert(all.end(), changes.begin(), changes.end());
    return EvaluateDocument(Shipped("llava-1.6-7b-finetune-8xa100", all)).StepSeconds();
  };
  CHECK(across({"what_if.network_factor=0.05"}) > 1.1 * across({}));  // FSDP over the network
  // A faster GPU is faster.
  CHECK(EvaluateDocument(Shipped("llava-1.6-7b-finetune-8xa100", {"cluster=8xh100-hgx"}))
            .StepSeconds() <
        0.6 * EvaluateDocument(Shipped("llava-1.6-7b-finetune-8xa100")).StepSeconds());
}

TEST_CASE("a pipeline that waits for a slow network says so, on both sides of the link") {
  const Evaluation slow = EvaluateDocument(Shipped(
      "llava-1.6-7b-finetune-8xa100",
      {"cluster=16xa100-hdr", "plan.backbone.pp=4", "plan.sharding=zero1", "stack=megatron-core",
       "what_if.network_factor=0.001", "what_if.nvlink_factor=0.001"}));
  for (const TimeBreakdown& time : slow.outcome.time) {
    CHECK(time.exposed_comm_s > time.bubble_s);
    CHECK(time.exposed_comm_s > 0.3 * slow.StepSeconds());
  }
}

TEST_CASE("more work is never faster") {
  double before = 0;
  for (const char* flops : {"1", "5", "14", "60", "300"}) {
    const double step =
        EvaluateDocument(
            Shipped("golden-sweep", {std::string("what_if.flops_gflop_per_token=") + flops}))
            .StepSeconds();
    CHECK(step >= before);
    before = step;
  }
  before = 0;
  for (const char* bandwidth : {"1000", "100", "20", "4", "1"}) {
    const double step =
        EvaluateDocument(
            Shipped("golden-sweep", {std::string("what_if.comm_bw_gb_per_s=") + bandwidth}))
            .StepSeconds();
    CHECK(step >= before);
    before = step;
  }
}

}  // namespace
}  // namespace aurum
