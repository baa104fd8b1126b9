#include "sim/plan/expert_routing.h"

#include <algorithm>

namespace aurum {
namespace {

const Mlp& LargestMixture(const Model& model) {
  const Mlp* largest = &model.Backbone().runs.front().layer.mlp;
  for (const LayerRun& run : model.Backbone().runs) {
    if (run.layer.mlp.experts > largest->experts) largest = &run.layer.mlp;
  }
  return *largest;
}

}  // namespace

std::vector<ModalityTokens> TokensByModality(const Model& model, const SampleLoad& sample) {
  // What an encoder's connector hands on, or what it hands on itself; text is the rest. Separators
  // between pieces of media, which no module makes, go with the media.
  std::vector<ModalityTokens> all{{model.Backbone().name, sample.backbone_tokens}};
  const double media = sample.cross_modal_tokens - sample.cross_attention_tokens;
  double made = 0;
  for (std::size_t i = 0; i + 1 < model.modules.size(); ++i) {
    const Module& module = model.modules[i];
    if (module.kind != ModuleKind::kEncoder) continue;
    double tokens = sample.modules[i].output_tokens;
    for (std::size_t j = 0; j + 1 < model.modules.size(); ++j) {
      const bool follows = model.modules[j].kind == ModuleKind::kConnector &&
                           model.modules[j].modality == module.modality;
      if (follows) tokens = sample.modules[j].output_tokens;
    }
    made += tokens;
    all.push_back({module.name, tokens});
  }
  for (std::size_t i = 1; i < all.size(); ++i)
    all[i].tokens = made > 0 ? all[i].tokens * media / made : 0;
  all.front().tokens -= made > 0 ? media : 0;
  return all;
}

ExpertLoad RoutedLoad(const Model& model, const Plan& plan, const SampleLoad& sample) {
  const Mlp& mlp = LargestMixture(model);
  const ExpertRouting& routing = *plan.routing;
  std::vector<ExpertTraffic> traffic;
  for (const ModalityTokens& of : TokensByModality(model, sample)) {
    ExpertTraffic stream{of.tokens, 0, traffic.size()};
    for (const ExpertRouting::Skew& skew : routing.skew) {
      if (skew.module == of.module) stream.zipf = skew.zipf;
    }
    traffic.push_back(stream);
  }
  return LoadOfExperts(traffic, mlp.experts, mlp.experts_per_token, plan.ep,
                       routing.capacity_factor, routing.seed);
}

void ApplyRouting(const Model& model, const SampleLoad& sample, Plan* plan) {
  const ExpertLoad load = RoutedLoad(model, *plan, sample);
  plan->expert_imbalance = load.rank_imbalance;
  plan->dropped_tokens = load.dropped_share;
}

}  // namespace aurum
