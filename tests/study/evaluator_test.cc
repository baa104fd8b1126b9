#include "sim/study/evaluator.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "sim/study/budget.h"
#include "sim/study/figures.h"

namespace aurum {
namespace {

// What a study takes from an evaluation, or the diagnostic instead.
struct Answer {
  std::vector<Figure> figures;
  std::string memory, budget, error;
};

Answer Read(const Evaluation& e) {
  Answer answer;
  answer.figures = FiguresOf(e);
  const ClassMemory& heaviest = e.memory.Heaviest();
  Json memory = Json::Array();
  for (const double bytes : heaviest.at_peak) memory.Append(bytes);
  for (const double bytes : {heaviest.peak_bytes, heaviest.left_bytes, e.memory.low_bytes,
                             e.memory.high_bytes, e.memory.over_bytes})
    memory.Append(bytes);
  memory.Append(heaviest.at);
  memory.Append(FitName(e.memory.verdict));
  memory.Append(static_cast<std::int64_t>(e.memory.heaviest));
  memory.Append(TensorsJson(heaviest));
  memory.Append(RankName(e.program, e.outcome.busiest_class));
  answer.memory = memory.Dump();
  answer.budget = BudgetJson(JudgeBudget(e)).Dump();
  return answer;
}

template <typename Walk>
Answer AnswerOf(Walk walk) {
  try {
    return Read(walk());
  } catch (const InputError& error) {
    Answer answer;
    answer.error = error.what();
    return answer;
  }
}

void CheckSame(const Answer& a, const Answer& b) {
  CHECK(a.error == b.error);
  CHECK(a.memory == b.memory);
  CHECK(a.budget == b.budget);
  REQUIRE(a.figures.size() == b.figures.size());
  for (std::size_t i = 0; i < a.figures.size(); ++i) {
    CAPTURE(a.figures[i].name);
    CHECK(a.figures[i].name == b.figures[i].name);
    CHECK(a.figures[i].value == b.figures[i].value);  // to the last bit
  }
}

// `what_if`: by key, so many of the six.
JsonDocument WithRandomWhatIf(const JsonDocument& scenario, std::mt19937* random) {
  JsonDocument document = scenario;
  const auto unit = [&] { return static_cast<double>((*random)()) / 4294967296.0; };
  const auto log = [&](double low, double high) { return low * std::pow(high / low, unit()); };
  const auto set = [&](const std::string& key, double value) {
    if (unit() < 0.5) SetPath(&document, "what_if." + key, value, "a test");
  };
  set("flops_gflop_per_token", log(0.1, 1000));
  set("comm_bw_gb_per_s", log(0.1, 2000));
  set("align_ratio", unit() < 0.2 ? std::round(unit()) : unit());
  set("gemm_speedup", log(0.2, 5));
  set("attention_speedup", log(0.2, 5));
  set("memory_speedup", log(0.2, 5));
  return document;
}

std::vector<std::string> ScenarioFiles() {
  std::vector<std::string> files;
  for (const char* folder : {"scenarios", "scenarios/articles"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() == ".json") files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST_CASE("an evaluator answers as a walk from the beginning does, for every scenario") {
  InputCache cache(".");
  std::size_t retimed = 0, compared = 0;
  for (const std::string& file : ScenarioFiles()) {
    CAPTURE(file);
    JsonDocument scenario = ReadJsonFile(file);
    if (const Json* gpus = scenario.root.Find("cluster");
        gpus != nullptr && gpus->IsString() && gpus->AsString().find("16384") != std::string::npos)
      continue;  // a second for each walk
    if (scenario.root.Find("sweep") != nullptr) scenario.root = WithoutSweep(scenario.root);
    Evaluator evaluator(&cache, Level::kAnalytic);
    std::mt19937 random(static_cast<std::uint32_t>(file.size()));
    for (int i = 0; i < 7; ++i) {
      const JsonDocument document = i == 0 ? scenario : WithRandomWhatIf(scenario, &random);
      const Answer expected =
          AnswerOf([&] { return Evaluate(ReadScenario(document, &cache), Level::kAnalytic); });
      const Answer answer =
          AnswerOf([&]() -> const Evaluation& { return evaluator.Walk(document); });
      const Json* imposed = document.root.Find("what_if");
      const std::string told = imposed == nullptr ? "none" : imposed->Dump();
      CAPTURE(told);
      CheckSame(answer, expected);
      ++compared;
    }
    retimed += evaluator.counts().retimed;
  }
  // Most, not all: the first two of each are walked, and some are of samples that differ or of faults.
  CHECK(compared > 300);
  CHECK(retimed > compared / 4);
}

// One evaluator, plans that come and go among each other.
TEST_CASE("what an evaluator saw before changes nothing") {
  InputCache cache(".");
  JsonDocument scenario = ReadJsonFile("scenarios/golden-sweep.json");
  scenario.root = WithoutSweep(scenario.root);
  Evaluator evaluator(&cache, Level::kAnalytic);
  std::mt19937 random(7);
  for (int i = 0; i < 120; ++i) {
    JsonDocument document = WithRandomWhatIf(scenario, &random);
    ApplyOverride(&document,
                  std::string("model=") + (random() % 2 == 0 ? "llava-1.6-7b" : "qwen-vl"));
    ApplyOverride(&document,
                  std::string("cluster=") + (random() % 2 == 0 ? "8xa100-hgx" : "32xa100-hdr"));
    ApplyOverride(&document,
                  std::string("plan.sharding=") + (random() % 2 == 0 ? "zero1" : "fsdp"));
    const Answer expected =
        AnswerOf([&] { return Evaluate(ReadScenario(document, &cache), Level::kAnalytic); });
    const std::string told = document.root.Dump();
    CAPTURE(told);
    CheckSame(AnswerOf([&]() -> const Evaluation& { return evaluator.Walk(document); }), expected);
  }
  CHECK(evaluator.counts().retimed > 60);
}

TEST_CASE("the points of the golden sweep are retimed, but for the first of each plan") {
  InputCache cache(".");
  JsonDocument scenario = ReadJsonFile("scenarios/golden-sweep.json");
  const std::vector<Axis> axes = {{"model", {"llava-1.6-7b", "fuyu-8b"}},
                                  {"what_if.flops_gflop_per_token", {5.0, 50.0}},
                                  {"what_if.comm_bw_gb_per_s", {1.0, 30.0, 900.0}},
                                  {"what_if.align_ratio", {0.0, 0.3, 0.9}}};
  Evaluator evaluator(&cache, Level::kAnalytic);
  PointCursor cursor(scenario, axes);
  for (std::size_t i = 0; i < 36; ++i) {
    cursor.MoveTo(i);
    evaluator.Walk(cursor.document());
  }
  CHECK(evaluator.counts().walked == 4);
  CHECK(evaluator.counts().retimed == 32);
}

TEST_CASE("an error of a what-if is told as the walk tells it, and spoils nothing after it") {
  InputCache cache(".");
  JsonDocument scenario = ReadJsonFile("scenarios/golden-sweep.json");
  scenario.root = WithoutSweep(scenario.root);
  Evaluator evaluator(&cache, Level::kAnalytic);
  const auto at = [&](const Json& ratio) {
    JsonDocument document = scenario;
    SetPath(&document, "what_if.align_ratio", ratio, "axis what_if.align_ratio");
    return document;
  };
  for (const Json& ratio : {Json(0.5), Json(0.5), Json(0.7), Json(2.0), Json(0.7), Json("much"),
                            Json(0.5), Json(1.0), Json(0.5)}) {
    const JsonDocument document = at(ratio);
    const Answer expected =
        AnswerOf([&] { return Evaluate(ReadScenario(document, &cache), Level::kAnalytic); });
    CheckSame(AnswerOf([&]() -> const Evaluation& { return evaluator.Walk(document); }), expected);
    CHECK(expected.error.empty() == (ratio.IsNumber() && ratio.AsNumber() <= 1));
  }
}

}  // namespace
}  // namespace aurum
