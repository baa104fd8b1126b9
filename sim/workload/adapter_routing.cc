#include "sim/workload/adapter_routing.h"

#include <algorithm>
#include <numeric>

#include "models/tokens.h"
#include "sim/workload/sample_tokens.h"

namespace aurum {
namespace {

Modality ModalityOf(const Model& model, MediaKind kind) {
  if (kind == MediaKind::kAudio) return Modality::kAudio;
  return kind == MediaKind::kVideo ? VideoModality(model) : Modality::kVision;
}

Modality ModalityOf(const Model& model, const Sample& sample) {
  return sample.media.empty() ? Modality::kText : ModalityOf(model, sample.media.front().kind);
}

}  // namespace

std::string ModalityName(Modality modality) {
  switch (modality) {
    case Modality::kText:
      return "text";
    case Modality::kVision:
      return "vision";
    case Modality::kAudio:
      return "audio";
    case Modality::kVideo:
      return "video";
  }
  return "";
}

std::vector<Modality> ModalitiesOf(const Model& model) {
  std::vector<Modality> modalities{Modality::kText};
  for (const Module& module : model.modules) {
    if (std::find(modalities.begin(), modalities.end(), module.modality) == modalities.end())
      modalities.push_back(module.modality);
  }
  return modalities;
}

std::vector<AdapterLoad> LoadOfAdapters(const std::vector<Modality>& modalities,
                                        const std::vector<double>& own_share, double misrouted) {
  std::vector<AdapterLoad> loads(modalities.size());
  const double whole = std::accumulate(own_share.begin(), own_share.end(), 0.0);
  const double others = static_cast<double>(modalities.size()) - 1;
  const double lost = others > 0 ? misrouted : 0;
  for (std::size_t i = 0; i < loads.size(); ++i) {
    AdapterLoad& load = loads[i];
    load.modality = modalities[i];
    load.own_share = whole > 0 ? own_share[i] / whole : 0;
    const double foreign = others > 0 ? lost * (1 - load.own_share) / others : 0;
    load.share = load.own_share * (1 - lost) + foreign;
    load.foreign_share = load.share > 0 ? foreign / load.share : 0;
  }
  return loads;
}

std::vector<AdapterLoad> LoadOfAdapters(const Model& model, const Workload& workload,
                                        double misrouted) {
  const std::vector<Modality> modalities = ModalitiesOf(model);
  std::vector<double> own(modalities.size(), 0);
  const auto add = [&](Modality modality, double weight) {
    const auto at = std::find(modalities.begin(), modalities.end(), modality);
    if (at != modalities.end()) own[static_cast<std::size_t>(at - modalities.begin())] += weight;
  };
  if (workload.samples != nullptr) {
    for (std::size_t i = 0; i < workload.samples->size(); ++i)
      add(ModalityOf(model, workload.samples->At(i)), 1);
  } else if (!workload.mixture.empty()) {
    // By draws, since a kind may hold an image in some of its samples only.
    constexpr std::uint64_t kDraws = 4096;
    for (std::uint64_t i = 0; i < kDraws; ++i)
      add(ModalityOf(model, DrawSample(workload.mixture, workload.seed, i)), 1);
  } else if (!workload.images.empty()) {
    add(Modality::kVision, 1);
  } else if (workload.audio_s > 0) {
    add(Modality::kAudio, 1);
  } else {
    add(workload.videos.empty() ? Modality::kText : VideoModality(model), 1);
  }
  return LoadOfAdapters(modalities, own, misrouted);
}

}  // namespace aurum
