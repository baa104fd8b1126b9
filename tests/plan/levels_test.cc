// The levels against each other, and folded against unfolded, on the shipped scenarios.
#include <doctest/doctest.h>

#include <string>

#include "tests/support/scenario.h"

namespace aurum {
namespace {

TEST_CASE("folded is unfolded, bit for bit, on every shipped scenario up to 64 GPUs") {
  for (const std::string& name : ShippedScenarios()) {
    CAPTURE(name);
    const Evaluation plain = EvaluateDocument(Shipped(name));
    if (!Small(plain)) continue;
    for (const Level level : {Level::kAnalytic, Level::kFlow, Level::kAuto}) {
      if (level != Level::kAnalytic && !HasTraffic(plain)) continue;
      const Evaluation e = EvaluateDocument(Shipped(name), level, Fold::kVerify);
      REQUIRE(e.fold_check);
      CHECK_MESSAGE(e.fold_check->equal, e.fold_check->difference);
      CHECK(e.fold_check->ranks == static_cast<std::size_t>(e.scenario.cluster->GpuCount()));
      CHECK(e.fold_check->kernels >= e.fold_check->ranks);
    }
  }
}

// Groups of one stage that lie differently: some inside an NVLink rack, some across; stages that do
// not begin at a leaf.
TEST_CASE("groups that cost differently are told apart at the analytic level too") {
  struct Case {
    const char* name;
    std::vector<std::string> changes;
  };
  const Case cases[] = {
      {"qwen2.5-vl-72b-64xh100",
       {"cluster=144xgb200-nvl72", "plan={\"backbone\": {\"tp\": 16}}",
        "workload.global_batch_size=9"}},
      {"gpt-3-175b-64xa100",
       {"cluster=288xh100-ndr", "plan.backbone={\"tp\": 8, \"pp\": 12}",
        "workload.global_batch_size=24", "plan.micro_batch_size=1"}},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    const Evaluation e =
        EvaluateDocument(Shipped(c.name, c.changes), Level::kAnalytic, Fold::kVerify);
    CHECK_MESSAGE(e.fold_check->equal, e.fold_check->difference);
    CHECK(e.program.classes.size() > static_cast<std::size_t>(e.scenario.plan.pp));
    // A fault so small that it changes nothing but the classes.
    std::vector<std::string> changes = c.changes;
    changes.push_back(R"(faults=[{"gpus": [1], "slowdown": 1.0000001}])");
    CHECK(EvaluateDocument(Shipped(c.name, changes)).StepSeconds() ==
          doctest::Approx(e.StepSeconds()).epsilon(1e-6));
  }
}

TEST_CASE("16,384 GPUs fold to hundreds of classes") {
  const Evaluation e = EvaluateDocument(Shipped("llama-3.1-405b-16384xh100"), Level::kAuto);
  MESSAGE(e.program.classes.size(), " classes of ranks, ", e.program.link_of.size(), " of links");
  CHECK(e.program.classes.size() <= 512);
  int gpus = 0;
  for (const RankClass& c : e.program.classes) gpus += c.count;
  CHECK(gpus == 16384);
  std::size_t links = 0;
  for (const std::uint32_t count : e.program.link_count) links += count;
  CHECK(links <= e.scenario.cluster->links().size());
}

TEST_CASE("auto is flow, to the rounding of a picosecond an op") {
  for (const std::string& name : ShippedScenarios()) {
    CAPTURE(name);
    if (!HasTraffic(EvaluateDocument(Shipped(name)))) continue;
    const Evaluation flow = EvaluateDocument(Shipped(name), Level::kFlow);
    const Evaluation lazy = EvaluateDocument(Shipped(name), Level::kAuto);
    CHECK(lazy.StepSeconds() == doctest::Approx(flow.StepSeconds()).epsilon(1e-9));
  }
}

TEST_CASE("where no transfer meets another, flow is analytic, bit for bit") {
  for (const char* name : {"llava-1.6-7b-finetune-8xa100", "gpt-3-175b-64xa100",
                           "clip-vit-l-14-4x4090", "llama-2-7b-1x4090"}) {
    CAPTURE(name);
    const Evaluation analytic = EvaluateDocument(Shipped(name));
    const Evaluation lazy = EvaluateDocument(Shipped(name), Level::kAuto);
    CHECK(lazy.outcome.schedule.makespan == analytic.outcome.schedule.makespan);
  }
}

TEST_CASE("every step of every channel agrees with the flows of a whole plan") {
  for (const char* name :
       {"llava-1.6-7b-finetune-8xa100", "clip-vit-l-14-4x4090", "fuyu-8b-finetune-8xh100"}) {
    CAPTURE(name);
    const Evaluation flow = EvaluateDocument(Shipped(name), Level::kFlow);
    const Evaluation chunk = EvaluateDocument(Shipped(name), Level::kChunk);
    CHECK(chunk.StepSeconds() == doctest::Approx(flow.StepSeconds()).epsilon(0.001));
    CHECK(chunk.program.graph.op_count() > 5 * flow.program.graph.op_count());
    CHECK(chunk.Time().Sum() == doctest::Approx(chunk.StepSeconds()).epsilon(1e-9));
  }
}

TEST_CASE("a plan may name the algorithms of its collectives") {
  const auto step = [](const std::string& collectives, Level level) {
    return EvaluateDocument(Shipped("qwen2.5-vl-72b-64xh100", {"plan.collectives=" + collectives}),
                            level)
        .StepSeconds();
  };
  for (const Level level : {Level::kAnalytic, Level::kFlow}) {
    const double automatic =
        EvaluateDocument(Shipped("qwen2.5-vl-72b-64xh100"), level).StepSeconds();
    CHECK(step(R"({"tensor_parallel": "auto"})", level) == automatic);
    // Reduce-scatter and all-gather of a library's rings, in place of the measured best.
    CHECK(step(R"({"tensor_parallel": "ring"})", level) != automatic);
    // A tree reduces all; sharded gradients are scattered: nothing to name.
    CHECK(step(R"({"data_parallel": "tree"})", level) == automatic);
  }
  const auto code = [&](const std::string& collectives) {
    try {
      step(collectives, Level::kAnalytic);
    } catch (const InputError& error) {
      return error.diagnostic().code;
    }
    return 0;
  };
  CHECK(code(R"({"tensor_parallel": "rings"})") == 108);
  CHECK(code(R"({"pipeline": "ring"})") == 101);
}

TEST_CASE("an epsilon is told, and moves a step by no more than that") {
  static InputCache cache(".");
  const auto evaluate = [&](double epsilon) {
    return Evaluate(ReadScenario(Shipped("qwen2.5-vl-72b-64xh100"), &cache), Level::kFlow,
                    Fold::kOn, epsilon);
  };
  const Evaluation exact = evaluate(0), loose = evaluate(0.01);
  CHECK(exact.outcome.schedule.epsilon == 0);
  CHECK(loose.outcome.schedule.epsilon == 0.01);
  CHECK(loose.StepSeconds() == doctest::Approx(exact.StepSeconds()).epsilon(0.01));
}

TEST_CASE("a chunk simulation that would be endless is refused") {
  int code = 0;
  try {
    EvaluateDocument(Shipped("llama-3.1-405b-16384xh100"), Level::kChunk);
  } catch (const InputError& error) {
    code = error.diagnostic().code;
  }
  CHECK(code == 341);
}

}  // namespace
}  // namespace aurum
