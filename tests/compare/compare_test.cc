#include "sim/compare/compare.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "sim/core/text_file.h"
#include "sim/core/units.h"
#include "tests/compare/sides.h"
#include "tests/study/scratch.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

const FactChange* Fact(const Comparison& c, const std::string& of, const std::string& fact) {
  for (const FactChange& change : c.facts) {
    if (change.of == of && change.fact == fact) return &change;
  }
  return nullptr;
}

// As `simulate --json` writes it.
JsonDocument ResultOf(const JsonDocument& scenario) {
  Json result = ResultJson(EvaluateDocument(scenario), {}, "test");
  result.Set("scenario", scenario.root);
  return ParseJson(result.Dump(2), "result.json");
}

TEST_CASE("a scenario and itself: nothing differs") {
  const JsonDocument a = Shipped("qwen2.5-vl-72b-64xh100");
  const Comparison c = CompareDocuments(a, a, {"step_time_s > 0%", "memory.peak_gib > +0"});
  CHECK(c.summary == "nothing differs");
  CHECK(c.changes.empty());
  CHECK(c.facts.empty());
  CHECK_FALSE(c.substitution);
  CHECK_FALSE(c.scaling);
  CHECK_FALSE(c.Failed());
  for (const PartChange& part : c.parts) CHECK(part.ChangePs() == 0);
  for (const MemoryChange& change : c.memory) CHECK(change.a_bytes == change.b_bytes);
}

TEST_CASE("figures that differ where the inputs are the same are told as such") {
  const JsonDocument scenario = Shipped("llava-1.6-7b-finetune-8xa100");
  const JsonDocument a = ResultOf(scenario);
  const auto side = [](const JsonDocument& result) {
    return SideOfResult("result", result, Inputs());
  };
  CHECK(Compare(side(a), side(a), Inputs(), {}).summary == "nothing differs");
  for (const char* figure : {"step_time_s", "mfu"}) {
    JsonDocument b = a;
    b.root.Set(figure, b.root.Find(figure)->AsNumber() * 1.25);
    const Comparison c = Compare(side(a), side(b), Inputs(), {});
    CAPTURE(c.summary);
    CHECK(c.summary.find("figures differ: " + std::string(figure)) != std::string::npos);
    CHECK(c.changes.empty());
    const bool step = std::string(figure) == "step_time_s";
    CHECK((c.summary.find("a step of B takes") != std::string::npos) == step);
    CHECK(c.b.evaluation.has_value() != step);  // not taken apart as what it is not
  }
}

TEST_CASE("a side that is at risk of not fitting is named") {
  const JsonDocument a = Shipped("qwen2-vl-7b-samples-8xa100");
  const Comparison c = CompareDocuments(a, Changed(a, {"plan.micro_batch_size=2"}));
  REQUIRE(c.b.evaluation->memory.at_risk);
  CHECK(std::count(c.notes.begin(), c.notes.end(),
                   "B is at risk of not fitting: its peak is too near to what is usable to tell") ==
        1);
}

TEST_CASE("components of memory sum to the change of the peak") {
  const JsonDocument a = Shipped("llava-1.6-7b-finetune-8xa100");
  const Comparison c =
      CompareDocuments(a, Changed(a, {"plan.recompute=none", "plan.micro_batch_size=1"}));
  double of_a = 0, of_b = 0;
  for (const MemoryChange& change : c.memory) {
    of_a += change.a_bytes;
    of_b += change.b_bytes;
  }
  CHECK(of_a == doctest::Approx(c.a.evaluation->memory.Heaviest().peak_bytes));
  CHECK(of_b == doctest::Approx(c.b.evaluation->memory.Heaviest().peak_bytes));
  for (std::size_t i = 1; i < c.memory.size(); ++i) {
    CHECK(std::abs(c.memory[i].b_bytes - c.memory[i].a_bytes) <=
          std::abs(c.memory[i - 1].b_bytes - c.memory[i - 1].a_bytes));
  }
}

