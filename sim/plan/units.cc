#include "sim/plan/units.h"

#include <algorithm>
#include <cmath>

#include "sim/plan/balanced_cut.h"
#include "sim/plan/rank_groups.h"
#include "sim/plan/split.h"
#include "sim/plan/unit_maker.h"

namespace aurum {
namespace {

// `load` is that of one sample, or of a whole micro-batch.
Share ShareOf(const Scenario& s, std::size_t i, const std::vector<bool>& backward,
              const SampleLoad& load, bool whole_micro_batch) {
  const Module& module = s.model->modules[i];
  const ModulePlan& plan = s.plan.modules[i];
  Share share;
  share.backbone = i + 1 == s.model->modules.size();
  share.module = &module;
  share.index = i;
  share.tp = plan.tp;
  share.cp = share.backbone ? s.plan.cp : 1;
  share.cp_kind = s.plan.cp_kind;
  if (SplitsTokens(plan)) {
    share.split_tokens = true;
    share.cp = plan.tp;
    share.cp_kind = ContextParallelKind::kUlysses;
    share.tp = 1;
  }
  share.sequence_parallel = share.backbone && s.plan.sequence_parallel;
  const std::int64_t own = share.backbone ? s.plan.micro_batch_size : s.plan.EncoderMicroBatch(i);
  if (own > s.plan.micro_batch_size)
    share.every = static_cast<int>(own / s.plan.micro_batch_size);
  else
    share.pieces = static_cast<int>(s.plan.micro_batch_size / own);
  share.samples = static_cast<double>(own);
  // Images of one replica are shared out; what cannot be cut evenly, the busiest rank has.
  if (!share.backbone && plan.placement == Placement::kColocatedDp)
    share.samples *=
        whole_micro_batch ? load.modules[i].busiest_share : 1.0 / (s.plan.tp * s.plan.cp);
  const double factor =
      share.samples / (whole_micro_batch ? static_cast<double>(s.plan.micro_batch_size) : 1.0);
  for (SequenceBatch batch : load.modules[i].batches) {
    batch.sequences *= factor;
    share.batches.push_back(batch);
  }
  share.output_tokens = load.modules[i].output_tokens * factor;
  // Of each sequence.
  if (share.backbone) {
    share.kv_source_tokens =
        load.cross_attention_tokens /
        (whole_micro_batch ? static_cast<double>(s.plan.micro_batch_size) : 1.0);
  } else if (module.queries > 0) {
    double sequences = 0;
    for (const SequenceBatch& batch : load.modules[i].batches) sequences += batch.sequences;
    if (sequences > 0) share.kv_source_tokens = load.modules[i].source_tokens / sequences;
  }
  share.backward = backward[i];
  share.trained = s.workload.task == Task::kTrain && !plan.frozen;
  return share;
}

// Layers of every module, by position in the model: [module][position].
using Split = std::vector<std::vector<int>>;

bool IsBalanced(const ModulePlan& part) { return part.placement == Placement::kBalanced; }

class StageMaker {
 public:
  StageMaker(const Scenario& s, const CostContext& context, const SampleLoad& load,
             bool whole_micro_batch)
      : s_(s),
        plan_(s.plan),
        make_(s, context),
        last_(s.model->modules.size() - 1),
        load_(load),
        whole_(whole_micro_batch),
        backward_(s.workload.task == Task::kTrain
                      ? ModulesWithBackward(*s.model, s.plan)
                      : std::vector<bool>(s.model->modules.size(), false)) {}

