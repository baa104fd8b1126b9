#include <string>

#include "models/hf_parts.h"

namespace aurum {
namespace {

// Whisper's attention has a bias on queries, values and output, none on keys.
Layer WhisperLayer(HfConfig& c, int hidden, int heads, int intermediate, const char* heads_key) {
  Layer layer = MakeEncoderLayer({.hidden = hidden, .heads = heads, .head_dim = HeadDim(c, hidden, heads, heads_key), .intermediate = intermediate});
  layer.attention.key_bias = false;
  return layer;
}

}  // namespace

// WhisperEncoder (also of Voxtral and Qwen2-Audio, whose keys differ): two convolutions of width 3, the first at the rate of
// the spectrogram, the second at half of it; stored sinusoidal positions; a norm behind the layers.
Module ImportWhisperEncoder(HfConfig& c, const std::string& name) {
  Module module;
  module.name = name;
  module.kind = ModuleKind::kEncoder;
  module.modality = Modality::kAudio;
  module.hidden = c.AnyIntOr({"d_model", "hidden_size"}, 384);
  if (module.hidden < 1) c.Fail(603, "d_model", "d_model is 0");
  const std::int64_t hidden = module.hidden;
  const int heads = c.AnyIntOr({"encoder_attention_heads", "num_attention_heads"}, 6);
  const int intermediate = c.AnyIntOr({"encoder_ffn_dim", "intermediate_size"}, 1536);
  const int layers = c.AnyIntOr({"encoder_layers", "num_hidden_layers"}, 4);
  if (layers < 1 || layers > 4096) c.Fail(603, "encoder_layers", "an encoder of " + std::to_string(layers) + " layers");
  const int mels = c.IntOr("num_mel_bins", 80);
  if (mels < 1) c.Fail(603, "num_mel_bins", "a spectrogram without bins: num_mel_bins is 0");
  const std::int64_t positions = c.IntOr("max_source_positions", 1500);
  module.input = {{3 * std::int64_t{mels}, hidden, true, 2}, {3 * hidden, hidden, true, 1}};
  module.runs = {{layers, WhisperLayer(c, module.hidden, heads, intermediate, "encoder_attention_heads")}};
  module.embedding_parameters = (positions + 2) * hidden;
  c.Require(CheckAttention(module.runs[0].layer.attention));
  c.Require(CheckMlp(module.runs[0].layer.mlp));
  return module;
}

// WhisperDecoder: self-attention, cross-attention to the encoder and MLP in every layer; learned positions; tied head.
Module ImportWhisperDecoder(HfConfig& c) {
  Module module;
  module.name = "backbone";
  module.kind = ModuleKind::kBackbone;
  module.hidden = c.AnyIntOr({"d_model", "hidden_size"}, 384);
  const std::int64_t hidden = module.hidden;
  const int heads = c.IntOr("decoder_attention_heads", 6);
  const int layers = c.IntOr("decoder_layers", 4);
  if (layers < 1 || layers > 4096) c.Fail(603, "decoder_layers", "a decoder of " + std::to_string(layers) + " layers");
  Layer layer = WhisperLayer(c, module.hidden, heads, c.IntOr("decoder_ffn_dim", 1536), "decoder_attention_heads");
  layer.cross = layer.attention;
  layer.cross.kind = AttentionKind::kCross;
  layer.cross.kv_input = module.hidden;
  layer.attention.causal = true;
  layer.norm_parameters = 6 * hidden;
  module.runs = {{layers, layer}};
  module.vocabulary = module.head_vocabulary = c.IntOr("vocab_size", 51865);
  module.tied_head = c.FlagOr("tie_word_embeddings", true);
  module.embedding_parameters = (std::int64_t{c.IntOr("max_target_positions", 448)} + 2) * hidden;
  c.Require(CheckAttention(layer.attention));
  c.Require(CheckMlp(layer.mlp));
  return module;
}

// CLIPTextModel: causal, learned positions, a norm behind the layers. The second tower of a contrastive model.
Module ImportClipText(HfConfig& c) {
  c.set_class_name("CLIPTextConfig");
  Module module;
  module.name = "text";
  module.kind = ModuleKind::kBackbone;
  module.hidden = c.IntOr("hidden_size", 512);
  if (module.hidden < 1) c.Fail(603, "hidden_size", "hidden_size is 0");
  const int heads = c.IntOr("num_attention_heads", 8);
  const int layers = c.IntOr("num_hidden_layers", 12);
  if (layers < 1 || layers > 4096) c.Fail(603, "num_hidden_layers", "a tower of " + std::to_string(layers) + " layers");
  Layer layer = MakeEncoderLayer({.hidden = module.hidden, .heads = heads, .head_dim = HeadDim(c, module.hidden, heads, "num_attention_heads"),
                                  .intermediate = c.IntOr("intermediate_size", 2048)});
  layer.attention.causal = true;
  module.runs = {{layers, layer}};
  module.vocabulary = c.IntOr("vocab_size", 49408);
  module.embedding_parameters = (std::int64_t{c.IntOr("max_position_embeddings", 77)} + 2) * module.hidden;
  c.Require(CheckAttention(layer.attention));
  c.Require(CheckMlp(layer.mlp));
  return module;
}

}  // namespace aurum