TEST_CASE("the eight GPUs of Q11: the network and small micro-batches, and mostly both") {
  const Comparison c = CompareDocuments(OpenQuestion("llava-1.5-13b-8xa100"),
                                        OpenQuestion("llava-1.5-13b-2x4xa100-40"));
  // 20 and 100 hours for the same samples (LLaVA, issue 594): five times, and about what is said.
  const double times = Seconds(c.parts_b.step) / Seconds(c.parts_a.step);
  CHECK(times > 4);
  CHECK(times < 7);
  CHECK_FALSE(c.scaling);  // eight GPUs and one batch on both sides
  REQUIRE(c.substitution);
  const Substitution& s = *c.substitution;
  const auto alone = [&](const std::string& path) {
    for (const AloneChange& change : s.alone) {
      if (change.what.path == path) return change.with->step.ps - c.parts_a.step.ps;
    }
    return std::int64_t{0};
  };
  const std::int64_t whole = c.parts_b.step.ps - c.parts_a.step.ps;
  CHECK(alone("cluster") + alone("plan.micro_batch_size") < whole);
  CHECK(s.interaction_ps > whole / 2);
  CHECK(c.summary.find("parameter gathers") != std::string::npos);
  REQUIRE(Fact(c, "plan", "micro-batches a replica and step") != nullptr);
  CHECK(Fact(c, "plan", "micro-batches a replica and step")->b.AsInteger() == 8);
}

TEST_CASE("the sixteen GPUs of Q19: what each part should take, and what it takes") {
  const Comparison c =
      CompareDocuments(OpenQuestion("qwen2.5-vl-7b-8xa100"), OpenQuestion("qwen2.5-vl-7b-16xa100"));
  REQUIRE(c.scaling);
  const Scaling& s = *c.scaling;
  CHECK(s.gpus_a == 8);
  CHECK(s.gpus_b == 16);
  CHECK(s.ideal_speedup == 2);
  CHECK(s.speedup < 1.1);
  CHECK(s.ideal_step_s == doctest::Approx(Seconds(c.parts_a.step) / 2));
  CHECK(s.Efficiency() == doctest::Approx(s.speedup / 2));
  double a = 0, ideal = 0, b = 0;
  for (const Scaling::Part& part : s.parts) {
    a += part.a_s;
    ideal += part.ideal_s;
    b += part.b_s;
    CHECK(part.ideal_s == doctest::Approx(part.a_s / 2));
  }
  CHECK(a == doctest::Approx(Seconds(c.parts_a.step)).epsilon(1e-12));
  CHECK(ideal == doctest::Approx(s.ideal_step_s).epsilon(1e-12));
  CHECK(b == doctest::Approx(Seconds(c.parts_b.step)).epsilon(1e-12));
  CHECK((s.parts.front().name == "parameter gathers" ||
         s.parts.front().name == "gradient reductions"));
  CHECK(c.summary.rfind("2 × the GPUs give ", 0) == 0);
}

TEST_CASE("weak scaling: twice the GPUs and the batch make ideally the same step") {
  const JsonDocument a = Shipped("llava-1.6-7b-finetune-8xa100");
  const Comparison c =
      CompareDocuments(a, Changed(a, {"cluster=16xa100-hdr", "workload.global_batch_size=256"}));
  REQUIRE(c.scaling);
  CHECK(c.scaling->ideal_step_s == doctest::Approx(Seconds(c.parts_a.step)));
  CHECK(c.scaling->speedup > 1.7);
  CHECK(c.scaling->speedup < 2.02);
}

TEST_CASE("conditions judge figures of both sides") {
  const JsonDocument a = Shipped("llava-1.6-7b-finetune-8xa100");
  const JsonDocument b = Changed(a, {"plan.recompute=none"});
  const Comparison c =
      CompareDocuments(a, b, {"step_time_s > 5%", "memory.peak_gib > +1", "peak_gib > +1000"});
  REQUIRE(c.judged.size() == 3);
  CHECK_FALSE(c.judged[0].failed);  // less is computed
  CHECK(c.judged[1].failed);        // more is kept
  CHECK_FALSE(c.judged[2].failed);
  CHECK(c.Failed());
  CHECK(c.judged[1].compared == doctest::Approx((c.b.evaluation->memory.Heaviest().peak_bytes -
                                                 c.a.evaluation->memory.Heaviest().peak_bytes) /
                                                kGiB));
  const Diagnostic d = ThrownBy([&] { CompareDocuments(a, b, {"step_tim_s > 5%"}); });
  CHECK(d.code == 881);
  CHECK(d.help.find("step_time_s") != std::string::npos);
}

