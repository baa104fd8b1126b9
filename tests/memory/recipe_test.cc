// Memory of kernels, shards, adapters and formats, one knob at a time.
#include <doctest/doctest.h>

#include "sim/core/units.h"
#include "sim/memory/memory.h"
#include "tests/support/scenario.h"

namespace aurum {
namespace {

double At(const MemoryReport& m, MemoryComponent component) {
  return m.Heaviest().at_peak[static_cast<std::size_t>(component)];
}

MemoryReport ReportOfArticle(const std::string& name,
                             const std::vector<std::string>& changes = {}) {
  return EvaluateDocument(Shipped("articles/" + name, changes)).memory;
}

TEST_CASE("scores in memory grow with the square of the sequence, fused attention's with it") {
  const auto activations = [](const char* kernel, int text) {
    return At(ReportOfArticle("b5-attention-memory",
                              {std::string("plan.attention=") + kernel, "workload.images=[]",
                               "workload.text_tokens=" + std::to_string(text)}),
              MemoryComponent::kActivations);
  };
  const double flash = activations("flash2", 4096) / activations("flash2", 2048);
  CHECK(flash == doctest::Approx(2).epsilon(0.05));
  const double more = activations("unfused", 4096) - activations("flash2", 4096);
  const double less = activations("unfused", 2048) - activations("flash2", 2048);
  CHECK(more / less == doctest::Approx(4).epsilon(0.05));
}

TEST_CASE("ZeRO-3 on one GPU shards nothing; the host's memory helps, for time") {
  const auto run = [](const std::vector<std::string>& changes) {
    return EvaluateDocument(Shipped("articles/b16-long-sequences-one-gpu", changes));
  };
  const Evaluation ddp = run({"plan.offload=null", "plan.sharding=ddp"});
  const Evaluation zero3 = run({"plan.offload=null"});
  const Evaluation away = run({});
  for (const MemoryComponent part : {MemoryComponent::kWeights, MemoryComponent::kOptimizer})
    CHECK(At(zero3.memory, part) == At(ddp.memory, part));
  CHECK(away.memory.Heaviest().peak_bytes < 0.6 * zero3.memory.Heaviest().peak_bytes);
  CHECK(away.memory.host_bytes_per_node > 0);
  CHECK(away.StepSeconds() > zero3.StepSeconds());
}

TEST_CASE(
    "bits of the base and rank of the adapter are two knobs, and the first is the large one") {
  const auto peak = [](int rank, const char* base) {
    return ReportOfArticle("b10-lora-and-qlora", {"plan.adapter={\"rank\":" + std::to_string(rank) +
                                                  ",\"base\":\"" + base + "\"}"})
        .Heaviest()
        .peak_bytes;
  };
  const double wide = peak(16, "bf16"), low = peak(8, "bf16"), few = peak(16, "nf4");
  CHECK(low < wide);
  CHECK(few < wide);
  CHECK(wide - few > 5 * (wide - low));
  // The adapter is as large whatever its base is stored in.
  CHECK(peak(16, "nf4") - peak(8, "nf4") == doctest::Approx(wide - low).epsilon(1e-6));
}

TEST_CASE("prompts have next to no state, on every tower") {
  const MemoryReport prompt = ReportOfArticle("b13-cross-modal-prompts");
  const MemoryReport full = ReportOfArticle("b13-cross-modal-prompts", {"plan.adapter=null"});
  CHECK(At(prompt, MemoryComponent::kOptimizer) < 1e-3 * At(full, MemoryComponent::kOptimizer));
  CHECK(At(prompt, MemoryComponent::kOptimizer) > 0);
  const double parameters = 8 * (1024.0 + 768);
  const Evaluation e = EvaluateDocument(Shipped("articles/b13-cross-modal-prompts", {}));
  CHECK(At(prompt, MemoryComponent::kOptimizer) ==
        doctest::Approx(parameters * e.scenario.stack->adapter_optimizer_bytes));
}

}  // namespace
}  // namespace aurum
