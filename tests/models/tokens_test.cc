#include "models/tokens.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "models/hf_import.h"
#include "models/reader.h"
#include "tests/models/fixtures.h"
#include "tests/support/catalogue.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

struct ImageRow {
  const char* model;
  int width, height;
  std::int64_t sequences, sequence_tokens, connector, backbone;
};

void CheckImage(const Model& model, const ImageRow& row) {
  CAPTURE(row.model);
  CAPTURE(row.width);
  CAPTURE(row.height);
  const MediaTokens tokens = ImageTokens(model, row.width, row.height);
  CHECK(tokens.sequences == row.sequences);
  CHECK(tokens.sequence_tokens == row.sequence_tokens);
  CHECK(tokens.connector_tokens == row.connector);
  CHECK(tokens.backbone_tokens == row.backbone);
}

TEST_CASE("images by each family's own rule: the catalogue") {
  const std::vector<ImageRow> rows = {
      {"llava-1.5-7b", 448, 448, 1, 577, 576, 576},
      {"llava-1.5-13b", 4000, 20, 1, 577, 576, 576},
      // The published maximum: 576 + 48·48 + 48.
      {"llava-1.6-7b", 448, 448, 5, 577, 2880, 2928},
      {"llava-1.6-7b", 672, 672, 5, 577, 2880, 2928},
      {"llava-1.6-mistral-7b", 2000, 2000, 5, 577, 2880, 2928},
      // One row of two tiles fits exactly: 24 rows of 48.
      {"llava-1.6-7b", 672, 336, 3, 577, 1728, 576 + 24 * 48 + 24},
      {"llava-1.6-7b", 336, 672, 3, 577, 1728, 576 + 48 * 24 + 48},
      {"llava-1.6-7b", 1000, 500, 3, 577, 1728, 1752},
      // 640×480 in 672×672: 504 of 672 px high, so 36 of 48 rows stay.
      {"llava-1.6-7b", 640, 480, 5, 577, 2880, 576 + 36 * 48 + 36},
      {"llava-1.6-34b", 480, 640, 5, 577, 2880, 576 + 48 * 36 + 48},
      // 1344×336 in 336×1008: 252 px high, so 18 rows of 72.
      {"llava-1.6-13b", 1344, 336, 4, 577, 2304, 576 + 18 * 72 + 18},
      {"qwen-vl", 448, 448, 1, 1024, 256, 256},
      {"qwen-vl", 100, 1000, 1, 1024, 256, 256},
      {"fuyu-8b", 448, 448, 0, 0, 225, 240},
      {"fuyu-8b", 30, 31, 0, 0, 2, 4},
      {"fuyu-8b", 1920, 1080, 0, 0, 64 * 36, 64 * 36 + 36},
      {"fuyu-8b", 3840, 1080, 0, 0, 64 * 18, 64 * 18 + 18},
      {"internvl2-8b", 448, 448, 1, 1025, 256, 256},
      {"internvl2-8b", 900, 900, 5, 1025, 1280, 1280},  // 2×2 and a thumbnail
      {"internvl2-8b", 1344, 896, 7, 1025, 1792, 1792},
      {"internvl2-8b", 5000, 50, 13, 1025, 3328, 3328},  // 12×1 and a thumbnail
      {"qwen2-vl-7b", 448, 448, 1, 1024, 256, 256},
      {"qwen2-vl-7b", 1000, 700, 1, 3600, 900, 900},
      {"qwen2-vl-72b", 42, 42, 1, 16, 4, 4},  // 42/28 = 1.5: the even neighbour, 2
      {"qwen2-vl-72b", 14, 14, 1, 16, 4, 4},  // below 56·56: up to it
      {"qwen2-vl-7b", 8000, 8000, 1, 128 * 128 * 4, 128 * 128,
       128 * 128},  // 16384 tokens are the most
      {"qwen2.5-vl-7b", 1344, 672, 1, 4608, 1152, 1152},
      {"clip-vit-l-14", 640, 480, 1, 257, 1, 0},
  };
  for (const ImageRow& row : rows) CheckImage(NamedModel(row.model), row);
}

