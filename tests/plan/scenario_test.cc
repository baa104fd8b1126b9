#include "sim/plan/scenario.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/scenario.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

TEST_CASE("every shipped scenario reads, and its name is its file's") {
  for (const std::string& name : ShippedScenarios()) {
    CAPTURE(name);
    InputCache cache(".");
    const Scenario scenario = ReadScenario(Shipped(name), &cache);
    CHECK(scenario.name == name);
    CHECK(!scenario.question.empty());
    CHECK(scenario.inputs.size() == 4);
  }
}

TEST_CASE("an unknown name is an error at the name, with the nearest known one") {
  const auto thrown = [](const std::string& change) {
    return ThrownBy([&] { EvaluateDocument(Shipped("llava-1.6-7b-finetune-8xa100", {change})); });
  };
  const Diagnostic model = thrown("model=llava-1.6-7");
  CHECK(model.code == 210);
  CHECK(model.where.pointer == "/model");
  CHECK(model.help.find("llava-1.6-7b") != std::string::npos);
  CHECK(thrown("cluster=8xa100-hgxx").code == 220);
  CHECK(thrown("profile=a1000").code == 230);
  CHECK(thrown("stack=megatron").code == 240);
  CHECK(thrown("model=missing/model.json").code == 201);
}

TEST_CASE("a power limit of the cluster slows the profile, and one that cannot be is refused") {
  const auto with_limit = [](const std::string& watts) {
    InputCache cache(".");
    JsonDocument cluster = OpenCluster("8xa100-hgx", ".");
    ApplyOverride(&cluster, "gpu.power_limit_w=" + watts);
    cache.AddCluster("limited", cluster);
    return ReadScenario(Shipped("llava-1.6-7b-finetune-8xa100", {"cluster=limited"}), &cache);
  };
  InputCache cache(".");
  const Scenario free = ReadScenario(Shipped("llava-1.6-7b-finetune-8xa100", {}), &cache);
  const Scenario limited = with_limit("250");
  CHECK(limited.profile->power_limit_w == 250);
  CHECK(limited.profile->gemm.at(DType::kBf16).rate_flops <
        0.85 * free.profile->gemm.at(DType::kBf16).rate_flops);
  CHECK(limited.profile->MemoryBoundSeconds(1e9) == free.profile->MemoryBoundSeconds(1e9));
  const Diagnostic d = ThrownBy([&] { with_limit("500"); });
  CHECK(d.code == 804);
  CHECK(d.where.pointer == "/cluster");
  CHECK(d.help.find("400 W") != std::string::npos);
  CHECK(ThrownBy([&] { with_limit("0"); }).code == 107);
}

TEST_CASE("every card of the catalogue trains a model of one GPU") {
  for (const std::string& profile : ProfileCatalogue(".")) {
    CAPTURE(profile);
    const Evaluation e = EvaluateDocument(
        Shipped("llama-2-7b-1x4090", {"profile=" + profile, "plan.precision=fp16"}));
    CHECK(std::isfinite(e.StepSeconds()));
    CHECK(e.StepSeconds() > 0);
  }
}

TEST_CASE("what cannot be imposed is refused") {
  const auto thrown = [](const std::string& name, const std::string& change) {
    return ThrownBy([&] { EvaluateDocument(Shipped(name, {change})); });
  };
  CHECK(thrown("llama-2-7b-1x4090", "what_if.comm_bw_gb_per_s=10").code == 331);
  CHECK(thrown("llama-2-7b-1x4090", "what_if.align_ratio=0.5").code == 330);
  CHECK(thrown("gpt-3-175b-64xa100", "what_if.align_ratio=0.5").code == 330);
  CHECK(thrown("llava-1.6-7b-finetune-8xa100", "what_if.align_ratio=1.5").code == 107);
  CHECK(thrown("llava-1.6-7b-finetune-8xa100", "what_if.comm_bw_gb_per_s=-3").code == 107);
  CHECK(thrown("llava-1.6-7b-finetune-8xa100", "what_if.flops_gflop_per_token=1e30").code == 107);
}

}  // namespace
}  // namespace aurum
