#include "sim/formula/golden.h"

#include <doctest/doctest.h>

#include "tests/plan/space.h"

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

// 96 even layers over four stages, on a network that costs nothing.
Evaluation Pipelined(const std::string& schedule, int vpp) {
  return EvaluateDocument(
      Document(kLayers96, "8xh100-hgx",
               {"workload.global_batch_size=16", "workload.text_tokens=2048", "plan.sharding=ddp",
                "plan.schedule=" + schedule, "what_if.comm_bw_gb_per_s=1000000",
                "plan.backbone={\"tp\": 1, \"pp\": 4, \"vpp\": " + std::to_string(vpp) + "}"}));
}

TEST_CASE("bubbles by schedule: the path with its bubble is the simulated step") {
  struct Kind {
    const char* schedule;
    int vpp;
    bool closed;
  };
  double plain = 0;
  for (const Kind& kind :
       {Kind{"1f1b", 1, true}, Kind{"gpipe", 1, true}, Kind{"interleaved", 4, true},
        Kind{"zb-h1", 1, true}, Kind{"zb-v", 2, false}, Kind{"dualpipe", 2, false}}) {
    const std::string schedule = kind.schedule;
    CAPTURE(schedule);
    const Evaluation e = Pipelined(schedule, kind.vpp);
    const Golden& g = e.golden;
    CHECK(g.bubble.closed == kind.closed);
    const double path = GoldenSeconds(g, Combine::kCriticalPath, 1, 1) + g.not_in_formula_s;
    MESSAGE(schedule, ": bubble ", g.bubble.seconds, " s, path ", path, " s of ", e.StepSeconds(),
            " s");
    CHECK(path == doctest::Approx(e.StepSeconds()).epsilon(0.06));
    if (plain == 0) plain = g.bubble.seconds;
    if (kind.vpp == 4) CHECK(g.bubble.seconds == doctest::Approx(plain / 4).epsilon(0.1));
    if (schedule == "zb-h1") CHECK(g.bubble.seconds < 0.7 * plain);
    if (!kind.closed) CHECK(g.bubble.seconds < 0.7 * plain);
  }
}

TEST_CASE("forward alone: the article's F, at the same rate") {
  const Evaluation e = EvaluateDocument(Shipped("llava-1.6-7b-finetune-8xa100"));
  for (const GoldenTerm& t : e.golden.terms) {
    CHECK(t.forward_over_b_s ==
          doctest::Approx(t.f_over_b_s * t.forward_flops / t.flops).epsilon(1e-12));
  }
  for (const Combine combine : {Combine::kMax, Combine::kSum, Combine::kCriticalPath}) {
    const double train = GoldenSeconds(e.golden, combine, 0, 0);
    const double forward = GoldenSeconds(e.golden, combine, 0, 0, FlopsReading::kForward);
    CHECK(forward < train);
    CHECK(forward > train / 4);
  }
}

TEST_CASE("context and expert parallelism are part of Comm") {
  const Evaluation one = EvaluateDocument(Shipped("loop-ep"));
  CHECK(one.golden.terms.back().comm_s > 0);
  double said = 0;
  for (OpId op = 0; op < one.program.info.size(); ++op) {
    const OpInfo& info = one.program.info[op];
    if (info.kind == OpKind::kExpertCollective && info.rank_class == 0)
      said += Seconds(one.program.graph.duration(op));
  }
  CHECK(said > 0);
  CHECK(one.golden.terms.back().comm_s >= said * (1 - 1e-9));
}

TEST_CASE("P_align: what the first micro-batch waits, and what all of them move") {
  const Evaluation none = EvaluateDocument(Shipped("llava-1.6-7b-finetune-8xa100"));
  CHECK(none.golden.p_align_s == 0);
  const Evaluation moved =
      EvaluateDocument(Shipped("llava-1.6-7b-finetune-8xa100", {"what_if.align_ratio=0"}));
  CHECK(moved.golden.align_wait_s == 0);
  CHECK(moved.golden.align_move_s ==
        doctest::Approx(static_cast<double>(moved.scenario.plan.micro_batches) *
                        moved.program.alignment.seconds_per_micro_batch)
            .epsilon(1e-12));
}

}  // namespace
}  // namespace aurum
