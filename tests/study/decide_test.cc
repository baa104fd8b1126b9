#include "sim/study/decide.h"

#include <doctest/doctest.h>

#include "tests/plan/space.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

InputCache& Cache() {
  static InputCache cache(".");
  return cache;
}
JsonDocument Vit(const std::vector<std::string>& changes = {}) {
  return Document("tests/plan/fixtures/vit-b-16-uniform-8.json", "8xa100-hgx",
                  Join({R"(workload.images=[{"width": 224, "height": 224, "count": 4}])",
                        "workload.text_tokens=128", "plan.backbone.tp=4"},
                       changes));
}
Decision SplitOf(const JsonDocument& document, int jobs = 1) {
  return Decide("split", SplitAlternatives(ReadScenario(document, &Cache())), document, &Cache(),
                {Level::kAnalytic, jobs});
}
const Alternative& Named(const Decision& decision, const std::string& part) {
  for (const Alternative& a : decision.alternatives) {
    if (a.name.find(part) != std::string::npos) return a;
  }
  FAIL("no alternative '" << part << "'");
  return decision.alternatives.front();
}

TEST_CASE("every alternative of a split is simulated, and the order is by step time") {
  const Decision decision = SplitOf(Vit());
  REQUIRE(decision.alternatives.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    const Alternative& a = decision.alternatives[i];
    REQUIRE_FALSE(a.refused);
    // What is told to set gives the step that is shown.
    const Evaluation e = EvaluateDocument(Changed(Vit(), a.set));
    CHECK(e.StepSeconds() == a.step_s);
    if (i > 0) CHECK(decision.alternatives[i - 1].step_s <= a.step_s);
    CHECK(a.why.empty() == (i == 0));
  }
  // The plan as it is does not split the tower.
  CHECK(Named(decision, "none").as_told);
  CHECK_FALSE(Named(decision, "tokens").as_told);
  // By heads, four streams are reduced where by tokens a quarter of that is exchanged.
  CHECK(Named(decision, "tokens").time.exposed_comm_s <
        Named(decision, "heads").time.exposed_comm_s);
  CHECK(decision.reason.find(decision.alternatives[0].name) == 0);
}

TEST_CASE("what is no plan is listed with its diagnostic, behind all others") {
  // 196 tokens and 12 heads over tp 8: neither way divides.
  const Decision decision = SplitOf(Vit({"plan.backbone.tp=8"}));
  CHECK(Named(decision, "tokens").refused->code == 763);
  CHECK(Named(decision, "heads").refused->code == 311);
  CHECK_FALSE(decision.alternatives[0].refused);
  CHECK(decision.alternatives[3].refused);
  const Json json = DecisionJson(decision, "test");
  const Json& last = json.Find("alternatives")->items().back();
  CHECK(last.Find("refused")->Find("code") != nullptr);
  CHECK(last.Find("step_time_s") == nullptr);
}

TEST_CASE("any number of threads decides alike") {
  const std::string one = DecisionJson(SplitOf(Vit(), 1), "test").Dump();
  CHECK(DecisionJson(SplitOf(Vit(), 4), "test").Dump() == one);
}

TEST_CASE(
    "expert-parallel sizes: divisors of experts or GPUs, two levels where they leave the node") {
  const JsonDocument document = Document("qwen3-30b-a3b", "16xa100-hdr");
  const std::vector<Alternative> all = ExpertAlternatives(ReadScenario(document, &Cache()));
  std::vector<std::string> names;
  for (const Alternative& a : all) names.push_back(a.name);
  CHECK(names == std::vector<std::string>{"ep 1", "ep 2", "ep 4", "ep 8", "ep 16",
                                          "ep 16, all-to-all inside the node, then across"});
  const Decision decision = Decide("experts", all, document, &Cache(), {});
  CHECK(Named(decision, "ep 1").step_s > 0);
  CHECK(Named(decision, "ep 16").peak_bytes < Named(decision, "ep 2").peak_bytes);
}

TEST_CASE("nothing to decide is said so") {
  const Scenario text = ReadScenario(Document(kLayers8, "8xa100-hgx"), &Cache());
  CHECK(ThrownBy([&] { SplitAlternatives(text); }).code == 768);
  CHECK(ThrownBy([&] { ExpertAlternatives(text); }).code == 768);
}

}  // namespace
}  // namespace aurum
