#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace aurum {

// A model as the simulator sees it: modules (encoders, connectors, one backbone), each a run of
// transformer layers between an input and an output part. Shapes only, no weights. All counts are
// per one copy of the model, unsharded.

// kVideo: of a tower for videos beside or instead of one for images. Without one, videos go through
// the vision tower (VideoModality in models/tokens.h).
enum class Modality { kText, kVision, kAudio, kVideo };
enum class ModuleKind { kEncoder, kConnector, kBackbone };

enum class AttentionKind {
  kSelf,    // multi-head, grouped-query or multi-query attention
  kLatent,  // multi-head latent attention (DeepSeek-V2): low-rank queries and keys/values
  kLinear,  // a linear-attention or state-space mixer; cost is linear in the sequence length.
            // heads = value heads, kv_heads = query and key heads (each state belongs to a value
            // head)
  kCross,   // queries from this stream, keys and values from another module's output
};

struct Attention {
  AttentionKind kind = AttentionKind::kSelf;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;        // of queries and keys (kLatent: without the rotary part)
  int value_head_dim = 0;  // of values; = head_dim unless said otherwise
  bool causal = false;
  int window = 0;  // tokens that one token sees; 0 = all
  bool qkv_bias = false;
  bool output_bias = false;
  int q_lora_rank = 0;       // kLatent; 0 = full-rank queries
  int kv_lora_rank = 0;      // kLatent
  int rope_head_dim = 0;     // kLatent
  int kv_input = 0;          // kCross: width of the keys' source; 0 = the module's hidden width
  bool key_bias = true;      // with qkv_bias: false if only queries and values have one (Whisper)
  bool output_gate = false;  // one more heads·value_head_dim projection gates the output
  bool shared_key_value = false;  // the values are the keys: no projection of their own (Gemma-4)

  bool operator==(const Attention&) const = default;
};

struct Mlp {
  int intermediate = 0;  // dense width; 0 if every layer of the run is a mixture of experts
  bool gated = true;     // SwiGLU-like: three matrices instead of two
  bool bias = false;
  int experts = 0;  // 0 = dense
  int experts_per_token = 0;
  int expert_intermediate = 0;  // width of one routed expert
  int shared_intermediate = 0;  // total width of the always-on experts; 0 = none

  bool operator==(const Mlp&) const = default;
};

struct Layer {
  Attention attention;
  Attention
      cross;  // after the self-attention of the same layer (Whisper's decoder); heads = 0: none
  Mlp mlp;
  bool layer_norm = false;  // LayerNorm with bias instead of RMSNorm: the memory-bound cost differs
  std::int64_t norm_parameters = 0;  // all norms of the layer, scales and biases, QK-norms included
  std::int64_t other_parameters =
      0;  // layer scale, gates, router bias, relative positions, mixer extras, ...

  bool operator==(const Layer&) const = default;
};

struct LayerRun {
  int count = 0;
  Layer layer;

  bool operator==(const LayerRun&) const = default;
};

// A dense matrix that is applied outside of the layers, `repeats` times for every token that it
// sees (Whisper's first convolution runs at twice the rate of the encoder's tokens).
struct Linear {
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool bias = false;
  int repeats = 1;
  std::int64_t Parameters() const { return in * out + (bias ? out : 0); }

  bool operator==(const Linear&) const = default;
};

// How a resampler or cross-attention pooler shortens its input to a fixed number of learned
// queries: the input is projected from kv_input to the module's hidden width (no bias), then one
// multi-head attention of that width (four square matrices with bias) reads it with `queries`
// queries. Qwen-VL, MiniCPM-V.
struct Resampler {
  int queries = 0;  // 0 = none
  int kv_input = 0;
  int heads = 0;

  bool operator==(const Resampler&) const = default;
};