  Split FindSplit() const {
    const int positions = plan_.Positions();
    Split split(s_.model->modules.size(), std::vector<int>(static_cast<std::size_t>(positions), 0));
    bool open = plan_.layers_per_stage.empty();
    for (std::size_t i = 0; i < last_; ++i) {
      if (!IsBalanced(plan_.modules[i])) continue;
      const std::vector<int>& told = plan_.modules[i].layers_per_stage;
      if (told.empty() && positions > 1) open = true;
      std::copy(told.begin(), told.end(), split[i].begin());
      if (told.empty() && positions == 1) split[i][0] = s_.model->modules[i].Layers();
    }
    if (!open) {
      std::copy(plan_.layers_per_stage.begin(), plan_.layers_per_stage.end(), split[last_].begin());
      return split;
    }
    // All layers that may move, in order, by the time that they take forward and backward.
    std::vector<double> weights;
    std::vector<std::size_t> owner;
    for (std::size_t i = 0; i <= last_; ++i) {
      if (i < last_ && !IsBalanced(plan_.modules[i])) continue;
      const Share share = ShareOf(s_, i, backward_, load_, whole_);
      std::vector<Unit> before, layers, after;
      make_.AddInput(share, &before);
      make_.AddLayers(share, 0, share.module->Layers() - 1, &layers);
      make_.AddOutput(share, &after);
      if (i == last_) make_.AddHead(share, &after);
      const auto seconds = [](const std::vector<Unit>& units) {
        double sum = 0;
        for (const Unit& unit : units) {
          const double forward = unit.Forward().Seconds();
          sum += forward + (unit.backward ? unit.Backward().Seconds() : 0) +
                 (unit.recomputed ? forward : 0);
        }
        return sum;
      };
      const auto first = weights.size();
      for (const Unit& unit : layers) weights.push_back(seconds({unit}));
      for (int skipped = static_cast<int>(layers.size()); skipped < share.module->Layers();
           ++skipped)
        weights.push_back(0);
      owner.resize(weights.size(), i);
      if (weights.size() == first) continue;
      weights[first] += seconds(before);
      weights.back() += seconds(after);
    }
    const std::vector<int> counts = BalancedCut(weights, positions);
    std::size_t at = 0;
    for (std::size_t p = 0; p < counts.size(); ++p) {
      for (int k = 0; k < counts[p]; ++k) ++split[owner[at++]][p];
    }
    return split;
  }

  std::vector<StageUnits> Make(const Split& split) const {
    std::vector<StageUnits> stages;
    for (std::size_t i = 0; i < last_; ++i) {
      if (plan_.modules[i].placement == Placement::kOwnRanks) AddOwnStages(i, &stages);
    }
    PipelineShape shape = plan_.Pipeline();
    if (s_.workload.task != Task::kTrain) shape = {};
    for (int stage = 0; stage < plan_.pp; ++stage) {
      StageUnits units;
      for (int c = 0; c < plan_.vpp; ++c)
        units.chunks.push_back(MakeChunk(split, PositionOf(shape, stage, c)));
      for (std::size_t i = 0; i < last_; ++i) {
        if (plan_.modules[i].placement == Placement::kInBubbles) AddModule(i, &units.bubbles.units);
      }
      units.bubbles.fusion = units.bubbles.units.size();
      for (std::size_t i = 0; i < last_; ++i) {
        if (plan_.modules[i].placement == Placement::kInBubbles)
          units.bubbles.sent_bytes += OutputBytes(i);
      }
      stages.push_back(std::move(units));
    }
    return stages;
  }

 private:
  void AddModule(std::size_t i, std::vector<Unit>* units) const {
    const Share share = ShareOf(s_, i, backward_, load_, whole_);
    make_.AddInput(share, units);
    make_.AddLayers(share, 0, share.module->Layers() - 1, units);
    make_.AddOutput(share, units);
  }

  double OutputBytes(std::size_t i) const {
    const Share share = ShareOf(s_, i, backward_, load_, whole_);
    const Module& m = *share.module;
    const double width = m.output.empty() ? m.hidden : static_cast<double>(m.output.back().out);
    return kValueBytes * share.output_tokens * width / share.every * share.pieces;
  }

  double BackboneBytes() const {
    const double factor = whole_ ? 1 : static_cast<double>(plan_.micro_batch_size);
    return kValueBytes * load_.backbone_tokens * factor * s_.model->Backbone().hidden /
           ((plan_.sequence_parallel ? plan_.tp : 1) * plan_.cp);
  }

  // What the cross-attention of later layers reads travels beside the stream, whole to every rank of a
  // tensor-parallel group.
  double CrossBytes(int from_layer) const {
    const Module& backbone = s_.model->Backbone();
    int index = 0;
    for (const LayerRun& run : backbone.runs) {
      index += run.count;
      if (index <= from_layer || run.layer.attention.kind != AttentionKind::kCross) continue;
      const double factor = whole_ ? 1 : static_cast<double>(plan_.micro_batch_size);
      return kValueBytes * load_.cross_attention_tokens * factor * backbone.hidden;
    }
    return 0;
  }

