#pragma once

#include <string>
#include <vector>

#include "models/model.h"
#include "sim/core/diagnostic.h"
#include "sim/core/object_reader.h"

namespace aurum {

// Structured pruning and re-parameterisation: what is left of a model, as shapes.
//
// A module may keep some of its heads, of its MLP's width, of its channels (the hidden width, with
// everything that reads or writes it), of its layers, and of the tokens that it hands to the
// backbone. Sliced, the matrices get smaller; masked, they are multiplied by zeros and stay as they
// are, so that nothing is saved. A convolution or projection may be trained as several parallel ones
// whose sum is one matrix afterwards (RepVGG, Ding et al. 2021, arXiv:2101.03697).

struct PrunedModule {
  std::string name;
  std::int64_t parameters_before = 0, parameters_after = 0;
  double token_share = 1;  // of its tokens that reach the backbone
  int token_count = 0;     // or so many of a sample; 0 = by the share
};

struct PrunedModel {
  Model model;
  std::vector<PrunedModule> modules;  // as Model::modules
  bool any_tokens = false;            // some module hands on fewer tokens
  std::string told;                   // "vision: 85 % of its channels"; "" = nothing changes
};

// Applies a scenario's "prune" object, by module name. `training`: parallel branches are still
// apart. E0650 a module that the model does not have; E0651 heads that do not go into the groups of
// keys and values; E0652 nothing left, or more than there is; E0653 a key that has nothing to act
// on; W1390 a mask. Widths are rounded to whole heads and channels.
PrunedModel PruneModel(const Model& model, ObjectReader reader, bool training,
                       std::vector<Diagnostic>* warnings);

}  // namespace aurum
