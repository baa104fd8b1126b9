#pragma once

#include <string>
#include <vector>

#include "models/model.h"
#include "sim/workload/step_draw.h"
#include "sim/workload/workload.h"

namespace aurum {

// What the data of a workload do to a plan, for a user to read.

struct Spread {
  double mean = 0, p50 = 0, p99 = 0, max = 0;
};

struct DataFigures {
  // Tokens of one sample in the backbone's sequence (of cross-attention, its keys; of a contrastive
  // model, in the encoder).
  Spread tokens, text_tokens, image_tokens, audio_tokens, video_tokens;
  double samples = 0;  // that these spreads are of

  // Means over the drawn steps; imbalances as in StepLoads, per module.
  struct ModuleFigures {
    std::string name;
    double imbalance = 1, lockstep_imbalance = 1;
    double worst_imbalance = 1;         // of any step
    double lockstep_flops = 0;          // forward, a step
    double moved_tokens = 0;            // a step
    double busiest_share = 1;           // of a replica's work, on the busiest of its encoder ranks
    double tokens_per_micro_batch = 0;  // padding and dummies included
    double padding_share = 0;           // of them, padding and dummies
  };
  std::vector<ModuleFigures> modules;  // as Model::modules
  double padding_share = 0;            // of the backbone's tokens
  double pack_fill = 0;                // 0 = not packed
  double text_only_share = 0;          // of micro-batches
  double samples_per_step = 0;
  double tokens_per_step = 0;  // real ones, of the backbone
};

// `steps` as DrawSteps made them. The spreads are over as many samples as LoadOfSample looks at.
DataFigures FiguresOfData(const Model& model, const Workload& workload,
                          const std::vector<StepLoads>& steps);

}  // namespace aurum