  // The stages of an encoder on ranks of its own; what earlier ones made is carried along.
  void AddOwnStages(std::size_t i, std::vector<StageUnits>* stages) const {
    const ModulePlan& part = plan_.modules[i];
    const Share share = ShareOf(s_, i, backward_, load_, whole_);
    int next = 0;
    for (int k = 0; k < part.pp; ++k) {
      const int layers = part.layers_per_stage.empty()
                             ? share.module->Layers() * (k + 1) / part.pp - next
                             : part.layers_per_stage[static_cast<std::size_t>(k)];
      Chunk chunk;
      if (k == 0) make_.AddInput(share, &chunk.units);
      if (layers > 0) make_.AddLayers(share, next, next + layers - 1, &chunk.units);
      next += layers;
      const bool end = k + 1 == part.pp;
      const StageLayout next_stage = LayoutOf(plan_, stages->size() + 1);
      // What ranks of the next stage each take of tokens that nobody holds whole: their even share.
      const auto handed = [&](std::size_t j) {
        return OutputBytes(j) / (SplitsTokens(plan_.modules[j]) ? next_stage.PerReplica() : 1);
      };
      if (end) make_.AddOutput(share, &chunk.units);
      chunk.fusion = chunk.units.size();
      for (std::size_t j = 0; j < i; ++j) {
        if (plan_.modules[j].placement == Placement::kOwnRanks) chunk.sent_bytes += handed(j);
      }
      const double inside = kValueBytes * TotalTokens(share.batches) / share.cp *
                            share.module->hidden / share.every * share.pieces;
      chunk.sent_bytes += end ? handed(i) : inside;
      StageUnits stage;
      stage.chunks.push_back(std::move(chunk));
      stages->push_back(std::move(stage));
    }
  }

  Chunk MakeChunk(const Split& split, int position) const {
    const int positions = plan_.Positions();
    const auto at = static_cast<std::size_t>(position);
    // Modalities meet where the last balanced encoder ends.
    int meeting = 0;
    for (std::size_t i = 0; i < last_; ++i) {
      for (int p = 0; p < positions; ++p) {
        if (split[i][static_cast<std::size_t>(p)] > 0) meeting = std::max(meeting, p);
      }
    }
    Chunk chunk;
    double inside = 0;  // an encoder that goes on in the next chunk, and what others have made
    for (std::size_t i = 0; i < last_; ++i) {
      const ModulePlan& part = plan_.modules[i];
      if (IsBalanced(part)) {
        const Share share = ShareOf(s_, i, backward_, load_, whole_);
        int before = 0;
        for (std::size_t p = 0; p < at; ++p) before += split[i][p];
        const int here = split[i][at];
        if (share.module->Layers() > 0 && before + here == share.module->Layers() &&
            position < meeting)
          inside += OutputBytes(i);
        if (here == 0 && !(share.module->Layers() == 0 && position == meeting)) continue;
        if (before == 0) make_.AddInput(share, &chunk.units);
        if (here > 0) make_.AddLayers(share, before, before + here - 1, &chunk.units);
        if (before + here == share.module->Layers()) {
          make_.AddOutput(share, &chunk.units);
        } else {
          inside += kValueBytes * TotalTokens(share.batches) * share.module->hidden;
        }
      } else if (position == meeting && part.placement != Placement::kOwnRanks &&
                 part.placement != Placement::kInBubbles) {
        AddModule(i, &chunk.units);
      }
    }
    chunk.fusion = chunk.units.size();
    chunk.meets = position == meeting;
    const Share share = ShareOf(s_, last_, backward_, load_, whole_);
    for (std::size_t p = 0; p < at; ++p) chunk.first_layer += split[last_][p];
    chunk.last_layer = chunk.first_layer + split[last_][at] - 1;
    if (position == meeting) make_.AddInput(share, &chunk.units);
    if (split[last_][at] > 0)
      make_.AddLayers(share, chunk.first_layer, chunk.last_layer, &chunk.units);
    if (position + 1 == positions) {
      make_.AddOutput(share, &chunk.units);
      make_.AddHead(share, &chunk.units);
      if (s_.model->task == ModelTask::kContrastive && s_.workload.task == Task::kTrain)
        make_.AddContrastiveLoss(share, &chunk.units);
    } else {
      chunk.sent_bytes =
          position < meeting ? inside : BackboneBytes() + CrossBytes(chunk.last_layer + 1);
    }
    return chunk;
  }