TEST_CASE("a result whose scenario still gives its step is taken apart like a scenario") {
  const JsonDocument a = Shipped("llava-1.6-7b-finetune-8xa100");
  const JsonDocument b = Changed(a, {"plan.sharding=zero2"});
  const Side result = SideOfResult("r.json", ResultOf(a), Inputs());
  CHECK(result.as_found.empty());
  REQUIRE(result.evaluation);
  const Comparison of_scenarios = CompareDocuments(a, b);
  const Comparison of_results =
      Compare(result, SideOfResult("s.json", ResultOf(b), Inputs()), Inputs(), {});
  CHECK(of_results.summary == of_scenarios.summary);
  REQUIRE(of_results.substitution);
  REQUIRE(of_results.parts.size() == of_scenarios.parts.size());
  for (std::size_t i = 0; i < of_results.parts.size(); ++i)
    CHECK(of_results.parts[i].ChangePs() == of_scenarios.parts[i].ChangePs());
}

TEST_CASE("a result of another version is compared as it was found, and this is said") {
  const JsonDocument scenario = Shipped("llava-1.6-7b-finetune-8xa100");
  JsonDocument old = ResultOf(scenario);
  old.root.Set("tool_version", "0.0.1");
  old.root.Set("signature", "another");
  old.root.Set("step_time_s", old.root.Find("step_time_s")->AsNumber() * 0.9);
  old.root.Find("memory")->Set("weights_gib", 1.0);
  const Side side = SideOfResult("old.json", old, Inputs());
  CHECK_FALSE(side.evaluation);
  CHECK(side.as_found.find("another version") != std::string::npos);
  const Comparison c = Compare(side, SideOf(scenario), Inputs(), {});
  CHECK_FALSE(c.substitution);
  std::int64_t sum = 0;
  for (const PartChange& part : c.parts) sum += part.ChangePs();
  CHECK(sum == c.parts_b.step.ps - c.parts_a.step.ps);
  const auto said = [&](const std::string& text) {
    return std::any_of(c.notes.begin(), c.notes.end(), [&](const std::string& note) {
      return note.find(text) != std::string::npos;
    });
  };
  CHECK(said("by totals"));
  CHECK(said("version 0.0.1"));
  CHECK(c.summary.find("longer") != std::string::npos);
}

TEST_CASE("inputs of two results whose content differs are told") {
  const JsonDocument scenario = Shipped("llava-1.6-7b-finetune-8xa100");
  JsonDocument old = ResultOf(scenario);
  old.root.Set("signature", "another");
  for (Json& input : old.root.Find("inputs")->items()) {
    if (input.Find("role")->AsString() == "profile") input.Set("hash", "0123");
  }
  const Comparison c =
      Compare(SideOfResult("old.json", old, Inputs()), SideOf(scenario), Inputs(), {});
  REQUIRE(c.facts.size() == 1);
  CHECK(c.facts[0].of == "profile");
  CHECK(c.facts[0].fact.find("a100") != std::string::npos);
}

TEST_CASE("a result without a step time or without its scenario") {
  const Diagnostic d = ThrownBy([] {
    SideOfResult("r.json", ParseJson(R"({"schema": "aurum.result/1"})", "r.json"), Inputs());
  });
  CHECK(d.code == 883);
  const Side bare = SideOfResult(
      "r.json", ParseJson(R"({"schema": "aurum.result/1", "step_time_s": 2})", "r.json"), Inputs());
  CHECK(bare.as_found.find("scenario") != std::string::npos);
  const Comparison c = Compare(bare, bare, Inputs(), {});
  CHECK(c.parts.size() == 1);
  CHECK(c.summary == "nothing differs");
}

TEST_CASE("a result whose figures were edited is compared as it was found, and this is said") {
  const JsonDocument scenario = Shipped("llava-1.6-7b-finetune-8xa100");
  const JsonDocument result = ResultOf(scenario);
  const Side before = SideOfResult("a.json", result, Inputs());
  const auto edited = [&](const std::string& path, const Json& value) {
    JsonDocument document = result;
    SetPath(&document, path, value, "test");
    const Side side = SideOfResult("b.json", document, Inputs());
    CHECK_FALSE(side.evaluation);
    CHECK(side.as_found.find("another " + path + " now") != std::string::npos);
    return Compare(before, side, Inputs(), {});
  };
  const double step = result.root.Find("step_time_s")->AsNumber();
  const Comparison slower = edited("step_time_s", 2 * step);
  CHECK(slower.summary.find("2 × as long") != std::string::npos);
  CHECK(slower.parts_b.step == TimeFromSeconds(2 * step));
  // The step stays, and the summary does not say that all is the same.
  const std::string same = "the inputs that both sides tell are the same, and figures differ: ";
  CHECK(edited("memory.weights_gib", 1.0).summary == same + "memory.weights_gib");
  CHECK(edited("time.optimizer_s", 0.5).summary == same + "time.optimizer_s");
}

