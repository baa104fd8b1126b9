#include "sim/explain/explain.h"

#include <doctest/doctest.h>

#include "sim/explain/findings.h"
#include "tests/support/scenario.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

Explanation ExplainIt(const JsonDocument& document, const ExplainOptions& options = {}) {
  InputCache cache(".");
  return Explain(Evaluate(ReadScenario(document, &cache), Level::kAnalytic), document, &cache,
                 options);
}

std::string TextOf(const Explanation& x, const std::string& topic) {
  for (const Finding& finding : x.findings) {
    if (finding.topic == topic) return finding.text;
  }
  return "";
}

TEST_CASE("every shipped scenario can be explained, and its time sums to the step") {
  for (const std::string& name : ShippedScenarios()) {
    CAPTURE(name);
    InputCache cache(".");
    const JsonDocument document = Shipped(name);
    const Evaluation e = Evaluate(ReadScenario(document, &cache), Level::kAnalytic);
    ExplainOptions options;
    options.topics = TopicsOf({"time", "memory", "formula"});
    const Explanation x = Explain(e, document, &cache, options);
    CHECK(ExposedOf(x.parts) == e.outcome.schedule.makespan);
    CHECK_FALSE(TextOf(x, "bound").empty());
    CHECK_FALSE(TextOf(x, "memory").empty());
    CHECK(ExplainJson(e, x, options).Find("critical_path") != nullptr);
  }
}

TEST_CASE("the topology matters where links without limit save much, and only there") {
  ExplainOptions options;
  options.topics = TopicsOf({"comm"});
  for (const char* name : {"llava-1.6-7b-finetune-8xa100", "qwen2.5-vl-72b-64xh100",
                           "clip-vit-l-14-4x4090", "gpt-3-175b-64xa100"}) {
    CAPTURE(name);
    const Explanation x = ExplainIt(Shipped(name), options);
    REQUIRE_FALSE(x.links.empty());
    const bool matters = x.links.front().step_share >= kTopologyMatters;
    const std::string text = TextOf(x, "topology");
    CHECK((text.find("The topology matters here") == 0) == matters);
    CHECK((text.find("The topology does not matter here") == 0) == !matters);
  }
  // A network at a thousandth of its rate matters.
  const Explanation slow =
      ExplainIt(Shipped("qwen2.5-vl-72b-64xh100", {"what_if.network_factor=0.001"}), options);
  CHECK(TextOf(slow, "topology").find("The topology matters here") == 0);
  CHECK(TextOf(ExplainIt(Shipped("llama-2-7b-1x4090"), options), "topology") ==
        "There is one GPU: no link matters.");
}

TEST_CASE("what does not fit is told what to change, and what another training would do") {
  ExplainOptions options;
  options.topics = TopicsOf({"oom"});
  const Explanation x = ExplainIt(Shipped("llama-2-7b-1x4090"), options);
  REQUIRE(x.fixes.has_value());
  bool lora = false, qlora = false;
  for (const Fix& fix : x.fixes->fixes) {
    const bool adapter = fix.set.front().find("plan.adapter=") == 0 && fix.set.size() == 1;
    if (!adapter) continue;
    CHECK_FALSE(fix.caution.empty());
    (fix.set.front().find("nf4") != std::string::npos ? qlora : lora) = true;
  }
  CHECK(lora);
  CHECK(qlora);
  // 7B parameters in 16 bytes each are 100 GiB: no micro-batch helps.
  for (const MicroBatchRow& row : x.micro_batches) CHECK(row.verdict == Fit::kDoesNotFit);
}

TEST_CASE("topics have names") {
  CHECK(TopicsOf({}).time);
  const ExplainTopics one = TopicsOf({"memory"});
  CHECK(one.memory);
  CHECK_FALSE(one.time);
  const Diagnostic d = ThrownBy([] { TopicsOf({"memry"}); });
  CHECK(d.code == 890);
  CHECK(d.help.find("did you mean 'memory'?") != std::string::npos);
}

}  // namespace
}  // namespace aurum