  const Scenario& s_;
  const Plan& plan_;
  UnitMaker make_;
  std::size_t last_;
  const SampleLoad& load_;
  bool whole_;
  std::vector<bool> backward_;
};

}  // namespace

KernelCost Unit::Backward() const {
  KernelCost cost = first.input_gradient + shared.input_gradient + second.input_gradient;
  cost += first.adapter_gradient + shared.adapter_gradient + second.adapter_gradient;
  if (trained) cost += first.weight_gradient + shared.weight_gradient + second.weight_gradient;
  return cost;
}

std::vector<bool> ModulesWithBackward(const Model& model, const Plan& plan) {
  const std::size_t n = model.modules.size();
  std::vector<bool> backward(n, false);
  for (std::size_t i = 0; i < n; ++i) {
    backward[i] = !plan.modules[i].frozen;
    for (std::size_t j = 0; j < i; ++j) {
      const bool reaches = i + 1 == n ? model.task == ModelTask::kGenerative
                                      : model.modules[j].modality == model.modules[i].modality;
      if (reaches && !plan.modules[j].frozen) backward[i] = true;
    }
  }
  if (plan.adapter.kind == AdapterKind::kPrompt) {
    // Prompts stand before the first layer, so gradients pass through all of them.
    for (std::size_t i = 0; i < n; ++i) {
      const bool prompted = !model.modules[i].runs.empty();
      for (std::size_t j = i; prompted && j < n; ++j) {
        if (j == i || (j + 1 == n ? model.task == ModelTask::kGenerative
                                  : model.modules[j].modality == model.modules[i].modality))
          backward[j] = true;
      }
    }
  }
  if (plan.adapter.kind != AdapterKind::kNone) backward[n - 1] = true;
  return backward;
}

std::vector<StageUnits> MakeStages(const Scenario& s, const CostContext& context,
                                   const CostContext* split_by) {
  const StageMaker maker(s, context, s.sample, /*whole_micro_batch=*/false);
  if (split_by == nullptr) return maker.Make(maker.FindSplit());
  return maker.Make(StageMaker(s, *split_by, s.sample, /*whole_micro_batch=*/false).FindSplit());
}

std::vector<std::vector<StageUnits>> MakeStagesOfLoads(const Scenario& s,
                                                       std::span<const SampleLoad> loads,
                                                       const CostContext& context) {
  const Split split = StageMaker(s, context, s.sample, /*whole_micro_batch=*/false).FindSplit();
  std::vector<std::vector<StageUnits>> stages;
  stages.reserve(loads.size());
  for (const SampleLoad& load : loads)
    stages.push_back(StageMaker(s, context, load, /*whole_micro_batch=*/true).Make(split));
  return stages;
}

double ForwardFlopsPerToken(const Scenario& scenario, const CostContext& context) {
  Scenario whole = scenario;  // one GPU, one sample
  Plan plan;
  plan.modules.resize(scenario.model->modules.size());
  for (std::size_t i = 0; i < plan.modules.size(); ++i)
    plan.modules[i].frozen = scenario.plan.modules[i].frozen;
  plan.layers_per_stage = {scenario.model->Backbone().Layers()};
  whole.plan = plan;
  whole.workload.task = Task::kTrain;
  CostContext unscaled = context;
  unscaled.flops_scale = 1;
  double flops = 0;
  for (const StageUnits& stage : MakeStages(whole, unscaled)) {
    for (const Chunk& chunk : stage.chunks) {
      for (const Unit& unit : chunk.units) flops += unit.Forward().flops;
    }
  }
  return flops / scenario.sample.backbone_tokens;
}

}  // namespace aurum