struct Module {
  std::string name;  // unique in the model: "vision", "audio", "connector", "audio_connector",
                     // "text", "backbone"
  ModuleKind kind = ModuleKind::kBackbone;
  Modality modality = Modality::kText;
  int hidden = 0;
  std::vector<Linear> input;   // per token that comes in: patch embedding, convolution as matrix
  std::vector<LayerRun> runs;  // in order
  std::vector<Linear>
      output;  // per output token: merger, projector (contrastive towers: once per sample)
  int layers_skipped = 0;  // trailing layers whose output nobody reads (LLaVA takes layer -2)
  std::int64_t embedding_parameters =
      0;  // positions, class token, learned queries, final norm: everything else
  std::int64_t vocabulary = 0;       // rows of the token embedding; 0 = none
  std::int64_t head_vocabulary = 0;  // columns of the output head; 0 = none
  bool tied_head = false;            // the head shares the embedding's weights
  Resampler resampler;
  // Learned queries that pass the layers in the place of the input, which the layers read by
  // cross-attention (`cross`, or attention of kCross): Q-Former (BLIP-2), perceiver resamplers
  // (Flamingo, Idefics2). As many tokens come out of each sequence that goes in. 0 = the layers run
  // on the input itself.
  int queries = 0;
  // Of a connector: how many outputs it makes of every token besides the first, each as wide as the
  // backbone and added behind one of the backbone's first layers in turn (DeepStack, Qwen3-VL). The
  // matrices that make them are among `output`.
  int deepstack = 0;
  // Multi-token prediction (DeepSeek-V3, arXiv:2412.19437, section 2.2): behind the layers, that
  // many modules in a row. Each normalises the stream before it and the next token's embedding,
  // brings the two side by side through a matrix of 2·hidden × hidden without bias, runs mtp_layer
  // and applies a norm and the shared head. Embedding and head have no parameters of their own here.
  int mtp_layers = 0;
  Layer mtp_layer;

  int Layers() const;  // sum of the runs' counts, MTP modules apart

  bool operator==(const Module&) const = default;
};

// Tokens per image, each family's own rule. See models/tokens.h for what each kind means.
enum class ImageRuleKind {
  kNone,   // the model takes no images
  kFixed,  // any image is resized to image_size²; backbone_tokens each (LLaVA-1.5, Qwen-VL, CLIP,
           // PaliGemma)
  kLlavaAnyres,  // LLaVA-1.6: base view + best grid of tiles, unpadded, one newline token per row;
                 // max_tiles > 1: the grid is pooled to that many tiles' tokens (LLaVA-OneVision)
  kNativeMerge,  // Qwen2-VL and later: sides rounded to patch·merge, area clamped, (h/pm)·(w/pm)
                 // tokens
  kRowNewline,   // Fuyu, Pixtral: ceil(w/patch)·ceil(h/patch) tokens plus one newline per row
  kTiles,        // InternVL: best grid of image_size² tiles up to max_tiles, plus a thumbnail
  kCanvas,  // Llama-3.2-Vision: best canvas of tiles, all tiles in one encoder sequence, none in
            // the text
  kCanvasSeparated,  // Llama-4: best canvas of tiles with separators, plus a global view when more
                     // than one
  kSlices,  // MiniCPM-V: overview plus up to max_tiles slices of native shape, tokens_per_tile each
  kOverlapCrops,  // Molmo: overlapping crops plus overview, pooled merge², one column token per row
  kBudget,        // Gemma-4: scaled to at most tokens_per_tile merged patches, shape kept
};

struct ImageRule {
  ImageRuleKind kind = ImageRuleKind::kNone;
  int image_size = 0;  // side of one tile or of the fixed input, pixels
  int patch_size = 0;
  int merge = 1;            // patches merged per side before the backbone
  int class_tokens = 0;     // extra encoder tokens per tile (CLS, registers)
  int tokens_per_tile = 0;  // backbone tokens per tile after the connector
  int max_tiles = 1;
  bool thumbnail = false;
  std::int64_t min_pixels = 0;  // kNativeMerge
  std::int64_t max_pixels = 0;
  std::vector<std::vector<int>>
      grid_pinpoints;  // kLlavaAnyres: candidate [height, width] in pixels

  bool operator==(const ImageRule&) const = default;
};

// Tokens per video, each family's own rule. See models/tokens.h.
enum class VideoRuleKind {
  kNone,    // the model takes no video
  kFrames,  // every frame is an image of one tile (InternVL, MiniCPM-V, Gemma, LLaVA-OneVision)
  kNativeMerge,  // frames of native shape in groups (Qwen2-VL and later, GLM-4.1V, Kimi-K2.5)
  kClips,        // frames of one size in clips, each one attention sequence (VideoMAE, V-JEPA 2)
};

