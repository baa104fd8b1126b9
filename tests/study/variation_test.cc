#include "sim/study/variation.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/scenario.h"

namespace aurum {
namespace {

Evaluation Varied(const std::string& name, const std::string& variation,
                  Level level = Level::kAnalytic) {
  JsonDocument document = Shipped(name);
  ApplyOverride(&document, "variation=" + variation);
  return EvaluateDocument(document, level);
}

TEST_CASE("one GPU: kernels in a row average out, the step keeps its mean") {
  const Evaluation e = Varied("llama-2-7b-1x4090", R"({"kernel_cv": 0.1, "seeds": 200})");
  REQUIRE(e.varied);
  CHECK(e.varied->step_s.size() == 200);
  CHECK(e.varied->mean_s == doctest::Approx(e.StepSeconds()).epsilon(0.005));
  // The sum of n independent kernels of cv 0.1 has a cv far below 0.1.
  CHECK(e.varied->Quantile(0.99) < 1.03 * e.StepSeconds());
  CHECK(e.varied->Quantile(0.5) <= e.varied->Quantile(0.99));
}

TEST_CASE("ranks that meet wait for the slowest: the more ranks, the longer") {
  const Evaluation e = Varied("gpt-3-175b-64xa100", R"({"kernel_cv": 0.1, "seeds": 5})");
  CHECK(e.varied->step_s.front() > 1.03 * e.StepSeconds());
  // The expected maximum of eight standard normals is 1.42: tp 8 waits for that at every layer.
  CHECK(e.varied->mean_s < (1 + 1.42 * 0.1 + 0.03) * e.StepSeconds());
}

TEST_CASE("the same seeds give the same steps, at both levels") {
  const char* variation = R"({"communication_cv": 0.2, "seeds": 3})";
  for (const Level level : {Level::kAnalytic, Level::kFlow}) {
    const Evaluation a = Varied("clip-vit-l-14-4x4090", variation, level);
    const Evaluation b = Varied("clip-vit-l-14-4x4090", variation, level);
    CHECK(a.varied->step_s == b.varied->step_s);
    CHECK(a.varied->step_s.front() != a.varied->step_s.back());
  }
}

}  // namespace
}  // namespace aurum
