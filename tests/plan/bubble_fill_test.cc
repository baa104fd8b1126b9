#include "sim/plan/bubble_fill.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace aurum {
namespace {

BubbleFillInput Uniform(ScheduleKind kind, int p, int v, int m, double encoder_forward,
                        double encoder_backward) {
  BubbleFillInput input;
  input.shape = {kind, p, v, m};
  const double share = kind == ScheduleKind::kDualPipe ? 1.0 : 1.0 / v;
  input.seconds.assign(
      static_cast<std::size_t>(p),
      std::vector<ChunkSeconds>(static_cast<std::size_t>(v), {share, share, share}));
  input.encoder_forward_s = encoder_forward;
  input.encoder_backward_s = encoder_backward;
  return input;
}

double PassSeconds(const BubbleFillInput& input, std::size_t stage, const Pass& pass) {
  const ChunkSeconds& seconds = input.seconds[stage][static_cast<std::size_t>(pass.chunk)];
  switch (pass.kind) {
    case PassKind::kForward:
      return seconds.forward_s;
    case PassKind::kBackward:
      return seconds.input_gradient_s + seconds.weight_gradient_s;
    case PassKind::kInputGradient:
      return seconds.input_gradient_s;
    case PassKind::kWeightGradient:
      return seconds.weight_gradient_s;
    case PassKind::kEncoderForward:
      return input.encoder_forward_s;
    case PassKind::kEncoderBackward:
      return input.encoder_backward_s;
  }
  return 0;
}

// The step of these lists, every pass as soon as it can; nothing on a deadlock. Encoder passes are done by micro-batch,
// the others by direction, stage and chunk too. An overlapped pair is one pass.
std::optional<double> Span(const BubbleFillInput& input,
                           const std::vector<std::vector<Pass>>& lists) {
  const PipelineShape& shape = input.shape;
  std::map<std::tuple<PassKind, int, int, int>, double> done;
  std::map<int, double> encoded, exited;
  std::vector<std::size_t> next(lists.size(), 0);
  std::vector<double> free(lists.size(), 0);
  const auto ready = [&](int stage, const Pass& pass) -> std::optional<double> {
    const auto find = [&](const auto& map, const auto& key) -> std::optional<double> {
      const auto it = map.find(key);
      return it == map.end() ? std::nullopt : std::optional(it->second);
    };
    switch (pass.kind) {
      case PassKind::kEncoderForward:
      case PassKind::kWeightGradient:
        return 0;
      case PassKind::kEncoderBackward:
        return find(exited, pass.micro_batch);
      case PassKind::kForward: {
        const auto from = PreviousOf(shape, stage, pass.chunk);
        if (!from) return find(encoded, pass.micro_batch);
        return find(done,
                    std::tuple(PassKind::kForward, from->stage, from->chunk, pass.micro_batch));
      }
      default: {
        const auto own =
            find(done, std::tuple(PassKind::kForward, stage, pass.chunk, pass.micro_batch));
        const auto from = NextOf(shape, stage, pass.chunk);
        if (!own || !from) return own;
        return find(done,
                    std::tuple(PassKind::kBackward, from->stage, from->chunk, pass.micro_batch));
      }
    }
  };
  double span = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t i = 0; i < lists.size(); ++i) {
      while (next[i] < lists[i].size()) {
        const std::size_t count = lists[i][next[i]].with_next ? 2 : 1;
        double end = free[i], duration = 0;
        bool all = true;
        for (std::size_t k = 0; k < count; ++k) {
          const Pass& pass = lists[i].at(next[i] + k);
          const auto at = ready(static_cast<int>(i), pass);
          all = all && at;
          end = std::max(end, at.value_or(0));
          duration += PassSeconds(input, i, pass);
        }
        if (!all) break;
        end += duration;
        for (std::size_t k = 0; k < count; ++k) {
          const Pass& pass = lists[i][next[i] + k];
          const int stage = static_cast<int>(i);
          if (pass.kind == PassKind::kEncoderForward) encoded[pass.micro_batch] = end;
          if (pass.kind == PassKind::kForward) {
            done[{PassKind::kForward, stage, pass.chunk, pass.micro_batch}] = end;
          }
          if (pass.kind == PassKind::kBackward || pass.kind == PassKind::kInputGradient) {
            done[{PassKind::kBackward, stage, pass.chunk, pass.micro_batch}] = end;
            if (!PreviousOf(shape, stage, pass.chunk)) exited[pass.micro_batch] = end;
          }
        }
        free[i] = end;
        span = std::max(span, end);
        next[i] += count;
        moved = true;
      }
    }
  }
  for (std::size_t i = 0; i < lists.size(); ++i) {
    if (next[i] < lists[i].size()) return std::nullopt;
  }
  return span;
}

