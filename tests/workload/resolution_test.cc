#include "sim/workload/resolution.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "models/reader.h"
#include "models/tokens.h"
#include "sim/workload/balance.h"
#include "sim/workload/data_figures.h"
#include "sim/workload/step_draw.h"
#include "sim/workload/typical_load.h"
#include "tests/support/catalogue.h"
#include "tests/support/shared.h"
#include "tests/workload/fixtures.h"

namespace aurum {
namespace {

const std::string kPhotos = R"("mixture": [
  {"name": "chat", "weight": 1, "text_tokens": {"uniform": [50, 400]}},
  {"name": "photo", "weight": 4, "text_tokens": {"uniform": [20, 200]},
   "images": [{"width": {"uniform": [200, 1600]}, "height": {"uniform": [200, 1600]}}]}])";
Workload Photos(const std::string& more) {
  return ParseWorkload("{\"global_batch_size\": 64, \"seed\": 5, " + kPhotos + more + "}");
}
Workload WithPolicy(const std::string& policy) { return Photos(", \"resolution\": " + policy); }
const StepShape kFourRanks{4, 4, 4, 1};

DataFigures Figures(const Model& model, const Workload& workload) {
  return FiguresOfData(model, workload, DrawSteps(model, workload, kFourRanks));
}

TEST_CASE("images are resized before the model counts them") {
  Sample sample;
  sample.text_tokens = 7;
  sample.media = {{MediaKind::kImage, 640, 480, 0, 0, 2},
                  {MediaKind::kVideo, 640, 480, 8, 0, 1},
                  {MediaKind::kImage, 200, 200, 0, 0, 1}};
  Sample fixed = sample;
  ResizeImages({ResolutionPolicy::kFixed, {448}}, &fixed);
  CHECK(fixed.media[0] == MediaItem{MediaKind::kImage, 448, 448, 0, 0, 2});
  CHECK(fixed.media[1] == sample.media[1]);  // frames stay
  CHECK(fixed.media[2] == MediaItem{MediaKind::kImage, 448, 448, 0, 0, 1});
  // 640·480 = 307,200 is nearer to 448² = 200,704 than to 896² = 802,816; 200² to 224².
  Sample bucket = sample;
  ResizeImages({ResolutionPolicy::kBucket, {896, 448, 224}}, &bucket);
  CHECK(bucket.media[0].width == 448);
  CHECK(bucket.media[2].width == 224);
  for (const ResolutionPolicy policy : {ResolutionPolicy::kNative, ResolutionPolicy::kBatchMax}) {
    Sample same = sample;
    ResizeImages({policy, {}}, &same);
    CHECK(same == sample);
  }
}

TEST_CASE("a fixed size gives every image the tokens of that size") {
  const Model model = NamedModel("qwen2-vl-7b");
  const double each = static_cast<double>(ImageTokens(model, 448, 448).backbone_tokens);
  const Workload plain = ParseWorkload(
      R"({"global_batch_size": 8, "text_tokens": 10, "images": [{"width": 1344, "height": 896}, {"width": 100, "height": 90}],
          "resolution": {"policy": "fixed", "sides": [448]}})");
  CHECK(LoadOfSample(model, plain, nullptr).cross_modal_tokens == 2 * each);
  const Workload mixed = WithPolicy(R"({"policy": "fixed", "sides": [448]})");
  const StepLoads step = DrawStep(model, mixed, kFourRanks, 0);
  for (const SampleLoad& load : step.micro_batches)
    CHECK(std::fmod(load.cross_modal_tokens, each) == 0);
  CHECK(Figures(model, mixed).modules[0].padding_share == 0);
}

