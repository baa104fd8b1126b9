#pragma once

#include "models/hf_parts.h"

namespace aurum {

// The layers of text models that are not all alike, by family. `layer` is the plain one: RMSNorms,
// grouped queries, gated MLP.

void AddLayers(Module* module, const Layer& layer, int count);
// The sliding window that the config tells; `fallback`: that of its class, 0 = none.
int WindowOf(HfConfig& c, int fallback);
void AddQwen3MoeLayers(HfConfig& c, const Layer& layer, int layers, Module* module);
void AddQwen35Layers(HfConfig& c, Layer layer, int layers, Module* module);
void AddDeepseekLayers(HfConfig& c, Layer layer, int layers, Module* module);
void AddLlama4Layers(HfConfig& c, const Layer& layer, int layers, Module* module);
void AddMllamaLayers(HfConfig& c, const Layer& layer, int layers, Module* module);
void AddGemma3Layers(HfConfig& c, Layer layer, int layers, Module* module);
void AddGemma4Layers(HfConfig& c, Layer layer, int layers, Module* module);

}  // namespace aurum
