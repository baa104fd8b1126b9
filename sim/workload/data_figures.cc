#include "sim/workload/data_figures.h"

#include <algorithm>
#include <cmath>

#include "sim/workload/sample_tokens.h"
#include "sim/workload/typical_load.h"

namespace aurum {
namespace {

// The value that a share p of all do not exceed: the ⌈p·n⌉-th of them in order.
Spread SpreadOf(std::vector<double>* values) {
  Spread spread;
  if (values->empty()) return spread;
  std::sort(values->begin(), values->end());
  for (const double value : *values) spread.mean += value;
  const double count = static_cast<double>(values->size());
  spread.mean /= count;
  const auto rank = [&](double p) {
    return (*values)[static_cast<std::size_t>(std::max(0.0, std::ceil(p * count) - 1))];
  };
  spread.p50 = rank(0.5);
  spread.p99 = rank(0.99);
  spread.max = values->back();
  return spread;
}

}  // namespace

DataFigures FiguresOfData(const Model& model, const Workload& workload,
                          const std::vector<StepLoads>& steps) {
  DataFigures figures;
  const std::size_t count = SamplesLookedAt(workload);
  std::vector<double> all(count), text(count), media[3];
  for (auto& values : media) values.resize(count);
  SampleStream stream(model, workload);
  for (std::size_t i = 0; i < count; ++i) {
    const CountedSample sample = workload.samples != nullptr ? stream.OfFile(i) : stream.At(i);
    all[i] = sample.backbone_tokens;
    text[i] = sample.text_tokens;
    for (const CountedMedia& item : sample.media) {
      const MediaTokens& tokens = item.tokens;
      const std::int64_t each = model.task == ModelTask::kContrastive
                                    ? tokens.sequences * tokens.sequence_tokens
                                : tokens.backbone_tokens > 0 ? tokens.backbone_tokens
                                                             : tokens.connector_tokens;
      media[static_cast<int>(item.kind)][i] += static_cast<double>(each) * item.count;
    }
  }
  figures.samples = static_cast<double>(count);
  figures.tokens = SpreadOf(&all);
  figures.text_tokens = SpreadOf(&text);
  figures.image_tokens = SpreadOf(&media[static_cast<int>(MediaKind::kImage)]);
  figures.audio_tokens = SpreadOf(&media[static_cast<int>(MediaKind::kAudio)]);
  figures.video_tokens = SpreadOf(&media[static_cast<int>(MediaKind::kVideo)]);

  const double draws = static_cast<double>(steps.size());
  const SampleLoad mean = MeanMicroBatch(steps);
  for (std::size_t m = 0; m < model.modules.size(); ++m) {
    DataFigures::ModuleFigures module;
    module.name = model.modules[m].name;
    module.imbalance = module.lockstep_imbalance = 0;
    for (const StepLoads& step : steps) {
      module.imbalance += step.imbalance[m] / draws;
      module.lockstep_imbalance += step.lockstep_imbalance[m] / draws;
      module.worst_imbalance = std::max(module.worst_imbalance, step.imbalance[m]);
      module.lockstep_flops += step.lockstep_flops[m] / draws;
      module.moved_tokens += step.moved_tokens[m] / draws;
    }
    module.busiest_share = mean.modules[m].busiest_share;
    module.tokens_per_micro_batch = mean.modules[m].tokens;
    if (mean.modules[m].tokens > 0)
      module.padding_share = 1 - mean.modules[m].real_tokens / mean.modules[m].tokens;
    figures.modules.push_back(std::move(module));
  }
  double real = 0, padded = 0;
  for (const StepLoads& step : steps) {
    for (const SampleLoad& load : step.micro_batches) {
      real += load.real_tokens;
      padded += load.backbone_tokens;
    }
    figures.pack_fill += step.pack_fill / draws;
    figures.text_only_share += step.text_only_share / draws;
    figures.samples_per_step += static_cast<double>(step.samples) / draws;
  }
  figures.padding_share = padded > 0 ? 1 - real / padded : 0;
  figures.tokens_per_step = real / draws;
  return figures;
}

}  // namespace aurum
