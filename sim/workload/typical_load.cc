#include "sim/workload/typical_load.h"

#include <algorithm>

#include "sim/workload/sample_tokens.h"

namespace aurum {
namespace {

// Σ sequences · tokens and Σ sequences · tokens², and the one batch that has both.
struct Moments {
  double tokens = 0, squares = 0;
  void Add(const std::vector<SequenceBatch>& batches) {
    for (const SequenceBatch& batch : batches) {
      tokens += batch.sequences * batch.tokens;
      squares += batch.sequences * batch.tokens * batch.tokens;
    }
  }
  std::vector<SequenceBatch> Over(double count) const {
    if (!(tokens > 0)) return {};
    return {{tokens * tokens / squares / count, squares / tokens}};
  }
};

void AddSample(const Model& model, const CountedSample& sample, const MediaChains& chains,
               SampleLoad* load) {
  for (const CountedMedia& media : sample.media) {
    AddToChain(media.tokens, media.count, chains.Of(media.modality), load);
    AddToBackbone(model, media.tokens, media.count, load);
  }
  load->backbone_tokens = load->real_tokens = sample.backbone_tokens;
  ModuleLoad& backbone = load->modules.back();
  backbone.batches = {{1, sample.backbone_tokens}};
  backbone.tokens = backbone.output_tokens = backbone.real_tokens = sample.backbone_tokens;
}

// Of a sample whose images were padded: what is real.
void TakeOutPadding(const CountedSample& native, const CountedSample& padded,
                    const MediaChains& chains, SampleLoad* load) {
  for (std::size_t k = 0; k < native.media.size(); ++k) {
    const MediaChain& chain = chains.Of(native.media[k].modality);
    const MediaTokens &before = native.media[k].tokens, &after = padded.media[k].tokens;
    const double count = native.media[k].count;
    const auto take = [&](int module, double tokens) {
      if (module >= 0)
        load->modules[static_cast<std::size_t>(module)].real_tokens -= tokens * count;
    };
    take(chain.encoder, EncoderTokens(after) - EncoderTokens(before));
    take(chain.connector, ConnectorTokens(after, chain) - ConnectorTokens(before, chain));
  }
  load->real_tokens = load->modules.back().real_tokens = native.backbone_tokens;
}

void Clear(SampleLoad* load) {
  for (ModuleLoad& module : load->modules) {
    module.batches.clear();
    module.tokens = module.output_tokens = module.real_tokens = module.source_tokens = 0;
  }
  load->cross_modal_tokens = load->cross_attention_tokens = 0;
}

// Sums of loads, to divide once at the end.
class LoadSum {
 public:
  explicit LoadSum(std::size_t modules) : moments_(modules), busiest_(modules) {
    sum_.modules.resize(modules);
    sum_.samples = 0;
  }
  void Add(const SampleLoad& load) {
    ++count_;
    for (std::size_t m = 0; m < moments_.size(); ++m) {
      const ModuleLoad& module = load.modules[m];
      moments_[m].Add(module.batches);
      sum_.modules[m].tokens += module.tokens;
      sum_.modules[m].output_tokens += module.output_tokens;
      sum_.modules[m].real_tokens += module.real_tokens;
      sum_.modules[m].source_tokens += module.source_tokens;
      busiest_[m] += module.tokens * module.busiest_share;
    }
    sum_.backbone_tokens += load.backbone_tokens;
    sum_.cross_modal_tokens += load.cross_modal_tokens;
    sum_.cross_attention_tokens += load.cross_attention_tokens;
    sum_.real_tokens += load.real_tokens;
    sum_.samples += load.samples;
  }
  SampleLoad Mean() const {
    SampleLoad mean = sum_;
    for (std::size_t m = 0; m < moments_.size(); ++m) {
      ModuleLoad& module = mean.modules[m];
      if (module.tokens > 0) module.busiest_share = busiest_[m] / module.tokens;
      module.batches = moments_[m].Over(count_);
      module.tokens /= count_;
      module.output_tokens /= count_;
      module.real_tokens /= count_;
      module.source_tokens /= count_;
    }
    mean.backbone_tokens /= count_;
    mean.cross_modal_tokens /= count_;
    mean.cross_attention_tokens /= count_;
    mean.real_tokens /= count_;
    mean.samples /= count_;
    return mean;
  }

