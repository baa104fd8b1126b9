#include "sim/workload/step_draw.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "models/reader.h"
#include "sim/workload/balance.h"
#include "sim/workload/data_figures.h"
#include "sim/workload/step_rows.h"
#include "sim/workload/typical_load.h"
#include "tests/support/catalogue.h"
#include "tests/support/shared.h"
#include "tests/workload/fixtures.h"

namespace aurum {
namespace {

// Chats without images, photographs of many sizes, long documents of many pages.
const std::string kSkewed = R"("mixture": [
  {"name": "chat", "weight": 4, "text_tokens": {"lognormal": [200, 0.8], "min": 16, "max": 4096}},
  {"name": "photo", "weight": 5, "text_tokens": {"lognormal": [80, 0.6], "min": 8, "max": 1024},
   "images": [{"width": {"uniform": [200, 1600]}, "height": {"uniform": [200, 1600]}}]},
  {"name": "document", "weight": 1, "text_tokens": {"uniform": [100, 2000]},
   "images": [{"width": 1024, "height": 1448, "count": {"uniform": [2, 6]}}]}])";

Workload Skewed(const std::string& more = "") {
  return ParseWorkload("{\"global_batch_size\": 64, \"seed\": 5, " + kSkewed + more + "}");
}

const StepShape kEightRanks{8, 4, 2, 1};

struct Totals {
  double real = 0, encoder = 0, cross_modal = 0, samples = 0;
  bool operator==(const Totals&) const = default;
};
Totals TotalsOf(const StepLoads& step) {
  Totals totals;
  for (const SampleLoad& load : step.micro_batches) {
    totals.real += load.real_tokens;
    totals.encoder += load.modules[0].real_tokens;
    totals.cross_modal += load.cross_modal_tokens;
    totals.samples += load.samples;
  }
  return totals;
}

std::vector<Row> RowsOfStep(const Model& model, const Workload& workload, std::uint64_t draw) {
  const std::uint64_t steps = WindowSteps(workload);
  std::vector<Row> rows = RowsOfWindow(model, workload, kEightRanks, draw / steps);
  const auto first = rows.begin() + static_cast<std::ptrdiff_t>(draw % steps * 64);
  return {first, first + 64};
}

std::string Show(const StepLoads& step) {
  std::string text;
  const auto put = [&](double value) { text += std::to_string(value) + ' '; };
  for (const SampleLoad& load : step.micro_batches) {
    for (const ModuleLoad& module : load.modules) {
      for (const SequenceBatch& batch : module.batches) {
        put(batch.sequences);
        put(batch.tokens);
      }
      put(module.tokens);
      put(module.output_tokens);
      put(module.real_tokens);
      put(module.busiest_share);
    }
    put(load.backbone_tokens);
    put(load.cross_modal_tokens);
    put(load.samples);
  }
  for (const auto* list :
       {&step.moved_tokens, &step.imbalance, &step.lockstep_imbalance, &step.lockstep_flops}) {
    for (const double value : *list) put(value);
  }
  put(step.padding_share);
  put(step.pack_fill);
  return text;
}

TEST_CASE("a plain workload's micro-batches are micro_batch_size equal samples") {
  const Model model = NamedModel("llava-1.6-7b");
  const Workload workload = ParseWorkload(
      R"({"global_batch_size": 24, "text_tokens": 100, "images": [{"width": 672, "height": 672, "count": 2}, {"width": 300, "height": 900}]})");
  const SampleLoad sample = LoadOfSample(model, workload, nullptr);
  const StepLoads step = DrawStep(model, workload, {4, 2, 3, 1}, 5);
  REQUIRE(step.micro_batches.size() == 8);
  CHECK(step.samples == 24);
  CHECK(step.padding_share == 0);
  for (const SampleLoad& load : step.micro_batches) {
    CHECK(load.backbone_tokens == 3 * sample.backbone_tokens);
    CHECK(load.cross_modal_tokens == 3 * sample.cross_modal_tokens);
    for (std::size_t m = 0; m < model.modules.size(); ++m) {
      CHECK(load.modules[m].tokens == 3 * sample.modules[m].tokens);
      CHECK(load.modules[m].output_tokens == 3 * sample.modules[m].output_tokens);
      CHECK(step.imbalance[m] == 1);
      CHECK(step.moved_tokens[m] == 0);
    }
    CHECK(load.modules.back().batches.size() == 1);
    CHECK(load.modules.back().batches[0].sequences == 3);
  }
  const SampleLoad longest = LongestLoad(model, workload, StepShape{4, 2, 3, 1});
  CHECK(longest.backbone_tokens == 3 * sample.backbone_tokens);
}

