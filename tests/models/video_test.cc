#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "models/hf_import.h"
#include "models/reader.h"
#include "models/tokens.h"
#include "tests/models/fixtures.h"
#include "tests/support/catalogue.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

struct VideoRow {
  const char* model;
  int frames, width, height;
  std::int64_t sequences, sequence_tokens, connector, backbone;
};

void CheckVideo(const Model& model, const VideoRow& row) {
  CAPTURE(row.model);
  CAPTURE(row.frames);
  CAPTURE(row.width);
  const MediaTokens tokens = VideoTokens(model, row.frames, row.width, row.height);
  CHECK(tokens.sequences == row.sequences);
  CHECK(tokens.sequence_tokens == row.sequence_tokens);
  CHECK(tokens.connector_tokens == row.connector);
  CHECK(tokens.backbone_tokens == row.backbone);
}

TEST_CASE("videos by each family's own rule") {
  const std::vector<VideoRow> catalogue = {
      // 640×480 goes to 644×476: 46·34 patches, 23·17 tokens a pair of frames.
      {"qwen2.5-vl-7b", 16, 640, 480, 8, 46 * 34, 8 * 391, 8 * 391},
      {"qwen2-vl-7b", 15, 640, 480, 8, 46 * 34, 8 * 391, 8 * 391},  // the last frame twice
      {"qwen2-vl-7b", 1, 640, 480, 1, 46 * 34, 391, 391},
      // 1920·1080 is more than 768 tokens: (1920·1080/602112)^½ = 1.856 brings it to 1034.6 by 582.0,
      // which are 36·20 squares of 28 px.
      {"qwen2.5-vl-7b", 2, 1920, 1080, 1, 36 * 20 * 4, 36 * 20, 36 * 20},
      // 100·100 is less than 128 tokens: up by (100352/10000)^½ = 3.168 to 336×336.
      {"qwen2.5-vl-7b", 2, 100, 100, 1, 144 * 4, 144, 144},
      // 768 frames share 180633600 pixels: 235200 each. (1920·1080/235200)^½ = 2.969 makes 646.6 by
      // 363.7, 23·12 squares.
      {"qwen2.5-vl-7b", 768, 1920, 1080, 384, 23 * 12 * 4, 384 * 276, 384 * 276},
      // Squares of 32 px: 640×480 stays, 20·15.
      {"qwen3-vl-30b-a3b", 16, 640, 480, 8, 40 * 30, 8 * 300, 8 * 300},
      {"qwen3-omni-30b-a3b", 4, 640, 480, 2, 1200, 600, 600},
      {"internvl2-8b", 8, 1920, 1080, 8, 1025, 8 * 256, 8 * 256},
      {"llava-1.5-7b", 8, 1920, 1080, 8, 577, 8 * 576, 8 * 576},
      // Projected, then pooled to 14·14; one newline ends the video.
      {"llava-onevision-7b", 32, 1920, 1080, 32, 729, 32 * 729, 32 * 196 + 1},
      {"gemma-3-27b", 4, 640, 480, 4, 4096, 4 * 256, 4 * 256},
  };
  for (const VideoRow& row : catalogue) CheckVideo(NamedModel(row.model), row);
  const std::vector<VideoRow> imported = {
      // A budget of 70 squares of 48 px: 448×448 has 8·8.
      {"gemma4", 4, 448, 448, 4, 64 * 9, 4 * 64, 4 * 64},
      // Groups of four frames: 5 frames are two.
      {"kimi_k25", 16, 448, 448, 4, 4 * 1024, 4 * 256, 4 * 256},
      {"kimi_k25", 5, 448, 448, 2, 4 * 1024, 2 * 256, 2 * 256},
      {"kimi_k25", 3, 448, 448, 1, 3 * 1024, 256, 256},
      // MiniCPM-V: one view of its 1024 patches or so, whatever the size.
      {"minicpmv", 8, 896, 896, 8, 1024, 8 * 64, 8 * 64},
      {"paligemma", 16, 640, 480, 16, 256, 16 * 256, 16 * 256},
      {"glm4v", 16, 448, 448, 8, 1024, 8 * 256, 8 * 256},
      {"vila", 8, 448, 448, 8, 25, 8 * 9, 8 * 9},
  };
  for (const VideoRow& row : imported) CheckVideo(ImportedFixture(row.model), row);
}

TEST_CASE("a still video of one pair costs a Qwen as much as an image of its size") {
  const Model model = NamedModel("qwen2.5-vl-7b");
  for (int width = 400; width <= 900; width += 61) {
    const MediaTokens image = ImageTokens(model, width, 500);
    const MediaTokens video = VideoTokens(model, 2, width, 500);
    CHECK(video.sequence_tokens == image.sequence_tokens);
    CHECK(video.backbone_tokens == image.backbone_tokens);
  }
}

TEST_CASE("a frame keeps within its limits, and the whole video within its own") {
  const Model model = NamedModel("qwen3-vl-30b-a3b");
  const std::int64_t square = 32 * 32;
  for (int frames = 1; frames <= 768; frames += 59) {
    for (int width = 40; width <= 4000; width += 733) {
      const MediaTokens tokens = VideoTokens(model, frames, width, 1080);
      const std::int64_t of_pair = tokens.backbone_tokens / tokens.sequences;
      CAPTURE(frames);
      CAPTURE(width);
      CHECK(of_pair <= 768);
      // Never below the least area and a twentieth, even where the whole is too long.
      CHECK((tokens.backbone_tokens * 2 * square <= model.video.max_total_pixels ||
             of_pair <= 128 * 21 / 20));
      CHECK(tokens.sequences == (frames + 1) / 2);
    }
  }
}

