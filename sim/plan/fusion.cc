#include "sim/plan/fusion.h"

#include <algorithm>
#include <map>

#include "sim/workload/sample_tokens.h"

namespace aurum {
namespace {

class Recorder {
 public:
  explicit Recorder(const FusionInput& input)
      : in_(input), s_(input.scenario), chains_(*s_.model) {}

  std::vector<FusionPoint> Run() {
    if (s_.model->task == ModelTask::kContrastive || s_.sample.cross_modal_tokens <= 0) return {};
    const auto micro = static_cast<std::size_t>(s_.plan.micro_batches);
    for (std::size_t stage = 0; stage < in_.emitters.size(); ++stage) {
      for (std::size_t chunk = 0; chunk < in_.chunks(stage); ++chunk) {
        if (!in_.meets(stage, chunk)) continue;
        for (std::size_t i = 0; i < micro; ++i) {
          if (!in_.emitters[stage]->FusionOf(chunk, i).consumer.Exists()) continue;
          for (const MediaChain& chain : chains_.of) Add(stage, chunk, i, chain);
        }
      }
    }
    return std::move(points_);
  }

 private:
  using Made = StageEmitter::Made;

  // Where a module's kernels ran, of one micro-batch.
  struct Place {
    std::size_t stage = 0;
    bool bubbles = false, here = false;  // here: in the consumer's own pass
    const Made* made = nullptr;
  };

  Place Find(std::size_t module, std::size_t stage, std::size_t chunk, std::size_t micro) const {
    if (const Made* made = in_.emitters[stage]->MadeIn(chunk, module, micro))
      return {stage, false, true, made};
    if (micro < in_.encoder_stage.size()) {
      const std::size_t at = in_.first + static_cast<std::size_t>(in_.encoder_stage[micro]);
      if (const Made* made = in_.emitters[at]->MadeIn(in_.chunks(at), module, micro))
        return {at, true, false, made};
    }
    // On the way that the pass has come.
    for (auto at = in_.previous(stage, chunk); at; at = in_.previous(at->first, at->second)) {
      if (const Made* made = in_.emitters[at->first]->MadeIn(at->second, module, micro))
        return {at->first, false, false, made};
    }
    return {};
  }

  void Add(std::size_t stage, std::size_t chunk, std::size_t micro, const MediaChain& chain) {
    if (chain.Entry() < 0) return;
    const int end = chain.connector >= 0 ? chain.connector : chain.encoder;
    const StageEmitter::Fusion& fusion = in_.emitters[stage]->FusionOf(chunk, micro);
    const Place last = Find(static_cast<std::size_t>(end), stage, chunk, micro);
    if (last.made == nullptr) return;
    Place maker = last;
    if (last.here && chain.encoder >= 0 && chain.encoder != end) {
      const Place encoder = Find(static_cast<std::size_t>(chain.encoder), stage, chunk, micro);
      if (encoder.made != nullptr && !encoder.here) maker = encoder;
    }
    const bool apart = !maker.here;
    const bool joins = apart && last.here;  // at the connector
    const std::size_t module = static_cast<std::size_t>(apart && joins ? chain.encoder : end);
    const double own = (maker.stage == stage ? 1.0 : 0.0) * OwnShare(chain);
    const Wave& taken = joins ? last.made->first : fusion.consumer;
    Wave arrival = maker.made->last;
    std::size_t from = maker.stage;
    if (apart) {
      if (maker.bubbles) {
        const StageEmitter::Marks& marks =
            in_.emitters[maker.stage]->table().encoder_forward[micro];
        arrival = marks.sent.Exists() ? marks.sent : marks.last;
      } else if (const auto before = in_.previous(stage, chunk)) {
        const StageEmitter::Marks& marks =
            in_.emitters[before->first]->table().forward[before->second][micro];
        arrival = marks.sent.Exists() ? marks.sent : marks.last;
        from = before->first;
      }
    }
    const std::size_t classes = in_.pricer.Classes(stage).rank.size();
    const Partners& makers = PartnersOf(maker.stage, stage);
    const Partners& carriers = PartnersOf(from, stage);
    for (std::size_t c = 0; c < classes; ++c) {
      const std::vector<std::uint32_t>&mine = makers[c], &brought = carriers[c];
      if (mine.empty() || brought.empty()) continue;
      FusionPoint point;
      point.rank_class = in_.waves.FirstClass(stage) + static_cast<std::uint32_t>(c);
      point.module = static_cast<std::int16_t>(module);
      point.micro_batch = static_cast<std::int32_t>(micro);
      point.consumer = in_.waves.At(taken, c);
      point.own_share = own;
      point.tokens = Tokens(stage, c, micro, static_cast<std::size_t>(end)) /
                     static_cast<double>(std::max<std::size_t>(1, mine.size()));
      for (std::size_t k = 0; k < mine.size(); ++k) {
        point.producer = in_.waves.At(maker.made->last, mine[k]);
        point.arrival = fusion.moved.Exists() && !joins
                            ? in_.waves.At(fusion.moved, c)
                            : in_.waves.At(arrival, brought[std::min(k, brought.size() - 1)]);
        points_.push_back(point);
      }
      if (!joins || !fusion.moved.Exists()) continue;
      FusionPoint exchange = point;
      exchange.module = static_cast<std::int16_t>(end);
      exchange.consumer = in_.waves.At(fusion.consumer, c);
      exchange.producer = in_.waves.At(last.made->last, c);
      exchange.arrival = in_.waves.At(fusion.moved, c);
      exchange.tokens = 0;
      points_.push_back(exchange);
    }
  }

