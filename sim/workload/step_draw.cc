#include "sim/workload/step_draw.h"

#include <algorithm>
#include <cassert>
#include <span>
#include <utility>

#include "sim/workload/balance.h"
#include "sim/workload/row_deal.h"
#include "sim/workload/sample_tokens.h"
#include "sim/workload/step_rows.h"

namespace aurum {
namespace {

// A sample of a micro-batch: where it was loaded, and where the backbone computes it.
struct Unit {
  const CountedSample* sample = nullptr;
  const CountedSample* native = nullptr;  // before its images were padded
  int loaded = 0, computed = 0;
};
// One image, clip or video of such a sample, and where it is encoded.
struct Piece {
  const MediaTokens* tokens = nullptr;
  const MediaTokens* native = nullptr;
  const Unit* unit = nullptr;
  int encoded = 0;
};

class StepDealer {
 public:
  // `rows`: shape.Rows() of them, the step's.
  StepDealer(const Model& model, const Workload& workload, const StepShape& shape, const Row* rows)
      : model_(model),
        workload_(workload),
        shape_(shape),
        rows_(rows, static_cast<std::size_t>(shape.Rows())),
        chains_(model, workload.packing),
        counter_(model) {
    for (const Module& module : model.modules) work_.emplace_back(module);
  }

  StepLoads Deal() {
    loads_.shape = shape_;
    loads_.micro_batches.resize(static_cast<std::size_t>(shape_.replicas * shape_.micro_batches));
    loads_.moved_tokens.resize(model_.modules.size());
    for (SampleLoad& load : loads_.micro_batches) {
      load.modules.resize(model_.modules.size());
      load.samples = 0;
    }
    const std::vector<std::vector<const Row*>> home =
        RowsToReplicas(rows_, shape_, workload_.balance, work_.back());
    for (std::int64_t i = 0; i < shape_.micro_batches; ++i) DealMicroBatch(home, i);
    std::int64_t text_only = 0;
    for (const auto& rows : home) {
      text_only +=
          std::all_of(rows.begin(), rows.end(), [](const Row* row) { return row->media == 0; }) ? 1
                                                                                                : 0;
    }
    loads_.text_only_share =
        static_cast<double>(text_only) / static_cast<double>(loads_.micro_batches.size());
    Summarise();
    return std::move(loads_);
  }

 private:
  std::size_t At(int replica, std::int64_t i) const {
    return static_cast<std::size_t>(replica * shape_.micro_batches + i);
  }
  bool Packed() const { return workload_.packing.policy != PackingPolicy::kNone; }

  void DealMicroBatch(const std::vector<std::vector<const Row*>>& home, std::int64_t i) {
    std::vector<Unit> units;
    for (int r = 0; r < shape_.replicas; ++r) {
      for (const Row* row : home[At(r, i)]) {
        for (const CountedSample& sample : row->samples) {
          units.push_back({&sample, &sample, r, r});
        }
      }
    }
    const std::vector<CountedSample> padded = PadImages(&units);
    padding_.assign(static_cast<std::size_t>(shape_.replicas) * model_.modules.size(), 0);
    if (workload_.balance == Balance::kPost) EvenOut(&units);
    for (const Unit& unit : units) {
      SampleLoad& load = loads_.micro_batches[At(unit.computed, i)];
      load.real_tokens += unit.native->backbone_tokens;
      ++load.samples;
      load.modules.back().batches.push_back({1, unit.sample->backbone_tokens});
      for (const CountedMedia& media : unit.sample->media) {
        AddToBackbone(model_, media.tokens, media.count, &load);
      }
    }
    for (const Modality modality : kMediaModalities) {
      DealMedia(modality, units, i);
    }
    for (int r = 0; r < shape_.replicas; ++r) {
      SampleLoad& load = loads_.micro_batches[At(r, i)];
      Pad(&load);
      for (std::size_t m = 0; m + 1 < load.modules.size(); ++m)
        load.modules[m].real_tokens -= Padding(r, m);
      if (workload_.text_only == TextOnly::kDummyForward) AddDummies(&load);
      for (ModuleLoad& module : load.modules) MergeBatches(&module.batches);
    }
  }

  double& Padding(int replica, std::size_t module) {
    return padding_[static_cast<std::size_t>(replica) * model_.modules.size() + module];
  }

