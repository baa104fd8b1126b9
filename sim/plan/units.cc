#include "sim/plan/units.h"

#include <algorithm>
#include <cmath>

namespace aurum {
namespace {

constexpr double kValueBytes = 2;

double Tokens(const std::vector<SequenceBatch>& batches) {
  double tokens = 0;
  for (const SequenceBatch& batch : batches) tokens += batch.sequences * batch.tokens;
  return tokens;
}

// What a module of the model sees on one GPU in one micro-batch.
struct Share {
  const Module* module = nullptr;
  std::size_t index = 0;
  double tp = 1;
  bool sequence_parallel = false;
  double samples = 1;  // of the micro-batch that this GPU works on
  std::vector<SequenceBatch> batches;
  double output_tokens = 0;
  double kv_source_tokens = 0;
  bool backward = false, trained = false;
};

class UnitMaker {
 public:
  UnitMaker(const Scenario& scenario, const CostContext& context)
      : scenario_(scenario), context_(context) {}

  // Token embedding, patch embedding and other inputs.
  void AddInput(const Share& share, std::vector<Unit>* units) const {
    const Module& m = *share.module;
    const double tokens = Tokens(share.batches);
    if (m.vocabulary == 0 && m.input.empty() && m.embedding_parameters == 0) return;
    Unit unit = Base(share);
    for (const Linear& linear : m.input) {
      unit.first =
          Sum(unit.first, CostOfLinear(tokens * linear.repeats, static_cast<double>(linear.in),
                                       static_cast<double>(linear.out), context_));
      unit.parameters += static_cast<double>(linear.Parameters());
    }
    if (m.vocabulary > 0 && tokens > 0)
      unit.first = Sum(unit.first, CostOfEmbedding(tokens, m.hidden, context_));
    unit.parameters += static_cast<double>(m.vocabulary) * m.hidden / share.tp +
                       static_cast<double>(m.embedding_parameters);
    unit.kept_bytes =
        unit.backward ? kValueBytes * tokens * m.hidden / (share.sequence_parallel ? share.tp : 1)
                      : 0;
    unit.work_bytes = kValueBytes * tokens * m.hidden;
    units->push_back(unit);
  }

  void AddLayers(const Share& share, int first, int last, std::vector<Unit>* units) const {
    const Module& m = *share.module;
    const int executed = m.Layers() - m.layers_skipped;
    int index = 0;
    for (const LayerRun& run : m.runs) {
      const int from = std::max(first, index), to = std::min({last, index + run.count - 1});
      index += run.count;
      if (from > to) continue;
      const Unit unit = LayerUnit(share, run.layer);
      for (int i = from; i <= to; ++i) {
        if (i < executed) {
          units->push_back(unit);
        } else if (!units->empty()) {
          units->back().parameters += unit.parameters;  // loaded, never run
        }
      }
    }
  }

  // Resampler and output matrices: a merger, a connector, a projection.
  void AddOutput(const Share& share, std::vector<Unit>* units) const {
    const Module& m = *share.module;
    if (m.output.empty() && m.resampler.queries == 0) return;
    Unit unit = Base(share);
    const double tokens = Tokens(share.batches);
    if (m.resampler.queries > 0) {
      double sequences = 0;
      for (const SequenceBatch& batch : share.batches) sequences += batch.sequences;
      if (sequences > 0)
        unit.first = Sum(unit.first, CostOfResampler(sequences, tokens / sequences, m.hidden,
                                                     m.resampler, context_));
      // Queries, the input projection without a bias, and four square matrices with one (models/model.h).
      const double h = m.hidden;
      unit.parameters += (m.resampler.queries + m.resampler.kv_input) * h + 4 * (h * h + h);
    }
    // A contrastive tower projects its pooled output: once per sample.
    const double outputs =
        scenario_.model->task == ModelTask::kContrastive ? share.samples : share.output_tokens;
    for (const Linear& linear : m.output) {
      unit.first =
          Sum(unit.first, CostOfLinear(outputs * linear.repeats, static_cast<double>(linear.in),
                                       static_cast<double>(linear.out), context_));
      unit.parameters += static_cast<double>(linear.Parameters());
      unit.kept_bytes += kValueBytes * outputs * static_cast<double>(linear.in + linear.out);
    }
    unit.work_bytes = unit.kept_bytes;
    if (!unit.backward) unit.kept_bytes = 0;
    units->push_back(unit);
  }

