#include "reports/island.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "sim/core/units.h"
#include "tests/support/scenario.h"

namespace aurum {
namespace {

Json Island(const JsonDocument& document, Evaluation* evaluation) {
  InputCache cache(".");
  *evaluation = Evaluate(ReadScenario(document, &cache), Level::kAnalytic);
  return EvaluationIsland(*evaluation, document, &cache, {"test", "2026-01-01", "aurum"});
}

// The components sum to the peak when it comes, and to less at every other moment.
void CheckMemory(const Json& island, const Evaluation& e) {
  const Json& memory = *island.Find("memory");
  const auto& times = memory.Find("t_s")->items();
  double most = 0;
  for (std::size_t t = 0; t < times.size(); ++t) {
    double sum = 0;
    for (const Json& component : memory.Find("components")->items())
      sum += component.Find("gib")->items()[t].AsNumber();
    most = std::max(most, sum);
    if (t > 0) CHECK(times[t].AsNumber() >= times[t - 1].AsNumber());
  }
  CHECK(most == doctest::Approx(e.memory.Heaviest().peak_bytes / kGiB).epsilon(1e-3));
}

TEST_CASE("all components that move are told over time, and the peak is their sum") {
  for (const char* name : {"llava-1.6-7b-finetune-8xa100", "gpt-3-175b-64xa100",
                           "llama-2-7b-1x4090", "llava-1.6-7b-generate-8xa100"}) {
    CAPTURE(name);
    Evaluation e;
    const Json island = Island(Shipped(name), &e);
    CheckMemory(island, e);
    CHECK(island.Find("verdict")->Find("verdict")->AsString() == FitName(e.memory.verdict));
    CHECK(island.Find("memory")->Find("tensors")->items().size() ==
          e.memory.Heaviest().largest.size());
    CHECK(island.Find("memory")->Find("usable_gib")->AsNumber() <
          island.Find("memory")->Find("device_gib")->AsNumber());
  }
}

TEST_CASE("a plan at risk says so") {
  // Long enough for the peak to come within 7 % of what is usable.
  Evaluation e;
  for (int text = 1024; text < 100'000; text += 1024) {
    const JsonDocument document =
        Shipped("llava-1.6-7b-finetune-8xa100", {"workload.text_tokens=" + std::to_string(text)});
    e = EvaluateDocument(document);
    if (e.memory.verdict == Fit::kFits) continue;
    REQUIRE(e.memory.verdict == Fit::kAtRisk);
    const Json island = Island(document, &e);
    CHECK(island.Find("answer")->AsString().starts_with("Whether it fits is at risk"));
    CHECK(island.Find("verdict")->Find("verdict")->AsString() == "at risk");
    return;
  }
  FAIL("no length is at risk");
}

}  // namespace
}  // namespace aurum
