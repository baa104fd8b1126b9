#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "models/model.h"
#include "models/tokens.h"
#include "sim/workload/sample_source.h"
#include "sim/workload/workload.h"

namespace aurum {

// `count` equal images, clips or videos as a model counts them.
struct CountedMedia {
  MediaKind kind = MediaKind::kImage;
  Modality modality = Modality::kVision;  // of the modules that it passes
  MediaTokens tokens;
  double count = 1;
  std::int32_t width = 0, height = 0;  // of images, pixels
};

struct CountedSample {
  double text_tokens = 0;
  double backbone_tokens = 0;  // of its sequence: text, and the media that stand in it
  std::vector<CountedMedia> media;
};

// Counts samples by a model's rules and remembers the sizes that it has met. Not for two threads.
class TokenCounter {
 public:
  explicit TokenCounter(const Model& model) : model_(model) {}
  // E0610, E0611, E0612.
  CountedSample Count(const Sample& sample);
  // The same sample with every image padded to this size. E0612 where the model takes no such image.
  CountedSample Padded(const CountedSample& sample, std::int32_t width, std::int32_t height);
  const Model& model() const { return model_; }

 private:
  MediaTokens TokensOf(const MediaItem& item);
  double InSequence(const CountedMedia& media) const;  // tokens of the backbone

  const Model& model_;
  std::map<std::array<std::int64_t, 3>, MediaTokens> known_;  // by frames, width and height
};

// Grows `width` and `height` to hold the sample's images.
void GrowToHold(const CountedSample& sample, std::int32_t* width, std::int32_t* height);

// The endless stream of samples that a workload's steps take, counted; plain workloads: all alike. A
// pure function of the workload's seed and the position. Not for two threads.
class SampleStream {
 public:
  SampleStream(const Model& model, const Workload& workload);
  // Errors of counting name the line of the file or the kind of the mixture.
  CountedSample At(std::uint64_t position);
  CountedSample OfFile(std::size_t index);  // of workload.samples

 private:
  const Workload& workload_;
  TokenCounter counter_;
  std::uint64_t seed_;
  Sample plain_;
};

// The modules that media of one modality pass; -1 for none.
struct MediaChain {
  int encoder = -1;
  int connector = -1;
  bool resamples = false;         // the connector reads all that the encoder made
  int queries = 0;                // of the connector's layers, in place of their input
  std::int64_t group_tokens = 0;  // the encoder attends inside of groups of so many; 0 = no groups
  // Who has the work that is dealt out: the encoder, else the connector.
  int Entry() const { return encoder >= 0 ? encoder : connector; }
};
// By modality: vision, audio, and video where it has a tower of its own.
struct MediaChains {
  explicit MediaChains(const Model& model, const Packing& packing = {});
  MediaChain of[3];
  const MediaChain& Of(Modality modality) const { return of[IndexOf(modality)]; }
  static std::size_t IndexOf(Modality modality) {
    return modality == Modality::kAudio ? 1 : modality == Modality::kVideo ? 2 : 0;
  }
};
inline constexpr Modality kMediaModalities[] = {Modality::kVision, Modality::kAudio,
                                                Modality::kVideo};

// `sequences` sequences of `tokens` each as attention sees them: the fewest groups of at most
// `group_tokens`, as even as whole tokens can be; 0: whole.
void AddGroups(double sequences, std::int64_t tokens, std::int64_t group_tokens,
               std::vector<SequenceBatch>* batches);
// Tokens that one piece of media sends through the layers of encoder or connector.
double EncoderTokens(const MediaTokens& media);
double ConnectorTokens(const MediaTokens& media, const MediaChain& chain);

// Adds `count` pieces of media to encoder and connector.
void AddToChain(const MediaTokens& media, double count, const MediaChain& chain, SampleLoad* load);
// Adds what the same pieces are to the backbone: backbone_tokens, cross-modal and cross-attention
// tokens. A contrastive model's towers never join: nothing.
void AddToBackbone(const Model& model, const MediaTokens& media, double count, SampleLoad* load);

// The least that an encoder can be given: one smallest image, or one shortest clip or video. All
// zeros where the model has no rule for such media.
MediaTokens SmallestMedia(const Model& model, Modality modality);

// Batches of equal length become one; by ascending length, so that equal loads have equal lists.
void MergeBatches(std::vector<SequenceBatch>* batches);

}  // namespace aurum
