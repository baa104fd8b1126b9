#include "sim/workload/loader.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/support/shared.h"
#include "tests/workload/fixtures.h"

namespace aurum {
namespace {

TEST_CASE("what a sample is to a loader") {
  const SampleVolume plain = MeanVolume(ParseWorkload(
      R"({"global_batch_size": 8, "text_tokens": 100, "audio_s": 2, "images": [{"width": 1000, "height": 500, "count": 2}],
          "video": [{"frames": 10, "width": 100, "height": 100, "count": 3}]})"));
  CHECK(plain.text_tokens == 100);
  CHECK(plain.pixels == 2 * 1000 * 500 + 3 * 10 * 100 * 100);
  CHECK(plain.audio_s == 2);
  // As stored: what the model is given later is no matter.
  const SampleVolume resized = MeanVolume(ParseWorkload(
      R"({"global_batch_size": 8, "text_tokens": 100, "images": [{"width": 1000, "height": 500}],
          "resolution": {"policy": "fixed", "sides": [224]}})"));
  CHECK(resized.pixels == 500'000);
  const SampleVolume mixture = MeanVolume(ParseWorkload(
      R"({"global_batch_size": 8, "mixture": [
           {"weight": 1, "text_tokens": 100}, {"weight": 3, "text_tokens": 20, "images": [{"width": 400, "height": 100}]}]})"));
  CHECK(mixture.pixels == doctest::Approx(0.75 * 40'000).epsilon(0.02));
  CHECK(mixture.text_tokens == doctest::Approx(40).epsilon(0.02));
}

TEST_CASE("a batch's time is reading, decoding over the workers, and copies") {
  Loader loader;
  loader.read_bytes_per_s = 1e9;
  loader.bytes_per_pixel = 0.4;
  loader.bytes_per_text_token = 4;
  loader.decode_s_per_megapixel = 0.01;
  loader.copies = 2;
  loader.copy_bytes_per_s = 10e9;
  const SampleVolume sample{1000, 2e6, 0};
  const LoaderWork work = WorkOfBatch(loader, sample, 64, 16);
  CHECK(work.read_s == doctest::Approx(64 * (4000 + 0.8e6) / 1e9));
  CHECK(work.decode_s == doctest::Approx(64 * 0.02 / 16));
  CHECK(work.copy_s == doctest::Approx(2 * 64 * (6e6 + 8000) / 10e9));
  CHECK(work.Seconds() == work.read_s + work.decode_s + work.copy_s);
  CHECK(WorkOfBatch(loader, sample, 64, 8).decode_s == doctest::Approx(2 * work.decode_s));
  // More workers than samples have nothing to do.
  CHECK(WorkOfBatch(loader, sample, 8, 16).decode_s == doctest::Approx(0.02));
  loader.copies = 1;
  CHECK(WorkOfBatch(loader, sample, 64, 16).copy_s == doctest::Approx(work.copy_s / 2));
  loader.copies = 0;
  CHECK(WorkOfBatch(loader, sample, 64, 16).copy_s == 0);
}

TEST_CASE("a batch within a budget of cost") {
  CHECK(BatchWithin(1.0, 32).samples == 32);
  CHECK(BatchWithin(2.3, 32).samples == 13);
  CHECK(BatchWithin(2.3, 32).utilisation == doctest::Approx(29.9 / 32));
  CHECK(BatchWithin(0.8, 32).samples == 40);
  CHECK(BatchWithin(0.8, 32).utilisation == doctest::Approx(1));
  CHECK(BatchWithin(50, 32).samples == 1);  // one at least, over the budget
}

TEST_CASE("loaders that tell too little or too much are refused") {
  const auto code = [](const std::string& loader, const std::string& more = "") {
    return ThrownBy([&] {
             ParseWorkload(R"({"global_batch_size": 8, "text_tokens": 100, )" + more +
                           "\"loader\": " + loader + "}");
           })
        .code;
  };
  CHECK(code("{}") == 102);
  CHECK(code(R"({"read_gb_per_s": 0})") == 107);
  CHECK(code(R"({"read_gb_per_s": 2, "prefetch": -1})") == 107);
  CHECK(code(R"({"read_gb_per_s": 2, "prefech": 1})") == 101);
  CHECK(code(R"({"read_gb_per_s": 2})", R"("task": "generate", "new_tokens": 4, )") == 623);
}

}  // namespace
}  // namespace aurum