  // By class of `to`: the classes of `from` that hand it something; of one stage, each itself.
  using Partners = std::vector<std::vector<std::uint32_t>>;
  const Partners& PartnersOf(std::size_t from, std::size_t to) {
    const auto [entry, is_new] = partners_.try_emplace(std::make_pair(from, to));
    Partners& partners = entry->second;
    if (!is_new) return partners;
    partners.resize(in_.pricer.Classes(to).rank.size());
    for (const auto& [a, b] : in_.across(from, to)) partners[b].push_back(a);
    for (std::vector<std::uint32_t>& mine : partners) {
      std::sort(mine.begin(), mine.end());
      mine.erase(std::unique(mine.begin(), mine.end()), mine.end());
    }
    return partners;
  }

  // Of a chain's tokens that a GPU of the same stage takes, those that it made itself.
  double OwnShare(const MediaChain& chain) const {
    if (s_.what_if.align_ratio) return *s_.what_if.align_ratio;
    double own = 1;
    for (const int module : {chain.encoder, chain.connector}) {
      if (module < 0) continue;
      if (s_.plan.modules[static_cast<std::size_t>(module)].placement == Placement::kColocatedDp)
        own = 1.0 / (s_.plan.tp * s_.plan.cp);
    }
    if (s_.step == nullptr || s_.step->moved_tokens.empty()) return own;
    double all = 0;
    for (const SampleLoad& load : s_.step->micro_batches) all += load.cross_modal_tokens;
    return all > 0 ? own * std::max(0.0, 1 - s_.step->moved_tokens.back() / all) : own;
  }

  // Of the chain that ends in that module, that one GPU of the class takes.
  double Tokens(std::size_t stage, std::size_t c, std::size_t micro, std::size_t end) const {
    const SampleLoad* load = &s_.sample;
    double samples = static_cast<double>(s_.plan.micro_batch_size);
    if (s_.step != nullptr) {
      const StageLayout layout = LayoutOf(s_.plan, stage);
      const int gpu = in_.pricer.Classes(stage).rank[c];
      const auto replica = static_cast<std::size_t>((gpu - layout.first_gpu) / layout.PerReplica());
      load =
          &s_.step
               ->micro_batches[replica * static_cast<std::size_t>(s_.plan.micro_batches) + micro];
      samples = 1;
    }
    double all = 0, mine = 0;
    for (const MediaChain& chain : chains_.of) {
      if (chain.Entry() < 0) continue;
      const int last = chain.connector >= 0 ? chain.connector : chain.encoder;
      const double tokens = load->modules[static_cast<std::size_t>(last)].output_tokens;
      all += tokens;
      if (static_cast<std::size_t>(last) == end) mine += tokens;
    }
    return all > 0 ? samples * load->cross_modal_tokens * mine / all : 0;
  }

  const FusionInput& in_;
  const Scenario& s_;
  MediaChains chains_;
  std::map<std::pair<std::size_t, std::size_t>, Partners> partners_;
  std::vector<FusionPoint> points_;
};

}  // namespace

std::vector<FusionPoint> FusionPoints(const FusionInput& input) { return Recorder(input).Run(); }

}  // namespace aurum
