#include <algorithm>
#include <cmath>
#include <string>

#include "sim/study/published/validation.h"
#include "tests/study/translations.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

// Everything that a prediction says, as text.
std::string Bytes(const PredictedRecord& p) {
  std::string out = p.translation.skip + "|" + p.failed + "|" + p.translation.scenario.Dump() +
                    p.translation.model.Dump() + p.translation.cluster.Dump();
  for (const Json& end : p.translation.ends) out += end.Dump();
  for (const std::string& note : p.translation.assumed) out += note;
  if (p.nominal) {
    out += Json::Numbers({p.nominal->step_s, p.nominal->memory_bytes, p.nominal->device_bytes,
                          p.nominal->model_flops, p.step_low_s, p.step_high_s, p.memory_low_bytes,
                          p.memory_high_bytes})
               .Dump();
  }
  return out;
}

const MetricRow& RowOf(const PublishedReport& report, const std::string& id,
                       const std::string& metric) {
  for (const MetricRow& row : report.rows)
    if (row.id == id && row.metric == metric) return row;
  FAIL("no row for ", id, " ", metric);
  return report.rows.front();
}

// Replaces every number that a record says was measured.
void Falsify(Json* value, bool measured) {
  if (value->IsArray()) {
    for (Json& item : value->items()) Falsify(&item, measured);
  } else if (value->IsObject()) {
    for (auto& [key, item] : value->members())
      Falsify(&item, measured || key == "measured" || key == "observed");
  } else if (measured && value->IsNumber()) {
    *value = Json(value->AsNumber() * 3.7 + 11);
  }
}

TEST_CASE("nothing that was measured reaches a prediction") {
  const PublishedSources sources = OpenPublishedSources(".");
  for (const char* name : {"training", "multimodal", "memory", "cases"}) {
    CAPTURE(name);
    const JsonDocument arguments =
        ReadJsonFile("tests/study/fixtures/published_megatron_args.json");
    JsonDocument document =
        ReadJsonFile("tests/study/fixtures/published_" + std::string(name) + ".json");
    const std::vector<Record> told = ReadRecords(document, &arguments);
    Falsify(&document.root, false);
    const std::vector<Record> false_ones = ReadRecords(document, &arguments);
    REQUIRE(told.size() == false_ones.size());
    const auto predictions = PredictAll(told, sources, ".", {});
    const auto again = PredictAll(false_ones, sources, ".", {});
    bool changed = false;
    for (std::size_t i = 0; i < told.size(); ++i) {
      CAPTURE(told[i].facts.id);
      CHECK(Bytes(predictions[i]) == Bytes(again[i]));
      changed = changed || told[i].measured.iteration_s != false_ones[i].measured.iteration_s ||
                told[i].measured.peak_memory != false_ones[i].measured.peak_memory;
    }
    CHECK(changed);  // and the falsified values were indeed read
  }
}

TEST_CASE("predictions do not depend on the number of threads") {
  const PublishedSources sources = OpenPublishedSources(".");
  const std::vector<Record> records = PublishedFixture("training");
  PublishedOptions one, four;
  one.jobs = 1;
  four.jobs = 4;
  const PublishedReport a = Compare(records, PredictAll(records, sources, ".", one));
  const PublishedReport b = Compare(records, PredictAll(records, sources, ".", four));
  CHECK(PublishedJson(a, "x").Dump() == PublishedJson(b, "x").Dump());
}

TEST_CASE("the walk over a file of records") {
  const PublishedSources sources = OpenPublishedSources(".");
  const std::vector<Record> records = PublishedFixture("training");
  const std::vector<PredictedRecord> predictions = PredictAll(records, sources, ".", {});
  for (const PredictedRecord& p : predictions) CHECK(p.failed == "");
  const PublishedReport report = Compare(records, predictions);
  CHECK(report.records == 6);
  CHECK(report.compared == 5);
  const MetricRow& dense = RowOf(report, "own-dense-8g", kIterationMetric);
  CHECK(dense.skipped == "");
  CHECK(dense.predicted > 0);
  CHECK_FALSE(dense.low.has_value());
  CHECK(RowOf(report, "own-flagged", kIterationMetric).skipped.starts_with("flagged"));
  // 2,500 tokens/s of each of 16 GPUs, 32 samples of 4,096 tokens.
  CHECK(RowOf(report, "own-offload-16g", kIterationMetric).measured ==
        doctest::Approx(32 * 4096.0 / (2500.0 * 16)));
  // Recomputation is not told: full costs more time than none.
  const MetricRow& silent = RowOf(report, "own-silent-8g", kIterationMetric);
  REQUIRE(silent.low.has_value());
  CHECK(*silent.low == silent.predicted);
  CHECK(*silent.high > silent.predicted * 1.1);
  // "G" of the source is 1e9 bytes.
  CHECK(RowOf(report, "own-lora-1g", kMemoryMetric).measured ==
        doctest::Approx(21.5e9 / (1024.0 * 1024 * 1024)));
  CHECK(report.ScoreOf(kIterationMetric).n == 5);
  CHECK(report.ScoreOf(kIterationMetric).skipped == 1);
  CHECK(report.ScoreOf(kMemoryMetric).n == 2);

  const Json json = PublishedJson(report, "1.0");
  CHECK(json.Find("rows")->items().size() == report.rows.size());
  CHECK(
      json.Find("by_source")->Find("qwen-finetune")->Find("iteration_s")->Find("n")->AsInteger() ==
      1);
}

