#include "sim/study/pipeline_cut.h"

#include <doctest/doctest.h>

#include <numeric>

#include "sim/plan/balanced_cut.h"
#include "tests/plan/space.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

// Eight layers of a tower, which may move, before eight of a backbone.
JsonDocument Tower(const std::vector<std::string>& changes = {}) {
  return Document(
      kVit8, "8xa100-hgx",
      Join({kOneImage, R"(plan.backbone={"pp": 2})", R"(plan.vision={"placement": "balanced"})"},
           changes));
}

TEST_CASE("the heaviest part is as light as can be") {
  CHECK(BalancedCut({5, 1, 1, 1}, 2) == std::vector<int>{1, 3});
  CHECK(BalancedCut({1, 1, 1, 5}, 2) == std::vector<int>{3, 1});
  CHECK(BalancedCut({2, 2, 2, 2, 2, 2}, 3) == std::vector<int>{2, 2, 2});
  // Against every cut of a few random rows.
  unsigned state = 1;
  const auto next = [&] {
    return static_cast<double>((state = state * 1103515245U + 12345U) >> 20);
  };
  for (int round = 0; round < 50; ++round) {
    std::vector<double> weights(7);
    for (double& w : weights) w = next();
    const auto heaviest = [&](int a, int b) {
      double part[3] = {};
      for (int i = 0; i < 7; ++i)
        part[i < a ? 0 : i < b ? 1 : 2] += weights[static_cast<std::size_t>(i)];
      return std::max({part[0], part[1], part[2]});
    };
    double best = 1e300;
    for (int a = 0; a <= 7; ++a) {
      for (int b = a; b <= 7; ++b) best = std::min(best, heaviest(a, b));
    }
    const std::vector<int> counts = BalancedCut(weights, 3);
    CHECK(std::accumulate(counts.begin(), counts.end(), 0) == 7);
    CHECK(heaviest(counts[0], counts[0] + counts[1]) == doctest::Approx(best));
  }
}

TEST_CASE("argmax over a list that begins at the second stage is one too small") {
  // Latencies 120, 90, 60, 20, 80 µs: the lightest stage but the last is stage 3.
  const std::vector<double> latency = {120e-6, 90e-6, 60e-6, 20e-6, 80e-6};
  const Breakpoint at = BestBreakpoint(CutScores(latency, {}));
  CHECK(at.repaired == 3);
  CHECK(at.published == 2);
  // The first stage is never proposed by the published loop, and its own answer may be a stage that
  // was not scored at all: 0.
  const Breakpoint first = BestBreakpoint(CutScores({1e-6, 2e-6, 9e-6, 9e-6}, {}));
  CHECK(first.repaired == 0);
  CHECK(first.published == 0);
  // Reuse and variance weigh.
  CutScoreInputs inputs;
  inputs.kv_reuse = {1, 1, 1, 0.1, 1};
  CHECK(BestBreakpoint(CutScores(latency, inputs)).repaired == 2);
  inputs.kv_reuse = {1};
  inputs.gradient_variance = {0, 0, 0, 1.5, 0};  // beyond 1 the score turns negative
  CHECK(CutScores(latency, inputs)[3] < 0);
  CHECK(BestBreakpoint(CutScores(latency, inputs)).repaired == 2);
}

TEST_CASE("the row of layers has their times and what crosses behind them") {
  const Scenario s = ReadScenario(Tower(), &SharedCache());
  const std::vector<MovableLayer> row = MovableLayers(s);
  REQUIRE(row.size() == 16);
  CHECK(row[0].module == 0);
  CHECK(row[7].module == 0);
  CHECK(row[8].module == 2);
  // The first layer bears the patch embedding, the last of the tower the connector.
  CHECK(row[0].forward_s > row[1].forward_s);
  CHECK(row[1].forward_s == doctest::Approx(row[5].forward_s).epsilon(1e-12));
  CHECK(row[7].forward_s > row[5].forward_s);
  // Inside of the tower its own stream, inside of the backbone the joined sequence's.
  CHECK(row[3].boundary_bytes == doctest::Approx(2 * s.sample.modules[0].tokens * 2048));
  CHECK(row[10].boundary_bytes == doctest::Approx(2 * s.sample.backbone_tokens * 4096));
  // Frozen, the tower has no backward.
  const std::vector<MovableLayer> frozen =
      MovableLayers(ReadScenario(Tower({R"(plan.frozen=["vision"])"}), &SharedCache()));
  CHECK(frozen[3].whole_s == frozen[3].forward_s);
  CHECK(row[3].whole_s > 2 * row[3].forward_s);
}