TEST_CASE("padding to the largest image of a micro-batch is padding, and grows the work") {
  const Model model = NamedModel("qwen2-vl-7b");
  const DataFigures native = Figures(model, WithPolicy(R"({"policy": "native"})"));
  const DataFigures largest = Figures(model, WithPolicy(R"({"policy": "batch_max"})"));
  CHECK(native.modules[0].padding_share == 0);
  CHECK(largest.modules[0].padding_share > 0.3);
  CHECK(largest.padding_share > native.padding_share);
  // The real tokens are the same ones.
  CHECK(largest.tokens_per_step == doctest::Approx(native.tokens_per_step).epsilon(1e-12));
  CHECK(largest.modules[0].tokens_per_micro_batch * (1 - largest.modules[0].padding_share) ==
        doctest::Approx(native.modules[0].tokens_per_micro_batch).epsilon(1e-9));
  // Every image of a micro-batch is as large as its largest: alone, nothing is padded.
  const StepShape alone{4, 16, 1, 1};
  const StepLoads one = DrawStep(model, WithPolicy(R"({"policy": "batch_max"})"), alone, 0);
  CHECK(one.padding_share == 0);
  // Whoever encodes the pieces, padding is the same.
  for (const char* balance : {"count", "load", "post"}) {
    CAPTURE(balance);
    const Workload policy = Photos(
        std::string(R"(, "resolution": {"policy": "batch_max"}, "balance": ")") + balance + "\"");
    const StepLoads step = DrawStep(model, policy, {4, 4, 4, 2}, 0);
    double tokens = 0, real = 0;
    for (const SampleLoad& load : step.micro_batches) {
      tokens += load.modules[0].tokens;
      real += load.modules[0].real_tokens;
    }
    const StepLoads as_they_come =
        DrawStep(model, Photos(std::string(R"(, "balance": ")") + balance + "\""), {4, 4, 4, 2}, 0);
    double own = 0;
    for (const SampleLoad& load : as_they_come.micro_batches) own += load.modules[0].real_tokens;
    CHECK(real == doctest::Approx(own).epsilon(1e-12));
    CHECK(tokens > 1.2 * real);
  }
  // Where the model has one size anyway, there is nothing to pad.
  const Model one_size = NamedModel("llava-1.5-7b");
  CHECK(Figures(one_size, WithPolicy(R"({"policy": "batch_max"})")).modules[0].padding_share == 0);
}

TEST_CASE("memory holds the images as the largest one may pad them") {
  const Model model = NamedModel("qwen2-vl-7b");
  const Workload policy = WithPolicy(R"({"policy": "batch_max"})");
  const SampleLoad longest = LongestLoad(model, policy, kFourRanks);
  for (const StepLoads& step : DrawSteps(model, policy, kFourRanks)) {
    for (const SampleLoad& load : step.micro_batches) {
      CHECK(longest.backbone_tokens >= load.backbone_tokens);
      CHECK(longest.modules[0].tokens >= load.modules[0].tokens);
    }
  }
}

TEST_CASE("a plain workload pads the images of its sample to each other") {
  const Model model = NamedModel("qwen2-vl-7b");
  const std::string two =
      R"({"global_batch_size": 8, "text_tokens": 10, "images": [{"width": 1344, "height": 448}, {"width": 448, "height": 896}])";
  const SampleLoad native = LoadOfSample(model, ParseWorkload(two + "}"), nullptr);
  const SampleLoad padded = LoadOfSample(
      model, ParseWorkload(two + R"(, "resolution": {"policy": "batch_max"}})"), nullptr);
  const double both = static_cast<double>(ImageTokens(model, 1344, 896).backbone_tokens);
  CHECK(padded.backbone_tokens == 10 + 2 * both);
  CHECK(padded.real_tokens == native.backbone_tokens);
  CHECK(padded.modules[0].real_tokens == native.modules[0].tokens);
  CHECK(native.real_tokens == native.backbone_tokens);
}

TEST_CASE("policies and sizes that do not go together are refused") {
  const auto refused = [](const std::string& resolution, const std::string& more = "") {
    return ThrownBy([&] { Photos(", \"resolution\": " + resolution + more); });
  };
  CHECK(refused(R"({"policy": "fixed"})").code == 633);
  CHECK(refused(R"({"policy": "bucket", "sides": []})").code == 633);
  CHECK(refused(R"({"policy": "fixed", "sides": [224, 448]})").code == 633);
  const Diagnostic d = refused(R"({"policy": "native", "sides": [448]})");
  CHECK(d.code == 633);
  CHECK(d.where.pointer == "/workload/resolution/sides");
  CHECK(refused(R"({"policy": "batch_max"})",
                R"(, "packing": {"policy": "length", "max_tokens": 4096})")
            .code == 634);
  std::vector<Diagnostic> warnings;
  LoadOfSample(NamedModel("qwen2-vl-7b"),
               ParseWorkload(R"({"global_batch_size": 8, "text_tokens": 10,
                         "resolution": {"policy": "batch_max"}})"),
               &warnings);
  CHECK(warnings.back().code == 1631);
}

