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
  const Comparison c =
      CompareDocuments(OpenQuestion("qwen2.5-vl-7b-8xa100"), OpenQuestion("qwen2.5-vl-7b-16xa100"));
  REQUIRE(c.links);
  CHECK(c.links->of_b);
  // Its own scenario on A's cluster is A here.
  CHECK(c.links->own_plan);
  CHECK(c.links->measure_step_s == c.a.evaluation->StepSeconds());
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
    JsonDocument slower = *c.b.document;
    for (const std::string& word : kind.set)
      ApplyOverride(&slower,
                    word.substr(0, word.find('=') + 1) + std::to_string(kind.factor * 0.98));
    CHECK(SamplesPerGpu(EvaluateDocument(slower)) < wanted);
    if (kind.links.rfind("network", 0) == 0) {
      CHECK(kind.needed_gb_per_s_per_gpu ==
            doctest::Approx(kind.factor *
                            c.b.evaluation->scenario.cluster->NetworkBandwidthPerGpu() / 1e9));
    }
  }
  CHECK(enough >= 1);
}

const LinksOfKind& Kind(const LinksNeeded& needed, const std::string& name) {
  for (const LinksOfKind& kind : needed.kinds) {
    if (kind.links == name) return kind;
  }
  FAIL("no such links: ", name);
  return needed.kinds.front();
}

TEST_CASE(
    "links that are not what is missing are said not to be, and a plan's own loss is not theirs") {
  const Comparison c = CompareDocuments(OpenQuestion("llava-1.5-13b-8xa100"),
                                        OpenQuestion("llava-1.5-13b-2x4xa100-40"));
  REQUIRE(c.links);
  CHECK_FALSE(Kind(*c.links, "NVLink").enough);
  CHECK(Kind(*c.links, "NVLink").step_s > c.links->target_s);
  // Small micro-batches cost on any cluster: the measure is slower than A.
  CHECK(c.links->own_plan);
  CHECK(c.links->measure_step_s ==
        EvaluateDocument(Changed(*c.a.document, {"plan.micro_batch_size=2"})).StepSeconds());
  CHECK(c.links->measure_step_s > c.a.evaluation->StepSeconds());
}

TEST_CASE("other kernels are no fault of links") {
  const JsonDocument a = Shipped("llava-1.6-7b-finetune-8xa100");
  CHECK_FALSE(CompareDocuments(a, Changed(a, {"cluster=8xh100-hgx"})).links);
}

TEST_CASE("nobody falls behind: no links are asked for") {
  const JsonDocument a = Shipped("llava-1.6-7b-finetune-8xa100");
  CHECK_FALSE(CompareDocuments(a, Changed(a, {"cluster=16xa100-hdr"})).links);
  CHECK_FALSE(CompareDocuments(a, a).links);
}

TEST_CASE("the side that falls behind may be A") {
  const Comparison c =
      CompareDocuments(OpenQuestion("qwen2.5-vl-7b-16xa100"), OpenQuestion("qwen2.5-vl-7b-8xa100"));
  REQUIRE(c.links);
  CHECK_FALSE(c.links->of_b);
}

TEST_CASE("a factor that the scenario has already is gone on from") {
  const JsonDocument a = OpenQuestion("qwen2.5-vl-7b-8xa100");
  const JsonDocument b = OpenQuestion("qwen2.5-vl-7b-16xa100");
  const Comparison plain = CompareDocuments(a, b);
  const Comparison half =
      CompareDocuments(a, Changed(b, {"what_if.network_factor=0.5", "what_if.pcie_factor=0.5"}));
  REQUIRE(plain.links);
  REQUIRE(half.links);
  CHECK(Kind(*half.links, "network and PCIe").factor ==
        doctest::Approx(2 * Kind(*plain.links, "network and PCIe").factor).epsilon(0.01));
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
