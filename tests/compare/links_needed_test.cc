#include "sim/compare/links_needed.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/compare/sides.h"

namespace aurum {
namespace {

double SamplesPerGpu(const Evaluation& e) {
  return static_cast<double>(e.scenario.workload.global_batch_size) / e.StepSeconds() /
         e.scenario.cluster->GpuCount();
}

TEST_CASE("the links that are said to be enough are, and hardly slower ones are not") {
  const Comparison c = CompareDocuments(OpenQuestion("qwen2.5-vl-7b-8xa100"),
                                        OpenQuestion("qwen2.5-vl-7b-16xa100"));
  REQUIRE(c.links);
  CHECK(c.links->of_b);
  const double wanted = kKeepsUp * SamplesPerGpu(*c.a.evaluation);
  CHECK(c.links->target_s == doctest::Approx(64 / wanted / 16));
  int enough = 0;
  for (const LinksOfKind& kind : c.links->kinds) {
    CAPTURE(kind.links);
    CHECK(kind.factor >= 1);
    if (!kind.enough) continue;
    ++enough;
    REQUIRE_FALSE(kind.set.empty());
    const Evaluation with = EvaluateDocument(Changed(*c.b.document, kind.set));
    CHECK(SamplesPerGpu(with) > wanted * 0.999);  // the words have four digits
    CHECK(with.StepSeconds() == doctest::Approx(kind.step_s).epsilon(1e-3));
    if (kind.links != "network") continue;
    const Evaluation slower = EvaluateDocument(Changed(
        *c.b.document, {"what_if.network_factor=" + std::to_string(kind.factor * 0.98)}));
    CHECK(SamplesPerGpu(slower) < wanted);
    CHECK(kind.needed_gb_per_s_per_gpu ==
          doctest::Approx(kind.factor * c.b.evaluation->scenario.cluster->NetworkBandwidthPerGpu() /
                          1e9));
  }
  CHECK(enough >= 1);
}

TEST_CASE("links that are not what is missing are said not to be") {
  const Comparison c = CompareDocuments(OpenQuestion("llava-1.5-13b-8xa100"),
                                        OpenQuestion("llava-1.5-13b-2x4xa100-40"));
  REQUIRE(c.links);
  const auto find = [&](const std::string& name) -> const LinksOfKind& {
    for (const LinksOfKind& kind : c.links->kinds) {
      if (kind.links == name) return kind;
    }
    FAIL("no such links: ", name);
    return c.links->kinds.front();
  };
  CHECK_FALSE(find("NVLink").enough);
  CHECK(find("NVLink").step_s > c.links->target_s);
}

TEST_CASE("nobody falls behind: no links are asked for") {
  const JsonDocument a = Shipped("llava-1.6-7b-finetune-8xa100");
  CHECK_FALSE(CompareDocuments(a, Changed(a, {"cluster=16xa100-hdr"})).links);
  CHECK_FALSE(CompareDocuments(a, a).links);
}

TEST_CASE("the side that falls behind may be A") {
  const Comparison c = CompareDocuments(OpenQuestion("qwen2.5-vl-7b-16xa100"),
                                        OpenQuestion("qwen2.5-vl-7b-8xa100"));
  REQUIRE(c.links);
  CHECK_FALSE(c.links->of_b);
}

TEST_CASE("a factor that the scenario has already is gone on from") {
  const Comparison plain = CompareDocuments(OpenQuestion("qwen2.5-vl-7b-8xa100"),
                                            OpenQuestion("qwen2.5-vl-7b-16xa100"));
  const JsonDocument half =
      Changed(OpenQuestion("qwen2.5-vl-7b-16xa100"), {"what_if.network_factor=0.5"});
  const Comparison c = CompareDocuments(OpenQuestion("qwen2.5-vl-7b-8xa100"), half);
  REQUIRE(c.links);
  REQUIRE(plain.links);
  REQUIRE(c.links->kinds.front().links == "network");
  CHECK(c.links->kinds.front().factor ==
        doctest::Approx(2 * plain.links->kinds.front().factor).epsilon(0.01));
}

TEST_CASE("another model or other tokens are other work") {
  const Evaluation a = EvaluateDocument(Shipped("llava-1.6-7b-finetune-8xa100"));
  CHECK(SameWork(a.scenario, a.scenario));
  for (const char* change : {"model=llava-1.6-13b", "workload.text_tokens=513"}) {
    const Evaluation b = EvaluateDocument(Shipped("llava-1.6-7b-finetune-8xa100", {change}));
    CHECK_FALSE(SameWork(a.scenario, b.scenario));
  }
}

}  // namespace
}  // namespace aurum