TEST_CASE("every policy works on the same samples") {
  const Model model = NamedModel("qwen2-vl-7b");
  const StepLoads plain = DrawStep(model, Skewed(), kEightRanks, 0);
  CHECK(plain.samples == 64);
  CHECK(TotalsOf(plain).real > 0);
  for (const char* balance : {"count", "load", "post"}) {
    CAPTURE(balance);
    const StepLoads step =
        DrawStep(model, Skewed(std::string(", \"balance\": \"") + balance + "\""), kEightRanks, 0);
    CHECK(TotalsOf(step) == TotalsOf(plain));
  }
  // Bucketing exchanges samples between the steps of a window.
  Totals window, bucketed, modal;
  const auto add = [](Totals* sum, const Totals& more) {
    sum->real += more.real;
    sum->encoder += more.encoder;
    sum->cross_modal += more.cross_modal;
    sum->samples += more.samples;
  };
  for (std::uint64_t draw = 8; draw < 16; ++draw) {
    add(&window, TotalsOf(DrawStep(model, Skewed(), kEightRanks, draw)));
    add(&bucketed,
        TotalsOf(DrawStep(model, Skewed(R"(, "bucketing": "length")"), kEightRanks, draw)));
    add(&modal, TotalsOf(DrawStep(model, Skewed(R"(, "bucketing": "modality", "balance": "load")"),
                                  kEightRanks, draw)));
  }
  CHECK(bucketed == window);
  CHECK(modal == window);
}

TEST_CASE("without packing, rows are padded to the longest of their micro-batch") {
  const Model model = NamedModel("qwen2-vl-7b");
  const Workload workload = Skewed();
  const std::vector<Row> rows = RowsOfStep(model, workload, 3);
  const StepLoads step = DrawStep(model, workload, kEightRanks, 3);
  double padded = 0, real = 0;
  for (int r = 0; r < 8; ++r) {
    for (int i = 0; i < 4; ++i) {
      const std::size_t first = static_cast<std::size_t>(i * 16 + r * 2);
      const double longest = std::max(rows[first].tokens, rows[first + 1].tokens);
      const SampleLoad& load = step.micro_batches[static_cast<std::size_t>(r * 4 + i)];
      CHECK(load.backbone_tokens == 2 * longest);
      CHECK(load.real_tokens == rows[first].tokens + rows[first + 1].tokens);
      padded += 2 * longest;
      real += load.real_tokens;
    }
  }
  CHECK(step.padding_share == doctest::Approx(1 - real / padded).epsilon(1e-12));
  CHECK(step.padding_share > 0.1);
}

TEST_CASE("packing takes as many samples as fit, and pads nothing") {
  const Model model = NamedModel("qwen2-vl-7b");
  const std::string packing = R"(, "packing": {"policy": "length", "max_tokens": 16384})";
  const StepLoads step = DrawStep(model, Skewed(packing), kEightRanks, 0);
  CHECK(step.padding_share == 0);
  CHECK(step.samples > 64);
  CHECK(step.pack_fill > 0.9);  // short samples fill what long ones leave
  CHECK(step.pack_fill <= 1);
  // The first samples of the stream, whole, none left out, whatever is done with the rows then.
  const Workload unpacked = Skewed();
  double tokens = 0;
  SampleStream same(model, unpacked);
  for (std::int64_t i = 0; i < step.samples; ++i) {
    tokens += same.At(static_cast<std::uint64_t>(i)).backbone_tokens;
  }
  CHECK(TotalsOf(step).real == tokens);
  for (const char* balance : {"count", "load", "post"}) {
    const StepLoads other =
        DrawStep(model, Skewed(packing + ", \"balance\": \"" + balance + "\""), kEightRanks, 0);
    CHECK(TotalsOf(other) == TotalsOf(step));
  }
  // Attention stays inside of a sample: no sequence is longer than the longest of them.
  double sequences = 0;
  for (const SampleLoad& load : step.micro_batches) {
    CHECK(load.backbone_tokens <= 2 * 16384);
    for (const SequenceBatch& batch : load.modules.back().batches) sequences += batch.sequences;
  }
  CHECK(sequences == static_cast<double>(step.samples));
}

