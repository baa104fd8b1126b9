#include "sim/memory/memory.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "sim/core/units.h"
#include "tests/support/scenario.h"

namespace aurum {
namespace {

double Component(const ClassMemory& memory, MemoryComponent component) {
  return memory.at_peak[static_cast<std::size_t>(component)];
}

MemoryReport ReportOf(const std::string& name, const std::vector<std::string>& changes = {}) {
  return EvaluateDocument(Shipped(name, changes)).memory;
}

TEST_CASE("states are bytes per parameter, sharded as the plan says") {
  for (const std::string sharding : {"ddp", "zero1", "fsdp"}) {
    CAPTURE(sharding);
    const Evaluation e =
        EvaluateDocument(Shipped("llava-1.6-7b-finetune-8xa100", {"plan.sharding=" + sharding}));
    const Stack& stack = *e.scenario.stack;
    const double parameters = static_cast<double>(ModelParameters(*e.scenario.model));
    const ClassMemory& m = e.memory.Heaviest();
    const double shard = sharding == "fsdp" ? 8 : 1;
    CHECK(Component(m, MemoryComponent::kWeights) ==
          doctest::Approx(parameters * stack.weight_bytes / shard).epsilon(1e-12));
    CHECK(Component(m, MemoryComponent::kGradients) ==
          doctest::Approx(parameters * stack.gradient_bytes / shard).epsilon(1e-12));
    CHECK(Component(m, MemoryComponent::kOptimizer) ==
          doctest::Approx(parameters * (stack.master_bytes + stack.moment_bytes) /
                          (sharding == "ddp" ? 1 : 8))
              .epsilon(1e-12));
  }
}

TEST_CASE("Megatron's 18 bytes a parameter, on a stage of blocks alone") {
  // Korthikanti et al. 2022: 16-bit weights, fp32 gradients, master weights and two moments; and the gradient of one layer that
  // fused accumulation caches, 2 bytes a parameter.
  const Evaluation e = EvaluateDocument(Shipped("gpt-3-175b-64xa100"));
  const ClassMemory& m = e.memory.classes[3];
  const double layer = 12.0 * 12288 * 12288 / 8;  // 12·h² over tp 8, biases and norms apart
  const double states = Component(m, MemoryComponent::kWeights) +
                        Component(m, MemoryComponent::kGradients) +
                        Component(m, MemoryComponent::kOptimizer);
  CHECK(states == doctest::Approx(18 * 12 * layer + 2 * layer).epsilon(1e-3));
}

TEST_CASE("1F1B keeps min(m, p - s) micro-batches of activations on stage s") {
  const Evaluation e = EvaluateDocument(Shipped("gpt-3-175b-64xa100"));
  const auto activations = [&](std::size_t stage) {
    double most = 0;
    for (const double bytes : e.memory.classes[stage].activations) most = std::max(most, bytes);
    return most;
  };
  const double one =
      activations(6) / 2;  // stage 6 of 8 holds two; neither embedding nor head is on it
  for (std::size_t stage = 1; stage < 7; ++stage) {
    CAPTURE(stage);
    CHECK(activations(stage) ==
          doctest::Approx(static_cast<double>(8 - stage) * one).epsilon(1e-9));
  }
  CHECK(e.memory.heaviest == 0);
}

TEST_CASE("a stage keeps what its layers keep, in every micro-batch in flight") {
  // GPT-3 on fused attention without dropout: 32 of Korthikanti's 34 bytes of the hidden width, and
  // the log-sum-exp of each head.
  const Evaluation e = EvaluateDocument(Shipped("gpt-3-175b-64xa100", {"plan.recompute=none"}));
  const double tokens = 2048, h = 12288, heads = 96, layers = 12;
  const double per_layer = tokens * (32 * h + 4 * heads) / 8;
  double most = 0;
  for (const double bytes : e.memory.classes[6].activations) most = std::max(most, bytes);
  CHECK(most == doctest::Approx(2 * layers * per_layer).epsilon(1e-9));
}

TEST_CASE("less is kept the more is recomputed, and the less the smaller the micro-batch") {
  const auto peak = [](const std::vector<std::string>& changes) {
    return ReportOf("llava-1.6-7b-finetune-8xa100", changes).Heaviest().peak_bytes;
  };
  CHECK(peak({"plan.recompute=full"}) < peak({"plan.recompute=selective"}));
  CHECK(peak({"plan.recompute=selective"}) <= peak({"plan.recompute=none"}));
  CHECK(peak({"plan.micro_batch_size=1"}) < peak({"plan.micro_batch_size=2"}));
  CHECK(peak({R"(plan.frozen=["vision"])"}) < peak({}));
  CHECK(peak({"plan.sharding=fsdp"}) < peak({"plan.sharding=zero1"}));
  CHECK(peak({"plan.sharding=zero1"}) < peak({"plan.sharding=ddp"}));
}

TEST_CASE("everything taken is returned by the end of the step") {
  for (const std::string& name : ShippedScenarios()) {
    CAPTURE(name);
    const Evaluation e = EvaluateDocument(Shipped(name));
    for (const ClassMemory& m : e.memory.classes) {
      CHECK(std::abs(m.left_bytes) < 1e-3 * kMiB);
    }
  }
}

TEST_CASE("what does not fit is said: a full fine-tuning of 7 B on 24 GiB") {
  const MemoryReport report = ReportOf("llama-2-7b-1x4090");
  CHECK_FALSE(report.fits);
  CHECK(report.Heaviest().peak_bytes > 2 * report.device_bytes);
  CHECK(ReportOf("llava-1.6-7b-finetune-8xa100").fits);
}

TEST_CASE("the KV cache of the generation protocol is 524,288 bytes a token") {
  const Evaluation e = EvaluateDocument(Shipped("llava-1.6-7b-generate-8xa100"));
  CHECK(Component(e.memory.Heaviest(), MemoryComponent::kKvCache) ==
        doctest::Approx(524288.0 * 4 * (32 + 2928 + 64)).epsilon(1e-12));
}

}  // namespace
}  // namespace aurum
