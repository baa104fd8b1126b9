#include "sim/study/fixes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "sim/core/units.h"
#include "tests/support/scenario.h"

namespace aurum {
namespace {

FixSearch Search(const JsonDocument& document, const FixOptions& options = {}) {
  InputCache cache(".");
  return SearchFixes(Evaluate(ReadScenario(document, &cache), Level::kAnalytic), document, &cache,
                     options);
}

const Fix* Find(const FixSearch& search, const std::vector<std::string>& set) {
  const auto found = std::find_if(search.fixes.begin(), search.fixes.end(),
                                  [&](const Fix& fix) { return fix.set == set; });
  return found == search.fixes.end() ? nullptr : &*found;
}

bool IsPair(const Fix& fix) { return fix.what.find("; ") != std::string::npos; }

TEST_CASE("a plan that fits needs no fix") {
  const JsonDocument document = Shipped("llava-1.6-7b-finetune-8xa100");
  CHECK(EvaluateDocument(document).memory.verdict == Fit::kFits);
  CHECK(Search(document).tried == 0);
  const FixSearch asked = Search(document, {40, true});
  CHECK(asked.tried > 0);
  // Smaller alone is asked for: no pairs.
  for (const Fix& fix : asked.fixes) CHECK_FALSE(IsPair(fix));
}

TEST_CASE("what a fix says is what its --set words give") {
  const JsonDocument document =
      Shipped("llava-1.6-7b-finetune-8xa100", {"plan.sharding=ddp", "plan.recompute=none"});
  const Evaluation before = EvaluateDocument(document);
  REQUIRE(before.memory.verdict == Fit::kDoesNotFit);
  const FixSearch search = Search(document);
  REQUIRE(search.fixes.size() >= 3);
  for (const Fix& fix : search.fixes) {
    CAPTURE(fix.what);
    const Evaluation after = EvaluateDocument(Changed(document, fix.set));
    CHECK(after.StepSeconds() == fix.step_s);
    CHECK(after.memory.Heaviest().peak_bytes == fix.peak_bytes);
    CHECK(after.memory.verdict == fix.verdict);
    CHECK(fix.step_delta_s == fix.step_s - before.StepSeconds());
    CHECK(fix.saves_bytes == before.memory.Heaviest().peak_bytes - fix.peak_bytes);
    CHECK(fix.saves_bytes > 0);
    // The batch stays what it is, and so does what is trained.
    CHECK(after.scenario.workload.global_batch_size == before.scenario.workload.global_batch_size);
    CHECK(after.scenario.plan.adapter == before.scenario.plan.adapter);
    for (std::size_t i = 0; i < before.scenario.plan.modules.size(); ++i)
      CHECK(after.scenario.plan.modules[i].frozen == before.scenario.plan.modules[i].frozen);
  }
}

TEST_CASE("what fits comes first, by its time; then what is at risk; then the rest by its gain") {
  const FixSearch search =
      Search(Shipped("llava-1.6-7b-finetune-8xa100", {"plan.sharding=ddp", "plan.recompute=none"}));
  REQUIRE(search.fixes.size() >= 3);
  for (std::size_t i = 1; i < search.fixes.size(); ++i) {
    const Fix &a = search.fixes[i - 1], &b = search.fixes[i];
    CHECK(a.verdict <= b.verdict);
    if (a.verdict != b.verdict) continue;
    if (a.verdict == Fit::kDoesNotFit) {
      CHECK(a.saves_bytes >= b.saves_bytes);
    } else {
      CHECK(a.step_s <= b.step_s);
    }
  }
}

TEST_CASE("pairs where no single change is enough, within the budget") {
  // States of 7 B parameters alone are four times what the card has.
  const JsonDocument document = Shipped("llama-2-7b-1x4090");
  const FixSearch search = Search(document);
  CHECK(search.tried <= 40);
  const auto pairs = std::count_if(search.fixes.begin(), search.fixes.end(), IsPair);
  CHECK(std::none_of(search.fixes.begin(), search.fixes.end(),
                     [](const Fix& fix) { return !IsPair(fix) && fix.verdict == Fit::kFits; }));
  CHECK(pairs > 0);
  // What the host keeps is not made smaller by storing it in fewer bits: no pair.
  CHECK(Find(search, {"plan.offload.optimizer=1", "plan.optimizer=adam-8bit"}) == nullptr);
  CHECK(Find(search, {"plan.optimizer=adam-8bit"}) != nullptr);
  CHECK(Search(document, {3}).tried == 3);
  CHECK(FixesJson(search).Dump() == FixesJson(Search(document)).Dump());
}

TEST_CASE("more parallelism only where it divides") {
  // 64 GPUs of tp 8 and pp 8 have no replica left to make of them another degree.
  const JsonDocument document =
      Shipped("gpt-3-175b-64xa100", {"plan.recompute=none", "plan.micro_batch_size=4"});
  REQUIRE(EvaluateDocument(document).memory.verdict != Fit::kFits);
  const FixSearch search = Search(document);
  for (const Fix& fix : search.fixes) {
    for (const std::string& word : fix.set) {
      CAPTURE(word);
      CHECK_FALSE(word.starts_with("plan.backbone.tp"));
      CHECK_FALSE(word.starts_with("plan.backbone.pp"));
      CHECK_FALSE(word.starts_with("plan.sharding"));
    }
  }
  CHECK(Find(search, {"plan.recompute=full"}) != nullptr);
  CHECK(Find(search, {"plan.micro_batch_size=2"}) != nullptr);
}

TEST_CASE("an interleaved pipeline may go back to one chunk a stage, as one change") {
  const FixSearch search =
      Search(Shipped("gpt-3-175b-64xa100", {"plan.schedule=interleaved", "plan.backbone.vpp=4"}),
             {40, true});
  const Fix* fix = Find(search, {"plan.schedule=1f1b", "plan.backbone.vpp=1"});
  REQUIRE(fix != nullptr);
  CHECK(fix->step_delta_s > 0);  // Narayanan et al. 2021: chunks are there to shorten the bubble
}

TEST_CASE("a base that is frozen may be stored in four bits; nothing is frozen that was trained") {
  const JsonDocument document = Shipped(
      "llama-2-7b-1x4090", {R"(plan.adapter={"kind": "lora", "rank": 8})", "plan.recompute=full",
                            "workload.global_batch_size=8", "plan.micro_batch_size=8"});
  const FixSearch search = Search(document, {40, true});
  const Fix* fix = Find(search, {"plan.adapter.base=nf4"});
  REQUIRE(fix != nullptr);
  CHECK_FALSE(fix->caution.empty());
  // 6.5 B of its 6.7 B parameters from 2 bytes to 0.5625.
  CHECK(fix->saves_bytes / kGiB == doctest::Approx(6.5 * 1.4375 / 1.0737).epsilon(0.15));
  for (const Fix& other : search.fixes) {
    for (const std::string& word : other.set) CHECK_FALSE(word.starts_with("plan.frozen"));
  }
}

}  // namespace
}  // namespace aurum