struct VideoRule {
  VideoRuleKind kind = VideoRuleKind::kNone;
  int max_frames = 0;  // longer videos must be sampled; 0 = no limit
  // kFrames: tokens of a frame behind the connector, newlines apart; 0 = those of the image. Of an
  // image rule with a budget: the frame's budget, which the encoder too gets to see.
  int tokens_per_frame = 0;
  int newlines_per_frame = 0;  // kFrames: LLaVA-Video ends every row with a newline token
  int newlines = 0;            // kFrames: of a whole video (LLaVA-OneVision: 1)
  // kClips: side of a frame and of a patch in pixels, frames of a clip (a shorter one is filled up),
  // and tokens of a clip behind the connector (0 = as many as patches).
  int image_size = 0;
  int patch_size = 0;
  int clip_frames = 0;
  int tokens_per_clip = 0;
  int temporal_patch = 1;  // frames that one patch spans; the last frame is repeated to fill it
  // kNativeMerge: patches along time that are one attention sequence and are averaged to one behind
  // the encoder.
  int temporal_pool = 1;
  std::int64_t min_pixels = 0;  // kNativeMerge: of one frame
  std::int64_t max_pixels = 0;
  std::int64_t max_total_pixels = 0;  // of all frames together; bounds a frame's share from above

  bool operator==(const VideoRule&) const = default;
};

struct AudioRule {
  bool present = false;
  double encoder_tokens_per_s = 0;  // after the convolutions
  double backbone_tokens_per_s = 0;
  double chunk_s = 0;  // audio is padded to whole chunks; 0 = no padding

  bool operator==(const AudioRule&) const = default;
};

// What one model may be asked for.
enum class ModelTask { kGenerative, kContrastive };

struct Model {
  std::string name;
  std::string family;
  ModelTask task = ModelTask::kGenerative;
  std::vector<Module> modules;  // encoders and connectors before the backbone that reads them
  ImageRule image;
  AudioRule audio;
  VideoRule video;
  std::int64_t max_positions = 0;    // longest sequence the backbone was made for; 0 = not told
  std::string source;                // where the shapes are from
  std::vector<std::string> assumed;  // what the importer or the catalogue had to assume
  std::vector<std::string> ignored;  // keys of the source that change nothing here

  const Module* Find(const std::string& module_name) const;  // nullptr if absent
  const Module& Backbone() const;                            // the last module

  bool operator==(const Model&) const = default;
};

// Parameters, exact. The parts of a module sum to ModuleParameters; modules sum to ModelParameters.
// A layer is its attention (cross-attention included), MLP, norms and the rest; a module is its
// layers, inputs, outputs, resampler, queries, embedding_parameters, token embedding, untied head and
// MTP modules.
std::int64_t AttentionParameters(const Layer& layer, int hidden);
std::int64_t MlpParameters(const Layer& layer, int hidden);  // all experts and the router
std::int64_t ActiveMlpParameters(const Layer& layer,
                                 int hidden);  // experts_per_token + shared + router
std::int64_t LayerParameters(const Layer& layer, int hidden);
std::int64_t ModuleParameters(const Module& module);
std::int64_t ModelParameters(const Model& model);
// Of all multi-token prediction modules: mtp_layers · (layer + 2·hidden² + three norms).
std::int64_t MtpParameters(const Module& module);
// Of them, per token: experts_per_token instead of all, and the shared head once for each.
std::int64_t ActiveMtpParameters(const Module& module);
// Of the backbone, per token, without MTP modules, without the input embedding and with the head,
// tied or not (the N_active of NVIDIA's published TFLOP/s).
std::int64_t ActiveParameters(const Model& model);
// The same total in floating point: never overflows, to judge shapes before they are counted
// exactly.
double ApproximateParameters(const Model& model);
// Totals above this are refused as contradictory shapes; every exact count below it fits 64 bits.
inline constexpr double kMostParameters = 1e17;

// What is wrong with a shape: the Hugging Face name of the offending field, and the sentence. "" =
// nothing.
struct ShapeProblem {
  std::string key;
  std::string message;
};
ShapeProblem CheckAttention(const Attention& attention);
ShapeProblem CheckMlp(const Mlp& mlp);
ShapeProblem CheckImageRule(const ImageRule& rule);
ShapeProblem CheckVideoRule(const VideoRule& rule, const ImageRule& image);
// Of the whole: zero layers, no or more than one backbone, duplicate names. `module` is the index
// of the guilty one.
ShapeProblem CheckModel(const Model& model, std::size_t* module);

// Adds one layer to the end of `module`, to its last run if that run's layer is equal.
void AppendLayer(Module* module, const Layer& layer);

}  // namespace aurum
