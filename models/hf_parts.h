#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/hf_config.h"
#include "models/model.h"

namespace aurum {

// The parts that the importer puts together. Each reads one object of the config and gives a
// module; what the config does not tell is the structure of the Hugging Face class named in the
// comment of the part.

// The text model in `c` as the backbone. `default_family` is the model_type that the outer class
// takes when `c` has none
// ("" = E0602). The outer class decides about tied embeddings, so it is asked first.
Module ImportText(HfConfig& c, HfConfig& root, const std::string& default_family);
// The model_types that ImportText knows.
std::vector<std::string> TextFamilies();

// Vision towers, without what follows them.
Module ImportClipVision(HfConfig& c);
Module ImportSiglipVision(HfConfig& c);
Module ImportPixtralVision(HfConfig& c);
Module ImportInternVit(HfConfig& c);
Module ImportMoonVit(HfConfig& c);
Module ImportMllamaVision(HfConfig& c);
Module ImportGemma4Vision(HfConfig& c);
Module ImportOpenClipVision(HfConfig& c, int positions);  // Qwen-VL's "visual"

// Towers whose connector is described in the same object: the encoder and the connector.
std::vector<Module> ImportQwenVision(HfConfig& c, const std::string& family, int text_hidden);
std::vector<Module> ImportGlm4vVision(HfConfig& c);

Module ImportBlip2Vision(HfConfig& c);

Module ImportWhisperEncoder(HfConfig& c, const std::string& name);
Module ImportWhisperDecoder(HfConfig& c);
Module ImportClipText(HfConfig& c);

// A vision tower whose own config.json is another file: its published shapes.
struct NamedTower {
  const char* name;
  bool siglip;
  int image_size, hidden, layers, heads, intermediate;
};
inline constexpr NamedTower kClipLarge336 = {
    "openai/clip-vit-large-patch14-336", false, 336, 1024, 24, 16, 4096};
Module ImportNamedTower(HfConfig& root, const NamedTower& tower, int layers);

// E0603 at `key` unless the width there is that of the part that it meets.
void RequireWidth(const HfConfig& c, std::string_view key, int given, int wanted);
// The side of a fixed input in patches; fills the rule's image_size and patch_size.
int ImageSide(HfConfig& vision, int size_default, int patch_default, ImageRule* rule);
void ReadLength(HfConfig& text, Model* model);
// Area limits of images stand in preprocessor_config.json, not in config.json: told as assumed.
void AssumeArea(HfConfig& root, std::int64_t least, std::int64_t most, const std::string& source,
                ImageRule* rule);
// Videos as frames of one tile each.
void FramesAsImages(HfConfig& root, Model* model);
// Trailing layers that nobody reads if `layer` (from the end when negative: -2 skips one) is the one that is read.
int SkippedLayers(const HfConfig& root, std::string_view key, int layer, int layers);

// Whole models: hf_multimodal.cc, hf_llava.cc, hf_qwen.cc, hf_qformer.cc, hf_audio.cc. Each fills modules and rules;
// model->family is the model_type.
void ImportTextOnly(HfConfig& root, Model* model);
void ImportLlava(HfConfig& root, Model* model);
void ImportLlavaOnevision(HfConfig& root, Model* model);
void ImportLlavaOriginal(HfConfig& root, Model* model);
void ImportVila(HfConfig& root, Model* model);
void ImportQwenVl(HfConfig& root, Model* model);
void ImportGemmaVision(HfConfig& root, Model* model);
void ImportGemma4(HfConfig& root, Model* model);
void ImportGlm4v(HfConfig& root, Model* model);
void ImportInternVl(HfConfig& root, Model* model);
void ImportKimi(HfConfig& root, Model* model);
void ImportLocateAnything(HfConfig& root, Model* model);
void ImportMiniCpmV(HfConfig& root, Model* model);
void ImportMllama(HfConfig& root, Model* model);
void ImportLlama4(HfConfig& root, Model* model);
void ImportMolmo(HfConfig& root, Model* model);
void ImportFuyu(HfConfig& root, Model* model);
void ImportQwenOriginal(HfConfig& root, Model* model);
void ImportQwenOmni(HfConfig& root, Model* model);
void ImportBlip2(HfConfig& root, Model* model);
void ImportClip(HfConfig& root, Model* model);
void ImportWhisper(HfConfig& root, Model* model);
void ImportAudioLanguage(HfConfig& root, Model* model);

// A connector of plain matrices between two modules.
Module MakeConnector(const std::string& name, Modality modality, int hidden,
                     std::vector<Linear> output, std::int64_t other_parameters);
// A pre-norm transformer layer as vision and audio encoders have it.
struct EncoderLayerShape {
  int hidden = 0;
  int heads = 0;
  int head_dim = 0;
  int intermediate = 0;
  bool gated = false;
  bool qkv_bias = true;
  bool output_bias = true;
  bool mlp_bias = true;
  bool layer_norm = true;
};
Layer MakeEncoderLayer(const EncoderLayerShape& shape);
// hidden / heads; E0603 at `heads_key` if that is no whole number or there are no heads.
int HeadDim(HfConfig& c, int hidden, int heads, const char* heads_key);
// How many patches fit along a side; E0603 if the patch is empty or larger than the image.
int PatchesPerSide(HfConfig& c, int image_size, int patch_size);

}  // namespace aurum
