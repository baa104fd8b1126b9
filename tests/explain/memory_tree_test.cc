#include "sim/explain/memory_tree.h"

#include <doctest/doctest.h>

#include "tests/support/scenario.h"

namespace aurum {
namespace {

TEST_CASE("the tree is the peak, component by component, on every shipped scenario") {
  for (const std::string& name : ShippedScenarios()) {
    CAPTURE(name);
    const Evaluation e = EvaluateDocument(Shipped(name));
    const MemoryTree tree = MakeMemoryTree(e);
    const ClassMemory& heaviest = e.memory.Heaviest();
    double sum = 0;
    for (int i = 0; i < kMemoryComponents; ++i) {
      const auto component = static_cast<MemoryComponent>(i);
      CAPTURE(MemoryComponentName(component));
      const double bytes = heaviest.at_peak[static_cast<std::size_t>(i)];
      // Sums of takes and returns round; a byte or a millionth.
      CHECK(tree.BytesOf(component) == doctest::Approx(bytes).epsilon(1e-6).scale(1e3));
      sum += tree.BytesOf(component);
    }
    CHECK(sum == doctest::Approx(heaviest.peak_bytes).epsilon(1e-6));
    for (const MemoryItem& item : tree.items) CHECK(item.bytes > 0);
  }
}

TEST_CASE("weights by module are its parameters in two bytes") {
  const Evaluation e = EvaluateDocument(Shipped("llama-2-7b-1x4090"));
  for (const MemoryItem& item : MakeMemoryTree(e).items) {
    if (item.component != MemoryComponent::kWeights) continue;
    CHECK(item.module == "backbone");
    // 6,738,415,616 parameters (Llama 2's model card: 7B).
    CHECK(item.bytes / 6738415616.0 == doctest::Approx(e.scenario.stack->weight_bytes));
  }
}

TEST_CASE("a second micro-batch in flight keeps twice the activations of a layer") {
  const auto kept = [](int size) {
    const Evaluation e = EvaluateDocument(Shipped(
        "loop-dp", {"plan.recompute=none", "plan.micro_batch_size=" + std::to_string(size)}));
    return MakeMemoryTree(e).BytesOf(MemoryComponent::kActivations);
  };
  CHECK(kept(2) == doctest::Approx(2 * kept(1)).epsilon(0.02));
}

}  // namespace
}  // namespace aurum