  // kBatchMax: each replica's loader pads the images of a micro-batch to the largest width and
  // height among them. Returns the samples that were changed; units point to them.
  std::vector<CountedSample> PadImages(std::vector<Unit>* units) {
    std::vector<CountedSample> padded;
    if (workload_.resolution.policy != ResolutionPolicy::kBatchMax) return padded;
    std::vector<std::int32_t> width(static_cast<std::size_t>(shape_.replicas)), height = width;
    for (const Unit& unit : *units) {
      const auto r = static_cast<std::size_t>(unit.loaded);
      GrowToHold(*unit.sample, &width[r], &height[r]);
    }
    padded.reserve(units->size());  // units point into it
    for (Unit& unit : *units) {
      const auto r = static_cast<std::size_t>(unit.loaded);
      padded.push_back(counter_.Padded(*unit.sample, width[r], height[r]));
      unit.sample = &padded.back();
    }
    return padded;
  }

  void NotePadding(const MediaTokens& padded, const MediaTokens& native, double count,
                   const MediaChain& chain, int replica) {
    if (&padded == &native) return;
    if (chain.encoder >= 0) {
      Padding(replica, static_cast<std::size_t>(chain.encoder)) +=
          count * (EncoderTokens(padded) - EncoderTokens(native));
    }
    if (chain.connector >= 0) {
      Padding(replica, static_cast<std::size_t>(chain.connector)) +=
          count * (ConnectorTokens(padded, chain) - ConnectorTokens(native, chain));
    }
  }

  // The backbone's phase: each sample to the replica that computes it.
  void EvenOut(std::vector<Unit>* units) {
    std::vector<double> values;
    for (const Unit& unit : *units) {
      const double tokens = unit.sample->backbone_tokens;
      values.push_back(Packed() ? work_.back()(tokens) : tokens);
    }
    const std::vector<int> replica = Packed()
                                         ? LongestProcessingTime(values, shape_.replicas)
                                         : LeastPaddedSplit(values, shape_.replicas, work_.back());
    std::vector<double> work(static_cast<std::size_t>(shape_.replicas));
    for (std::size_t k = 0; k < units->size(); ++k) {
      double& bin = work[static_cast<std::size_t>(replica[k])];
      const double own = work_.back()((*units)[k].sample->backbone_tokens);
      bin = Packed() ? bin + own : std::max(bin, own);
    }
    const std::vector<int> taken = HeaviestToLightest(work, &done_backbone_);
    for (std::size_t k = 0; k < units->size(); ++k) {
      (*units)[k].computed = taken[static_cast<std::size_t>(replica[k])];
    }
  }

  // All sequences of a micro-batch as long as the longest, unless they are packed.
  void Pad(SampleLoad* load) const {
    ModuleLoad& backbone = load->modules.back();
    double tokens = load->real_tokens;
    if (!Packed() && !backbone.batches.empty()) {
      double longest = 0;
      for (const SequenceBatch& batch : backbone.batches) longest = std::max(longest, batch.tokens);
      const double rows = static_cast<double>(backbone.batches.size());
      backbone.batches = {{rows, longest}};
      tokens = rows * longest;
    }
    backbone.tokens = backbone.output_tokens = load->backbone_tokens = tokens;
    backbone.real_tokens = load->real_tokens;
  }