TEST_CASE("videos that cannot be") {
  const auto refused = [](const char* name, std::int64_t frames, std::int64_t width,
                          std::int64_t height) {
    const Model model = NamedModel(name);
    return ThrownBy([&] { VideoTokens(model, frames, width, height); });
  };
  const Diagnostic none = refused("qwen-vl", 8, 448, 448);
  CHECK(none.code == 615);
  CHECK(none.message.find("'qwen-vl'") != std::string::npos);
  CHECK(none.help.find("as images") != std::string::npos);
  const Diagnostic text = refused("llama-2-7b", 8, 448, 448);
  CHECK(text.code == 615);
  CHECK(text.help.find("as images") == std::string::npos);
  for (const char* name : {"clip-vit-l-14", "llama-3.2-11b-vision", "llama-4-scout", "fuyu-8b"})
    CHECK(refused(name, 8, 448, 448).code == 615);
  CHECK(refused("qwen2-vl-7b", 0, 448, 448).code == 612);
  CHECK(refused("qwen2-vl-7b", 8, 0, 448).code == 612);
  CHECK(refused("qwen2-vl-7b", 8, 448, 65537).code == 612);
  CHECK(refused("qwen2-vl-7b", 8, 20100, 100).code == 612);
  const Diagnostic longer = refused("qwen2-vl-7b", 769, 448, 448);
  CHECK(longer.code == 612);
  CHECK(longer.help.find("at most 768 frames") != std::string::npos);
  CHECK(refused("internvl2-8b", (1 << 20) + 1, 448, 448).code == 612);
}

TEST_CASE("a tower for videos: a clip is one sequence") {
  const Model model = NamedModel("vjepa2-g-llama-3.1-8b");
  CHECK(VideoModality(model) == Modality::kVideo);
  CHECK(VideoModality(NamedModel("qwen2-vl-7b")) == Modality::kVision);
  CheckVideo(model, {"vjepa2", 64, 1920, 1080, 1, 8192, 8192, 8192});
  CheckVideo(model, {"vjepa2", 10, 1920, 1080, 1, 8192, 8192, 8192});
  CheckVideo(model, {"vjepa2", 65, 320, 240, 2, 8192, 16384, 16384});
  CHECK(ThrownBy([&] { ImageTokens(model, 448, 448); }).code == 610);
  Model pooled = model;
  pooled.video.tokens_per_clip = 256;
  CHECK(VideoTokens(pooled, 65, 320, 240).backbone_tokens == 512);
}

TEST_CASE("newlines of frames, and groups along time, by hand") {
  Model model = NamedModel("llava-onevision-7b");
  model.video.newlines_per_frame = 14;  // LLaVA-Video's grid: a newline after every row
  model.video.newlines = 0;
  CHECK(VideoTokens(model, 64, 640, 480).backbone_tokens == 64 * 210);
  Model pooled = NamedModel("qwen2.5-vl-7b");
  pooled.video.temporal_pool = 3;
  const MediaTokens tokens = VideoTokens(pooled, 10, 448, 448);  // five pairs, two groups
  CHECK(tokens.sequences == 2);
  CHECK(tokens.sequence_tokens == 3 * 1024);
  CHECK(tokens.backbone_tokens == 2 * 256);
}

TEST_CASE("images of the newer models") {
  const auto backbone = [](const char* name, int width, int height) {
    return ImageTokens(NamedModel(name), width, height).backbone_tokens;
  };
  // LLaVA-OneVision: 729, and behind it 27 rows of 27 with newlines.
  CHECK(backbone("llava-onevision-7b", 384, 384) == 729 + 27 * 28);
  // 2304×2304 is 36 tiles, 162·162; more than nine tiles' 81·81 by a factor of 2 a side.
  CHECK(backbone("llava-onevision-7b", 2304, 2304) == 729 + 81 * 82);
  // 1152×1152 is just 9 tiles.
  CHECK(backbone("llava-onevision-7b", 1152, 1152) == 729 + 81 * 82);
  CHECK(backbone("blip2-opt-2.7b", 640, 480) == 32);
  const MediaTokens blip = ImageTokens(NamedModel("blip2-opt-2.7b"), 640, 480);
  CHECK(blip.sequence_tokens == 257);
  CHECK(backbone("idefics2-8b", 980, 980) == 64);
  CHECK(backbone("qwen3-vl-8b", 1024, 1024) == 1024);
  CHECK(backbone("llama-3.2-11b-vision", 560, 560) == 0);
  CHECK(backbone("vit-22b-gpt-175b", 224, 224) == 256);
  CHECK(AudioTokens(NamedModel("qwen3-omni-30b-a3b"), 10).backbone_tokens == 130);
  CHECK(AudioTokens(NamedModel("qwen2.5-omni-7b"), 10).backbone_tokens == 250);
  CHECK(AudioTokens(NamedModel("llama-4-scout-whisper"), 10).backbone_tokens == 375);
}

}  // namespace
}  // namespace aurum
