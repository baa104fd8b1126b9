#include <string>
#include <utility>
#include <vector>

#include "models/hf_parts.h"

namespace aurum {
namespace {

// Q-Former (BLIP-2, arXiv:2301.12597, section 3.1; huggingface/transformers, modeling_blip_2.py): a
// BERT whose input are learned queries. Every cross_attention_frequency-th layer, from the first on,
// reads the image between its self-attention and its MLP; a norm stands behind each of the three.
// InstructBLIP's has the instruction beside the queries: embeddings and positions of its own, and a
// second MLP in every layer for the text.
Module ImportQformer(HfConfig& c, int queries, int encoder_width, bool reads_text) {
  c.set_class_name(reads_text ? "InstructBlipQFormerConfig" : "Blip2QFormerConfig");
  Module module;
  module.name = "connector";
  module.kind = ModuleKind::kConnector;
  module.modality = Modality::kVision;
  module.hidden = c.IntOr("hidden_size", 768);
  if (module.hidden < 1) c.Fail(603, "hidden_size", "hidden_size is 0");
  const std::int64_t hidden = module.hidden;
  const int heads = c.IntOr("num_attention_heads", 12);
  const std::int64_t intermediate = c.IntOr("intermediate_size", 3072);
  const int layers = c.IntOr("num_hidden_layers", 12);
  if (layers < 1 || layers > 4096)
    c.Fail(603, "num_hidden_layers", "a Q-Former of " + std::to_string(layers) + " layers");
  const int every = c.IntOr("cross_attention_frequency", 2);
  if (every < 1) c.Fail(603, "cross_attention_frequency", "cross_attention_frequency is 0");
  RequireWidth(c, "encoder_hidden_size", c.IntOr("encoder_hidden_size", 1408), encoder_width);
  if (c.FlagOr("use_qformer_text_input", reads_text) != reads_text)
    c.Unknown("use_qformer_text_input", reads_text ? "false" : "true",
              {reads_text ? "true" : "false"});
  Layer plain =
      MakeEncoderLayer({.hidden = module.hidden,
                        .heads = heads,
                        .head_dim = HeadDim(c, module.hidden, heads, "num_attention_heads"),
                        .intermediate = static_cast<int>(intermediate)});
  if (reads_text)
    plain.other_parameters = 2 * hidden * intermediate + intermediate + hidden + 2 * hidden;
  Layer reading = plain;
  reading.cross = plain.attention;
  reading.cross.kind = AttentionKind::kCross;
  reading.cross.kv_input = encoder_width;
  reading.norm_parameters += 2 * hidden;
  for (int i = 0; i < layers; ++i) AppendLayer(&module, i % every == 0 ? reading : plain);
  c.Require(CheckAttention(plain.attention));
  c.Require(CheckMlp(plain.mlp));
  module.queries = queries;
  module.embedding_parameters = 2 * hidden;
  if (reads_text) {
    module.embedding_parameters +=
        (std::int64_t{c.IntOr("vocab_size", 30522)} + c.IntOr("max_position_embeddings", 512)) *
        hidden;
    c.Assume(
        "the instruction's tokens pass the Q-Former too: their weights are counted, their "
        "computation is not");
  }
  return module;
}

}  // namespace

// EVA-CLIP's ViT-g without its last layer (BLIP-2's own class): class token, learned positions, bias
// in the patch embedding and (zero at first for the keys) on queries, keys and values, a norm behind
// the layers.
Module ImportBlip2Vision(HfConfig& c) {
  Module module;
  module.name = "vision";
  module.kind = ModuleKind::kEncoder;
  module.modality = Modality::kVision;
  module.hidden = c.IntOr("hidden_size", 1408);
  if (module.hidden < 1) c.Fail(603, "hidden_size", "hidden_size is 0");
  const int heads = c.IntOr("num_attention_heads", 16);
  const int layers = c.IntOr("num_hidden_layers", 39);
  if (layers < 1 || layers > 4096)
    c.Fail(603, "num_hidden_layers", "a tower of " + std::to_string(layers) + " layers");
  const std::int64_t patch = c.IntOr("patch_size", 14);
  const std::int64_t side = PatchesPerSide(c, c.IntOr("image_size", 224), static_cast<int>(patch));
  Layer layer =
      MakeEncoderLayer({.hidden = module.hidden,
                        .heads = heads,
                        .head_dim = HeadDim(c, module.hidden, heads, "num_attention_heads"),
                        .intermediate = c.IntOr("intermediate_size", 6144),
                        .qkv_bias = c.FlagOr("qkv_bias", true)});
  module.input = {{3 * patch * patch, module.hidden, true}};
  module.runs = {{layers, layer}};
  module.embedding_parameters = (side * side + 1 + 1 + 2) * module.hidden;
  c.Require(CheckAttention(layer.attention));
  c.Require(CheckMlp(layer.mlp));
  return module;
}

// BLIP-2 and InstructBLIP: ViT-g, Q-Former, one biased matrix to the text model's width.
void ImportBlip2(HfConfig& root, Model* model) {
  const bool instruct = model->family == "instructblip";
  root.set_class_name(instruct ? "InstructBlipConfig" : "Blip2Config");
  HfConfig vision = root.ChildOrDefaults(
      "vision_config", instruct ? "InstructBlipVisionConfig" : "Blip2VisionConfig");
  Module tower = ImportBlip2Vision(vision);
  const int queries = root.IntOr("num_query_tokens", 32);
  if (queries < 1) root.Fail(603, "num_query_tokens", "a Q-Former without queries");
  HfConfig former = root.ChildOrDefaults("qformer_config", "");
  Module connector = ImportQformer(former, queries, tower.hidden, instruct);
  HfConfig text = root.ChildOrDefaults("text_config", "OPTConfig");
  Module backbone = ImportText(text, text, "opt");
  ReadLength(text, model);
  connector.output = {{connector.hidden, backbone.hidden, true}};
  ImageRule& rule = model->image;
  rule.kind = ImageRuleKind::kFixed;
  ImageSide(vision, 224, 14, &rule);
  rule.class_tokens = 1;
  rule.tokens_per_tile = queries;
  model->modules = {std::move(tower), std::move(connector), std::move(backbone)};
}

}  // namespace aurum