TEST_CASE("equal samples pack without a gap, and odd ones to at least half") {
  const Model model = NamedModel("llama-2-7b");
  const StepLoads equal = DrawStep(
      model,
      ParseWorkload(
          R"({"global_batch_size": 16, "text_tokens": 512, "packing": {"policy": "length", "max_tokens": 4096}})"),
      {4, 2, 2, 1}, 2);
  CHECK(equal.samples == 16 * 8);
  CHECK(equal.pack_fill == 1);
  CHECK(equal.padding_share == 0);
  CHECK(equal.imbalance[0] == 1);
  CHECK(equal.micro_batches[0].modules[0].batches.size() == 1);
  CHECK(equal.micro_batches[0].modules[0].batches[0].sequences == 16);
  for (const char* lengths :
       {R"({"uniform": [1, 4096]})", R"({"uniform": [1400, 2100]})", R"({"choice": [[2049, 1]]})",
        R"({"choice": [[3000, 1], [1500, 1]]})"}) {
    for (std::uint64_t draw = 0; draw < 3; ++draw) {
      const StepLoads step = DrawStep(
          model,
          ParseWorkload(
              std::string(
                  R"({"global_batch_size": 16, "packing": {"policy": "length", "max_tokens": 4096}, "mixture": [{"text_tokens": )") +
              lengths + "}]}"),
          {4, 2, 2, 1}, draw);
      CAPTURE(lengths);
      CHECK(step.pack_fill >= 0.5);
      CHECK(step.pack_fill <= 1);
    }
  }
  // Longer than a row: one of its own.
  const StepLoads longer = DrawStep(
      model,
      ParseWorkload(
          R"({"global_batch_size": 4, "text_tokens": 5000, "packing": {"policy": "length", "max_tokens": 4096}})"),
      {2, 2, 1, 1}, 0);
  CHECK(longer.samples == 4);
  CHECK(longer.micro_batches[0].backbone_tokens == 5000);
}

TEST_CASE("bucketing by length pads less; by modality, a micro-batch has one kind of media") {
  const Model model = NamedModel("qwen2-vl-7b");
  double random = 0, by_length = 0;
  for (std::uint64_t draw = 0; draw < 8; ++draw) {
    random += DrawStep(model, Skewed(), kEightRanks, draw).padding_share / 8;
    by_length +=
        DrawStep(model, Skewed(R"(, "bucketing": "length")"), kEightRanks, draw).padding_share / 8;
  }
  CHECK(by_length < 0.2 * random);
  for (const char* packing : {"", R"(, "packing": {"policy": "length", "max_tokens": 16384})"}) {
    int mixed = 0, pure = 0;
    for (std::uint64_t draw = 0; draw < 8; ++draw) {
      const std::vector<Row> rows =
          RowsOfStep(model, Skewed(std::string(packing) + R"(, "bucketing": "modality")"), draw);
      for (std::size_t i = 0; i < rows.size(); i += 16) {  // one micro-batch of all replicas
        const bool same = std::all_of(rows.begin() + static_cast<std::ptrdiff_t>(i),
                                      rows.begin() + static_cast<std::ptrdiff_t>(i + 16),
                                      [&](const Row& row) { return row.media == rows[i].media; });
        ++(same ? pure : mixed);
      }
    }
    CHECK(mixed <= 1);  // where text ends and images begin
    CHECK(pure >= 31);
  }
}

