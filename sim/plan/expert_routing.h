#pragma once

#include <string>
#include <vector>

#include "sim/plan/plan.h"
#include "sim/workload/expert_load.h"

namespace aurum {

// Tokens of a sample in the backbone's sequence, by where they are from. A model's text first, then
// encoders as in Model::modules.
struct ModalityTokens {
  std::string module;  // the backbone's name: text
  double tokens = 0;
};
std::vector<ModalityTokens> TokensByModality(const Model& model, const SampleLoad& sample);

// What the plan's routing does to the model's experts: of the layers with the most of them. Every
// layer is taken to spread tokens alike. Precondition: plan.routing, and a model with experts.
ExpertLoad RoutedLoad(const Model& model, const Plan& plan, const SampleLoad& sample);

// Sets expert_imbalance and dropped_tokens by the plan's routing.
//
// A rank with more than its share of tokens is what all others wait for in every layer, so its load
// is what experts are priced by (as of a told imbalance). What finds its expert full skips the expert
// on its residual (Switch Transformer, Fedus et al. 2021): it is neither sent nor computed. Slots
// that stay empty are not computed either: grouped products take the tokens that are there, as in
// Megatron-Core without --moe-pad-expert-input-to-capacity. Loads are expected ones: what chance does
// to a micro-batch beyond the skew is not in them.
void ApplyRouting(const Model& model, const SampleLoad& sample, Plan* plan);

}  // namespace aurum
