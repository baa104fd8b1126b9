#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/model.h"

namespace aurum::model_file {

// What the reader and the writer of model files must agree on. Enumerators by their position.

inline const std::vector<std::string> kTasks = {"generative", "contrastive"};
inline const std::vector<std::string> kKinds = {"encoder", "connector", "backbone"};
inline const std::vector<std::string> kModalities = {"text", "vision", "audio", "video"};
inline const std::vector<std::string> kAttentions = {"self", "latent", "linear", "cross"};
inline const std::vector<std::string> kNorms = {"rms", "layer"};
inline const std::vector<std::string> kRules = {
    "none",        "fixed",         "llava_anyres", "native_merge",
    "row_newline", "tiles",         "canvas",       "canvas_separated",
    "slices",      "overlap_crops", "budget"};
inline const std::vector<std::string> kVideoRules = {"none", "frames", "native_merge", "clips"};
inline constexpr const char* kSchema = "aurum.model/1";

// The most that a model of anybody's has, with room to spare.
inline constexpr int kMostLayers = 4096;
inline constexpr int kMostWidth = 1 << 24;

// Defaults that a reader fills in and a writer leaves out.
inline bool DefaultCausal(const Module& module, AttentionKind kind) {
  return module.kind == ModuleKind::kBackbone && kind != AttentionKind::kCross;
}
inline std::int64_t DefaultNorms(const Module& module, bool layer_norm) {
  return std::int64_t{module.hidden} * (layer_norm ? 4 : 2);
}

}  // namespace aurum::model_file
