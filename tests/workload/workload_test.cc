#include "sim/workload/workload.h"

#include <doctest/doctest.h>

#include "models/reader.h"
#include "sim/core/object_reader.h"
#include "tests/support/shared.h"
#include "tests/workload/fixtures.h"

namespace aurum {
namespace {

SampleLoad Load(const std::string& model, const std::string& workload,
                std::vector<Diagnostic>* warnings = nullptr) {
  return LoadOfSample(ReadModel(OpenModel(model, ".")), ParseWorkload(workload), warnings);
}

TEST_CASE("a sample is text and media tokens by the family's rule") {
  const std::string one_image =
      R"({"global_batch_size": 1, "text_tokens": 32, "images": [{"width": 448, "height": 448}]})";
  CHECK(Load("llava-1.6-7b", one_image).backbone_tokens == 32 + 2928);
  CHECK(Load("qwen-vl", one_image).backbone_tokens == 32 + 256);
  CHECK(Load("fuyu-8b", one_image).backbone_tokens == 32 + 240);
  const SampleLoad two = Load(
      "qwen-vl",
      R"({"global_batch_size": 1, "text_tokens": 0, "images": [{"width": 448, "height": 448, "count": 2}]})");
  CHECK(two.backbone_tokens == 512);
  CHECK(two.cross_modal_tokens == 512);
}

TEST_CASE("encoders see tiles, resamplers the encoder's tokens, the backbone one sequence") {
  const SampleLoad llava = Load(
      "llava-1.6-7b",
      R"({"global_batch_size": 1, "text_tokens": 8, "images": [{"width": 448, "height": 448}]})");
  CHECK(llava.modules[0].tokens == 5 * 577);
  CHECK(llava.modules[1].tokens == 5 * 576);
  CHECK(llava.modules[2].batches.size() == 1);
  const SampleLoad qwen = Load(
      "qwen-vl",
      R"({"global_batch_size": 1, "text_tokens": 8, "images": [{"width": 448, "height": 448}]})");
  CHECK(qwen.modules[0].tokens == 1024);
  CHECK(qwen.modules[1].tokens == 1024);        // read by the resampler
  CHECK(qwen.modules[1].output_tokens == 256);  // its queries
}

TEST_CASE("towers of a contrastive model do not join") {
  const SampleLoad clip = Load(
      "clip-vit-l-14",
      R"({"global_batch_size": 1, "text_tokens": 77, "images": [{"width": 224, "height": 224}]})");
  CHECK(clip.backbone_tokens == 77);
  CHECK(clip.cross_modal_tokens == 0);
  CHECK(clip.modules[0].tokens == 257);
}

TEST_CASE("what a model cannot take, and what is left idle, is said") {
  CHECK(
      ThrownBy([] {
        Load(
            "llama-2-7b",
            R"({"global_batch_size": 1, "text_tokens": 8, "images": [{"width": 2, "height": 2}]})");
      }).code == 610);
  CHECK(ThrownBy([] {
          Load("llama-2-7b", R"({"global_batch_size": 1, "text_tokens": 8, "audio_s": 3})");
        }).code == 611);
  CHECK(ThrownBy([] {
          Load("llama-2-7b", R"({"global_batch_size": 1, "text_tokens": 0})");
        }).code == 612);
  std::vector<Diagnostic> warnings;
  Load("llava-1.6-7b", R"({"global_batch_size": 1, "text_tokens": 100000})", &warnings);
  REQUIRE(warnings.size() == 2);
  CHECK(warnings[0].code == 1613);  // the encoder has nothing to do
  CHECK(warnings[1].code == 1614);  // longer than the positions
}

TEST_CASE("the reader is strict") {
  CHECK(ThrownBy([] { ParseWorkload(R"({"global_batch_size": 0, "text_tokens": 1})"); }).code ==
        107);
  CHECK(ThrownBy([] { ParseWorkload(R"({"text_tokens": 1})"); }).code == 102);
  CHECK(ThrownBy([] {
          ParseWorkload(R"({"global_batch_size": 1, "text_token": 1, "text_tokens": 1})");
        }).help == "did you mean 'text_tokens'?");
  CHECK(ThrownBy([] {
          ParseWorkload(R"({"global_batch_size": 1, "text_tokens": 1, "new_tokens": 4})");
        }).code == 109);
  CHECK(ThrownBy([] {
          ParseWorkload(R"({"task": "generate", "global_batch_size": 1, "text_tokens": 1})");
        }).code == 102);
  CHECK(ThrownBy([] {
          ParseWorkload(R"({"task": "trian", "global_batch_size": 1, "text_tokens": 1})");
        }).help.find("train") != std::string::npos);
}

}  // namespace
}  // namespace aurum