TEST_CASE("what balance is for: the more it knows, the more even it gets") {
  const Model model = NamedModel("qwen2-vl-7b");
  const std::size_t vision = 0, backbone = model.modules.size() - 1;
  const auto mean = [&](const char* balance) {
    const Workload workload =
        Skewed(std::string(", \"draws\": 24, \"packing\": {\"policy\": \"length\", \"max_tokens\": "
                           "16384}, \"balance\": \"") +
               balance + "\"");
    return FiguresOfData(model, workload, DrawSteps(model, workload, kEightRanks));
  };
  const DataFigures none = mean("none"), load = mean("load"), post = mean("post");
  CHECK(load.modules[backbone].imbalance < none.modules[backbone].imbalance);
  CHECK(post.modules[backbone].lockstep_imbalance <= load.modules[backbone].lockstep_imbalance);
  const auto excess = [&](const DataFigures& figures) {
    return figures.modules[vision].lockstep_imbalance - 1;
  };
  CHECK(excess(post) < 0.1 * excess(load));
  CHECK(excess(post) < 0.1 * excess(none));
  // What cannot be split goes round: one image in 32 micro-batches of 8 replicas, each its turn.
  const StepLoads turns = DrawStep(
      model,
      ParseWorkload(
          R"({"global_batch_size": 256, "balance": "post", "mixture": [{"text_tokens": 9, "weight": 7}, {"text_tokens": 9, "images": [{"width": 448, "height": 448}]}]})"),
      {8, 32, 1, 1}, 0);
  CHECK(turns.imbalance[vision] < 1.15);
  CHECK(turns.lockstep_imbalance[vision] > 3);
  CHECK(none.modules[vision].moved_tokens == 0);
  CHECK(post.modules[vision].moved_tokens > 0);
  CHECK(post.modules[backbone].moved_tokens > 0);
  for (const DataFigures* figures : {&none, &load, &post}) {
    for (const auto& module : figures->modules) {
      CHECK(module.imbalance >= 1 - 1e-12);
      CHECK(module.lockstep_imbalance >= module.imbalance - 1e-12);
    }
  }
}

TEST_CASE("the work that all wait for falls with every policy, padded rows too") {
  const Model model = NamedModel("qwen2-vl-7b");
  const std::size_t vision = 0, backbone = model.modules.size() - 1;
  const auto flops = [&](const char* balance, const char* bucketing, std::size_t module) {
    const Workload workload = Skewed(std::string(R"(, "draws": 16, "balance": ")") + balance +
                                     R"(", "bucketing": ")" + bucketing + "\"");
    double sum = 0;
    for (const StepLoads& step : DrawSteps(model, workload, kEightRanks)) {
      sum += step.lockstep_flops[module];
    }
    return sum;
  };
  const double none = flops("none", "none", backbone);
  CHECK(flops("load", "none", backbone) < none);
  CHECK(flops("post", "none", backbone) < none);
  CHECK(flops("none", "length", backbone) < 0.6 * none);
  CHECK(flops("post", "none", vision) < flops("none", "none", vision));
  // Of plain data: micro_batches · micro_batch_size · the work of one.
  const Workload plain = ParseWorkload(R"({"global_batch_size": 64, "text_tokens": 512})");
  const StepLoads even = DrawStep(model, plain, kEightRanks, 0);
  CHECK(even.lockstep_flops.back() ==
        doctest::Approx(8 * SequenceWork(model.Backbone())(512)).epsilon(1e-12));
}

TEST_CASE("count deals rows with media out evenly, load evens out the backbone more") {
  const Model model = NamedModel("llava-1.5-7b");  // every image 576 tokens
  const auto step = [&](const char* balance, std::uint64_t draw) {
    return DrawStep(
        model,
        ParseWorkload(
            std::string(
                R"({"global_batch_size": 128, "mixture": [{"text_tokens": {"lognormal": [300, 1], "max": 4000}}, {"text_tokens": 60, "images": [{"width": 9, "height": 9}]}], "balance": ")") +
            balance + "\"}"),
        {8, 16, 1, 1}, draw);
  };
  double none_sum = 0, count_sum = 0, load_sum = 0, none_vision = 0, count_vision = 0;
  for (std::uint64_t draw = 0; draw < 12; ++draw) {
    const StepLoads none = step("none", draw), count = step("count", draw),
                    load = step("load", draw);
    double least = 1e300, most = 0;
    for (int r = 0; r < 8; ++r) {
      double images = 0;
      for (int i = 0; i < 16; ++i) {
        images += count.micro_batches[static_cast<std::size_t>(r * 16 + i)].modules[0].tokens / 577;
      }
      least = std::min(least, images);
      most = std::max(most, images);
    }
    CHECK(most - least <= 1);
    none_sum += none.imbalance.back();
    count_sum += count.imbalance.back();
    load_sum += load.imbalance.back();
    none_vision += none.imbalance[0];
    count_vision += count.imbalance[0];
    CHECK(load.imbalance.back() <= 4.0 / 3);
  }
  CHECK(count_vision < none_vision);
  CHECK(load_sum < count_sum);
  CHECK(load_sum < none_sum);
  CHECK(load_sum / 12 < 1.02);
}

