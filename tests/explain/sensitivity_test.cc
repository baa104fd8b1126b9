#include "sim/explain/sensitivity.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "sim/explain/explain.h"
#include "tests/support/scenario.h"

namespace aurum {
namespace {

const Sensitivity* Find(const std::vector<Sensitivity>& list, const std::string& name) {
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const Sensitivity& s) { return s.name == name; });
  return found == list.end() ? nullptr : &*found;
}

std::vector<Sensitivity> Measure(const JsonDocument& document, int jobs = 0) {
  InputCache cache(".");
  SensitivityOptions options;
  options.jobs = jobs;
  return MeasureSensitivities(EvaluateDocument(document), document, &cache, options);
}

TEST_CASE("each line is what its --set words give") {
  const JsonDocument document = Shipped("qwen2.5-vl-72b-64xh100");
  const double base = EvaluateDocument(document).StepSeconds();
  const auto list = Measure(document);
  REQUIRE(list.size() >= 6);
  for (const Sensitivity& s : list) {
    CAPTURE(s.name);
    const Evaluation after = EvaluateDocument(Changed(document, s.set));
    CHECK(after.StepSeconds() == s.step_s);
    CHECK(s.step_share == doctest::Approx(1 - s.step_s / base));
    CHECK(after.memory.Heaviest().peak_bytes == s.peak_bytes);
  }
}

TEST_CASE("elasticities of resources are shares: none below 0, all together at most 1") {
  for (const std::string name :
       {"qwen2.5-vl-72b-64xh100", "gpt-3-175b-64xa100", "clip-vit-l-14-4x4090", "llama-2-7b-1x4090",
        "llava-1.6-7b-generate-8xa100"}) {
    CAPTURE(name);
    double sum = 0;
    for (const Sensitivity& s : Measure(Shipped(name))) {
      CAPTURE(s.name);
      if (!s.resource) continue;
      CHECK(s.elasticity > -1e-6);
      if (s.name != "device speed") sum += s.elasticity;
    }
    CHECK(sum <= 1 + 1e-3);
    CHECK(sum > 0.5);
  }
}

TEST_CASE("one GPU has no links to ask about; a node has no network") {
  const auto one = Measure(Shipped("llama-2-7b-1x4090"));
  for (const char* link : {"network", "NVLink", "PCIe"}) CHECK(Find(one, link) == nullptr);
  const auto node = Measure(Shipped("llava-1.6-7b-finetune-8xa100"));
  CHECK(Find(node, "network") == nullptr);
  CHECK(Find(node, "NVLink") != nullptr);
  // What is imposed is what is multiplied.
  const auto faster = Measure(Shipped("llava-1.6-7b-finetune-8xa100", {"what_if.gemm_speedup=2"}));
  REQUIRE(Find(faster, "matrix FLOP/s") != nullptr);
  CHECK(Find(faster, "matrix FLOP/s")->set.front() == "what_if.gemm_speedup=2.2");
}

TEST_CASE("decoding lives on memory bandwidth, training on matrix products") {
  const auto decode = Measure(Shipped("llava-1.6-7b-generate-8xa100"));
  const auto train = Measure(Shipped("gpt-3-175b-64xa100"));
  CHECK(Find(train, "matrix FLOP/s")->elasticity > Find(train, "HBM bandwidth")->elasticity);
  CHECK(Find(train, "matrix FLOP/s")->elasticity > Find(decode, "matrix FLOP/s")->elasticity - 1);
}

TEST_CASE("the ladder grows in size, time and memory go with it, and one row is the plan") {
  const JsonDocument document = Shipped("llava-1.6-7b-finetune-8xa100");
  InputCache cache(".");
  const Evaluation e = EvaluateDocument(document);
  const auto rows = MicroBatchLadder(e, document, &cache, {});
  REQUIRE(rows.size() >= 3);
  int told = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    told += rows[i].as_told ? 1 : 0;
    if (rows[i].as_told) CHECK(rows[i].step_s == e.StepSeconds());
    if (i == 0) continue;
    CHECK(rows[i].size > rows[i - 1].size);
    CHECK(rows[i].peak_bytes > rows[i - 1].peak_bytes);
  }
  CHECK(told == 1);
}

TEST_CASE("links without limit save no more than what is waited for, and all save the most") {
  for (const char* name : {"qwen2.5-vl-72b-64xh100", "clip-vit-l-14-4x4090"}) {
    CAPTURE(name);
    const JsonDocument document = Shipped(name);
    InputCache cache(".");
    const auto limits = MeasureLinkLimits(EvaluateDocument(document), document, &cache, {});
    REQUIRE_FALSE(limits.empty());
    for (const LinkLimit& limit : limits) CHECK(limit.step_s >= limits.front().step_s * (1 - 1e-9));
  }
}

TEST_CASE("the number of threads makes no difference") {
  const JsonDocument document = Shipped("qwen2.5-vl-72b-64xh100");
  const auto one = Measure(document, 1), four = Measure(document, 4);
  REQUIRE(one.size() == four.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    CHECK(one[i].name == four[i].name);
    CHECK(one[i].step_s == four[i].step_s);
  }
}

TEST_CASE(
    "samples that differ: micro-batches hold the heaviest samples of all steps, not of the first") {
  for (const char* size : {"plan.micro_batch_size=1", "plan.micro_batch_size=4"}) {
    const JsonDocument document = Changed(Shipped("qwen2-vl-7b-samples-8xa100"), {size});
    const Evaluation e = EvaluateDocument(document);
    REQUIRE(e.data);
    REQUIRE(e.data->step_s.size() > 1);
    InputCache cache(".");
    bool told = false;
    for (const MicroBatchRow& row : MicroBatchLadder(e, document, &cache, {})) {
      const Evaluation as_set = EvaluateDocument(Changed(document, row.set));
      CHECK(row.peak_bytes == as_set.memory.Heaviest().peak_bytes);
      CHECK(row.verdict == as_set.memory.verdict);
      told |= row.as_told;
    }
    CHECK(told);
    // Times are of one drawn step, and the words say so.
    ExplainOptions options;
    options.topics = TopicsOf({"oom"});
    std::string said;
    for (const Finding& finding : Explain(e, document, &cache, options).findings)
      said += finding.topic == "samples" ? finding.text : "";
    CHECK(said.find("timed on the first of them") != std::string::npos);
  }
}

}  // namespace
}  // namespace aurum