TEST_CASE("packing by modality keeps kinds of media apart, and still pads nothing") {
  const Model model = NamedModel("qwen2-vl-7b");
  const auto packed = [&](const std::string& policy, const std::string& more = "") {
    return Photos(R"(, "packing": {"policy": ")" + policy + R"(", "max_tokens": 8192)" + more +
                  "}");
  };
  const StepLoads length = DrawStep(model, packed("length"), kFourRanks, 0);
  const StepLoads modality = DrawStep(model, packed("modality"), kFourRanks, 0);
  CHECK(length.padding_share == 0);
  CHECK(modality.padding_share == 0);
  CHECK(modality.pack_fill > 0.7);
  CHECK(modality.text_only_share >= 0);
  // One row a micro-batch: by length nearly all have an image, by modality a row is all one kind.
  const StepShape rows{4, 16, 1, 1};
  const StepLoads mixed = DrawStep(model, packed("length"), rows, 0);
  const StepLoads apart = DrawStep(model, packed("modality"), rows, 0);
  CHECK(mixed.text_only_share < 0.02);
  CHECK(apart.text_only_share > 0.02);
  const StepLoads none = DrawStep(model, Photos(""), kFourRanks, 0);
  CHECK(none.padding_share > 0.2);
  CHECK(ThrownBy([&] { Photos(R"(, "packing": {"policy": "modality"})"); }).code == 621);
}

TEST_CASE("attention inside of groups: as many tokens, fewer pairs") {
  const Model model = NamedModel("qwen2-vl-7b");
  const auto workload = [&](const std::string& group) {
    return ParseWorkload(
        R"({"global_batch_size": 8, "text_tokens": 10, "images": [{"width": 1008, "height": 1008}],
                     "packing": {"policy": "none")" +
        group + "}}");
  };
  const ModuleLoad whole = LoadOfSample(model, workload(""), nullptr).modules[0];
  std::vector<Diagnostic> warnings;
  const SampleLoad grouped = LoadOfSample(model, workload(R"(, "group_tokens": 64)"), &warnings);
  REQUIRE(whole.batches.size() == 1);
  const double s = whole.batches[0].tokens;
  CHECK(s == 72 * 72);
  const ModuleLoad& groups = grouped.modules[0];
  CHECK(groups.tokens == whole.tokens);
  CHECK(groups.output_tokens == whole.output_tokens);
  double tokens = 0, squares = 0;
  for (const SequenceBatch& batch : groups.batches) {
    CHECK(batch.tokens <= 64);
    tokens += batch.sequences * batch.tokens;
    squares += batch.sequences * batch.tokens * batch.tokens;
  }
  CHECK(tokens == s);
  CHECK(squares == 72 * 72 * 64);  // 81 groups of 64
  REQUIRE(!warnings.empty());
  CHECK(warnings.back().code == 1630);
  // The encoder's FLOPs fall by its quadratic part; a group as long as the sequence changes nothing.
  const SequenceWork work(model.modules[0]);
  CHECK(work.Of(groups.batches) < work.Of(whole.batches));
  CHECK(
      work.Of(
          LoadOfSample(model, workload(R"(, "group_tokens": 5184)"), nullptr).modules[0].batches) ==
      work.Of(whole.batches));
  // 5184 tokens in groups of at most 100: 52 groups, 36 of 100 and 16 of 99.
  const ModuleLoad uneven =
      LoadOfSample(model, workload(R"(, "group_tokens": 100)"), nullptr).modules[0];
  CHECK(uneven.tokens == s);
}

}  // namespace
}  // namespace aurum