TEST_CASE("a micro-batch without media leaves encoders idle, or pays for one smallest image") {
  const Model model = NamedModel("qwen2-vl-7b");
  const std::string data =
      R"({"global_batch_size": 32, "mixture": [{"text_tokens": 100}, {"text_tokens": 10, "images": [{"width": 448, "height": 448}]}])";
  const StepShape shape{8, 4, 1, 1};
  const StepLoads idle = DrawStep(model, ParseWorkload(data + "}"), shape, 0);
  const StepLoads dummy =
      DrawStep(model, ParseWorkload(data + R"(, "text_only": "dummy_forward"})"), shape, 0);
  int without = 0;
  for (std::size_t k = 0; k < 32; ++k) {
    const ModuleLoad& still = idle.micro_batches[k].modules[0];
    const ModuleLoad& forward = dummy.micro_batches[k].modules[0];
    CHECK(forward.real_tokens == still.tokens);
    if (still.tokens > 0) {
      CHECK(forward.tokens == still.tokens);
      continue;
    }
    ++without;
    CHECK(still.batches.empty());
    CHECK(forward.tokens == 16);  // min_pixels 56·56: 4·4 patches
    CHECK(forward.output_tokens == 0);
    CHECK(dummy.micro_batches[k].modules[1].tokens > 0);  // the connector runs too
    CHECK(dummy.micro_batches[k].backbone_tokens == 100);
  }
  CHECK(without > 0);
  CHECK(idle.text_only_share == without / 32.0);
  CHECK(dummy.text_only_share == idle.text_only_share);
  // Every kind of model has a smallest image.
  for (const char* name :
       {"llava-1.6-7b", "internvl2-8b", "qwen-vl", "fuyu-8b", "clip-vit-l-14", "qwen2.5-vl-7b",
        "blip2-opt-2.7b", "idefics2-8b", "vjepa2-g-llama-3.1-8b"}) {
    const StepLoads step =
        DrawStep(NamedModel(name),
                 ParseWorkload(
                     R"({"global_batch_size": 2, "text_tokens": 8, "text_only": "dummy_forward"})"),
                 {2, 1, 1, 1}, 0);
    CAPTURE(name);
    CHECK(step.micro_batches[0].modules[0].tokens > 0);
    CHECK(step.micro_batches[0].modules[0].real_tokens == 0);
    CHECK(step.micro_batches[0].backbone_tokens == 8);
  }
}

TEST_CASE("a tower of its own for videos; learned queries in the place of what they read") {
  const Model video = NamedModel("vjepa2-g-llama-3.1-8b");
  const StepLoads step = DrawStep(
      video,
      ParseWorkload(
          R"({"global_batch_size": 2, "mixture": [{"text_tokens": 8, "video": [{"frames": 64, "width": 384, "height": 384}]}]})"),
      {1, 2, 1, 1}, 0);
  CHECK(step.micro_batches[0].modules[0].tokens > 0);
  CHECK(step.micro_batches[0].cross_modal_tokens > 0);
  CHECK(step.text_only_share == 0);
  // BLIP-2: the Q-Former's 32 queries read the 257 tokens of the image.
  const SampleLoad blip = LoadOfSample(
      NamedModel("blip2-opt-2.7b"),
      ParseWorkload(
          R"({"global_batch_size": 1, "text_tokens": 8, "images": [{"width": 224, "height": 224, "count": 3}]})"),
      nullptr);
  REQUIRE(blip.modules.size() == 3);
  CHECK(blip.modules[0].tokens == 3 * 257);
  CHECK(blip.modules[1].tokens == 3 * 32);
  REQUIRE(blip.modules[1].batches.size() == 1);
  CHECK(blip.modules[1].batches[0].tokens == 32);
  CHECK(blip.modules[1].source_tokens == 3 * 257);
  CHECK(blip.backbone_tokens == 8 + 3 * 32);
}

