#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/model.h"
#include "sim/core/json.h"

namespace aurum {

// Published throughput of vision encoders (timm's benchmark tables and others), predicted with the
// kernels and layer costs that training steps are made of. Nothing is fitted here: this is how the
// profiles of cards without kernel tables are judged.

// A plain vision transformer: patches of one image and a few tokens of its own through equal layers.
struct VisionTransformer {
  Module module;          // input: the patch embedding; output: the classifier, once an image
  int image_size = 0;     // pixels a side
  double patches = 0;     // of one image
  double tokens = 0;      // with class, distillation and register tokens
  bool pooled = false;    // an attention pool of one query behind the layers (SigLIP)
  double parameters = 0;  // of layers, patch embedding and pool
  // Multiply-accumulates of one image; `attention`: with those of scores and values.
  double ForwardMacs(bool attention = true) const;
};

// From timm's name, as in "vit_base_patch16_siglip_384", "deit3_huge_patch14_224", "eva02_large_patch14_clip_336";
// `image_size` of the row where it differs from the name's. nullopt and the reason for everything
// else: convolutional nets, hybrids, windowed and channel attention.
std::optional<VisionTransformer> VisionTransformerFromName(const std::string& name, int image_size,
                                                           std::string* reason);

struct EncoderRow {
  std::string id;
  std::string gpu;      // as the row says
  std::string profile;  // what it was predicted with; "" if skipped
  std::string kind;     // "training", "inference"; with ", compiled" behind it
  std::string model;
  std::string skipped;    // why; "" = compared
  double measured_s = 0;  // one step of a batch
  double predicted_s = 0;
  double gmacs = 0;  // as the row says, of one image; 0 = not told
  double our_gmacs = 0;
  double our_gmacs_without_attention = 0;
  double matrix_share = 0;  // of the prediction: products and attention
};

// Rows of an array of objects with `id`, `kind`, `model`, `batch`, `gpu`, `num_gpus`, `precision`,
// `step_ms` or `samples_per_s`, and optionally `img_size`, `gmacs`, `compiled`, `framework`, `flags`.
// E0860 not such an array, E0861 a value of a wrong type; and those of profiles and stacks.
std::vector<EncoderRow> PredictEncoders(const JsonDocument& document, const std::string& data_root);

// Over the rows of one card and kind; relative errors, predicted over measured.
struct EncoderScore {
  std::string gpu, kind;
  int compared = 0;
  int skipped = 0;
  double mape = 0;
  double median_ape = 0;
  double bias = 0;  // median of the signed errors
};
std::vector<EncoderScore> ScoreEncoders(const std::vector<EncoderRow>& rows);  // by card, then kind

}  // namespace aurum