  void AddHead(const Share& share, std::vector<Unit>* units) const {
    const Module& m = *share.module;
    if (m.head_vocabulary <= 0) return;
    Unit unit = Base(share);
    unit.head = unit.logits = true;
    const double tokens =
        scenario_.workload.task == Task::kGenerate
            ? scenario_.sample.modules.back().batches.front().sequences * share.samples
            : Tokens(share.batches);
    const auto vocabulary = static_cast<double>(m.head_vocabulary);
    unit.first = CostOfHead(tokens, m.hidden, vocabulary, share.tp, context_);
    // A tied head on the embedding's own stage adds no weights; on another stage it is a second copy.
    unit.parameters = m.tied_head && scenario_.plan.pp == 1 ? 0 : vocabulary * m.hidden / share.tp;
    unit.work_bytes = context_.stack->logit_bytes * tokens * vocabulary / share.tp;
    unit.kept_bytes = unit.backward ? unit.work_bytes : 0;
    units->push_back(unit);
  }

 private:
  // The host enqueues a layer's kernels ahead of the GPU; where it takes longer than they run, the GPU waits.
  void AddHostTime(Unit* unit) const {
    const Stack& stack = *context_.stack;
    const double forward = unit->first.forward.Seconds() + unit->second.forward.Seconds();
    const double backward =
        unit->first.input_gradient.Seconds() + unit->second.input_gradient.Seconds() +
        (unit->trained
             ? unit->first.weight_gradient.Seconds() + unit->second.weight_gradient.Seconds()
             : 0);
    if (forward <= 0) return;
    unit->first.forward.memory_s +=
        stack.layer_overhead_s + std::max(stack.host_per_layer_s - forward, 0.0);
    unit->first.input_gradient.memory_s +=
        stack.layer_overhead_s + std::max(stack.host_per_layer_s - backward, 0.0);
  }
  static PassCost Sum(PassCost a, const PassCost& b) {
    a.forward += b.forward;
    a.input_gradient += b.input_gradient;
    a.weight_gradient += b.weight_gradient;
    a.attention_core += b.attention_core;
    return a;
  }
  static Unit Base(const Share& share) {
    Unit unit;
    unit.module = share.index;
    unit.backward = share.backward;
    unit.trained = share.trained;
    return unit;
  }
  Unit LayerUnit(const Share& share, const Layer& layer) const {
    const Module& m = *share.module;
    LayerShape shape;
    shape.hidden = m.hidden;
    shape.tp = share.tp;
    shape.sequence_parallel = share.sequence_parallel;
    shape.batches = share.batches;
    shape.kv_source_tokens = share.kv_source_tokens;
    const LayerCost cost = CostOfLayer(layer, shape, context_);
    Unit unit = Base(share);
    unit.layer = &layer;
    unit.first = cost.attention;
    unit.second = cost.mlp;
    unit.has_second = true;
    AddHostTime(&unit);
    unit.tp_collectives = share.tp > 1;
    unit.tp_bytes = kValueBytes * Tokens(share.batches) * m.hidden;
    const auto whole = static_cast<double>(LayerParameters(layer, m.hidden));
    const auto replicated = static_cast<double>(layer.norm_parameters + layer.other_parameters);
    unit.parameters = (whole - replicated) / share.tp + replicated;
    unit.kv_cache_bytes = KvCacheBytesPerToken(layer, share.tp);
    const double full = share.trained ? cost.kept_bytes : cost.kept_frozen_bytes;
    unit.work_bytes = full;
    if (!share.backward) {
      unit.kept_bytes = 0;
    } else if (scenario_.plan.recompute == Recompute::kFull) {
      unit.kept_bytes = cost.kept_checkpoint_bytes;
    } else if (scenario_.plan.recompute == Recompute::kSelective) {
      unit.kept_bytes = full - cost.score_bytes;
    } else {
      unit.kept_bytes = full;
    }
    return unit;
  }

