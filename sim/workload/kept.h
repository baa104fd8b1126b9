#pragma once

#include <string>
#include <vector>

#include "sim/workload/layer_cost.h"
#include "sim/workload/recipe.h"

namespace aurum {

// What one layer keeps from its forward pass for its backward pass, tensor by tensor, on one GPU and
// for one micro-batch.

struct KeptTensor {
  const char* name = "";  // "MLP up and gate", "attention scores", "keys and values", ...
  double bytes = 0;
};

struct KeptActivations {
  std::vector<KeptTensor> kept;  // until the layer's backward ends; after selective recomputation
  std::vector<KeptTensor> recomputed;  // formed again when its backward starts (selective)
  double checkpoint_bytes = 0;     // instead of both, under full recomputation: the layer's input
  double work_forward_bytes = 0;   // on top of what is kept, while its forward runs
  double work_backward_bytes = 0;  // on top of kept and recomputed, while its backward runs
  double KeptBytes() const;
  double RecomputedBytes() const;
};

// `trained`: weights get gradients; a frozen linear keeps no input unless its kernel does
// (bitsandbytes). `backward`: gradients flow through; without, nothing is kept. Shape: LayerShape with
// its recipe. Korthikanti et al. 2022 for the classic terms; the stack says what its kernels keep.
KeptActivations ActivationsOfLayer(const Layer& layer, const LayerShape& shape, bool trained,
                                   bool backward, const CostContext& context);
// Of the output head and loss over `tokens` tokens: logits in all their copies.
KeptActivations ActivationsOfHead(double tokens, double hidden, double vocabulary, double tp,
                                  const CostContext& context);

}  // namespace aurum
