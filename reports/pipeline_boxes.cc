#include "reports/pipeline_boxes.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace aurum {
namespace {

constexpr char kNotDrawn = 0;

char LetterOf(const Model& model, const OpInfo& info) {
  const bool backbone =
      info.head || info.module < 0 ||
      model.modules[static_cast<std::size_t>(info.module)].kind == ModuleKind::kBackbone;
  switch (info.kind) {
    case OpKind::kForward:
      return backbone ? 'F' : 'E';
    case OpKind::kBackward:
      return backbone ? 'B' : 'e';
    case OpKind::kWeightGradient:
      return 'W';
    case OpKind::kDecode:
      return 'D';
    case OpKind::kOptimizer:
      return 'O';
    default:
      return kNotDrawn;
  }
}

// What a pass waits for inside of itself.
bool Inside(GapCause cause) {
  switch (cause) {
    case GapCause::kTp:
    case GapCause::kCp:
    case GapCause::kEp:
    case GapCause::kHost:
    case GapCause::kDpGather:
      return true;
    default:
      return false;
  }
}

// Whether every wait between the two moments is one that a pass has inside of itself.
bool OnePass(const std::vector<Gap>& gaps, Time from, Time to) {
  auto gap = std::lower_bound(gaps.begin(), gaps.end(), from,
                              [](const Gap& g, Time moment) { return g.end <= moment; });
  for (; gap != gaps.end() && gap->start < to; ++gap) {
    if (!Inside(gap->cause)) return false;
  }
  return true;
}

}  // namespace

PipelineDrawing DrawPipeline(const Model& model, const Program& program, const Outcome& outcome,
                             int width) {
  PipelineDrawing drawing;
  drawing.width = width;
  drawing.total_s = outcome.StepSeconds();
  std::vector<int> row_of(program.classes.size(), -1);
  std::vector<std::size_t> class_of_row;
  for (std::size_t c = 0; c < program.classes.size(); ++c) {
    const int stage = program.classes[c].stage;
    const bool known =
        std::any_of(class_of_row.begin(), class_of_row.end(),
                    [&](std::size_t other) { return program.classes[other].stage == stage; });
    if (known) continue;
    row_of[c] = static_cast<int>(class_of_row.size());
    class_of_row.push_back(c);
    drawing.rows.push_back({program.classes[c].name, {}});
  }

  std::vector<std::vector<OpId>> ops(drawing.rows.size());
  for (OpId op = 0; op < program.info.size(); ++op) {
    const OpInfo& info = program.info[op];
    const int row = row_of[info.rank_class];
    if (row < 0 || info.lane != Lane::kMain || LetterOf(model, info) == kNotDrawn ||
        outcome.schedule.end[op] == outcome.schedule.start[op])
      continue;
    ops[static_cast<std::size_t>(row)].push_back(op);
  }
  for (std::size_t row = 0; row < ops.size(); ++row) {
    std::vector<OpId>& list = ops[row];
    std::stable_sort(list.begin(), list.end(), [&](OpId a, OpId b) {
      return outcome.schedule.start[a] < outcome.schedule.start[b];
    });
    std::vector<PipelineBox>& boxes = drawing.rows[row].boxes;
    const std::vector<Gap>& gaps = outcome.gaps[class_of_row[row]];
    Time until;  // of the last box
    for (const OpId op : list) {
      const OpInfo& info = program.info[op];
      const Time start = outcome.schedule.start[op], end = outcome.schedule.end[op];
      const char letter = LetterOf(model, info);
      // The optimizer's ops are of no micro-batch, whatever they stand beside.
      const int micro_batch = letter == 'O' ? -1 : info.micro_batch;
      PipelineBox* last = boxes.empty() ? nullptr : &boxes.back();
      if (last != nullptr && last->kind == letter && last->micro_batch == micro_batch &&
          last->chunk == info.chunk && OnePass(gaps, until, start)) {
        last->end_s = Seconds(end);
      } else {
        boxes.push_back({Seconds(start), Seconds(end), letter, micro_batch, info.chunk});
      }
      until = std::max(until, end);
    }
  }
  return drawing;
}

}  // namespace aurum
