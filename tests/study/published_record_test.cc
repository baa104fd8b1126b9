#include "sim/study/published/record.h"

#include <set>
#include <string>

#include "tests/support/shared.h"

namespace aurum {
namespace {

std::vector<Record> Read(const std::string& text) {
  return ReadRecords(ParseJson(text, "records.json"), nullptr);
}

TEST_CASE("a row of the training format") {
  const JsonDocument document = ReadJsonFile("tests/study/fixtures/published_training.json");
  const std::vector<Record> records = ReadRecords(document, nullptr);
  REQUIRE(records.size() == 6);
  const RecordFacts& dense = records[0].facts;
  CHECK(dense.id == "own-dense-8g");
  CHECK(dense.source == "mosaicml-llm-foundry");
  CHECK(dense.model.layers == 24);
  CHECK(dense.model.gated == false);
  CHECK_FALSE(dense.plan.vpp.has_value());
  CHECK(dense.plan.sharding == "FULL_SHARD");
  CHECK(records[0].measured.iteration_s == 1.5);
  CHECK(records[0].measured.fits == true);
  const RecordFacts& mixture = records[1].facts;
  REQUIRE(mixture.model.moe.has_value());
  CHECK(mixture.model.moe->experts == 64);
  CHECK(mixture.model.moe->shared_intermediate == 2 * 1408);
  REQUIRE(mixture.model.latent.has_value());
  CHECK(mixture.model.latent->value_dim == 128);
  CHECK(records[2].facts.plan.offload_activations == doctest::Approx(0.25));
  CHECK(records[3].facts.flags.size() == 1);
}

TEST_CASE("a row of the memory format takes its plan from Megatron-LM's arguments") {
  const JsonDocument document = ReadJsonFile("tests/study/fixtures/published_memory.json");
  const JsonDocument arguments = ReadJsonFile("tests/study/fixtures/published_megatron_args.json");
  const std::vector<Record> records = ReadRecords(document, &arguments);
  REQUIRE(records.size() == 3);
  const RecordFacts& ci = records[0].facts;
  CHECK(ci.source == "megatron-lm-ci");
  CHECK(ci.plan.tp == 2);
  CHECK(ci.plan.pp == 2);
  CHECK(ci.plan.vpp == 2);  // 12 layers, 2 stages, 3 a chunk
  CHECK(ci.plan.zero == 1);
  CHECK(ci.plan.attention == "unfused");
  CHECK(ci.model.vocabulary == 50432);  // 50,257 rounded up to a multiple of 128 · 2
  CHECK(ci.model.intermediate == 2048);
  CHECK(ci.model.tied == true);
  CHECK(records[0].measured.peak_memory == 1234567890);
  CHECK(records[0].measured.memory_unit_bytes == 1);
  CHECK(records[1].facts.not_simulated.find("release") != std::string::npos);
  CHECK(records[2].facts.plan.offload_activations == 0.5);

  const std::vector<Record> alone = ReadRecords(document, nullptr);
  CHECK(alone[0].facts.not_simulated.find("argument list is not told") != std::string::npos);
}

TEST_CASE("cases: one that compares gives a record for each plan") {
  const JsonDocument document = ReadJsonFile("tests/study/fixtures/published_cases.json");
  const std::vector<Record> records = ReadRecords(document, nullptr);
  REQUIRE(records.size() == 6);
  CHECK(records[0].facts.id == "torchtitan-asynctp-own/vanilla");
  CHECK(records[0].facts.set == records[1].facts.set);
  CHECK(records[0].facts.plan.tensor_parallel_overlap == false);
  CHECK(records[1].facts.plan.tensor_parallel_overlap == true);
  CHECK(records[1].measured.tokens_per_s_per_gpu == 4700);
  // Ran out of memory: what it had allocated is not a peak.
  CHECK(records[2].measured.fits == false);
  CHECK_FALSE(records[2].measured.peak_memory.has_value());
  // An hour for 1,024 samples.
  CHECK(records[3].measured.samples_per_s == doctest::Approx(1024.0 / 3600));
  CHECK(records[3].facts.plan.zero == 3);
  CHECK(records[4].facts.plan.loss == "chunked");
  CHECK(records[4].facts.plan.recompute == "none");
  CHECK_FALSE(records[5].facts.not_simulated.empty());
}

TEST_CASE("errors name the place") {
  CHECK(ThrownBy([] { Read("{}"); }).code == 860);
  CHECK(ThrownBy([] { Read("[]"); }).code == 860);
  CHECK(ThrownBy([] { Read("[3]"); }).code == 860);
  CHECK(ThrownBy([] { Read(R"([{"id": "a"}])"); }).code == 860);
  const Diagnostic nameless = ThrownBy([] { Read(R"([{"source_class": "x"}])"); });
  CHECK(nameless.code == 862);
  const Diagnostic twice = ThrownBy([] {
    Read(R"([{"id": "a", "source_class": "x"},
 {"id": "a", "source_class": "x"}])");
  });
  CHECK(twice.code == 862);
  CHECK(twice.where.line == 2);
  const Diagnostic typed =
      ThrownBy([] { Read(R"([{"id": "a", "source_class": "x", "plan": {"tp": [2]}}])"); });
  CHECK(typed.code == 861);
  CHECK(typed.where.pointer == "/0/plan/tp");
  CHECK(ThrownBy([] { Read(R"([{"id": "a", "source_class": "x", "plan": {"tp": -2}}])"); }).code ==
        861);
}

TEST_CASE("numbers told in words count as not told") {
  const auto records = Read(
      R"([{"id": "a", "source_class": "x", "plan": {"micro_batch": "8 batches", "tp": "4", "fsdp": true}}])");
  CHECK_FALSE(records[0].facts.plan.micro_batch.has_value());
  CHECK(records[0].facts.plan.tp == 4);
  CHECK(records[0].facts.plan.sharding == "true");
}

TEST_CASE("the published files are read whole") {
  struct File {
    const char* name;
    std::size_t at_least;
  };
  for (const File& file : {File{"training.json", 600}, File{"training_mm.json", 400},
                           File{"cases.json", 240}, File{"memory.json", 180}}) {
    const std::string path = SharedPath(std::string("data/measured/") + file.name);
    if (path.empty()) return;
    CAPTURE(file.name);
    const std::string arguments = SharedPath("data/measured/megatron_ci_args.json");
    const JsonDocument ci = ReadJsonFile(arguments);
    const std::vector<Record> records = ReadRecords(ReadJsonFile(path), &ci);
    CHECK(records.size() >= file.at_least);
    std::set<std::string> ids;
    for (const Record& record : records) CHECK(ids.insert(record.facts.id).second);
  }
}

}  // namespace
}  // namespace aurum