bool IsEncoder(const Pass& pass) {
  return pass.kind == PassKind::kEncoderForward || pass.kind == PassKind::kEncoderBackward;
}

// The whole encoder where the micro-batch enters and leaves the backbone.
std::vector<std::vector<Pass>> OnFirstStage(const BubbleFillInput& input) {
  auto lists = MakeSchedule(input.shape);
  for (std::size_t i = 0; i < lists.size(); ++i) {
    std::vector<Pass> list, after;
    for (const Pass& pass : lists[i]) {
      const bool first = PositionOf(input.shape, static_cast<int>(i), pass.chunk) == 0;
      if (first && pass.kind == PassKind::kForward) {
        list.push_back({PassKind::kEncoderForward, 0, pass.micro_batch});
      }
      list.push_back(pass);
      if (first && input.encoder_backward_s > 0 &&
          (pass.kind == PassKind::kBackward || pass.kind == PassKind::kInputGradient)) {
        after.push_back({PassKind::kEncoderBackward, 0, pass.micro_batch});
      }
      if (pass.with_next) continue;
      list.insert(list.end(), after.begin(), after.end());
      after.clear();
    }
    lists[i] = list;
  }
  return lists;
}

std::vector<BubbleFillInput> Inputs() {
  std::vector<BubbleFillInput> inputs;
  for (const auto& [forward, backward] :
       std::vector<std::pair<double, double>>{{0.25, 0.5}, {1, 2}, {0.3, 0}, {3, 5}, {0, 0}}) {
    for (const ScheduleKind kind :
         {ScheduleKind::kGpipe, ScheduleKind::k1F1B, ScheduleKind::kInterleaved,
          ScheduleKind::kZeroBubbleH1, ScheduleKind::kZeroBubbleV, ScheduleKind::kDualPipe}) {
      for (int p = 1; p <= 4; ++p) {
        for (int v = 1; v <= 2; ++v) {
          for (int m = 1; m <= 9; ++m) {
            const BubbleFillInput input = Uniform(kind, p, v, m, forward, backward);
            if (CheckPipeline(input.shape).message.empty()) inputs.push_back(input);
          }
        }
      }
    }
  }
  return inputs;
}

std::string Describe(const BubbleFillInput& input) {
  return std::string(ScheduleName(input.shape.kind)) + " p=" + std::to_string(input.shape.stages) +
         " v=" + std::to_string(input.shape.chunks) +
         " m=" + std::to_string(input.shape.micro_batches) +
         " E=" + std::to_string(input.encoder_forward_s) +
         " e=" + std::to_string(input.encoder_backward_s);
}

TEST_CASE("every encoder pass once, on one stage a micro-batch, and the rest as it was") {
  for (const BubbleFillInput& input : Inputs()) {
    INFO(Describe(input));
    const BubbleFill fill = FillBubbles(input);
    const auto plain = MakeSchedule(input.shape);
    const auto m = static_cast<std::size_t>(input.shape.micro_batches);
    std::vector<int> forwards(m, 0), backwards(m, 0);
    REQUIRE(fill.encoder_stage.size() == m);
    REQUIRE(fill.stages.size() == plain.size());
    for (std::size_t i = 0; i < fill.stages.size(); ++i) {
      std::vector<Pass> rest;
      for (std::size_t k = 0; k < fill.stages[i].size(); ++k) {
        const Pass& pass = fill.stages[i][k];
        if (!IsEncoder(pass)) {
          rest.push_back(pass);
          if (pass.with_next) CHECK(!IsEncoder(fill.stages[i].at(k + 1)));
          continue;
        }
        const auto b = static_cast<std::size_t>(pass.micro_batch);
        ++(pass.kind == PassKind::kEncoderForward ? forwards : backwards).at(b);
        CHECK(fill.encoder_stage[b] == static_cast<int>(i));
        CHECK(pass.chunk == 0);
      }
      CHECK(rest == plain[i]);
    }
    CHECK(forwards == std::vector<int>(m, 1));
    CHECK(backwards == std::vector<int>(m, input.encoder_backward_s > 0 ? 1 : 0));
  }
}

