#include "sim/study/decide.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>

#include "tests/plan/space.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

JsonDocument Vit(const std::vector<std::string>& changes = {}) {
  return Document("tests/plan/fixtures/vit-b-16-uniform-8.json", "8xa100-hgx",
                  Join({R"(workload.images=[{"width": 224, "height": 224, "count": 4}])",
                        "workload.text_tokens=128", "plan.backbone.tp=4"},
                       changes));
}
Decision SplitOf(const JsonDocument& document, int jobs = 1) {
  return Decide("split", SplitAlternatives(ReadScenario(document, &SharedCache())), document,
                &SharedCache(), {Level::kAnalytic, jobs});
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
  const std::vector<Alternative> all = ExpertAlternatives(ReadScenario(document, &SharedCache()));
  std::vector<std::string> names;
  for (const Alternative& a : all) names.push_back(a.name);
  CHECK(names == std::vector<std::string>{"ep 1", "ep 2", "ep 4", "ep 8", "ep 16",
                                          "ep 16, all-to-all inside the node, then across"});
  const Decision decision = Decide("experts", all, document, &SharedCache(), {});
  CHECK(Named(decision, "ep 1").step_s > 0);
  CHECK(Named(decision, "ep 16").peak_bytes < Named(decision, "ep 2").peak_bytes);
}

// The line of the plan as it is.
const Alternative& Told(const Decision& decision) {
  for (const Alternative& a : decision.alternatives) {
    if (a.as_told) return a;
  }
  FAIL("the plan is not among the alternatives");
  return decision.alternatives.front();
}

TEST_CASE("the plan as it is is one of the alternatives, however it places its encoder") {
  int plans = 0;
  std::string taken;
  for (const char* vision :
       {R"(plan.vision={"placement": "balanced", "tp": 2})",
        R"(plan.vision={"placement": "in_bubbles"})",
        R"(plan.vision={"placement": "colocated_dp"})",
        R"(plan.vision={"placement": "own_ranks", "tp": 2})",
        R"(plan.vision={"placement": "own_ranks"})", R"(plan.vision={"tp": 2})"}) {
    CAPTURE(vision);
    const JsonDocument document = Vit({"plan.backbone.pp=2", "plan.backbone.tp=2", vision});
    std::optional<double> own;
    try {
      own = EvaluateDocument(document).StepSeconds();
    } catch (const InputError&) {
      continue;  // not a plan on this cluster
    }
    ++plans;
    taken += vision;
    const Decision decision = SplitOf(document);
    CHECK(Told(decision).step_s == *own);
    if (decision.alternatives.size() > 1) {
      const bool best = decision.reason.find("the plan is the best of them") != std::string::npos;
      CHECK(best == decision.alternatives.front().as_told);
    }
    CHECK(decision.alternatives.front().step_s <= *own);
  }
  INFO(taken);
  CHECK(plans == 4);  // the others are no plans on these GPUs
  CHECK(taken.find("balanced") != std::string::npos);
  // An all-to-all that is named and none of the two that are tried.
  const JsonDocument named =
      Document("qwen3-30b-a3b", "16xa100-hdr",
               {"plan.backbone.ep=8", "plan.collectives.expert_parallel=direct"});
  const Decision decision =
      Decide("experts", ExpertAlternatives(ReadScenario(named, &SharedCache())), named,
             &SharedCache(), {});
  CHECK(Told(decision).step_s == EvaluateDocument(named).StepSeconds());
  CHECK(Told(decision).set.empty());
}

TEST_CASE("what exceeds the budget stands behind what is within it, and says what it exceeds") {
  const Decision free = SplitOf(Vit());
  CHECK(free.alternatives[0].budget.empty());
  CHECK(DecisionJson(free, "test").Find("alternatives")->items()[0].Find("budget") == nullptr);
  // Between the fastest and the slowest by their memory, whichever way round they are.
  double least = 1e300, most = 0;
  for (const Alternative& a : free.alternatives) {
    least = std::min(least, a.peak_bytes);
    most = std::max(most, a.peak_bytes);
  }
  REQUIRE(least < most);
  const double bound = (least + most) / 2 / (1024.0 * 1024 * 1024);
  const Decision bounded = SplitOf(Vit({"budget.device_gib=" + std::to_string(bound)}));
  bool over = false;
  int exceeding = 0;
  for (const Alternative& a : bounded.alternatives) {
    REQUIRE(a.budget.size() == 1);
    const bool exceeds = a.peak_bytes > bound * 1024 * 1024 * 1024;
    CHECK(Exceeded(a.budget) == exceeds);
    CHECK((exceeds || !over));  // none within stands behind one that exceeds
    over = exceeds;
    exceeding += exceeds ? 1 : 0;
  }
  CHECK(exceeding > 0);
  CHECK(exceeding < 4);
  const Decision none = SplitOf(Vit({"budget.step_s=0.000001"}));
  CHECK(none.reason.find("none is within the budget") != std::string::npos);
  CHECK(none.reason.find("step_s: ") != std::string::npos);
  const Decision one = SplitOf(
      Vit({"budget.step_s=" +
           std::to_string((free.alternatives[0].step_s + free.alternatives[1].step_s) / 2)}));
  CHECK(one.reason.find("the only one within the budget: " + free.alternatives[1].name +
                        " exceeds step_s") != std::string::npos);
  CHECK(DecisionJson(one, "test").Find("alternatives")->items()[1].Find("budget") != nullptr);
}

TEST_CASE(
    "without tensor parallelism there is nothing to share, and the reason says what opens it") {
  const Decision decision =
      DecideSplit(Vit({"plan.backbone.tp=1"}), &SharedCache(), {Level::kAnalytic, 1});
  CHECK(decision.alternatives.size() == 1);
  CHECK(decision.alternatives[0].as_told);
  CHECK(decision.reason.find("a larger plan.backbone.tp (here 1) opens heads and tokens") !=
        std::string::npos);
  const Decision shared = DecideSplit(Vit(), &SharedCache(), {Level::kAnalytic, 1});
  CHECK(shared.reason.find("a larger") == std::string::npos);
}

TEST_CASE("phases that a decision leaves out are warned of") {
  CHECK_FALSE(PhasesLeftOut(Vit(), "decide"));
  const auto warning = PhasesLeftOut(
      Vit({R"(phases=[{"name": "text", "steps": 10, "set": {"workload.text_tokens": 256}}])"}),
      "decide");
  REQUIRE(warning);
  CHECK(warning->CodeName() == "W1771");
  CHECK(warning->where.pointer == "/phases");
  CHECK(warning->help.find("aurum simulate") != std::string::npos);
}

TEST_CASE("nothing to decide is said so") {
  const Scenario text = ReadScenario(Document(kLayers8, "8xa100-hgx"), &SharedCache());
  CHECK(ThrownBy([&] { SplitAlternatives(text); }).code == 768);
  CHECK(ThrownBy([&] { ExpertAlternatives(text); }).code == 768);
}

}  // namespace
}  // namespace aurum