TEST_CASE("images by each family's own rule: what the importer brings in") {
  const std::vector<ImageRow> rows = {
      {"qwen3_vl", 448, 448, 1, 784, 196, 196},  // H·W/1024
      {"paligemma", 448, 448, 1, 256, 256, 256},
      {"gemma3", 448, 448, 1, 4096, 256, 256},
      {"pixtral", 1024, 1024, 1, 4096, 4096, 4096 + 64},
      {"pixtral", 2048, 1024, 1, 2048, 2048, 2048 + 32},
      // 560 px tiles of 40·40 + 1 tokens, padded to 1608; keys only, none in the text.
      {"mllama", 560, 560, 1, 1608, 1601, 0},
      {"mllama", 1000, 500, 1, 2 * 1608, 2 * 1601, 0},
      {"mllama", 5000, 5000, 1, 4 * 1608, 4 * 1601, 0},
      {"llama4", 336, 336, 1, 577, 144, 144},
      {"llama4", 672, 672, 5, 577, 720, 724},
      {"molmo", 448, 448, 5, 577, 720, 576},
      {"locateanything", 448, 448, 1, 1024, 256, 256},
      {"kimi_k25", 896, 448, 1, 2048, 512, 512},
      {"glm4v", 448, 448, 1, 1024, 256, 256},
      {"gemma4", 448, 448, 1, 2304, 256, 256},
      {"gemma4", 4480, 448, 1, 9 * 52 * 5, 52 * 5, 52 * 5},
  };
  for (const ImageRow& row : rows) CheckImage(ImportedFixture(row.model), row);
  // MiniCPM-V: 448 px is one view; 896 px four slices with marks and one newline.
  const Model minicpm = ImportedFixture("minicpmv");
  CheckImage(minicpm, {"minicpmv", 448, 448, 1, 1024, 64, 64});
  CheckImage(minicpm, {"minicpmv", 896, 896, 5, 1024, 320, 329});
  // VILA: 5·5 patches, padded to 6·6, four to one.
  CheckImage(ImportedFixture("vila"), {"vila", 448, 448, 1, 25, 9, 9});
}

TEST_CASE("LLaVA-1.6 stays between one view and its published maximum") {
  const Model model = NamedModel("llava-1.6-7b");
  for (int width = 50; width <= 2000; width += 130) {
    for (int height = 50; height <= 2000; height += 130) {
      const MediaTokens tokens = ImageTokens(model, width, height);
      CAPTURE(width);
      CAPTURE(height);
      CHECK(tokens.backbone_tokens >= 576);
      CHECK(tokens.backbone_tokens <= 2928);
      CHECK(tokens.connector_tokens == tokens.sequences * 576);
      // A picture turned by 90° sees as many tiles and features; only newlines differ.
      const MediaTokens turned = ImageTokens(model, height, width);
      CHECK(turned.sequences == tokens.sequences);
    }
  }
}

TEST_CASE("native resolution keeps the area within its limits") {
  const Model model = NamedModel("qwen2-vl-7b");
  for (int width = 20; width <= 12000; width += 997) {
    for (int height = 20; height <= 3000; height += 331) {
      if (width > 200 * height || height > 200 * width) continue;
      const MediaTokens tokens = ImageTokens(model, width, height);
      CHECK(tokens.backbone_tokens <= 16384);
      CHECK(tokens.backbone_tokens >= 4);
      CHECK(tokens.sequence_tokens == 4 * tokens.backbone_tokens);
    }
  }
}

TEST_CASE("images that cannot be") {
  const Model text = NamedModel("llama-2-7b");
  const Diagnostic none = ThrownBy([&] { ImageTokens(text, 448, 448); });
  CHECK(none.code == 610);
  CHECK(none.message.find("llama-2-7b") != std::string::npos);
  const Model vision = NamedModel("qwen2-vl-7b");
  CHECK(ThrownBy([&] { ImageTokens(vision, 0, 448); }).code == 612);
  CHECK(ThrownBy([&] { ImageTokens(vision, 448, 65537); }).code == 612);
  const Diagnostic strip = ThrownBy([&] { ImageTokens(vision, 20100, 100); });
  CHECK(strip.code == 612);
  CHECK(strip.message.find("200 to 1") != std::string::npos);
  CHECK(ImageTokens(vision, 20000, 100).backbone_tokens > 0);
}

TEST_CASE("audio is padded to chunks, each a sequence") {
  const Model whisper = NamedModel("whisper-large-v3");
  const MediaTokens one = AudioTokens(whisper, 1.0);
  CHECK(one.sequences == 1);
  CHECK(one.sequence_tokens == 1500);
  CHECK(one.backbone_tokens == 0);  // keys of the cross-attention, not text positions
  CHECK(AudioTokens(whisper, 30.0).sequences == 1);
  CHECK(AudioTokens(whisper, 30.1).sequences == 2);
  const Model voxtral = ImportedFixture("voxtral");
  CHECK(AudioTokens(voxtral, 30).backbone_tokens == 375);  // 12.5 a second
  CHECK(AudioTokens(voxtral, 61).backbone_tokens == 3 * 375);
  CHECK(AudioTokens(ImportedFixture("qwen2_audio"), 30).backbone_tokens == 750);  // 25 a second
  Model open_ended = whisper;
  open_ended.audio = {true, 25, 12.5, 0};
  CHECK(AudioTokens(open_ended, 2.1).sequence_tokens == 53);
  CHECK(AudioTokens(open_ended, 2.1).backbone_tokens == 27);
  CHECK(ThrownBy([&] { AudioTokens(NamedModel("llava-1.5-7b"), 3); }).code == 611);
  CHECK(ThrownBy([&] { AudioTokens(whisper, 0); }).code == 612);
  CHECK(ThrownBy([&] { AudioTokens(whisper, std::numeric_limits<double>::quiet_NaN()); }).code ==
        612);
  CHECK(ThrownBy([&] { AudioTokens(whisper, 1e8); }).code == 612);
}

}  // namespace
}  // namespace aurum
