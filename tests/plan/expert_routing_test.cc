#include "sim/plan/expert_routing.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "sim/study/data_report.h"
#include "tests/support/scenario.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

// Micro-batches that are large enough for kernels to take longer than their launches on the host.
const std::string kPlan = R"({
  "schema": "aurum.scenario/1", "model": "qwen3-vl-30b-a3b", "cluster": "16xh100-ndr",
  "workload": {"global_batch_size": 64, "text_tokens": 1024, "images": [{"width": 1024, "height": 1024}]},
  "plan": {"micro_batch_size": 4, "sharding": "zero1", "recompute": "full",
           "backbone": {"tp": 1, "pp": 1, "ep": 16}}})";

Evaluation With(const std::vector<std::string>& changes) {
  return EvaluateDocument(Changed(ParseJson(kPlan, "plan.json"), changes));
}
std::vector<std::string> Routing(const std::string& routing) {
  return {"plan.backbone.expert_routing=" + routing};
}
const std::string kSkewed =
    R"({"skew": [{"module": "vision", "zipf": 1}, {"module": "backbone", "zipf": 0.5}], "seed": 3})";

TEST_CASE("even routing is the plan without routing") {
  const Evaluation plain = With({});
  const Evaluation even = With(Routing(R"({"skew": [{"module": "vision", "zipf": 0}]})"));
  CHECK(even.scenario.plan.expert_imbalance == doctest::Approx(1).epsilon(1e-12));
  CHECK(even.scenario.plan.dropped_tokens == 0);
  CHECK(even.StepSeconds() == doctest::Approx(plain.StepSeconds()).epsilon(1e-9));
  const auto figures = FiguresOfExperts(plain);
  REQUIRE(figures);
  // Bytes by hand: 8 copies of each token of 2048 values of 2 B, out and back, in both passes and the
  // recomputed one, in 48 layers, over the GPU's own tokens.
  const SampleLoad& sample = plain.scenario.sample;
  const double copies = 64.0 / 16 * sample.backbone_tokens * 8;
  CHECK(figures->all_to_all_bytes == doctest::Approx(copies * 2048 * 2 * 2 * 3 * 48).epsilon(1e-9));
  CHECK(figures->share == doctest::Approx(figures->all_to_all_s / plain.StepSeconds()));
  CHECK(figures->exposed_s > 0);
}

TEST_CASE("tokens are counted by where they are from") {
  const Evaluation e = With({});
  const std::vector<ModalityTokens> tokens = TokensByModality(*e.scenario.model, e.scenario.sample);
  REQUIRE(tokens.size() == 2);
  CHECK(tokens[0].module == "backbone");
  CHECK(tokens[0].tokens == 1024);
  CHECK(tokens[1].module == "vision");
  CHECK(tokens[1].tokens == 32 * 32);  // 1024² in patches of 16², merged by 2 · 2
}

TEST_CASE("skew makes the busiest rank the straggler of every layer") {
  const Evaluation even = With({});
  const Evaluation skewed = With(Routing(kSkewed));
  const double imbalance = skewed.scenario.plan.expert_imbalance;
  CHECK(imbalance > 1.1);
  CHECK(skewed.StepSeconds() > even.StepSeconds());
  // The same as telling the imbalance that follows.
  const Evaluation told = With({"plan.backbone.expert_imbalance=" + std::to_string(imbalance)});
  CHECK(told.StepSeconds() == doctest::Approx(skewed.StepSeconds()).epsilon(1e-5));
  // Dropless: as many bytes.
  CHECK(FiguresOfExperts(skewed)->all_to_all_bytes == FiguresOfExperts(even)->all_to_all_bytes);
  double before = even.StepSeconds();
  for (const char* zipf : {"0.5", "1", "2"}) {
    const double now =
        With(Routing(std::string(R"({"skew": [{"module": "vision", "zipf": )") + zipf + "}]}"))
            .StepSeconds();
    CAPTURE(zipf);
    CHECK(now >= before);
    before = now;
  }
}

TEST_CASE("capacity trades dropped tokens for the straggler, and bytes follow what is kept") {
  const Evaluation dropless = With(Routing(kSkewed));
  const std::string capped = kSkewed.substr(0, kSkewed.size() - 1) + R"(, "capacity_factor": 1.0})";
  const Evaluation tight = With(Routing(capped));
  const double dropped = tight.scenario.plan.dropped_tokens;
  CHECK(dropped > 0.05);
  CHECK(dropless.scenario.plan.dropped_tokens == 0);
  CHECK(tight.scenario.plan.expert_imbalance < dropless.scenario.plan.expert_imbalance);
  CHECK(tight.StepSeconds() < dropless.StepSeconds());
  CHECK(
      FiguresOfExperts(tight)->all_to_all_bytes ==
      doctest::Approx(FiguresOfExperts(dropless)->all_to_all_bytes * (1 - dropped)).epsilon(1e-9));
  CHECK(ModelFlopsPerGpu(tight) < ModelFlopsPerGpu(dropless));
  CHECK(tight.memory.Heaviest().peak_bytes <= dropless.memory.Heaviest().peak_bytes);
  const Json result = ResultJson(tight, {}, "test");
  CHECK(result.Find("experts")->Find("dropped_share")->AsNumber() == dropped);
}

TEST_CASE("routing that cannot be is refused") {
  const auto thrown = [](const std::vector<std::string>& changes) {
    return ThrownBy([&] { With(changes); });
  };
  std::vector<std::string> both = Routing(kSkewed);
  both.emplace_back("plan.backbone.expert_imbalance=1.5");
  CHECK(thrown(both).code == 630);
  std::vector<std::string> dense = Routing(kSkewed);
  dense.emplace_back("model=qwen3-vl-8b");
  dense.emplace_back("plan.backbone.ep=1");
  CHECK(thrown(dense).code == 631);
  const Diagnostic unknown = thrown(Routing(R"({"skew": [{"module": "visoin", "zipf": 1}]})"));
  CHECK(unknown.code == 632);
  CHECK(unknown.help.find("did you mean 'vision'?") != std::string::npos);
  CHECK(
      thrown(Routing(
                 R"({"skew": [{"module": "vision", "zipf": 1}, {"module": "vision", "zipf": 2}]})"))
          .code == 632);
  CHECK(thrown(Routing(R"({"skew": [{"module": "vision", "zipf": -1}]})")).code == 107);
}

}  // namespace
}  // namespace aurum
