#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "models/reader.h"
#include "models/shape.h"
#include "sim/study/published/fields.h"
#include "sim/study/published/to_scenario.h"

namespace aurum {
namespace {

// What a contrastive record leaves out and what hardly matters: rows of the text tower's embedding
// (BERT-base Chinese), width of the space that both towers are projected to (CLIP ViT-L/14).
constexpr std::int64_t kTextTowerVocabulary = 21128;
constexpr std::int64_t kSharedWidth = 768;

// Every token sees every other, and what the printed total has beyond the blocks' matrices is spread
// over the layers: modulation, and the second stream of weights of two-stream blocks (each token
// passes one of the two, so the work of a token is that of one).
void MakeJoint(double about_parameters, Model* model) {
  Module& backbone = model->modules.back();
  for (LayerRun& run : backbone.runs) run.layer.attention.causal = false;
  const double missing = about_parameters - static_cast<double>(ModelParameters(*model));
  if (missing <= 0) return;
  for (LayerRun& run : backbone.runs)
    run.layer.other_parameters = static_cast<std::int64_t>(missing / backbone.Layers());
}

// Windows on every second layer, the first one included (GPT-OSS).
void Alternate(Model* model) {
  Module& backbone = model->modules.back();
  Module alternating = backbone;
  alternating.runs.clear();
  int index = 0;
  for (const LayerRun& run : backbone.runs) {
    for (int i = 0; i < run.count; ++i, ++index) {
      Layer layer = run.layer;
      if (index % 2 == 1) layer.attention.window = 0;
      AppendLayer(&alternating, layer);
    }
  }
  backbone = std::move(alternating);
}

Json Tower(const TowerFacts& tower, bool vision) {
  Json module = Json::Object();
  module.Set("name", vision ? "vision" : "text");
  module.Set("kind", vision ? "encoder" : "backbone");
  module.Set("modality", vision ? "vision" : "text");
  module.Set("hidden_size", tower.width);
  const std::int64_t side = vision ? tower.image / tower.patch : 0;
  // Positions, class token, the norms before and after the layers.
  const std::int64_t tokens = vision ? side * side + 2 : tower.context;
  module.Set("embedding_parameters", tower.width * (tokens + 4));
  if (vision) {
    Json patch = Json::Object();
    patch.Set("in_features", 3 * tower.patch * tower.patch);
    patch.Set("out_features", tower.width);
    module.Set("input", Json::Array({std::move(patch)}));
  } else {
    module.Set("vocab_size", kTextTowerVocabulary);
    module.Set("head_vocab_size", std::int64_t{0});
  }
  Json attention = Json::Object();
  attention.Set("num_attention_heads", tower.heads);
  attention.Set("attention_bias", true);
  attention.Set("output_bias", true);
  if (!vision) attention.Set("causal", false);  // BERT-like
  Json mlp = Json::Object();
  mlp.Set("intermediate_size", tower.intermediate);
  mlp.Set("gated", false);
  mlp.Set("bias", true);
  Json run = Json::Object();
  run.Set("num_hidden_layers", tower.layers);
  run.Set("attention", std::move(attention));
  run.Set("mlp", std::move(mlp));
  run.Set("norm", "layer");
  module.Set("layers", Json::Array({std::move(run)}));
  Json projection = Json::Object();
  projection.Set("in_features", tower.width);
  projection.Set("out_features", kSharedWidth);
  module.Set("output", Json::Array({std::move(projection)}));
  return module;
}

Json TwoTowers(const ModelFacts& m) {
  Json model = Json::Object();
  model.Set("schema", "aurum.model/1");
  model.Set("name", m.name.empty() ? "two towers of a record" : m.name);
  model.Set("family", "shape");
  model.Set("task", "contrastive");
  model.Set("source", "the record");
  model.Set("modules", Json::Array({Tower(*m.vision_tower, true), Tower(*m.text_tower, false)}));
  Json image = Json::Object();
  image.Set("rule", "fixed");
  image.Set("image_size", m.vision_tower->image);
  image.Set("patch_size", m.vision_tower->patch);
  image.Set("class_tokens", std::int64_t{1});
  image.Set("tokens_per_tile", std::int64_t{1});
  model.Set("image", std::move(image));
  return model;
}

}  // namespace

namespace {

// "nemotron_3_nano", "nemotron3": the hybrid family; not "nemotron-340b".
bool ThirdNemotron(const std::string& words) {
  const std::size_t at = words.find("nemotron");
  if (at == std::string::npos) return false;
  const std::size_t digit = words.find_first_not_of(" _-", at + 8);
  return digit != std::string::npos && words[digit] == '3' &&
         (digit + 1 == words.size() ||
          std::isdigit(static_cast<unsigned char>(words[digit + 1])) == 0);
}

}  // namespace

bool AddEncoder(const ModelFacts& model, Json* document) {
  if (!model.encoder) return false;
  TowerFacts tower = *model.encoder;
  if (tower.layers < 1 || tower.width < 64 || tower.patch < 1 || tower.image < tower.patch)
    return false;
  if (tower.heads < 1) tower.heads = tower.width / 64;
  if (tower.intermediate < 1) tower.intermediate = 4 * tower.width;
  const std::int64_t side = tower.image / tower.patch;
  Json vision = Tower(tower, true);
  Remove(&vision, "output");
  Json connector = Json::Object();
  const std::int64_t hidden = *model.hidden;
  connector.Set("name", "connector");
  connector.Set("kind", "connector");
  connector.Set("modality", "vision");
  connector.Set("hidden_size", hidden);
  const auto matrix = [](std::int64_t in, std::int64_t out) {
    Json linear = Json::Object();
    linear.Set("in_features", in);
    linear.Set("out_features", out);
    linear.Set("bias", true);
    return linear;
  };
  connector.Set("output", Json::Array({matrix(tower.width, hidden), matrix(hidden, hidden)}));
  Json modules = Json::Array({std::move(vision), std::move(connector)});
  for (const Json& module : document->Find("modules")->items()) modules.Append(module);
  document->Set("modules", std::move(modules));
  Json image = Json::Object();
  image.Set("rule", "fixed");
  image.Set("image_size", tower.image);
  image.Set("patch_size", tower.patch);
  image.Set("class_tokens", std::int64_t{1});
  image.Set("tokens_per_tile", model.visual_tokens.value_or(side * side));
  document->Set("image", std::move(image));
  return true;
}

std::string KindNotSimulated(const RecordFacts& facts) {
  const ModelFacts& m = facts.model;
  const std::string notes = Lower(facts.notes), task = Lower(facts.task);
  const std::string words = Lower(m.blocks + " " + m.name);
  const auto has = [](const std::string& text, std::initializer_list<const char*> parts) {
    return std::any_of(parts.begin(), parts.end(),
                       [&](const char* part) { return Contains(text, part); });
  };
  if (has(words, {"unet", "u-net", "cnn", "conv", "resnet", "resnext", "jasper", "quartznet"}))
    return "convolutional network: the grammar of models has attention and dense layers alone";
  if (has(words, {"zipformer", "conformer"}))
    return "convolutions inside of its blocks: not in the grammar of models";
  if (!m.layers && (has(words, {"mamba", "nemotron-h", "nemotron v3"}) || ThirdNemotron(words)))
    return "hybrid of state-space and attention layers: dimensions not told, not simulated";
  if (has(task, {"grpo", "ppo", "(rl)"})) return "generation of answers inside of the step";
  if (has(notes, {"distillation: student", "robot policy", "vla "}))
    return "several networks in a step, or a policy head: not in the grammar of models";
  const bool diffusion = has(notes, {"diffusion"});
  if (diffusion && !m.joint_sequence) {
    return m.layers ? "diffusion transformer: tokens of its latents and text are not told"
                    : "diffusion model: dimensions of its blocks are not told";
  }
  if (m.audio && m.encoder_only)
    return "speech encoder: its convolutions run at many times the rate of its tokens and are not "
           "simulated";
  if (has(notes, {"self-supervised", "student + teacher"}) ||
      (m.encoder && Contains(words, "dino") && !m.vocabulary && m.reference.empty()))
    return "student and teacher over crops of several sizes: not in the grammar of models";
  return "";
}

Json ModelDocument(const ModelFacts& m, std::string* skip) {
  skip->clear();
  if (m.TwoTowers()) return TwoTowers(m);
  for (const auto& [value, name] : {std::pair{&m.layers, "layers"},
                                    {&m.hidden, "hidden width"},
                                    {&m.heads, "heads"},
                                    {&m.vocabulary, "vocabulary"}}) {
    if (*value && **value > 0 && **value < (1 << 24)) continue;
    if (value == &m.vocabulary && m.joint_sequence) continue;
    *skip = std::string("model dimensions not told: ") + name;
    return {};
  }
  if (!m.intermediate && !m.moe) {
    *skip = "model dimensions not told: MLP width";
    return {};
  }
  const auto narrow = [](std::int64_t value) { return static_cast<int>(value); };
  ModelShape shape;
  shape.name = m.name.empty() ? "model of a record" : m.name;
  shape.source = "the record";
  shape.layers = narrow(*m.layers);
  shape.hidden = narrow(*m.hidden);
  shape.heads = narrow(*m.heads);
  shape.kv_heads = narrow(m.kv_heads.value_or(0));
  shape.head_dim = narrow(m.head_dim.value_or(0));
  shape.ffn = narrow(m.intermediate.value_or(0));
  shape.vocabulary = m.vocabulary.value_or(0);
  shape.gated = m.gated.value_or(true);
  shape.tied = m.tied.value_or(false);
  shape.layer_norm = m.layer_norm.value_or(false);
  const bool biased = m.biased.value_or(false);
  shape.qkv_bias = shape.output_bias = shape.mlp_bias = biased;
  shape.learned_positions = narrow(m.positions.value_or(0));
  shape.window = narrow(m.window);
  if (m.moe) {
    MoeShape moe;
    moe.experts = narrow(m.moe->experts);
    moe.top_k = narrow(m.moe->experts_per_token);
    moe.expert_ffn = narrow(m.moe->expert_intermediate);
    moe.shared_ffn = narrow(m.moe->shared_intermediate);
    moe.first_dense = narrow(m.moe->first_dense_layers.value_or(0));
    shape.moe = moe;
    shape.mlp_bias = false;
    if (moe.first_dense == 0) shape.ffn = 0;
  }
  if (m.latent) {
    MlaShape latent;
    latent.q_lora_rank = narrow(m.latent->q_rank);
    latent.kv_lora_rank = narrow(m.latent->kv_rank);
    latent.rope_head_dim = narrow(m.latent->rope_dim);
    latent.value_head_dim = narrow(m.latent->value_dim);
    shape.mla = latent;
    shape.head_dim = narrow(m.latent->nope_dim);
    shape.kv_heads = 0;
    shape.qkv_bias = false;
  }
  try {
    Model model = MakeModel(shape);
    if (m.window > 0 && m.window_alternates) Alternate(&model);
    if (m.joint_sequence) MakeJoint(m.about_parameters.value_or(0), &model);
    return WriteModel(model);
  } catch (const InputError& error) {
    *skip = error.diagnostic().message;
    return {};
  }
}

}  // namespace aurum