  // Media of one modality to encoders and connectors: where they were loaded, or evened out.
  void DealMedia(Modality modality, const std::vector<Unit>& units, std::int64_t i) {
    const MediaChain& chain = chains_.Of(modality);
    const int entry = chain.Entry();
    if (entry < 0) return;
    const SequenceWork& work_of = work_[static_cast<std::size_t>(entry)];
    const bool post = workload_.balance == Balance::kPost;
    const bool shared = shape_.encoder_ranks > 1;
    std::vector<Piece> pieces;
    std::vector<double> work;
    for (const Unit& unit : units) {
      for (std::size_t k = 0; k < unit.sample->media.size(); ++k) {
        const CountedMedia& media = unit.sample->media[k];
        const MediaTokens& native = unit.native->media[k].tokens;
        if (media.modality != modality) continue;
        if (!post && !shared) {  // nobody asks for the single pieces
          AddToChain(media.tokens, media.count, chain, &loads_.micro_batches[At(unit.loaded, i)]);
          NotePadding(media.tokens, native, media.count, chain, unit.loaded);
          continue;
        }
        const MediaTokens& tokens = media.tokens;
        std::vector<SequenceBatch> groups;
        AddGroups(static_cast<double>(tokens.sequences), tokens.sequence_tokens, chain.group_tokens,
                  &groups);
        const double each = chain.encoder >= 0
                                ? work_of.Of(groups)
                                : work_of(static_cast<double>(tokens.connector_tokens));
        for (double n = 0; n < media.count; ++n) {
          pieces.push_back({&media.tokens, &native, &unit, unit.loaded});
          work.push_back(each);
        }
      }
    }
    if (post) {
      const std::vector<int> replica = LongestProcessingTime(work, shape_.replicas);
      std::vector<double> bins(static_cast<std::size_t>(shape_.replicas));
      for (std::size_t p = 0; p < pieces.size(); ++p) {
        bins[static_cast<std::size_t>(replica[p])] += work[p];
      }
      const std::vector<int> taken =
          HeaviestToLightest(bins, &done_media_[MediaChains::IndexOf(modality)]);
      for (std::size_t p = 0; p < pieces.size(); ++p) {
        pieces[p].encoded = taken[static_cast<std::size_t>(replica[p])];
      }
    }
    std::vector<std::vector<double>> shares(static_cast<std::size_t>(shape_.replicas));
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      const Piece& piece = pieces[p];
      const MediaTokens& tokens = *piece.tokens;
      AddToChain(tokens, 1, chain, &loads_.micro_batches[At(piece.encoded, i)]);
      NotePadding(tokens, *piece.native, 1, chain, piece.encoded);
      shares[static_cast<std::size_t>(piece.encoded)].push_back(work[p]);
      if (piece.encoded != piece.unit->loaded) {
        loads_.moved_tokens[static_cast<std::size_t>(entry)] +=
            static_cast<double>(chain.encoder >= 0 ? tokens.sequences * tokens.sequence_tokens
                                                   : tokens.connector_tokens);
      }
      if (piece.encoded != piece.unit->computed && model_.task != ModelTask::kContrastive) {
        loads_.moved_tokens.back() += static_cast<double>(
            tokens.backbone_tokens > 0 ? tokens.backbone_tokens : tokens.connector_tokens);
      }
    }
    if (!shared) return;
    for (int r = 0; r < shape_.replicas; ++r) {
      const double share = BusiestShare(shares[static_cast<std::size_t>(r)]);
      for (const int module : {chain.encoder, chain.connector}) {
        if (module < 0) continue;
        loads_.micro_batches[At(r, i)].modules[static_cast<std::size_t>(module)].busiest_share =
            share;
      }
    }
  }

  // Of the GPUs that share a replica's pieces: dealt one by one, or by their work where that is what
  // the workload balances by.
  double BusiestShare(const std::vector<double>& work) const {
    const int ranks = shape_.encoder_ranks;
    const bool by_work = workload_.balance == Balance::kLoad || workload_.balance == Balance::kPost;
    std::vector<int> rank(work.size());
    if (by_work) {
      rank = LongestProcessingTime(work, ranks);
    } else {
      for (std::size_t p = 0; p < work.size(); ++p) {
        rank[p] = static_cast<int>(p % static_cast<std::size_t>(ranks));
      }
    }
    std::vector<double> sum(static_cast<std::size_t>(ranks));
    double all = 0;
    for (std::size_t p = 0; p < work.size(); ++p) {
      sum[static_cast<std::size_t>(rank[p])] += work[p];
      all += work[p];
    }
    return all > 0 ? *std::max_element(sum.begin(), sum.end()) / all : 1;
  }

  void AddDummies(SampleLoad* load) const {
    for (const Modality modality : kMediaModalities) {
      const MediaChain& chain = chains_.Of(modality);
      const int entry = chain.Entry();
      if (entry < 0 || load->modules[static_cast<std::size_t>(entry)].tokens > 0) continue;
      const MediaTokens smallest = SmallestMedia(model_, modality);
      if (smallest.sequences == 0 && smallest.connector_tokens == 0) continue;
      AddToChain(smallest, 1, chain, load);
      for (const int module : {chain.encoder, chain.connector}) {
        if (module < 0) continue;
        ModuleLoad& dummy = load->modules[static_cast<std::size_t>(module)];
        dummy.real_tokens = 0;
        dummy.output_tokens = 0;  // computed, and thrown away
      }
    }
  }

