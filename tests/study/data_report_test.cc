#include "sim/study/data_report.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "sim/study/figures.h"
#include "tests/support/scenario.h"

namespace aurum {
namespace {

Evaluation Mixture(std::vector<std::string> changes) {
  changes.emplace_back("workload.draws=2");
  return EvaluateDocument(Shipped("llava-1.6-7b-mixture-8xa100", changes));
}

double FigureOf(const Evaluation& e, const std::string& name) {
  for (const Figure& figure : FiguresOf(e)) {
    if (figure.name == name) return std::get<double>(figure.value);
  }
  FAIL("no figure " << name);
  return 0;
}

TEST_CASE("packing lowers the FLOPs of a useful token, FlashAttention does not") {
  const std::string packed = R"(workload.packing={"policy": "length", "max_tokens": 4096})";
  const Evaluation padded = Mixture({});
  const Evaluation rows = Mixture({packed, "workload.global_batch_size=64"});
  CHECK(PaddingShare(padded) > 0.05);
  CHECK(PaddingShare(rows) == 0);
  // What padding costs is what packing saves, up to attention's pairs and the mix of samples drawn.
  CHECK(FlopsPerUsefulToken(rows) < FlopsPerUsefulToken(padded) * (1 - 0.5 * PaddingShare(padded)));
  for (const char* kernel : {"unfused", "flash1", "flash2"}) {
    const Evaluation e = Mixture({std::string("plan.attention=") + kernel});
    CAPTURE(kernel);
    CHECK(FlopsPerUsefulToken(e) == FlopsPerUsefulToken(padded));
  }
  CHECK(Mixture({"plan.attention=unfused"}).StepSeconds() > padded.StepSeconds());
  CHECK(FigureOf(padded, "gflop_per_useful_token") ==
        doctest::Approx(FlopsPerUsefulToken(padded) / 1e9));
  CHECK(FigureOf(padded, "padding_share") == PaddingShare(padded));
}

TEST_CASE("a plain workload: forward and backward of a token that is all useful") {
  const Evaluation e = EvaluateDocument(Shipped("llama-2-7b-1x4090", {}));
  const Json result = ResultJson(e, {}, "test");
  CHECK(result.Find("useful")->Find("padding_share")->AsNumber() == 0);
  CHECK(result.Find("useful")->Find("gflop_per_useful_token")->AsNumber() ==
        doctest::Approx(ModelFlopsPerGpu(e) * e.scenario.cluster->GpuCount() /
                        TokensPerStep(e.scenario) / 1e9));
  CHECK(result.Find("experts") == nullptr);
  CHECK(result.Find("loader") == nullptr);
}

TEST_CASE("attention in groups lowers an encoder's FLOPs, and padding to the largest raises them") {
  const auto run = [](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"model=qwen2-vl-7b", "stack=pytorch-fsdp"};
    all.insert(all.end(), more.begin(), more.end());
    return Mixture(all);
  };
  const Evaluation plain = run({});
  const Evaluation groups = run({R"(workload.packing={"policy": "none", "group_tokens": 64})"});
  CHECK(FlopsPerUsefulToken(groups) < FlopsPerUsefulToken(plain));
  CHECK(groups.data->figures.tokens_per_step == plain.data->figures.tokens_per_step);
  const Evaluation largest = run({R"(workload.resolution={"policy": "batch_max"})"});
  CHECK(largest.data->figures.modules[0].padding_share > 0.05);
  CHECK(FlopsPerUsefulToken(largest) > FlopsPerUsefulToken(plain));
  CHECK(largest.StepSeconds() > plain.StepSeconds());
  CHECK(largest.data->figures.tokens_per_step ==
        doctest::Approx(plain.data->figures.tokens_per_step).epsilon(1e-12));
}

}  // namespace
}  // namespace aurum
