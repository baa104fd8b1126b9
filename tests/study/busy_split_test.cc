#include "sim/study/busy_split.h"

#include <doctest/doctest.h>

#include "sim/plan/scenario_file.h"

namespace aurum {
namespace {

Evaluation EvaluateFile(const std::string& file, const std::vector<std::string>& set = {},
                        Level level = Level::kAnalytic) {
  InputCache cache(".");
  JsonDocument document = OpenScenarioFile(file);
  for (const std::string& assignment : set) ApplyOverride(&document, assignment);
  return Evaluate(ReadScenario(document, &cache), level);
}

TEST_CASE("the parts sum to the step, on every class, level and task") {
  for (const char* file :
       {"scenarios/qwen2.5-vl-72b-64xh100.json", "scenarios/llava-1.6-7b-finetune-8xa100.json",
        "scenarios/llava-1.6-7b-generate-8xa100.json", "scenarios/qwen2.5-vl-72b-64xh100-sick.json",
        "scenarios/llava-1.6-7b-mixture-8xa100.json"}) {
    for (const Level level : {Level::kAnalytic, Level::kFlow}) {
      // Samples that differ are simulated at the analytic level alone (E0387).
      if (level == Level::kFlow && std::string(file).find("mixture") != std::string::npos) continue;
      CAPTURE(file);
      const Evaluation e = EvaluateFile(file, {}, level);
      const std::vector<BusySplit> split = SplitBusyTime(e);
      REQUIRE(split.size() == e.program.classes.size());
      for (std::size_t c = 0; c < split.size(); ++c) {
        CHECK(split[c].Sum() == doctest::Approx(e.StepSeconds()).epsilon(1e-9));
        CHECK(split[c].communication_s ==
              doctest::Approx(e.outcome.time[c].exposed_comm_s).epsilon(1e-9));
        CHECK(split[c].compute_bound_s >= 0);
      }
    }
  }
}

TEST_CASE("kernels lie on their side of the ridge") {
  InputCache cache(".");
  const Profile& a100 = *cache.GetProfile("a100").value;
  Kernel gemm;
  gemm.kind = KernelKind::kGemm;
  gemm.m = gemm.n = gemm.k = 8192;
  const KernelSides big = SidesOf(gemm, a100);
  CHECK(big.arithmetic_s > 5 * big.memory_s);
  gemm.m = 1;  // a matrix times a vector reads the matrix once for each product
  const KernelSides thin = SidesOf(gemm, a100);
  CHECK(thin.memory_s > 5 * thin.arithmetic_s);
  Kernel copy;
  copy.bytes = 1e9;
  CHECK(SidesOf(copy, a100).arithmetic_s == 0);
  CHECK(SidesOf(copy, a100).memory_s > 1e9 / 2.1e12);
}

TEST_CASE("attention is held against the units that its type runs on") {
  InputCache cache(".");
  const Profile& v100 = *cache.GetProfile("v100-32").value;
  Kernel attention;
  attention.kind = KernelKind::kAttentionForward;
  attention.sequences = 64;
  attention.heads = attention.kv_heads = 16;
  attention.q_len = attention.kv_len = 2048;
  attention.head_dim = 128;
  const double alone = v100.AttentionForwardSeconds(64, 16, 16, 2048, 2048, 128, false);
  attention.dtype = DType::kFp16;
  const double fp16 = SidesOf(attention, v100).arithmetic_s;
  CHECK(fp16 < alone);  // a kernel is no faster than its units
  CHECK(fp16 > 0.3 * alone);
  attention.dtype = DType::kBf16;
  CHECK(SidesOf(attention, v100).arithmetic_s > 7 * fp16);
}

TEST_CASE("generation is bound by memory, training by compute; a larger batch moves it back") {
  const auto share = [](const Evaluation& e) {
    const BusySplit s = SplitBusyTime(e)[static_cast<std::size_t>(e.outcome.busiest_class)];
    return s.memory_bound_s / s.Sum();
  };
  const double train = share(EvaluateFile("scenarios/llava-1.6-7b-finetune-8xa100.json"));
  const double decode = share(EvaluateFile("scenarios/articles/a22-memory-bound.json"));
  CHECK(train < 0.3);
  CHECK(decode > 0.6);
  const double shorter =
      share(EvaluateFile("scenarios/articles/a22-memory-bound.json", {"workload.new_tokens=8"}));
  CHECK(shorter < decode);  // the prompt is a batch of its own
}

}  // namespace
}  // namespace aurum