 private:
  SampleLoad sum_;
  std::vector<Moments> moments_;
  std::vector<double> busiest_;  // Σ tokens · share
  double count_ = 0;
};

}  // namespace

std::size_t SamplesLookedAt(const Workload& workload) {
  if (workload.samples != nullptr) return workload.samples->size();
  if (workload.mixture.empty()) return 1;
  return static_cast<std::size_t>(std::clamp(
      workload.global_batch_size * std::int64_t{workload.draws}, kMeanSamples, kMostMeanSamples));
}

SamplePopulation LookAtSamples(const Model& model, const Workload& workload) {
  const std::size_t modules = model.modules.size();
  const std::size_t count = SamplesLookedAt(workload);
  const MediaChains chains(model, workload.packing);
  SampleStream stream(model, workload);
  SamplePopulation all;
  all.heaviest.resize(modules);
  LoadSum sum(modules);
  SampleLoad one;
  one.modules.resize(modules);
  const auto sample_at = [&](std::size_t i) {
    return workload.samples != nullptr ? stream.OfFile(i) : stream.At(i);
  };
  const bool pads = workload.resolution.policy == ResolutionPolicy::kBatchMax;
  std::int32_t width = 0, height = 0;
  for (std::size_t i = 0; pads && i < count; ++i) GrowToHold(sample_at(i), &width, &height);
  TokenCounter counter(model);
  for (std::size_t i = 0; i < count; ++i) {
    CountedSample sample = sample_at(i);
    const CountedSample native = sample;
    if (pads &&
        count > 1) {  // the mean is as samples come, the longest as the largest image may pad
      Clear(&one);
      AddSample(model, sample, chains, &one);
      sum.Add(one);
    }
    if (pads) sample = counter.Padded(sample, width, height);
    Clear(&one);
    AddSample(model, sample, chains, &one);
    if (pads) TakeOutPadding(native, sample, chains, &one);
    all.longest = std::max(all.longest, sample.backbone_tokens);
    if (sample.backbone_tokens > static_cast<double>(workload.packing.max_tokens)) ++all.too_long;
    for (std::size_t m = 0; m < modules; ++m) {
      if (one.modules[m].tokens > all.heaviest[m].tokens) all.heaviest[m] = one.modules[m];
    }
    if (count > 1 && !pads) sum.Add(one);
  }
  all.mean = count > 1 ? sum.Mean() : one;
  return all;
}

SampleLoad MeanMicroBatch(const std::vector<StepLoads>& steps) {
  LoadSum sum(steps.front().micro_batches.front().modules.size());
  for (const StepLoads& step : steps) {
    for (const SampleLoad& load : step.micro_batches) sum.Add(load);
  }
  return sum.Mean();
}

SampleLoad LongestLoad(const Model& model, const Workload& workload,
                       const std::vector<StepLoads>& steps, const SamplePopulation* population) {
  const SampleLoad mean = MeanMicroBatch(steps);
  const std::size_t modules = model.modules.size();
  // The drawn ones.
  SampleLoad longest = steps.front().micro_batches.front();
  for (const StepLoads& step : steps) {
    for (const SampleLoad& load : step.micro_batches) {
      for (std::size_t m = 0; m < modules; ++m) {
        if (load.modules[m].tokens > longest.modules[m].tokens)
          longest.modules[m] = load.modules[m];
      }
      longest.backbone_tokens = std::max(longest.backbone_tokens, load.backbone_tokens);
      longest.real_tokens = std::max(longest.real_tokens, load.real_tokens);
      longest.samples = std::max(longest.samples, load.samples);
      longest.cross_modal_tokens = std::max(longest.cross_modal_tokens, load.cross_modal_tokens);
      longest.cross_attention_tokens =
          std::max(longest.cross_attention_tokens, load.cross_attention_tokens);
    }
  }
  if (!workload.Uneven()) return longest;
  // What may still come.
  const SamplePopulation all = population != nullptr ? *population : LookAtSamples(model, workload);
  const double rows = static_cast<double>(steps.front().shape.micro_batch_size);
  ModuleLoad& backbone = longest.modules.back();
  double tokens = rows * all.longest, length = all.longest, real = 0;
  if (workload.packing.policy != PackingPolicy::kNone) {
    const double most = static_cast<double>(workload.packing.max_tokens);
    tokens = (rows - 1) * most + std::max(most, all.longest);
    real = tokens;
  } else {
    real = all.longest + (rows - 1) * all.mean.backbone_tokens;
  }
  if (tokens > backbone.tokens) {
    backbone.batches = {{tokens / length, length}};
    backbone.tokens = backbone.output_tokens = longest.backbone_tokens = tokens;
    backbone.real_tokens = longest.real_tokens = std::max(longest.real_tokens, real);
  }
  for (std::size_t m = 0; m + 1 < modules; ++m) {
    // A mean micro-batch, a mean sample of it replaced by the heaviest one.
    const ModuleLoad& heavy = all.heaviest[m];
    const ModuleLoad& usual = mean.modules[m];
    const double swapped = usual.tokens - all.mean.modules[m].tokens + heavy.tokens;
    if (!(heavy.tokens > 0 && swapped > longest.modules[m].tokens)) continue;
    ModuleLoad& module = longest.modules[m];
    module = heavy;
    const double rest = std::max(0.0, swapped - heavy.tokens);
    if (rest > 0 && !usual.batches.empty()) {
      module.batches.push_back({rest / usual.batches[0].tokens, usual.batches[0].tokens});
      MergeBatches(&module.batches);
    }
    module.tokens = module.real_tokens = heavy.tokens + rest;
    const double share = usual.tokens > 0 ? rest / usual.tokens : 0;
    module.output_tokens += usual.output_tokens * share;
    module.source_tokens += usual.source_tokens * share;
    module.busiest_share = usual.busiest_share;
  }
  return longest;
}

SampleLoad LongestLoad(const Model& model, const Workload& workload, const StepShape& shape) {
  return LongestLoad(model, workload, DrawSteps(model, workload, shape));
}

}  // namespace aurum