TEST_CASE("a run that ran out of memory, and plans measured against each other") {
  const PublishedSources sources = OpenPublishedSources(".");
  const std::vector<Record> records = PublishedFixture("cases");
  const PublishedReport report = Compare(records, PredictAll(records, sources, ".", {}));
  REQUIRE(report.ranked.size() == 1);
  CHECK(report.ranked[0].ids.front() == "torchtitan-asynctp-own/async");  // more tokens/s
  CHECK(report.ranked[0].kendall_tau.has_value());
  const auto oom = std::find_if(report.fits.begin(), report.fits.end(),
                                [](const FitRow& row) { return !row.reported_fits; });
  REQUIRE(oom != report.fits.end());
  CHECK(oom->id == "litgpt-Own-None-mb4-1gpu");
  CHECK(oom->have_gib > 39);  // of 40: what programs can have
  CHECK(oom->have_gib < 40);
}

// TFLOP/s per GPU as NVIDIA prints them follow tokens/s · (6·N_active + 6·L·s·heads·head_dim), causal,
// N_active with the head and without the embedding: the FLOPs that a step is lowered to must be these.
TEST_CASE("model FLOPs of NVIDIA's published rows") {
  const PublishedSources sources = OpenPublishedSources(".");
  const JsonDocument document = ReadJsonFile("tests/study/fixtures/published_flops.json");
  const std::vector<Record> records = ReadRecords(document, nullptr);
  const std::vector<PredictedRecord> predictions = PredictAll(records, sources, ".", {});
  int near = 0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    CAPTURE(records[i].facts.id);
    REQUIRE(predictions[i].failed == "");
    REQUIRE(predictions[i].nominal.has_value());
    const Translation& t = predictions[i].translation;
    const double per_token =
        predictions[i].nominal->model_flops * t.gpus / (t.samples_per_step * t.tokens_per_sample);
    const double published =
        document.root.items()[i].Find("measured")->Find("tflops_per_gpu")->AsNumber();
    const double counted = per_token * *records[i].measured.tokens_per_s_per_gpu * 1e-12;
    MESSAGE(records[i].facts.id, ": published ", published, ", counted ", counted);
    CHECK(counted == doctest::Approx(published).epsilon(0.05));
    if (std::abs(counted / published - 1) <= 0.005) ++near;
  }
  CHECK(near >= 7);
}

TEST_CASE("the published files: every row is predicted or has its reason") {
  const std::string arguments = SharedPath("data/measured/megatron_ci_args.json");
  if (arguments.empty()) return;
  const JsonDocument ci = ReadJsonFile(arguments);
  const PublishedSources sources = OpenPublishedSources(".");
  for (const char* file : {"training.json", "memory.json", "cases.json", "training_mm.json"}) {
    CAPTURE(file);
    std::vector<Record> records =
        ReadRecords(ReadJsonFile(SharedPath(std::string("data/measured/") + file)), &ci);
    if (std::string(file) == "training.json") {  // every fourth: a test, not a study
      std::vector<Record> some;
      for (std::size_t i = 0; i < records.size(); i += 4) some.push_back(records[i]);
      records = std::move(some);
    }
    const PublishedReport report = Compare(records, PredictAll(records, sources, ".", {}));
    for (const MetricRow& row : report.rows) {
      CAPTURE(row.id);
      if (!row.skipped.empty()) continue;
      CHECK(std::isfinite(row.predicted));
      CHECK(row.predicted > 0);
      CHECK(row.measured > 0);
    }
    const Score time = report.ScoreOf(kIterationMetric);
    if (std::string(file) == "training.json") {
      CHECK(time.n > 80);
      CHECK(*time.kendall_tau > 0.7);
    }
  }
}

}  // namespace
}  // namespace aurum
