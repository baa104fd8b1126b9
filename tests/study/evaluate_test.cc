#include "sim/study/evaluate.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "sim/core/text_file.h"
#include "sim/study/figures.h"
#include "tests/support/scenario.h"

namespace aurum {
namespace {

TEST_CASE(
    "a result has every field that the command line promises, finite and with its unit in the "
    "key") {
  for (const std::string& name : ShippedScenarios()) {
    CAPTURE(name);
    const Evaluation e = EvaluateDocument(Shipped(name));
    const Json result = ResultJson(e, {}, "test");
    for (const char* key : {"schema",
                            "step_time_s",
                            "tokens_per_s",
                            "tokens_per_s_per_gpu",
                            "samples_per_s",
                            "model_tflops_per_gpu",
                            "mfu",
                            "fits",
                            "memory",
                            "time",
                            "alignment",
                            "signature",
                            "ops",
                            "rank_classes",
                            "simulation_wall_s",
                            "tool_version",
                            "run_id",
                            "inputs",
                            "warnings",
                            "provenance",
                            "error_band"}) {
      CHECK_MESSAGE(result.Find(key) != nullptr, key);
    }
    for (const char* key :
         {"peak_gib", "rank", "at", "weights_gib", "gradients_gib", "optimizer_gib",
          "activations_gib", "logits_gib", "communication_gib", "runtime_gib"}) {
      CHECK_MESSAGE(result.Find("memory")->Find(key) != nullptr, key);
    }
    for (const char* key : {"compute_s", "exposed_comm_s", "bubble_s", "alignment_wait_s",
                            "data_wait_s", "optimizer_s"}) {
      CHECK_MESSAGE(result.Find("time")->Find(key) != nullptr, key);
    }
    CHECK(result.Find("alignment")->Find("mar") != nullptr);
    CHECK(result.Find("alignment")->Find("penalty_s") != nullptr);
    CHECK(result.Dump().find("null") == std::string::npos);  // a NaN or infinity would be null
    double sum = 0;
    for (const auto& [key, value] : result.Find("time")->members()) sum += value.AsNumber();
    CHECK(sum == doctest::Approx(e.StepSeconds()).epsilon(1e-9));
    CHECK(ModelFlopsUtilisation(e) > 0.01);
    CHECK(ModelFlopsUtilisation(e) < 0.8);
  }
}

// Step times of sources that have no constants of their own: their stack has the common set's, and what that misses is what
// its interval says. Until the constants were fitted by one method for all, this stack had those of a study of these very
// four rows, and came within 3 %; that was a fit, no prediction.
TEST_CASE("published step times") {
  SUBCASE("GPT-3 175B on 1,024 A100: about 32 s (Megatron-LM README)") {
    CHECK(EvaluateDocument(Shipped("gpt-3-175b-1024xa100")).StepSeconds() ==
          doctest::Approx(32).epsilon(0.08));
  }
  SUBCASE("GPT-3 175B on 64 A100: 13.75 s (Korthikanti et al. 2022, table 5)") {
    // Interleaved, three chunks a stage; 1F1B has three times the bubble.
    const double interleaved =
        EvaluateDocument(Shipped("gpt-3-175b-64xa100", {"plan.backbone.vpp=3"})).StepSeconds();
    CHECK(interleaved == doctest::Approx(13.75).epsilon(0.12));
    const Evaluation e = EvaluateDocument(Shipped("gpt-3-175b-64xa100", {"plan.backbone.vpp=3"}));
    CHECK(std::abs(13.75 / interleaved - 1) < StepBand(e.scenario));
    const double step = EvaluateDocument(Shipped("gpt-3-175b-64xa100")).StepSeconds();
    CHECK(step > interleaved * 1.05);
    CHECK(step < interleaved * 1.09);
  }
  SUBCASE("22 B on 8 A100: 1.42 s recomputing all (Korthikanti et al. 2022, table 5)") {
    const double step =
        EvaluateDocument(
            Shipped("gpt-3-175b-1024xa100", {"model=tests/study/fixtures/megatron-22b.json",
                                             "cluster=8xa100-hgx", "workload.global_batch_size=4",
                                             "plan.micro_batch_size=4", "plan.backbone.pp=1"}))
            .StepSeconds();
    CHECK(step == doctest::Approx(1.42).epsilon(0.06));
  }
}

TEST_CASE("the signature of every shipped scenario is the published one") {
  // AURUM_UPDATE_GOLDEN=1 writes the file anew: a change of it says that the model of a step has changed.
  const std::string path = "tests/study/golden/signatures.txt";
  std::string now;
  for (const std::string& name : ShippedScenarios())
    now += name + " " + EvaluateDocument(Shipped(name)).outcome.signature + "\n";
  if (std::getenv("AURUM_UPDATE_GOLDEN") != nullptr) WriteTextFile(path, now);
  CHECK(ReadTextFile(path) == now);
}

TEST_CASE("the same scenario gives the same bytes") {
  const auto once = [] {
    Json result = ResultJson(EvaluateDocument(Shipped("qwen2.5-vl-72b-64xh100")), {}, "test");
    result.Set("simulation_wall_s", 0);
    return result.Dump(2);
  };
  CHECK(once() == once());
}

TEST_CASE("the figures of a study are those of the result") {
  const Evaluation e = EvaluateDocument(Shipped("llava-1.6-7b-finetune-8xa100"));
  const Json result = ResultJson(e, {}, "test");
  std::set<std::string> names;
  for (const Figure& figure : FiguresOf(e)) {
    CHECK(names.insert(figure.name).second);
    const auto* number = std::get_if<double>(&figure.value);
    const Json* same = result.Find(figure.name);
    if (number != nullptr && same != nullptr && same->IsNumber())
      CHECK(*number == same->AsNumber());
  }
  CHECK(names.count("f_over_b_s.vision") == 1);
}

TEST_CASE("a class of one GPU is a GPU, of several a range") {
  const auto name = [](const std::string& scenario) {
    return RankName(EvaluateDocument(Shipped(scenario)).program, 0);
  };
  CHECK(name("llama-2-7b-1x4090").find("(GPU 0: ") != std::string::npos);
  CHECK(name("clip-vit-l-14-4x4090").find("(GPUs 0-3: ") != std::string::npos);
}

}  // namespace
}  // namespace aurum