  const Scenario& scenario_;
  const CostContext& context_;
};

Share ShareOf(const Scenario& s, std::size_t i, const std::vector<bool>& backward) {
  const Module& module = s.model->modules[i];
  const ModulePlan& plan = s.plan.modules[i];
  const bool backbone = i + 1 == s.model->modules.size();
  Share share;
  share.module = &module;
  share.index = i;
  share.tp = plan.tp;
  share.sequence_parallel = backbone && s.plan.sequence_parallel;
  share.samples = static_cast<double>(s.plan.micro_batch_size);
  if (!backbone && plan.placement == Placement::kColocatedDp) share.samples /= s.plan.tp;
  for (SequenceBatch batch : s.sample.modules[i].batches) {
    batch.sequences *= share.samples;
    share.batches.push_back(batch);
  }
  share.output_tokens = s.sample.modules[i].output_tokens * share.samples;
  if (backbone) share.kv_source_tokens = s.sample.cross_attention_tokens;
  share.backward = backward[i];
  share.trained = s.workload.task == Task::kTrain && !plan.frozen;
  return share;
}

}  // namespace

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
  return backward;
}

std::vector<Stage> MakeStages(const Scenario& s, const CostContext& context) {
  const UnitMaker make(s, context);
  const std::vector<bool> backward = s.workload.task == Task::kTrain
                                         ? ModulesWithBackward(*s.model, s.plan)
                                         : std::vector<bool>(s.model->modules.size(), false);
  const std::size_t last_module = s.model->modules.size() - 1;
  std::vector<Stage> stages(static_cast<std::size_t>(s.plan.pp));
  for (std::size_t i = 0; i < last_module; ++i) {
    const Share share = ShareOf(s, i, backward);
    make.AddInput(share, &stages[0].units);
    make.AddLayers(share, 0, share.module->Layers() - 1, &stages[0].units);
    make.AddOutput(share, &stages[0].units);
  }
  stages[0].fusion = stages[0].units.size();
  const Share share = ShareOf(s, last_module, backward);
  int next_layer = 0;
  for (int p = 0; p < s.plan.pp; ++p) {
    Stage& stage = stages[static_cast<std::size_t>(p)];
    stage.first_layer = next_layer;
    next_layer += s.plan.layers_per_stage[static_cast<std::size_t>(p)];
    stage.last_layer = next_layer - 1;
    if (p == 0) make.AddInput(share, &stage.units);
    make.AddLayers(share, stage.first_layer, stage.last_layer, &stage.units);
    if (p + 1 == s.plan.pp) {
      make.AddOutput(share, &stage.units);
      make.AddHead(share, &stage.units);
    }
  }
  return stages;
}

double ForwardFlopsPerToken(const Scenario& scenario, const CostContext& context) {
  Scenario whole = scenario;  // one GPU, one sample
  whole.plan.tp = whole.plan.pp = 1;
  whole.plan.micro_batch_size = 1;
  whole.plan.sequence_parallel = false;
  whole.plan.layers_per_stage = {scenario.model->Backbone().Layers()};
  whole.workload.task = Task::kTrain;
  for (ModulePlan& module : whole.plan.modules) module = {1, Placement::kFirstStage, module.frozen};
  CostContext unscaled = context;
  unscaled.flops_scale = 1;
  double flops = 0;
  for (const Stage& stage : MakeStages(whole, unscaled)) {
    for (const Unit& unit : stage.units)
      flops += unit.first.forward.flops + unit.second.forward.flops;
  }
  return flops / scenario.sample.backbone_tokens;
}

}  // namespace aurum
