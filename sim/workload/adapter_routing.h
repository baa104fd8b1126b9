#pragma once

#include <string>
#include <vector>

#include "models/model.h"
#include "sim/workload/recipe.h"
#include "sim/workload/workload.h"

namespace aurum {

// Modalities of a model, text first: each has an adapter where adapters are apart.
std::vector<Modality> ModalitiesOf(const Model& model);

// What one modality's adapter is given.
struct AdapterLoad {
  Modality modality = Modality::kText;
  double own_share = 0;  // of the samples, those of its modality (a sample is of its first media)
  double share = 0;      // of the samples, those that are routed to it
  double foreign_share = 0;  // of `share`, those of another modality
};
// `misrouted` of each modality's samples go to the others, evenly: the router knows no better. Of a
// plain workload all samples are alike; of a mixture, by the weights of its kinds.
std::vector<AdapterLoad> LoadOfAdapters(const Model& model, const Workload& workload,
                                        double misrouted);
// The same for samples that are told by share of each modality, in the order of ModalitiesOf.
std::vector<AdapterLoad> LoadOfAdapters(const std::vector<Modality>& modalities,
                                        const std::vector<double>& own_share, double misrouted);
std::string ModalityName(Modality modality);  // "text", "vision", "audio", "video"

}  // namespace aurum