TEST_CASE("GPUs that share a replica's images cannot share one image") {
  const Model model = NamedModel("llava-1.5-7b");
  const auto share = [&](int images, int ranks, const char* more) {
    const StepLoads step = DrawStep(
        model,
        ParseWorkload(
            R"({"global_batch_size": 2, "text_tokens": 8, "images": [{"width": 9, "height": 9, "count": )" +
            std::to_string(images) + "}]" + more + "}"),
        {2, 1, 1, ranks}, 0);
    CHECK(step.micro_batches[0].modules[1].busiest_share ==
          step.micro_batches[0].modules[0].busiest_share);
    return step.micro_batches[0].modules[0].busiest_share;
  };
  CHECK(share(1, 8, "") == 1);
  CHECK(share(8, 8, "") == 0.125);
  CHECK(share(12, 8, "") == doctest::Approx(2.0 / 12));
  CHECK(share(12, 1, "") == 1);
  // Of unlike sizes, by work is more even than by number. One replica has the same images by both.
  const Model qwen = NamedModel("qwen2-vl-7b");
  const auto mean = [&](const char* balance) {
    const Workload workload = Skewed(std::string(R"(, "balance": ")") + balance + "\"");
    return MeanMicroBatch(DrawSteps(qwen, workload, {1, 8, 8, 4})).modules[0].busiest_share;
  };
  CHECK(mean("post") < mean("none"));
  CHECK(mean("post") >= 0.25);
}

TEST_CASE("nothing moves between replicas without post-balancing, or with one replica") {
  const Model model = NamedModel("qwen2-vl-7b");
  for (const char* balance : {"none", "count", "load"}) {
    for (const double moved :
         DrawStep(model, Skewed(std::string(R"(, "balance": ")") + balance + "\""), kEightRanks, 1)
             .moved_tokens) {
      CHECK(moved == 0);
    }
  }
  const StepLoads one = DrawStep(model, Skewed(R"(, "balance": "post")"), {1, 32, 2, 1}, 1);
  for (const double moved : one.moved_tokens) CHECK(moved == 0);
  // At most everything moves.
  const StepLoads post = DrawStep(model, Skewed(R"(, "balance": "post")"), kEightRanks, 1);
  const Totals totals = TotalsOf(post);
  CHECK(post.moved_tokens[0] > 0);
  CHECK(post.moved_tokens[0] <= totals.encoder);
  CHECK(post.moved_tokens[1] == 0);  // the connector works where its encoder does
  CHECK(post.moved_tokens.back() > 0);
  CHECK(post.moved_tokens.back() <= totals.cross_modal);
}

