#include <algorithm>
#include <string>

#include "models/token_rules.h"
#include "sim/core/diagnostic.h"

namespace aurum {
namespace {

constexpr std::int64_t kMostFrames = std::int64_t{1} << 20;

// Every frame is an image of one tile: no thumbnail, no slices, of LLaVA's grids the base view.
//
// InternVL (OpenGVLab/InternVL, load_video with max_num = 1): 256 tokens a frame. MiniCPM-V (its
// video prompt, max_slice_nums = 1): 64. Gemma-4 (huggingface/transformers,
// video_processing_gemma4.py): the same rule as for images, with a budget of 70 squares instead of
// 280. LLaVA-OneVision (huggingface/transformers, modeling_llava_onevision.py apply_pooling): the
// projector maps all 27·27 tokens of a frame, which are then pooled to 14·14 = 196, and one newline
// ends the video: 32 frames are 32·196 + 1 = 6273.
MediaTokens Frames(const Model& model, std::int64_t frames, std::int64_t width,
                   std::int64_t height) {
  const VideoRule& video = model.video;
  ImageRule rule = model.image;
  rule.max_tiles = 1;
  rule.thumbnail = false;
  if (rule.kind == ImageRuleKind::kLlavaAnyres) rule.kind = ImageRuleKind::kFixed;
  if (rule.kind == ImageRuleKind::kBudget && video.tokens_per_frame > 0)
    rule.tokens_per_tile = video.tokens_per_frame;
  const MediaTokens frame = TokensByRule(model, rule, width, height);
  const bool replaces = video.tokens_per_frame > 0 && rule.kind != ImageRuleKind::kBudget;
  const std::int64_t tokens = replaces ? video.tokens_per_frame : frame.backbone_tokens;
  return {frame.sequences * frames, frame.sequence_tokens, frame.connector_tokens * frames,
          (tokens + video.newlines_per_frame) * frames + video.newlines};
}

// The area that one frame may have. The limit on the whole video is shared out evenly, but never
// below the least area and a twentieth (QwenLM/Qwen3-VL, qwen-vl-utils, fetch_video).
std::int64_t MostPixelsOfFrame(const VideoRule& video, std::int64_t frames) {
  if (video.max_total_pixels == 0) return video.max_pixels;
  const std::int64_t share = std::max<std::int64_t>(1, video.max_total_pixels / frames);
  const std::int64_t most = video.max_pixels > 0 ? std::min(video.max_pixels, share) : share;
  return std::max(most, video.min_pixels + video.min_pixels / 20);
}

// Qwen2-VL and its heirs, GLM-4.1V, Kimi-K2.5: frames keep their shape as images do, within limits of
// their own. One patch spans temporal_patch frames; the last frame is repeated where they do not
// come out even. Attention stays inside such a group of frames (cu_seqlens in
// huggingface/transformers, modeling_qwen2_vl.py), so that a video is as many sequences.
//
// Qwen2.5-VL, 16 frames of 640×480: 644×476 is 46·34 patches; 8 sequences of 1564, and
// 8·391 = 3128 tokens. With 15 frames the same.
//
// Kimi-K2.5 (modeling_kimi_k25.py, tpool_patch_merger): four frames are one sequence, whose merged
// tokens are averaged over time before the projector: 16 frames of 448×448 are 4 sequences of
// 4·1024 and 4·256 tokens. The last, shorter group counts as a full one.
MediaTokens NativeVideo(const Model& model, std::int64_t frames, std::int64_t width,
                        std::int64_t height) {
  const VideoRule& video = model.video;
  const auto groups = [](std::int64_t n, int size) { return (n + size - 1) / size; };
  const std::int64_t patches = groups(frames, video.temporal_patch);  // along time
  ImageRule rule = model.image;
  rule.min_pixels = video.min_pixels;
  rule.max_pixels = MostPixelsOfFrame(video, patches * video.temporal_patch);
  const MediaTokens still = NativeMerge(model.name, rule, width, height);
  const std::int64_t sequences = groups(patches, video.temporal_pool);
  const std::int64_t tokens = sequences * still.backbone_tokens;
  return {sequences, still.sequence_tokens * std::min<std::int64_t>(patches, video.temporal_pool),
          tokens, tokens};
}

// VideoMAE (arXiv:2203.12602) and V-JEPA 2 (arXiv:2506.09985): frames of one size, patches of two
// frames, and attention over the whole clip.
//
// V-JEPA 2, 64 frames of 256 px: 32·16·16 = 8192 tokens, one sequence. 65 frames are two clips.
MediaTokens Clips(const VideoRule& video, std::int64_t frames) {
  const std::int64_t side = video.image_size / video.patch_size;
  const std::int64_t clips = (frames + video.clip_frames - 1) / video.clip_frames;
  const std::int64_t patches = video.clip_frames / video.temporal_patch * side * side;
  const std::int64_t tokens = clips * (video.tokens_per_clip > 0 ? video.tokens_per_clip : patches);
  return {clips, patches, tokens, tokens};
}

}  // namespace

Modality VideoModality(const Model& model) {
  for (const Module& module : model.modules) {
    if (module.kind == ModuleKind::kEncoder && module.modality == Modality::kVideo)
      return Modality::kVideo;
  }
  return Modality::kVision;
}

ShapeProblem CheckVideoRule(const VideoRule& rule, const ImageRule& image) {
  switch (rule.kind) {
    case VideoRuleKind::kNone:
      return {};
    case VideoRuleKind::kFrames:
      if (image.kind == ImageRuleKind::kNone)
        return {"rule", "frames are images, but the model has no rule for images"};
      if (image.kind == ImageRuleKind::kCanvas || image.kind == ImageRuleKind::kCanvasSeparated ||
          image.kind == ImageRuleKind::kOverlapCrops) {
        return {"rule", "frames of one tile do not fit this rule for images"};
      }
      return {};
    case VideoRuleKind::kNativeMerge:
      if (image.kind != ImageRuleKind::kNativeMerge)
        return {"rule", "a video of native shape needs the image rule native_merge"};
      if (rule.max_pixels > 0 && rule.min_pixels > rule.max_pixels) {
        return {"min_pixels", "min_pixels = " + std::to_string(rule.min_pixels) +
                                  " exceeds max_pixels = " + std::to_string(rule.max_pixels)};
      }
      return {};
    case VideoRuleKind::kClips:
      if (rule.patch_size < 1 || rule.image_size < rule.patch_size) {
        return {"patch_size", "a frame of image_size = " + std::to_string(rule.image_size) +
                                  " cannot be cut into patches of patch_size = " +
                                  std::to_string(rule.patch_size)};
      }
      if (rule.clip_frames < 1 || rule.clip_frames % rule.temporal_patch != 0) {
        return {"clip_frames", "clip_frames = " + std::to_string(rule.clip_frames) +
                                   " must be a multiple of temporal_patch_size = " +
                                   std::to_string(rule.temporal_patch)};
      }
      return {};
  }
  return {};
}

MediaTokens VideoTokens(const Model& model, std::int64_t frames, std::int64_t width,
                        std::int64_t height) {
  const VideoRule& rule = model.video;
  if (rule.kind == VideoRuleKind::kNone) {
    const bool images = model.image.kind != ImageRuleKind::kNone;
    ThrowInput(615, "model '" + model.name + "' has no rule for video",
               images ? "give the frames as images (images: [{width, height, count = frames}]), or "
                        "add a \"video\" rule to its model file"
                      : "leave video out of the data mix, or choose a model that takes video");
  }
  if (frames < 1 || frames > kMostFrames) {
    ThrowInput(612, "a video of " + std::to_string(frames) + " frames",
               "a video must have 1 … " + std::to_string(kMostFrames) + " frames");
  }
  if (rule.max_frames > 0 && frames > rule.max_frames) {
    ThrowInput(612,
               "a video of " + std::to_string(frames) + " frames: '" + model.name +
                   "' takes at most " + std::to_string(rule.max_frames),
               "sample the video to at most " + std::to_string(rule.max_frames) + " frames");
  }
  if (width < 1 || height < 1 || width > kMostSide || height > kMostSide) {
    ThrowInput(612,
               "a video of " + std::to_string(width) + "x" + std::to_string(height) + " pixels",
               "both sides must lie in 1 … " + std::to_string(kMostSide));
  }
  switch (rule.kind) {
    case VideoRuleKind::kNone:
      break;
    case VideoRuleKind::kFrames:
      return Frames(model, frames, width, height);
    case VideoRuleKind::kNativeMerge:
      return NativeVideo(model, frames, width, height);
    case VideoRuleKind::kClips:
      return Clips(rule, frames);
  }
  return {};
}

}  // namespace aurum