TEST_CASE("counts over the row become layers of each module") {
  const Scenario s = ReadScenario(Tower(), &SharedCache());
  CHECK(CutAssignments(s, {10, 6}) ==
        std::vector<std::string>{"plan.vision.layers_per_stage=[8,0]",
                                 "plan.backbone.layers_per_stage=[2,6]"});
}

TEST_CASE("the search is no slower than any of the rules, and no single move improves on it") {
  const JsonDocument document = Tower();
  const Scenario s = ReadScenario(document, &SharedCache());
  CutOptions options;
  options.jobs = 2;
  const Decision decision = DecideCut(document, &SharedCache(), options);
  const Alternative& best = decision.alternatives.front();
  REQUIRE_FALSE(best.refused);
  for (const Alternative& a : decision.alternatives) {
    if (!a.refused && a.verdict == best.verdict) CHECK(best.step_s <= a.step_s);
  }
  // Its neighbours.
  int first = -1;
  for (int n = 0; n <= 16; ++n) {
    if (CutAssignments(s, {n, 16 - n}) == best.set) first = n;
  }
  if (first >= 0) {
    for (const int n : {first - 1, first + 1}) {
      if (n < 0 || n > 16) continue;
      const Evaluation e = EvaluateDocument(Changed(document, CutAssignments(s, {n, 16 - n})));
      CHECK(e.StepSeconds() >= best.step_s * (1 - 1e-9));
    }
  }
  // The light layers are the tower's: the score cuts there, and is slower than the balanced cut.
  double score = 0, balanced = 0;
  for (const Alternative& a : decision.alternatives) {
    if (a.name.find("index right") != std::string::npos) score = a.step_s;
    if (a.name.find("min-max") != std::string::npos) balanced = a.step_s;
  }
  CHECK(score > 1.05 * balanced);
}

TEST_CASE("a cut names the layers that are an encoder's, the plan's own too") {
  CutOptions options;
  options.most = 5;
  const Decision found = DecideCut(Tower(), &SharedCache(), options);
  const auto named = [](const Decision& decision, const std::string& part) {
    for (const Alternative& a : decision.alternatives) {
      if (a.name.find(part) != std::string::npos) return a;
    }
    return Alternative{};
  };
  CHECK(named(found, "even").name == "even: 8 vision · 8");
  // Where the plan does not say where it cuts, it is shown where the balance cuts.
  const Alternative own = named(found, "the plan's own cut");
  CHECK(own.as_told);
  CHECK(own.name.find("vision") != std::string::npos);
  CHECK(named(found, "min-max").step_s == own.step_s);
  const auto counts = [](const std::string& name) { return name.substr(name.find(": ")); };
  CHECK(counts(named(found, "min-max").name) == counts(own.name));
  // Told, and as good as any: it comes first, for there is nothing to change.
  const Decision told = DecideCut(
      Tower({"plan.vision.layers_per_stage=[8,0]", "plan.backbone.layers_per_stage=[2,6]"}),
      &SharedCache(), options);
  CHECK(named(told, "the plan's own cut").name == "the plan's own cut: 8 vision + 2 · 6");
  const Alternative& best = told.alternatives.front();
  CHECK((best.as_told == (told.reason.find("the plan is the best of them") != std::string::npos)));
  const Decision split = DecideCut(
      Tower({"plan.vision.layers_per_stage=[5,3]", "plan.backbone.layers_per_stage=[0,8]"}),
      &SharedCache(), options);
  CHECK(named(split, "the plan's own cut").name == "the plan's own cut: 5 vision · 3 vision + 8");
}

TEST_CASE("what cannot be cut is said so") {
  const JsonDocument one = Document(kLayers8, "8xa100-hgx");
  CHECK(ThrownBy([&] { DecideCut(one, &SharedCache(), {}); }).code == 769);
  CutOptions options;
  options.score.kv_reuse = {1, 2, 3};
  CHECK(ThrownBy([&] { DecideCut(Tower(), &SharedCache(), options); }).code == 769);
}

}  // namespace
}  // namespace aurum
