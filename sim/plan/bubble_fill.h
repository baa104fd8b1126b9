#pragma once

#include <vector>

#include "sim/plan/schedule.h"

namespace aurum {

// What the passes of one micro-batch through a chunk take, s. A backward that is not split takes both gradients.
struct ChunkSeconds {
  double forward_s = 0;
  double input_gradient_s = 0;
  double weight_gradient_s = 0;
};

struct BubbleFillInput {
  PipelineShape shape;  // CheckPipeline finds no fault
  std::vector<std::vector<ChunkSeconds>>
      seconds;                    // by stage and chunk, none negative; coarse is enough
  double encoder_forward_s = 0;   // of one micro-batch, on any stage
  double encoder_backward_s = 0;  // 0: the encoder is frozen and has no backward passes
  // What an encoder keeps waits for its backward. An encoder forward is put no earlier than where the
  // forward at position 0 of the micro-batch so many before it starts, if there is a place; 0 = anywhere.
  int most_ahead = 0;
};

struct BubbleFill {
  // The schedule with an encoder forward (and backward) of every micro-batch put in. The order of all other passes is
  // MakeSchedule's, and an overlapped pair stays together. Encoder passes have chunk 0.
  std::vector<std::vector<Pass>> stages;
  std::vector<int> encoder_stage;  // by micro-batch: where its encoder runs, both passes
  // The step by these seconds, without transfers: with the encoder, and the backbone alone.
  double span_s = 0;
  double backbone_span_s = 0;
};

// Every stage holds the encoder. The forward of a micro-batch at position 0 waits for its encoder forward; its encoder
// backward waits for the backward (or input gradients) at position 0. The lists cannot deadlock, are never slower than
// with the whole encoder on the stage of position 0, and are the same on every run. Cost: O(m · passes).
BubbleFill FillBubbles(const BubbleFillInput& input);

}  // namespace aurum