TEST_CASE("figures that no step has are refused, not counted with") {
  const auto code = [](const std::string& figures) {
    const std::string text = R"({"schema": "aurum.result/1", )" + figures + "}";
    return ThrownBy([&] { SideOfResult("r.json", ParseJson(text, "r.json"), Inputs()); }).code;
  };
  for (const char* step : {"0", "-1", "1e-15", "864001", "1e18", "1e300", "null", "\"1\""}) {
    CAPTURE(step);
    CHECK(code(R"("step_time_s": )" + std::string(step)) == 883);
  }
  for (const char* path : {R"("time": {"compute_s": )", R"("idle": {"tp_s": )"}) {
    CAPTURE(path);
    CHECK(code(R"("step_time_s": 2, )" + std::string(path) + "-5}") == 883);
    CHECK(code(R"("step_time_s": 2, )" + std::string(path) + "1e300}") == 883);
  }
  CHECK(code(R"("step_time_s": 2, "memory": {"weights_gib": 1e308, "logits_gib": 1e308})") == 883);
}

TEST_CASE("what was given is known by what it is") {
  const Scratch scratch;
  const auto kind = [&](const std::string& given) { return KindOfGiven(given, Inputs()); };
  CHECK(kind("scenarios/golden-sweep.json") == GivenKind::kScenario);
  CHECK(kind("8xh100-hgx") == GivenKind::kCluster);
  CHECK(kind("64xh100-ndr") == GivenKind::kCluster);
  CHECK(kind("topologies/catalogue/8xh100-hgx.json") == GivenKind::kCluster);
  WriteTextFile(scratch.File("result"),
                ResultOf(Shipped("llava-1.6-7b-finetune-8xa100")).root.Dump());
  CHECK(kind(scratch.File("result")) == GivenKind::kResult);
  WriteBytes(scratch.File("store"), std::string("SQLite format 3\0and more", 24));
  CHECK(kind(scratch.File("store")) == GivenKind::kStore);
  const auto code = [&](const std::string& given) { return ThrownBy([&] { kind(given); }).code; };
  CHECK(code("models/catalogue/gpt-3-175b.json") == 880);
  WriteTextFile(scratch.File("plain.json"), "{}");
  CHECK(code(scratch.File("plain.json")) == 880);
  WriteTextFile(scratch.File("list.json"), "[1]");
  CHECK(code(scratch.File("list.json")) == 880);
  CHECK(code("8xh100-hgxx") == 220);
  CHECK(code("no/such/file.json") == 201);
  CHECK(code("missing.db") == 201);
  CHECK(code(scratch.Folder()) == 202);
}

TEST_CASE("the document is the same for the same inputs, and closes") {
  const JsonDocument a = OpenQuestion("llava-1.5-13b-8xa100");
  const JsonDocument b = OpenQuestion("llava-1.5-13b-2x4xa100-40");
  const auto document = [&] {
    return ComparisonJson(CompareDocuments(a, b, {"step_time_s > 5%"}), "test");
  };
  const Json once = document();
  CHECK(once.Dump(2) == document().Dump(2));
  const Json* time = once.Find("time");
  REQUIRE(time != nullptr);
  std::int64_t sum = 0;
  for (const Json& part : time->Find("parts")->items()) sum += part.Find("change_ps")->AsInteger();
  CHECK(sum == time->Find("change_ps")->AsInteger());
  std::int64_t walk = 0;
  for (const Json& step : once.Find("substitution")->Find("in_order")->items())
    walk += step.Find("change_ps")->AsInteger();
  CHECK(walk == sum);
  CHECK(once.Find("failed")->AsBool());
}

TEST_CASE("the flow level is compared, too") {
  const JsonDocument a = Shipped("loop-tp");
  const Comparison c =
      CompareDocuments(a, Changed(a, {"plan.micro_batch_size=4"}), {}, Level::kFlow);
  std::int64_t sum = 0;
  for (const PartChange& part : c.parts) sum += part.ChangePs();
  CHECK(sum == c.parts_b.step.ps - c.parts_a.step.ps);
  REQUIRE(c.substitution);
  CHECK(c.substitution->walk.back().with.step == c.parts_b.step);
}

}  // namespace
}  // namespace aurum