  void Summarise() {
    const std::size_t modules = model_.modules.size();
    loads_.imbalance.assign(modules, 1);
    loads_.lockstep_imbalance.assign(modules, 1);
    loads_.lockstep_flops.assign(modules, 0);
    for (std::size_t m = 0; m < modules; ++m) {
      std::vector<double> replica(static_cast<std::size_t>(shape_.replicas));
      double all = 0, in_step = 0;
      for (std::int64_t i = 0; i < shape_.micro_batches; ++i) {
        double most = 0;
        for (int r = 0; r < shape_.replicas; ++r) {
          const double work = work_[m].Of(loads_.micro_batches[At(r, i)].modules[m].batches);
          replica[static_cast<std::size_t>(r)] += work;
          most = std::max(most, work);
          all += work;
        }
        in_step += most;
      }
      loads_.lockstep_flops[m] = in_step;
      if (!(all > 0)) continue;
      loads_.imbalance[m] =
          *std::max_element(replica.begin(), replica.end()) * shape_.replicas / all;
      loads_.lockstep_imbalance[m] = in_step * shape_.replicas / all;
    }
    double real = 0, padded = 0, samples = 0;
    for (const SampleLoad& load : loads_.micro_batches) {
      real += load.real_tokens;
      padded += load.backbone_tokens;
      samples += load.samples;
    }
    loads_.samples = static_cast<std::int64_t>(samples);
    loads_.padding_share = padded > 0 ? 1 - real / padded : 0;
    if (Packed()) {
      const double most = static_cast<double>(workload_.packing.max_tokens);
      double filled = 0;
      for (const Row& row : rows_) filled += std::min(row.tokens, most);
      loads_.pack_fill = filled / (static_cast<double>(rows_.size()) * most);
    }
  }

  const Model& model_;
  const Workload& workload_;
  const StepShape shape_;
  const std::span<const Row> rows_;
  const MediaChains chains_;
  TokenCounter counter_;
  std::vector<double> padding_;     // of the micro-batch, by replica and module: tokens
  std::vector<SequenceWork> work_;  // per module
  // kPost: per replica, work of the micro-batches so far.
  std::vector<double> done_backbone_, done_media_[3];
  StepLoads loads_;
};

}  // namespace

namespace {

// Every sample alike and nothing packed: every micro-batch is the same one.
bool AllAlike(const Workload& workload) {
  return !workload.Uneven() && workload.packing.policy == PackingPolicy::kNone;
}

StepLoads AlikeStep(const Model& model, const Workload& workload, const StepShape& shape) {
  StepShape one = shape;
  one.replicas = 1;
  one.micro_batches = 1;
  Workload plain = workload;
  plain.bucketing = Bucketing::kNone;
  const std::vector<Row> rows = RowsOfWindow(model, plain, one, 0);
  StepLoads loads = StepDealer(model, plain, one, rows.data()).Deal();
  loads.shape = shape;
  loads.samples = shape.Rows();
  for (double& flops : loads.lockstep_flops) flops *= static_cast<double>(shape.micro_batches);
  loads.micro_batches.resize(static_cast<std::size_t>(shape.replicas * shape.micro_batches),
                             SampleLoad(loads.micro_batches.front()));
  return loads;
}

}  // namespace

StepLoads DrawStep(const Model& model, const Workload& workload, const StepShape& shape,
                   std::uint64_t draw) {
  assert(shape.replicas > 0 && shape.micro_batches > 0 && shape.micro_batch_size > 0 &&
         shape.encoder_ranks > 0);
  if (AllAlike(workload)) return AlikeStep(model, workload, shape);
  const std::uint64_t steps = WindowSteps(workload);
  const std::vector<Row> rows = RowsOfWindow(model, workload, shape, draw / steps);
  const std::size_t first = static_cast<std::size_t>(draw % steps * shape.Rows());
  return StepDealer(model, workload, shape, &rows[first]).Deal();
}

std::vector<StepLoads> DrawSteps(const Model& model, const Workload& workload,
                                 const StepShape& shape) {
  std::vector<StepLoads> steps;
  const std::size_t draws = static_cast<std::size_t>(workload.draws);
  if (AllAlike(workload)) return {draws, AlikeStep(model, workload, shape)};
  const std::size_t window = WindowSteps(workload);
  for (std::size_t first = 0; first < draws; first += window) {  // each window once
    const std::vector<Row> rows = RowsOfWindow(model, workload, shape, first / window);
    for (std::size_t i = 0; i < std::min(window, draws - first); ++i) {
      const Row* mine = &rows[i * static_cast<std::size_t>(shape.Rows())];
      steps.push_back(StepDealer(model, workload, shape, mine).Deal());
    }
  }
  return steps;
}

}  // namespace aurum