TEST_CASE(
    "the step is what a referee of its own finds, and never longer than with the encoder on the "
    "first stage") {
  int faster = 0;
  for (const BubbleFillInput& input : Inputs()) {
    INFO(Describe(input));
    const BubbleFill fill = FillBubbles(input);
    const auto span = Span(input, fill.stages);
    REQUIRE(span.has_value());  // no deadlock; encoders before their use
    CHECK(*span == doctest::Approx(fill.span_s).epsilon(1e-9));
    const auto first = Span(input, OnFirstStage(input));
    REQUIRE(first.has_value());
    CHECK(*span <= *first * (1 + 1e-9));
    // Nothing runs before the first encoder forward is done but other encoders, and nothing after the last backward.
    CHECK(*span >= fill.backbone_span_s + input.encoder_forward_s - 1e-9);
    // Shorter wherever there is a bubble and the first stage is not already as short as can be: DualPipe's two stages are
    // both ends of the pipeline and idle for nothing.
    const double least = fill.backbone_span_s + input.encoder_forward_s + input.encoder_backward_s;
    const bool bubble = input.shape.stages > (input.shape.kind == ScheduleKind::kDualPipe ? 2 : 1);
    if (bubble && *first > least + 1e-9) {
      CHECK(*span < *first - 1e-9);
      ++faster;
    }
  }
  CHECK(faster > 500);  // the world has such cases
}

TEST_CASE("with bubble enough the step is the backbone's and the first encoder forward") {
  for (int p = 2; p <= 8; ++p) {
    for (int m = p; m <= 2 * p; ++m) {
      // A frozen encoder: nothing comes after the last backward.
      const BubbleFill fill = FillBubbles(Uniform(ScheduleKind::k1F1B, p, 1, m, 1.0 / p, 0));
      INFO("p=", p, " m=", m);
      CHECK(fill.backbone_span_s == doctest::Approx(3.0 * (m + p - 1)));
      CHECK(fill.span_s == doctest::Approx(fill.backbone_span_s + 1.0 / p));
      // A trained one adds its last backward.
      const BubbleFill trained =
          FillBubbles(Uniform(ScheduleKind::k1F1B, p, 1, m, 1.0 / p, 2.0 / p));
      CHECK(trained.span_s == doctest::Approx(fill.backbone_span_s + 3.0 / p));
    }
  }
}

TEST_CASE("the example of the essay") {
  const BubbleFillInput input = Uniform(ScheduleKind::k1F1B, 2, 1, 4, 1, 2);
  const BubbleFill fill = FillBubbles(input);
  CHECK(fill.backbone_span_s == 15);
  CHECK(fill.span_s == 19);
  CHECK(fill.encoder_stage == std::vector<int>{1, 0, 1, 0});
  CHECK(*Span(input, OnFirstStage(input)) == 25);
}

TEST_CASE("an encoder that takes no time changes nothing") {
  for (const ScheduleKind kind : {ScheduleKind::k1F1B, ScheduleKind::kZeroBubbleH1}) {
    const BubbleFill fill = FillBubbles(Uniform(kind, 4, 1, 8, 0, 0));
    CHECK(fill.span_s == fill.backbone_span_s);
  }
}

TEST_CASE("an encoder too large for the bubbles is spread over the stages") {
  // Twice a stage's work: the first stage alone would have 16 · 9 s to do.
  const BubbleFillInput input = Uniform(ScheduleKind::k1F1B, 4, 1, 16, 2, 4);
  const BubbleFill fill = FillBubbles(input);
  std::vector<int> load(4, 0);
  for (const int stage : fill.encoder_stage) ++load[static_cast<std::size_t>(stage)];
  for (const int micro_batches : load) CHECK(micro_batches >= 2);
  const double work = 16 * (3 + 6.0 / 4);  // of a stage, spread evenly
  CHECK(fill.span_s >= work);
  CHECK(fill.span_s < 0.75 * *Span(input, OnFirstStage(input)));
}

TEST_CASE("uneven stages: no deadlock, never slower than the first stage, the same every time") {
  for (int p = 2; p <= 5; ++p) {
    for (int m = p; m <= 3 * p; m += p) {
      BubbleFillInput input = Uniform(ScheduleKind::kInterleaved, p, 2, m, 0.7, 1.1);
      for (std::size_t i = 0; i < input.seconds.size(); ++i) {
        for (ChunkSeconds& seconds : input.seconds[i]) {
          seconds.forward_s *= 1 + 0.3 * static_cast<double>(i * 7 % 5);
          seconds.input_gradient_s *= 1 + 0.2 * static_cast<double>(i * 3 % 4);
        }
      }
      const BubbleFill fill = FillBubbles(input);
      const auto span = Span(input, fill.stages);
      REQUIRE(span.has_value());
      CHECK(*span == doctest::Approx(fill.span_s));
      CHECK(*span <= *Span(input, OnFirstStage(input)) * (1 + 1e-9));
      CHECK(FillBubbles(input).stages == fill.stages);
    }
  }
}

}  // namespace
}  // namespace aurum
