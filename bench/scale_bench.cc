#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <string>

#include "sim/core/json.h"
#include "sim/core/units.h"
#include "sim/study/evaluate.h"

namespace aurum {
namespace {

// The most memory that this process ever held, GiB. Cases run from small to large, so that each
// sees its own.
double PeakGiB() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / kGiB;
}

void Step(benchmark::State& state, const std::string& key, const JsonDocument& document,
          Level level) {
  InputCache cache(".");
  double step_s = 0;
  std::size_t ops = 0, classes = 0;
  for (auto _ : state) {
    const Evaluation e = Evaluate(ReadScenario(document, &cache), level);
    step_s = e.StepSeconds();
    ops = e.program.graph.op_count();
    classes = e.program.classes.size();
  }
  state.counters[key + "_s"] = benchmark::Counter(
      1, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters[key + "_gib"] = PeakGiB();
  state.counters["step_s"] = step_s;
  state.counters["ops"] = static_cast<double>(ops);
  state.counters["rank_classes"] = static_cast<double>(classes);
}

// PLAN: GPT-3 175B on 64 A100, tp 8, pp 8: reading, lowering, simulating, memory and formula.
void Plan(benchmark::State& state) {
  Step(state, "plan_64", ReadJsonFile("scenarios/gpt-3-175b-64xa100.json"), Level::kAnalytic);
}
BENCHMARK(Plan)->Unit(benchmark::kMillisecond);

// SCALE: one step of Llama-3.1-405B, every data-parallel and pipeline transfer on its links.
void Scale16384(benchmark::State& state) {
  Step(state, "scale_16384", ReadJsonFile("scenarios/llama-3.1-405b-16384xh100.json"),
       Level::kFlow);
}
BENCHMARK(Scale16384)->Iterations(3)->Unit(benchmark::kMillisecond);

// The same on 106,496 GPUs, with the batch that gives every replica the same work.
void Scale106496(benchmark::State& state) {
  JsonDocument document = ReadJsonFile("scenarios/llama-3.1-405b-16384xh100.json");
  const std::int64_t batch = document.root.Find("workload")->Find("global_batch_size")->AsInteger();
  ApplyOverride(&document, "cluster=106496xh100-ndr-128p");
  ApplyOverride(&document, "workload.global_batch_size=" + std::to_string(batch / 128 * 832));
  Step(state, "scale_106496", document, Level::kFlow);
}
BENCHMARK(Scale106496)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace aurum