TEST_CASE("a step is a pure function of its arguments, on any number of threads") {
  const Model model = NamedModel("qwen2-vl-7b");
  const std::vector<std::string> policies = {
      "", R"(, "balance": "post")", R"(, "bucketing": "length", "balance": "count")",
      R"(, "packing": {"policy": "length", "max_tokens": 4096}, "bucketing": "modality", "balance": "load")"};
  std::vector<std::string> alone(policies.size()), together(policies.size());
  for (std::size_t k = 0; k < policies.size(); ++k) {
    alone[k] = Show(DrawStep(model, Skewed(policies[k]), kEightRanks, 9));
  }
  std::vector<std::thread> threads;
  for (std::size_t k = policies.size(); k-- > 0;) {
    threads.emplace_back([&, k] {
      DrawStep(model, Skewed(policies[k]), kEightRanks, 8);  // another step first changes nothing
      together[k] = Show(DrawStep(model, Skewed(policies[k]), kEightRanks, 9));
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(alone == together);
  for (std::size_t k = 0; k < policies.size(); ++k) {  // and all steps are each of them
    Workload ten = Skewed(policies[k]);
    ten.draws = 10;
    const std::vector<StepLoads> steps = DrawSteps(model, ten, kEightRanks);
    REQUIRE(steps.size() == 10);
    CHECK(Show(steps[9]) == alone[k]);
  }
  CHECK(alone[0] != Show(DrawStep(model, Skewed(), kEightRanks, 10)));
  Workload other = Skewed();
  other.seed = 6;
  CHECK(alone[0] != Show(DrawStep(model, other, kEightRanks, 9)));
}

TEST_CASE("the longest load holds every drawn one, and the longest sample") {
  const Model model = NamedModel("qwen2-vl-7b");
  for (const char* more : {"", R"(, "packing": {"policy": "length", "max_tokens": 16384})"}) {
    const Workload workload = Skewed(more);
    const std::vector<StepLoads> steps = DrawSteps(model, workload, kEightRanks);
    REQUIRE(steps.size() == 8);
    const SampleLoad longest = LongestLoad(model, workload, steps);
    const SampleLoad mean = MeanMicroBatch(steps);
    for (const StepLoads& step : steps) {
      for (const SampleLoad& load : step.micro_batches) {
        for (std::size_t m = 0; m < model.modules.size(); ++m) {
          CHECK(load.modules[m].tokens <= longest.modules[m].tokens);
        }
      }
    }
    for (std::size_t m = 0; m < model.modules.size(); ++m) {
      double tokens = 0, mean_tokens = 0;
      for (const SequenceBatch& b : longest.modules[m].batches) tokens += b.sequences * b.tokens;
      for (const SequenceBatch& b : mean.modules[m].batches) mean_tokens += b.sequences * b.tokens;
      CHECK(tokens == doctest::Approx(longest.modules[m].tokens).epsilon(1e-9));
      CHECK(mean_tokens == doctest::Approx(mean.modules[m].tokens).epsilon(1e-9));
    }
    CHECK(longest.backbone_tokens > mean.backbone_tokens);
    const SamplePopulation all = LookAtSamples(model, workload);
    CHECK(longest.backbone_tokens >= all.longest);
    if (workload.packing.policy == PackingPolicy::kNone) {
      CHECK(longest.backbone_tokens == 2 * all.longest);  // padded to it
    } else {
      CHECK(longest.backbone_tokens == 2 * 16384);
    }
  }
}

TEST_CASE("figures for users") {
  const Model model = NamedModel("llava-1.5-7b");
  const Workload workload = ParseWorkload(
      R"({"global_batch_size": 64, "draws": 4, "mixture": [
        {"weight": 3, "text_tokens": {"uniform": [101, 200]}},
        {"weight": 1, "text_tokens": 40, "images": [{"width": 9, "height": 9}]}]})");
  const DataFigures figures =
      FiguresOfData(model, workload, DrawSteps(model, workload, {8, 4, 2, 1}));
  CHECK(figures.samples == kMeanSamples);
  CHECK(figures.text_tokens.mean == doctest::Approx(0.75 * 150.5 + 10).epsilon(0.02));
  CHECK(figures.text_tokens.max == 200);
  CHECK(figures.image_tokens.mean == doctest::Approx(144).epsilon(0.05));
  CHECK(figures.image_tokens.p50 == 0);
  CHECK(figures.image_tokens.p99 == 576);
  CHECK(figures.tokens.max == 616);
  CHECK(figures.audio_tokens.max == 0);
  CHECK(figures.tokens.mean ==
        doctest::Approx(figures.text_tokens.mean + figures.image_tokens.mean).epsilon(1e-12));
  CHECK(figures.text_only_share == doctest::Approx(0.75 * 0.75).epsilon(0.2));
  CHECK(figures.samples_per_step == 64);
  CHECK(figures.pack_fill == 0);
  CHECK(figures.padding_share > 0.1);
  REQUIRE(figures.modules.size() == 3);
  CHECK(figures.modules[0].name == "vision");
  CHECK(figures.modules[0].worst_imbalance >= figures.modules[0].imbalance);
}

}  // namespace
}  // namespace aurum
