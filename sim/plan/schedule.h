#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace aurum {

// In which order the stages of a pipeline run their passes.
enum class ScheduleKind {
  kGpipe,         // all forwards, then all backwards (Huang et al. 2019); chunk by chunk
  k1F1B,          // Narayanan et al. 2019/2021
  kInterleaved,   // v chunks a stage, micro-batches in groups of p (Narayanan et al. 2021)
  kZeroBubbleH1,  // backward in two: input gradients at once, weight gradients into bubbles; the
                  // memory of 1F1B (Qi et al. 2023)
  kZeroBubbleV,   // two chunks a stage in a V, the memory of 1F1B (Qi et al. 2024)
  kDualPipe,  // two directions at once, every stage holds two chunks of parameters (DeepSeek-V3)
};
std::string_view ScheduleName(ScheduleKind kind);  // "gpipe", "1f1b", "interleaved", "zb-h1", ...
std::optional<ScheduleKind> ScheduleByName(std::string_view name);

enum class PassKind : std::uint8_t {
  kForward,
  kBackward,       // both gradients
  kInputGradient,  // of a backward in two
  kWeightGradient,
  kEncoderForward,  // of an encoder that fills bubbles
  kEncoderBackward,
};

// One pass of one micro-batch through one chunk of a stage.
struct Pass {
  PassKind kind = PassKind::kForward;
  int chunk = 0;
  int micro_batch = 0;
  // Runs interleaved, unit by unit, with the next pass of the list (DualPipe's overlapped pairs).
  bool with_next = false;

  bool operator==(const Pass&) const = default;
};

struct PipelineShape {
  ScheduleKind kind = ScheduleKind::k1F1B;
  int stages = 1;         // p
  int chunks = 1;         // v: of a stage; 1 for k1F1B and kZeroBubbleH1, 2 for kZeroBubbleV and
                          // kDualPipe, any for kGpipe and kInterleaved
  int micro_batches = 1;  // m

  bool operator==(const PipelineShape&) const = default;
};

// Where the chunk of a stage stands in the model: 0 … stages · chunks − 1, or − 1 for kDualPipe's
// two directions, 0 … stages − 1 in each. Interleaved: chunk · p + stage. V: stage, then 2p − 1 − stage.
int PositionOf(const PipelineShape& shape, int stage, int chunk);
// The stage and chunk that a pass's output goes to in forward direction; nothing after the last.
struct StageChunk {
  int stage = 0, chunk = 0;
  bool operator==(const StageChunk&) const = default;
};
std::optional<StageChunk> NextOf(const PipelineShape& shape, int stage, int chunk);
std::optional<StageChunk> PreviousOf(const PipelineShape& shape, int stage, int chunk);
// The chunk in which a micro-batch enters the pipeline: kDualPipe's second half enters at the other end.
bool RunsThrough(const PipelineShape& shape, int chunk, int micro_batch);

// What a shape may not be, in words with the remedy; "" = fine. (Interleaved: micro-batches a multiple
// of p; zb-v and dualpipe: chunks = 2; dualpipe: an even number of micro-batches, at least 2p, and of stages.)
struct ShapeFault {
  std::string message, help;
};
ShapeFault CheckPipeline(const PipelineShape& shape);

// The passes of every stage, in order. Every micro-batch passes every chunk that it runs through once
// forward and once backward (or both halves of it).
std::vector<std::vector<Pass>> MakeSchedule(const PipelineShape& shape);

}  // namespace aurum
