#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "models/reader.h"
#include "sim/core/random.h"
#include "sim/workload/sample_file.h"
#include "sim/workload/sample_tokens.h"
#include "sim/workload/workload.h"
#include "tests/support/shared.h"
#include "tests/workload/fixtures.h"

namespace aurum {
namespace {

// A file that is gone at the end of the test.
class Scratch {
 public:
  explicit Scratch(const std::string& text, const std::string& name = "samples.jsonl") {
    static int number = 0;
    folder_ = std::filesystem::temp_directory_path() /
              ("aurum-data-" + std::to_string(++number) + "-" + std::to_string(text.size()));
    std::filesystem::create_directories(folder_);
    path_ = (folder_ / name).string();
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~Scratch() { std::filesystem::remove_all(folder_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }
  std::string Beside(const std::string& name) const { return (folder_ / name).string(); }

 private:
  std::filesystem::path folder_;
  std::string path_;
};

const char* kMixture = R"({"global_batch_size": 64, "mixture": [
    {"name": "chat", "weight": 1, "text_tokens": {"uniform": [100, 300]}},
    {"name": "image", "weight": 3, "text_tokens": 50,
     "images": [{"width": 448, "height": {"choice": [[448, 1], [896, 1]]}, "count": {"uniform": [1, 2]}}]}]})";

TEST_CASE("samples of a mixture are a pure function of seed and number") {
  const Workload workload = ParseWorkload(kMixture);
  int with_images = 0;
  double images = 0;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    std::size_t kind = 9;
    const Sample sample = DrawSample(workload.mixture, 3, i, &kind);
    CHECK(sample == DrawSample(workload.mixture, 3, i));
    CHECK(sample.media.empty() == (kind == 0));
    if (sample.media.empty()) {
      CHECK(sample.text_tokens >= 100);
      CHECK(sample.text_tokens <= 300);
    } else {
      ++with_images;
      for (const MediaItem& item : sample.media) images += static_cast<double>(item.count);
    }
  }
  CHECK(with_images / 20'000.0 == doctest::Approx(0.75).epsilon(0.02));
  CHECK(images / with_images == doctest::Approx(1.5).epsilon(0.02));
  CHECK(!(DrawSample(workload.mixture, 4, 1) == DrawSample(workload.mixture, 3, 1)));
}

TEST_CASE("the mean sample is that of the distributions") {
  const Model model = ReadModel(OpenModel("qwen-vl", "."));  // 256 tokens an image
  const SampleLoad mean = LoadOfSample(model, ParseWorkload(kMixture), nullptr);
  // 1/4 · 200 + 3/4 · (50 + 1.5 · 256); the spread of 16,384 draws.
  CHECK(mean.backbone_tokens == doctest::Approx(50 + 0.75 * (50 + 384)).epsilon(0.01));
  CHECK(mean.cross_modal_tokens == doctest::Approx(0.75 * 384).epsilon(0.01));
  REQUIRE(mean.modules[0].batches.size() == 1);
  // Every image is one sequence of 1024: the mean of tokens and of squares lead back to that.
  CHECK(mean.modules[0].batches[0].tokens == doctest::Approx(1024).epsilon(1e-12));
  CHECK(mean.modules[0].tokens == doctest::Approx(0.75 * 1.5 * 1024).epsilon(0.01));
  // The backbone's one batch has the mean and the mean square of the sequence.
  const SequenceBatch batch = mean.modules.back().batches[0];
  CHECK(batch.sequences * batch.tokens == doctest::Approx(mean.backbone_tokens).epsilon(1e-12));
  const double square =
      0.25 * (200.0 * 200 + (201.0 * 201 - 1) / 12) + 0.375 * 306.0 * 306 + 0.375 * 562.0 * 562;
  CHECK(batch.sequences * batch.tokens * batch.tokens == doctest::Approx(square).epsilon(0.01));
}

TEST_CASE("a file of samples is streamed, and its mean is exact") {
  const Scratch file(
      "{\"text_tokens\": 100, \"images\": [[448, 448]]}\n"
      "\n"
      "{\"images\": [], \"text_tokens\": 200}\r\n"
      "{\"text_tokens\":7,\"images\":[[448,448],[448,448],[100,80]]}");
  const SampleFile samples = SampleFile::Read(file.path());
  REQUIRE(samples.size() == 3);
  CHECK(samples.LineOf(1) == 3);
  CHECK(samples.At(0).media.size() == 1);
  CHECK(samples.At(1).media.empty());
  CHECK(samples.At(2).media.size() == 2);  // two equal ones, and one
  CHECK(samples.At(2).media[0].count == 2);
  CHECK(samples.hash().size() == 32);

  // Relative to the file that names it.
  const Workload workload = ParseWorkload(R"({"global_batch_size": 3, "samples": "samples.jsonl"})",
                                          file.Beside("scenario.json"));
  const SampleLoad mean = LoadOfSample(ReadModel(OpenModel("qwen-vl", ".")), workload, nullptr);
  CHECK(mean.backbone_tokens == doctest::Approx((307 + 4 * 256) / 3.0).epsilon(1e-14));
}

TEST_CASE("the fast scanner and the strict reader agree on every line") {
  const std::vector<std::string> lines = {
      R"({"text_tokens": 1})",
      R"( { "text_tokens" : 12 , "images" : [ [ 1 , 2 ] , [3,4] ] } )",
      R"({"audio_s": 1.5, "text_tokens": 0})",
      R"({"audio_s": 30, "text_tokens": 0})",
      R"({"audio_s": 0, "text_tokens": 4})",
      R"({"video": {"frames": 32, "w": 640, "h": 360}, "text_tokens": 3})",
      R"({"video": [{"h": 32, "w": 640, "frames": 360}, {"frames": 1, "w": 1, "h": 1}], "text_tokens": 3})",
      R"({"video": [], "text_tokens": 3})",
      R"({"text_tokens": 100000000})",
  };
  for (const std::string& line : lines) {
    CAPTURE(line);
    Sample scanned;
    REQUIRE(ScanSampleLine(line, &scanned));
    CHECK(scanned == ReadSampleLine(line, "f", 1));
  }
  // Spellings of JSON that only the strict reader knows.
  for (const char* line :
       {R"({"text_tokens": 1e2})", R"({"text_\u0074okens": 100})",
        R"({"text_tokens": 100, "images": null})", R"({"text_tokens": 100.0, "audio_s": 0e0})"}) {
    Sample scanned;
    CAPTURE(line);
    CHECK(!ScanSampleLine(line, &scanned));
    CHECK(ReadSampleLine(line, "f", 1).text_tokens == 100);
  }
  // Damage: one character of a good line replaced, dropped or doubled. What the scanner takes, the
  // reader takes and reads alike.
  const std::string alphabet = "{}[]\":,.0179-eatx \\";
  int taken = 0;
  for (std::uint64_t i = 0; i < 30'000; ++i) {
    std::string line = lines[RandomBits(1, 1, i) % lines.size()];
    const std::size_t at = RandomBits(1, 2, i) % line.size();
    const char other = alphabet[RandomBits(1, 3, i) % alphabet.size()];
    switch (RandomBits(1, 4, i) % 3) {
      case 0:
        line[at] = other;
        break;
      case 1:
        line.erase(at, 1);
        break;
      default:
        line.insert(at, 1, other);
    }
    Sample scanned;
    if (!ScanSampleLine(line, &scanned)) continue;
    ++taken;
    CAPTURE(line);
    CHECK(scanned == ReadSampleLine(line, "f", 1));
  }
  CHECK(taken > 1000);
}

TEST_CASE("what is wrong with a line is said with its place") {
  struct Bad {
    const char* line;
    int code;
    const char* says;
    const char* help;
  };
  for (const Bad& bad : {
           Bad{R"({"text_tokens": 5, "image": [[1, 2]]})", 101, "image", "did you mean 'images'?"},
           Bad{R"({"images": [[1, 2]]})", 102, "text_tokens", ""},
           Bad{R"({"text_tokens": "5"})", 103, "string", ""},
           Bad{R"({"text_tokens": -5})", 107, "-5", "0 … 100000000"},
           Bad{R"({"text_tokens": 5, "text_tokens": 6})", 104, "text_tokens", ""},
           Bad{R"({"text_tokens": 5)", 100, "too early", ""},
           Bad{R"([5])", 103, "array", ""},
           Bad{R"({"text_tokens": 5, "images": [1, 2]})", 627, "an image is 1", "[[width, height]"},
           Bad{R"({"text_tokens": 5, "images": [[1, 2, 3]]})", 627, "[1,2,3]", "[[width"},
           Bad{R"({"text_tokens": 5, "images": [[0, 2]]})", 627, "[0,2]", "65536"},
           Bad{R"({"text_tokens": 5, "images": 3})", 627, "integer", "[[width"},
           Bad{R"({"text_tokens": 5, "video": {"frames": 3, "w": 4}})", 102, "'h'", ""},
           Bad{R"({"text_tokens": 5, "video": {"frames": 3, "w": 4, "h": 5, "fps": 2}})", 101,
               "fps", "known here: frames w h"},
           Bad{R"({"text_tokens": 0})", 624, "neither text nor media", "remove the line"},
       }) {
    CAPTURE(bad.line);
    const Scratch file(std::string("{\"text_tokens\": 1}\n\n") + bad.line + "\n");
    const Diagnostic d = ThrownBy([&] { SampleFile::Read(file.path()); });
    CHECK(d.code == bad.code);
    CHECK(d.where.file == file.path());
    CHECK(d.where.line == 3);
    CHECK(d.where.column >= 1);
    CHECK(d.message.find(bad.says) != std::string::npos);
    CHECK(d.help.find(bad.help) != std::string::npos);
  }
  const Scratch endless("{\"text_tokens\": 1}\n" + std::string(1 << 21, '\0'));
  const Diagnostic never = ThrownBy([&] { SampleFile::Read(endless.path()); });
  CHECK(never.code == 629);
  CHECK(never.where.line == 2);
  const Scratch empty("\n \n");
  CHECK(ThrownBy([&] { SampleFile::Read(empty.path()); }).code == 625);
  const Diagnostic missing = ThrownBy([&] {
    ParseWorkload(R"({"global_batch_size": 3, "samples": "sample.jsonl"})", empty.Beside("s.json"));
  });
  CHECK(missing.code == 201);
  CHECK(missing.where.pointer == "/workload/samples");
  CHECK(missing.help.find("samples.jsonl") != std::string::npos);
  CHECK(ThrownBy([] {
          ParseWorkload(R"({"global_batch_size": 3, "samples": "tests"})", "s.json");
        }).code == 202);
}

TEST_CASE("a model that cannot take a sample says which line") {
  const Scratch file("{\"text_tokens\": 1}\n{\"text_tokens\": 1, \"images\": [[4, 4]]}\n");
  const Workload workload = ParseWorkload(R"({"global_batch_size": 3, "samples": "samples.jsonl"})",
                                          file.Beside("scenario.json"));
  const Diagnostic d =
      ThrownBy([&] { LoadOfSample(ReadModel(OpenModel("llama-2-7b", ".")), workload, nullptr); });
  CHECK(d.code == 610);
  CHECK(d.where.file == file.path());
  CHECK(d.where.line == 2);
  const Diagnostic mixture = ThrownBy([&] {
    LoadOfSample(ReadModel(OpenModel("llama-2-7b", ".")), ParseWorkload(kMixture), nullptr);
  });
  CHECK(mixture.code == 610);
  CHECK(mixture.where.pointer == "/workload/mixture/1");
}

TEST_CASE("every pass over a file is a permutation of it, and passes differ") {
  for (const std::size_t lines : {1u, 2u, 3u, 5u, 64u, 65u, 1000u}) {
    std::string text;
    for (std::size_t i = 0; i < lines; ++i) {
      text += "{\"text_tokens\": " + std::to_string(i + 1) + "}\n";
    }
    const Scratch scratch(text);
    const SampleFile file = SampleFile::Read(scratch.path());
    std::vector<std::vector<std::size_t>> passes;
    for (std::size_t pass = 0; pass < 3; ++pass) {
      std::set<std::size_t> seen;
      passes.emplace_back();
      for (std::size_t i = 0; i < lines; ++i) {
        passes.back().push_back(file.IndexAt(11, pass * lines + i));
        seen.insert(passes.back().back());
      }
      CHECK(seen.size() == lines);
      CHECK(*seen.rbegin() == lines - 1);
    }
    if (lines >= 64) CHECK(passes[0] != passes[1]);
    if (lines >= 64) CHECK(!std::is_sorted(passes[0].begin(), passes[0].end()));
  }
}

TEST_CASE("videos count by the model's rule, in plain keys, mixtures and files alike") {
  const Model model = ReadModel(OpenModel("internvl2-8b", "."));  // 256 tokens a frame, one tile
  const Scratch file(
      "{\"text_tokens\": 10, \"video\": [{\"frames\": 8, \"w\": 448, \"h\": 448}, {\"frames\": 8, "
      "\"w\": 448, \"h\": 448}]}\n");
  const Workload plain = ParseWorkload(
      R"({"global_batch_size": 1, "text_tokens": 10, "video": [{"frames": 8, "width": 448, "height": 448, "count": 2}]})");
  const Workload mixture = ParseWorkload(
      R"({"global_batch_size": 1, "mixture": [{"text_tokens": 10, "video": [{"frames": 8, "width": 448, "height": 448, "count": 2}]}]})");
  const Workload samples = ParseWorkload(R"({"global_batch_size": 1, "samples": "samples.jsonl"})",
                                         file.Beside("scenario.json"));
  for (const Workload* workload : {&plain, &mixture, &samples}) {
    const SampleLoad load = LoadOfSample(model, *workload, nullptr);
    CHECK(load.backbone_tokens == doctest::Approx(10 + 2 * 8 * 256).epsilon(1e-12));
    CHECK(load.modules[0].tokens == doctest::Approx(2 * 8 * 1025).epsilon(1e-12));
  }
}

TEST_CASE("keys that do not go together are refused, with the place of the wrong one") {
  struct Bad {
    const char* text;
    int code;
    const char* pointer;
  };
  for (
      const Bad& bad : {
          Bad{R"({"global_batch_size": 1, "text_tokens": 1, "mixture": [{"text_tokens": 1}]})", 622,
              "/workload/text_tokens"},
          Bad{R"({"global_batch_size": 1, "video": [], "mixture": [{"text_tokens": 1}]})", 622,
              "/workload/video"},
          Bad{R"({"global_batch_size": 1, "samples": "x", "mixture": [{"text_tokens": 1}]})", 622,
              "/workload/samples"},
          Bad{R"({"global_batch_size": 1, "mixture": []})", 626, "/workload/mixture"},
          Bad{R"({"global_batch_size": 1, "mixture": [{"text_tokens": 1, "weight": 0}]})", 626,
              "/workload/mixture/0/weight"},
          Bad{R"({"global_batch_size": 1, "mixture": [{"text_tokens": 1, "wieght": 2}]})", 101,
              "/workload/mixture/0/wieght"},
          Bad{R"({"global_batch_size": 1, "mixture": [{"weight": 2}]})", 102,
              "/workload/mixture/0"},
          Bad{R"({"global_batch_size": 1, "text_tokens": 1, "packing": {"policy": "length"}})", 621,
              "/workload/packing"},
          Bad{R"({"global_batch_size": 1, "text_tokens": 1, "packing": {"policy": "none", "max_tokens": 5}})",
              621, "/workload/packing/max_tokens"},
          Bad{R"({"global_batch_size": 1, "text_tokens": 1, "packing": {"max_tokens": 5}})", 102,
              "/workload/packing"},
          Bad{R"({"global_batch_size": 1, "text_tokens": 1, "balance": "lpt"})", 108,
              "/workload/balance"},
          Bad{R"({"global_batch_size": 1, "text_tokens": 1, "draws": 0})", 107, "/workload/draws"},
          Bad{R"({"global_batch_size": 9999999, "mixture": [{"text_tokens": 1}], "draws": 100})",
              628, "/workload/global_batch_size"},
          Bad{R"({"task": "generate", "new_tokens": 1, "global_batch_size": 1, "mixture": [{"text_tokens": 1}]})",
              623, "/workload/mixture"},
          Bad{R"({"task": "generate", "new_tokens": 1, "global_batch_size": 1, "text_tokens": 1, "balance": "load"})",
              623, "/workload/balance"},
      }) {
    CAPTURE(bad.text);
    const Diagnostic d = ThrownBy([&] { ParseWorkload(bad.text); });
    CHECK(d.code == bad.code);
    CHECK(d.where.pointer == bad.pointer);
    CHECK(d.where.line == 1);
  }
}

TEST_CASE("what changes nothing, and what does not fit, is warned of") {
  const Model model = ReadModel(OpenModel("llama-2-7b", "."));
  std::vector<Diagnostic> warnings;
  LoadOfSample(model,
               ParseWorkload(R"({"global_batch_size": 1, "text_tokens": 9, "balance": "load"})"),
               &warnings);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].code == 1621);
  warnings.clear();
  LoadOfSample(
      model,
      ParseWorkload(
          R"({"global_batch_size": 1, "mixture": [{"text_tokens": {"uniform": [1, 9000]}}], "packing": {"policy": "length", "max_tokens": 2048}})"),
      &warnings);
  REQUIRE(warnings.size() == 2);
  CHECK(warnings[0].code == 1614);
  CHECK(warnings[1].code == 1620);
}

}  // namespace
}  // namespace aurum
