#pragma once

#include <vector>

#include "models/prune.h"
#include "sim/workload/workload.h"

namespace aurum {

// What a recipe makes of the tokens of a sample, after the model's own rules have counted them.

// Media tokens that are merged or pruned between encoder and connector (ToMe, Bolya et al. 2023;
// LLaVA-PruMerge, Shang et al. 2024): the encoder sees all of them, connector and backbone those that
// are left. Rows' separators stay. E0654 a connector whose number of outputs is fixed by its queries,
// and more tokens than there are; E0653 where the sample has none of that kind.
void KeepMediaTokens(const Model& model, const std::vector<PrunedModule>& modules,
                     SampleLoad* load);

// `tokens` learned tokens before every sequence of every module that has layers (Lester et al. 2021).
void AddPromptTokens(const Model& model, double tokens, SampleLoad* load);

}  // namespace aurum
