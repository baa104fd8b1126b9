#include "sim/formula/golden.h"

#include <doctest/doctest.h>

#include "tests/support/scenario.h"

namespace aurum {
namespace {

TEST_CASE("on one GPU the sum of F/B, optimizer and host is the simulated step") {
  const Evaluation e = EvaluateDocument(Shipped("llama-2-7b-1x4090"));
  CHECK(GoldenSeconds(e.golden, Combine::kSum, 1, 1) + e.golden.not_in_formula_s ==
        doctest::Approx(e.StepSeconds()).epsilon(1e-9));
  CHECK(GoldenSeconds(e.golden, Combine::kCriticalPath, 1, 1) ==
        doctest::Approx(GoldenSeconds(e.golden, Combine::kSum, 1, 1)).epsilon(1e-12));
}

TEST_CASE("a share is of one micro-batch, in generation too") {
  const auto generate = [](int micro_batch) {
    return EvaluateDocument(
        Shipped("llama-2-7b-1x4090",
                {"workload.task=generate", "workload.new_tokens=16", "workload.global_batch_size=4",
                 "plan.micro_batch_size=" + std::to_string(micro_batch)}));
  };
  const Evaluation pieces = generate(1);
  REQUIRE(pieces.program.micro_batches == 4);
  CHECK(GoldenSeconds(pieces.golden, Combine::kSum, 1, 1) + pieces.golden.not_in_formula_s ==
        doctest::Approx(pieces.StepSeconds()).epsilon(1e-9));
  CHECK(ModelFlopsPerGpu(pieces) == doctest::Approx(ModelFlopsPerGpu(generate(4))).epsilon(1e-9));
}

TEST_CASE("terms are quotients of their own parts") {
  for (const std::string& name : ShippedScenarios()) {
    CAPTURE(name);
    const Evaluation e = EvaluateDocument(Shipped(name));
    for (const GoldenTerm& t : e.golden.terms) {
      if (t.rate_flops_per_s > 0)
        CHECK(t.f_over_b_s == doctest::Approx(t.flops / t.rate_flops_per_s).epsilon(1e-12));
      if (t.gradient_bytes_per_s > 0)
        CHECK(t.g_over_c_s ==
              doctest::Approx(t.gradient_bytes / t.gradient_bytes_per_s).epsilon(1e-12));
      CHECK(t.rate_flops_per_s <
            e.scenario.profile->device.peak_bf16_flops);  // sustained, never the datasheet
      CHECK(t.forward_flops <= t.flops);
    }
  }
}

TEST_CASE(
    "max ≤ critical path ≤ sum where all modules share one stage, and all grow with α and β") {
  const Evaluation e =
      EvaluateDocument(Shipped("llava-1.6-7b-finetune-8xa100", {"what_if.align_ratio=0.5"}));
  const Golden& g = e.golden;
  CHECK(GoldenSeconds(g, Combine::kMax, 1, 1) < GoldenSeconds(g, Combine::kCriticalPath, 1, 1));
  CHECK(GoldenSeconds(g, Combine::kCriticalPath, 1, 1) <=
        GoldenSeconds(g, Combine::kSum, 1, 1) * (1 + 1e-12));
  for (const Combine combine : {Combine::kMax, Combine::kSum, Combine::kCriticalPath}) {
    CHECK(GoldenSeconds(g, combine, 0.5, 1) < GoldenSeconds(g, combine, 1, 1));
    CHECK(GoldenSeconds(g, combine, 1, 2) - GoldenSeconds(g, combine, 1, 1) ==
          doctest::Approx(g.p_align_s).epsilon(1e-9));
  }
}

TEST_CASE("three models' forward FLOPs per token, in the articles' protocol") {
  // (ViT + LLM FLOPs) / all processed tokens for a 448×448 image and a 32-token prompt, recomputed by hand from the shapes:
  // about 14.6, 25.9 and 16.8 GFLOP over prompt and generated tokens; the prompt alone differs by a few per cent.
  const auto gflop = [](const char* model) {
    return EvaluateDocument(
               Shipped("llava-1.6-7b-generate-8xa100", {std::string("model=") + model}))
               .program.own_flops_per_token /
           1e9;
  };
  CHECK(gflop("llava-1.6-7b") == doctest::Approx(14.6).epsilon(0.03));
  CHECK(gflop("fuyu-8b") == doctest::Approx(16.8).epsilon(0.03));
  CHECK(gflop("qwen-vl") > gflop("fuyu-8b"));  // bigG over 1024 patches for 256 tokens
}

TEST_CASE("the bubble is part of the backbone's communication: p - 1 rounds") {
  const Evaluation e = EvaluateDocument(Shipped("gpt-3-175b-64xa100"));
  double round = 0;
  for (const RankClass& c : e.program.classes) {
    const ModuleShare& share = c.modules[0];
    round = std::max(round, share.forward_s + share.backward_s + share.tp_s + c.transfer_s / 2);
  }
  CHECK(e.golden.terms[0].comm_s > 7 * round);
  CHECK(GoldenSeconds(e.golden, Combine::kCriticalPath, 1, 1) ==
        doctest::Approx(e.StepSeconds()).epsilon(0.05));
}

}  // namespace
}  // namespace aurum
