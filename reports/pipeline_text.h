#pragma once

#include <string>
#include <vector>

namespace aurum {

// A pipeline over time, drawn with characters: one line a stage, for a terminal. Plain data in, text out.

// What a stage does for a while.
struct PipelineBox {
  double start_s = 0;
  double end_s = 0;
  // F forward, B backward (or its input gradients), W weight gradients, E encoder forward, e encoder backward, D decode,
  // O optimizer. Another letter is drawn as itself.
  char kind = 'F';
  int micro_batch = -1;  // -1: of no micro-batch
  int chunk = 0;
};

struct PipelineRow {
  std::string name;  // "stage 0"; cut after 24 bytes
  std::vector<PipelineBox> boxes;
};

struct PipelineDrawing {
  std::vector<PipelineRow> rows;
  int width =
      100;  // columns of a line, names included; the time itself gets 16 or more, and at most 4,096
  double total_s = 0;  // of the axis; 0 (or not a number): until the last box ends
};

// Rows that are drawn; of more, a note says how many are not.
inline constexpr int kMostPipelineRows = 64;

// The drawing: a scale of time, a row a stage with its idle share, a legend of what occurs. Lines end in '\n'; ASCII alone,
// except for what stands in the names. A column shows what took most of its time; a box of several columns begins with
// its micro-batch (and chunk, where there are several) if that leaves a column for its fill. Boxes may be in any order
// and may overlap; what lies outside the axis is cut, boxes of no length are not drawn. Cost O(rows · width + columns
// covered by boxes).
std::string PipelineText(const PipelineDrawing& drawing);

}  // namespace aurum
