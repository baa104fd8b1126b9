#include "reports/pipeline_boxes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "sim/plan/schedule.h"
#include "tests/support/scenario.h"

namespace aurum {
namespace {

using Box = std::tuple<char, int, int>;  // kind, micro-batch, chunk

char LetterOf(PassKind kind) {
  switch (kind) {
    case PassKind::kForward:
      return 'F';
    case PassKind::kBackward:
    case PassKind::kInputGradient:
      return 'B';
    case PassKind::kWeightGradient:
      return 'W';
    case PassKind::kEncoderForward:
      return 'E';
    case PassKind::kEncoderBackward:
      return 'e';
  }
  return '?';
}

PipelineDrawing Draw(const Evaluation& e, int width = 100) {
  return DrawPipeline(*e.scenario.model, e.program, e.outcome, width);
}

PipelineShape ShapeOf(const Evaluation& e) {
  PipelineShape shape = e.scenario.plan.Pipeline();
  shape.micro_batches = static_cast<int>(e.program.micro_batches);
  return shape;
}

// tp 8 · pp 4 · dp 2 of a model of 96 equal layers, 8 micro-batches.
Evaluation FourStages(const std::vector<std::string>& more = {}) {
  std::vector<std::string> changes{"plan.backbone.pp=4", "workload.global_batch_size=16"};
  changes.insert(changes.end(), more.begin(), more.end());
  return EvaluateDocument(Shipped("gpt-3-175b-64xa100", changes));
}

TEST_CASE("1F1B: every row has the passes of the schedule, in its order, one box each") {
  const Evaluation e = FourStages();
  const PipelineDrawing drawing = Draw(e);
  const auto schedule = MakeSchedule(ShapeOf(e));
  REQUIRE(drawing.rows.size() == 4);
  REQUIRE(e.program.micro_batches == 8);
  for (std::size_t stage = 0; stage < 4; ++stage) {
    CAPTURE(stage);
    CHECK(drawing.rows[stage].name == "stage " + std::to_string(stage));
    std::vector<Box> drawn, planned;
    for (const PipelineBox& box : drawing.rows[stage].boxes) {
      if (box.kind != 'O') drawn.emplace_back(box.kind, box.micro_batch, box.chunk);
    }
    for (const Pass& pass : schedule[stage])
      planned.emplace_back(LetterOf(pass.kind), pass.micro_batch, pass.chunk);
    CHECK(drawn == planned);
    CHECK(drawing.rows[stage].boxes.back().kind == 'O');
  }
  // Warm-up of 1F1B: stage 0 runs four forwards before its first backward, the last stage one.
  const auto first_backward = [&](std::size_t stage) {
    const auto& boxes = drawing.rows[stage].boxes;
    return std::find_if(boxes.begin(), boxes.end(),
                        [](const PipelineBox& box) { return box.kind == 'B'; }) -
           boxes.begin();
  };
  CHECK(first_backward(0) == 4);
  CHECK(first_backward(3) == 1);
  const std::string text = PipelineText(drawing);
  CHECK(text.find("stage 3 |") != std::string::npos);
  CHECK(text.find("# backward") != std::string::npos);
}

TEST_CASE("every schedule is drawn whole: each pass on its stage, none twice, in the step") {
  const std::vector<std::vector<std::string>> plans = {
      {"plan.schedule=gpipe"},
      {"plan.schedule=1f1b"},
      {"plan.schedule=interleaved", "plan.backbone.vpp=2"},
      {"plan.schedule=zb-h1"},
      {"plan.schedule=zb-v"},
      {"plan.schedule=dualpipe"}};
  for (const auto& plan : plans) {
    CAPTURE(plan.front());
    const Evaluation e = FourStages(plan);
    const PipelineDrawing drawing = Draw(e);
    const auto schedule = MakeSchedule(ShapeOf(e));
    REQUIRE(drawing.rows.size() == schedule.size());
    for (std::size_t stage = 0; stage < schedule.size(); ++stage) {
      CAPTURE(stage);
      std::set<Box> drawn, planned;
      double busy = 0;
      for (const PipelineBox& box : drawing.rows[stage].boxes) {
        if (box.kind != 'O') drawn.emplace(box.kind, box.micro_batch, box.chunk);
        CHECK(box.start_s >= 0);
        CHECK(box.end_s > box.start_s);
        CHECK(box.end_s <= drawing.total_s);
        busy += box.end_s - box.start_s;
      }
      for (const Pass& pass : schedule[stage])
        planned.emplace(LetterOf(pass.kind), pass.micro_batch, pass.chunk);
      CHECK(drawn == planned);
      // Between the kernels alone, and those with all that they wait for inside of passes.
      const TimeBreakdown& t = e.outcome.time[stage];
      const double kernels = t.compute_s + t.optimizer_s;
      CHECK(busy >= kernels * (1 - 1e-9));
      CHECK(busy <= (kernels + t.tp_s + t.cp_s + t.ep_s + t.host_s + t.dp_gather_s) * (1 + 1e-9));
    }
  }
}

TEST_CASE("an encoder has its own letters, on the stages where it runs") {
  const Evaluation first = EvaluateDocument(Shipped("qwen2.5-vl-72b-64xh100"));
  const Evaluation bubbles =
      EvaluateDocument(Shipped("qwen2.5-vl-72b-64xh100", {"plan.vision.placement=in_bubbles"}));
  const auto rows_with = [](const PipelineDrawing& drawing, char kind) {
    return std::count_if(drawing.rows.begin(), drawing.rows.end(), [&](const PipelineRow& row) {
      return std::any_of(row.boxes.begin(), row.boxes.end(),
                         [&](const PipelineBox& box) { return box.kind == kind; });
    });
  };
  CHECK(rows_with(Draw(first), 'E') == 1);
  CHECK(rows_with(Draw(bubbles), 'E') == bubbles.scenario.plan.pp);
  CHECK(PipelineText(Draw(bubbles)).find("~ encoder forward") != std::string::npos);
}

TEST_CASE("of a stage with a slow GPU the first class is drawn, by its name") {
  const Evaluation e = FourStages({"faults=[{\"gpus\": [13], \"slowdown\": 1.3}]"});
  REQUIRE(e.program.classes.size() > 4);
  const PipelineDrawing drawing = Draw(e);
  REQUIRE(drawing.rows.size() == 4);
  CHECK(drawing.rows[0].name == e.program.classes[0].name);
}

TEST_CASE("generation is decoded") {
  const Evaluation e = EvaluateDocument(Shipped("llava-1.6-7b-generate-8xa100"));
  const std::string text = PipelineText(Draw(e));
  CHECK(text.find(": decode") != std::string::npos);
  CHECK(text.find("backward") == std::string::npos);
}

}  // namespace
}  // namespace aurum
