#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "models/hf_parts.h"
#include "sim/core/object_reader.h"

namespace aurum {
namespace {

// Limits of a video stand in no config.json: those of QwenLM/Qwen3-VL, qwen-vl-utils (version of
// Qwen3-VL): a frame has 128 … 768 tokens before pairs of frames are put together, all pairs
// together 0.9 of 128000.
void AssumeQwenVideo(HfConfig& root, HfConfig& vision, Model* model) {
  const ImageRule& image = model->image;
  const std::int64_t square =
      std::int64_t{image.patch_size} * image.patch_size * image.merge * image.merge;
  VideoRule& video = model->video;
  video.kind = VideoRuleKind::kNativeMerge;
  video.temporal_patch = vision.IntOr("temporal_patch_size", 2);
  video.max_frames = 768;
  video.min_pixels = 128 * square;
  video.max_pixels = 768 * square;
  video.max_total_pixels = 115200 * square * video.temporal_patch;
  root.Assume("frames of a video have " + std::to_string(video.min_pixels) + " … " +
              std::to_string(video.max_pixels) + " pixels, all together at most " +
              std::to_string(video.max_total_pixels) + " (qwen-vl-utils)");
}

}  // namespace

// Qwen2-VL and Qwen2.5-VL (text flat or in text_config), Qwen3-VL and Qwen3.5 (text_config).
void ImportQwenVl(HfConfig& root, Model* model) {
  const std::string& family = model->family;
  const bool second = family == "qwen2_vl" || family == "qwen2_5_vl";
  const std::string text_family = second ? family : family + "_text";
  Module backbone;
  if (second && !root.Has("text_config")) {
    backbone = ImportText(root, root, family);
    ReadLength(root, model);
  } else {
    HfConfig text = root.Child("text_config", "");
    if (second && text.Has("model_type") && text.Text("model_type") != family &&
        text.Text("model_type") != text_family + "_text") {
      text.Unknown("model_type", text.Text("model_type"), {family, family + "_text"});
    }
    if (second) {
      Json flat = text.reader().value();
      flat.Set("model_type", family);
      HfConfig renamed(ObjectReader(root.reader().document(), flat, text.reader().pointer()), "",
                       root.notes());
      backbone = ImportText(renamed, root, family);
    } else {
      backbone = ImportText(text, root, text_family);
    }
    ReadLength(text, model);
  }
  HfConfig vision = root.ChildOrDefaults("vision_config", "the vision configuration");
  std::vector<Module> parts =
      ImportQwenVision(vision, second ? family : "qwen3_vl", backbone.hidden);
  ImageRule& rule = model->image;
  rule.kind = ImageRuleKind::kNativeMerge;
  rule.patch_size = vision.AnyIntOr({"patch_size", "spatial_patch_size"}, second ? 14 : 16);
  rule.merge = vision.IntOr("spatial_merge_size", 2);
  if (second) {
    AssumeArea(root, 3136, 12845056, "preprocessor_config.json of Qwen2-VL and Qwen2.5-VL", &rule);
  } else {
    AssumeArea(root, 65536, 16777216, "preprocessor_config.json of Qwen3-VL", &rule);
  }
  AssumeQwenVideo(root, vision, model);
  root.Assume("one image is " + std::to_string(vision.IntOr("temporal_patch_size", 2)) +
              " equal frames in the patch embedding");
  model->modules = {std::move(parts[0]), std::move(parts[1]), std::move(backbone)};
}

// Qwen2.5-Omni and Qwen3-Omni: the thinker, which reads text, images, video and audio. The talker and
// what makes waves of its codes are other models, trained apart.
//
// Audio of Qwen2.5-Omni is a Whisper encoder with stored positions, attention inside of 2·n_window
// frames of the spectrogram, pairs of tokens averaged, one biased matrix and an embedding for begin
// and end. Of Qwen3-Omni: three 3×3 convolutions of stride 2 over the spectrogram (mel bins and
// time), a matrix without bias, attention inside of n_window_infer frames, and two biased matrices;
// a second is 100 frames, 13 tokens (huggingface/transformers, modeling_qwen3_omni_moe.py,
// _get_feat_extract_output_lengths).
void ImportQwenOmni(HfConfig& root, Model* model) {
  const bool third = model->family == "qwen3_omni_moe";
  HfConfig thinker = root.Child("thinker_config", "the thinker's configuration");
  HfConfig text = thinker.Child("text_config", "");
  Module backbone = ImportText(text, text, third ? "qwen3_omni_moe_text" : "qwen2_5_omni_text");
  ReadLength(text, model);
  HfConfig vision = thinker.ChildOrDefaults("vision_config", "the vision configuration");
  std::vector<Module> parts =
      ImportQwenVision(vision, third ? "qwen3_vl" : "qwen2_5_vl", backbone.hidden);
  ImageRule& rule = model->image;
  rule.kind = ImageRuleKind::kNativeMerge;
  rule.patch_size = vision.AnyIntOr({"patch_size", "spatial_patch_size"}, third ? 16 : 14);
  rule.merge = vision.IntOr("spatial_merge_size", 2);
  AssumeArea(root, 3136, 12845056, "preprocessor_config.json of Qwen2.5-Omni and Qwen3-Omni",
             &rule);
  AssumeQwenVideo(root, vision, model);

  HfConfig audio = thinker.Child("audio_config", "Qwen2_5OmniAudioEncoderConfig");
  Module encoder = ImportWhisperEncoder(audio, "audio");
  const std::int64_t width = encoder.hidden;
  const int out = audio.IntOr("output_dim", 3584);
  RequireWidth(audio, "output_dim", out, backbone.hidden);
  // Positions are computed, not learned or stored.
  encoder.embedding_parameters = 2 * width;
  AudioRule& rate = model->audio;
  rate.present = true;
  Layer& layer = encoder.runs[0].layer;
  Module connector;
  if (third) {
    const std::int64_t channels = audio.IntOr("downsample_hidden_size", 480);
    const int mels = audio.IntOr("num_mel_bins", 128);
    if (channels < 1 || channels > 65536)
      audio.Fail(603, "downsample_hidden_size",
                 "convolutions of " + std::to_string(channels) + " channels");
    if (mels > 4096) audio.Fail(603, "num_mel_bins", "a spectrogram of more than 4096 bins");
    layer.attention.key_bias = true;
    const int frames = audio.IntOr("n_window_infer", 800);
    if (frames < 100) audio.Fail(603, "n_window_infer", "a window of less than a second");
    layer.attention.window = frames / 100 * 13;
    // For one token: 4 columns of half the bins, 2 of a quarter, 1 of an eighth.
    const int rows = (mels + 7) / 8;
    encoder.input = {{9, channels, true, 16 * rows},
                     {9 * channels, channels, true, 4 * rows},
                     {9 * channels, channels, true, rows},
                     {channels * rows, width, false, 1}};
    connector = MakeConnector("audio_connector", Modality::kAudio, backbone.hidden,
                              {{width, width, true}, {width, out, true}}, 0);
    rate.encoder_tokens_per_s = rate.backbone_tokens_per_s = 13;
  } else {
    const int frames = audio.IntOr("n_window", 100);
    if (frames < 1) audio.Fail(603, "n_window", "an empty window: n_window is 0");
    layer.attention.window = frames;  // 2 · n_window frames at half their rate
    connector = MakeConnector("audio_connector", Modality::kAudio, backbone.hidden,
                              {{width, out, true}}, 2 * std::int64_t{out});
    rate.encoder_tokens_per_s = 50;
    rate.backbone_tokens_per_s = 25;
  }
  root.Assume("the thinker alone: talker and code2wav are not part of the model");
  model->modules = {std::move(parts[0]), std::move(parts[1]), std::move(encoder),
                    std::move(connector), std::move(backbone)};
}

// The first Qwen, and with "visual" Qwen-VL: OpenCLIP bigG, 256 learned queries of the backbone's
// width with heads of 128, stored 2D positions of the queries, norms of queries, keys and output,
// and a square matrix behind.
void ImportQwenOriginal(HfConfig& root, Model* model) {
  Module backbone = ImportText(root, root, "qwen");
  ReadLength(root, model);
  if (root.Has("visual")) {
    HfConfig visual = root.Child("visual", "");
    Module tower = ImportOpenClipVision(visual, 256);
    RequireWidth(visual, "output_dim", visual.Int("output_dim"), backbone.hidden);
    const int hidden = backbone.hidden;
    Module connector = MakeConnector("connector", Modality::kVision, hidden, {{hidden, hidden}},
                                     (6 + 256) * std::int64_t{hidden});
    connector.resampler = {256, tower.hidden, std::max(1, hidden / 128)};
    ImageRule& rule = model->image;
    rule.kind = ImageRuleKind::kFixed;
    ImageSide(visual, 448, 14, &rule);
    rule.tokens_per_tile = 256;
    root.Assume("256 queries (visual.py of Qwen-VL)");
    model->modules = {std::move(tower), std::move(connector)};
  }
  model->modules.push_back(std::move(backbone));
}

}  // namespace aurum
