#include "models/hf_import.h"

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "models/hf_config.h"
#include "models/hf_parts.h"
#include "sim/core/object_reader.h"

namespace aurum {
namespace {

using Importer = void (*)(HfConfig& root, Model* model);

// Every architecture that the importer knows: the class in `architectures`, its model_type, and who
// reads it. A class that is not here is refused, even if its model_type is known: heads, towers and
// projectors hang on the class.
struct Architecture {
  const char* name;
  const char* model_type;
  Importer importer;
};

constexpr Architecture kArchitectures[] = {
    {"LlamaForCausalLM", "llama", ImportTextOnly},
    {"MistralForCausalLM", "mistral", ImportTextOnly},
    {"MixtralForCausalLM", "mixtral", ImportTextOnly},
    {"QWenLMHeadModel", "qwen", ImportQwenOriginal},
    {"Qwen2ForCausalLM", "qwen2", ImportTextOnly},
    {"Qwen3ForCausalLM", "qwen3", ImportTextOnly},
    {"Qwen3MoeForCausalLM", "qwen3_moe", ImportTextOnly},
    {"DeepseekV3ForCausalLM", "deepseek_v3", ImportTextOnly},
    {"DeepseekV3ForCausalLM", "kimi_k2", ImportTextOnly},
    {"GemmaForCausalLM", "gemma", ImportTextOnly},
    {"Gemma3ForCausalLM", "gemma3_text", ImportTextOnly},
    {"Phi3ForCausalLM", "phi3", ImportTextOnly},
    {"InternLM2ForCausalLM", "internlm2", ImportTextOnly},
    {"PersimmonForCausalLM", "persimmon", ImportTextOnly},
    {"GPT2LMHeadModel", "gpt2", ImportTextOnly},
    {"OPTForCausalLM", "opt", ImportTextOnly},
    {"LlavaForConditionalGeneration", "llava", ImportLlava},
    {"LlavaNextForConditionalGeneration", "llava_next", ImportLlava},
    {"LlavaOnevisionForConditionalGeneration", "llava_onevision", ImportLlavaOnevision},
    {"LlavaLlamaForCausalLM", "llava", ImportLlavaOriginal},
    {"LlavaLlamaForCausalLM", "llava_llama", ImportLlavaOriginal},
    {"LlavaMistralForCausalLM", "llava_mistral", ImportLlavaOriginal},
    {"LlavaLlamaModel", "llava_llama", ImportVila},
    {"Qwen2VLForConditionalGeneration", "qwen2_vl", ImportQwenVl},
    {"Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl", ImportQwenVl},
    {"Qwen3VLForConditionalGeneration", "qwen3_vl", ImportQwenVl},
    {"Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe", ImportQwenVl},
    {"Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe", ImportQwenVl},
    {"Qwen2_5OmniForConditionalGeneration", "qwen2_5_omni", ImportQwenOmni},
    {"Qwen2_5OmniModel", "qwen2_5_omni", ImportQwenOmni},
    {"Qwen3OmniMoeForConditionalGeneration", "qwen3_omni_moe", ImportQwenOmni},
    {"Blip2ForConditionalGeneration", "blip-2", ImportBlip2},
    {"InstructBlipForConditionalGeneration", "instructblip", ImportBlip2},
    {"PaliGemmaForConditionalGeneration", "paligemma", ImportGemmaVision},
    {"Gemma3ForConditionalGeneration", "gemma3", ImportGemmaVision},
    {"Gemma4ForConditionalGeneration", "gemma4", ImportGemma4},
    {"Glm4vForConditionalGeneration", "glm4v", ImportGlm4v},
    {"InternVLChatModel", "internvl_chat", ImportInternVl},
    {"KimiK25ForConditionalGeneration", "kimi_k25", ImportKimi},
    {"LocateAnythingForConditionalGeneration", "locateanything", ImportLocateAnything},
    {"MiniCPMV", "minicpmv", ImportMiniCpmV},
    {"MllamaForConditionalGeneration", "mllama", ImportMllama},
    {"Llama4ForConditionalGeneration", "llama4", ImportLlama4},
    {"MolmoForCausalLM", "molmo", ImportMolmo},
    {"FuyuForCausalLM", "fuyu", ImportFuyu},
    {"CLIPModel", "clip", ImportClip},
    {"WhisperForConditionalGeneration", "whisper", ImportWhisper},
    {"VoxtralForConditionalGeneration", "voxtral", ImportAudioLanguage},
    {"Qwen2AudioForConditionalGeneration", "qwen2_audio", ImportAudioLanguage},
};

[[noreturn]] void RefuseUnknown(const HfConfig& root, const char* key, const std::string& name) {
  std::vector<std::string> known;
  for (const Architecture& architecture : kArchitectures) {
    known.emplace_back(std::string(key) == "architectures" ? architecture.name
                                                           : architecture.model_type);
  }
  const std::string nearest = NearestName(name, known);
  root.Fail(601, key, "the architecture '" + name + "' is not known",
            (nearest.empty() ? std::string("no known one is near to it; ")
                             : "the nearest known one is '" + nearest + "'; ") +
                "to use it, write its shapes as a model file, see models/README.md");
}

const Architecture& FindArchitecture(HfConfig& root) {
  std::string name;
  if (root.Has("architectures")) {
    const std::vector<std::string> names = root.Texts("architectures");
    if (names.empty()) root.Fail(602, "architectures", "'architectures' is empty");
    name = names[0];
  }
  const std::string type = root.Has("model_type") ? root.Text("model_type") : "";
  if (name.empty() && type.empty()) {
    root.Fail(602, "",
              "this config has neither 'architectures' nor 'model_type', so nothing says what "
              "model it is",
              "is it a config.json of Hugging Face? a model file of ours begins with \"schema\": "
              "\"aurum.model/1\"");
  }
  const Architecture* by_name = nullptr;
  const Architecture* by_type = nullptr;
  for (const Architecture& candidate : kArchitectures) {
    const bool same_name = name == candidate.name;
    const bool same_type = type == candidate.model_type;
    if (same_name && same_type) return candidate;
    if (same_name && by_name == nullptr) by_name = &candidate;
    if (same_type && by_type == nullptr) by_type = &candidate;
  }
  if (!name.empty() && by_name == nullptr) RefuseUnknown(root, "architectures", name);
  if (!type.empty() && by_type == nullptr) RefuseUnknown(root, "model_type", type);
  if (!name.empty() && !type.empty()) {
    root.Fail(603, "model_type",
              "model_type '" + type + "' does not belong to the architecture '" + name + "'",
              "the architecture '" + name + "' has model_type '" + by_name->model_type + "'");
  }
  const Architecture& found = by_name != nullptr ? *by_name : *by_type;
  root.Assume(by_name != nullptr
                  ? "model_type = '" + std::string(found.model_type) +
                        "' (that of the architecture)"
                  : "architecture " + std::string(found.name) + " (that of the model_type)");
  return found;
}

// ".../Qwen2-7B/config.json" is called Qwen2-7B.
std::string NameOf(const JsonDocument& config) {
  if (config.sources.empty()) return "imported";
  const std::filesystem::path path(config.sources[0].name);
  std::string name = path.stem().string();
  if (name == "config" && path.has_parent_path()) name = path.parent_path().filename().string();
  return name.empty() || name == "." || name == ".." ? "imported" : name;
}

}  // namespace

Model ImportHuggingFace(const JsonDocument& config) {
  ImportNotes notes;
  HfConfig root(ObjectReader(config, config.root, ""), "the configuration class", &notes);
  const Architecture& architecture = FindArchitecture(root);
  Model model;
  model.name = NameOf(config);
  model.family = architecture.model_type;
  model.source = "Hugging Face config.json of " + model.name + ", " + architecture.name;
  architecture.importer(root, &model);
  if (root.Has("quantization_config")) {
    root.Assume(
        "quantization_config: quantized weights keep the dense shapes; choose the precision in the "
        "plan");
  }
  std::size_t guilty = 0;
  root.Require(CheckModel(model, &guilty));
  root.Require(CheckImageRule(model.image));
  root.Require(CheckVideoRule(model.video, model.image));
  model.assumed = std::move(notes.assumed);
  model.ignored = UnusedKeys(config.root, notes);
  return model;
}

}  // namespace aurum
