#include "sim/plan/units.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/plan/rank_groups.h"

namespace aurum {
namespace {

constexpr double kValueBytes = 2;

double Tokens(const std::vector<SequenceBatch>& batches) {
  double tokens = 0;
  for (const SequenceBatch& batch : batches) tokens += batch.sequences * batch.tokens;
  return tokens;
}

// What a module of the model sees on one GPU in one micro-batch of its own.
struct Share {
  const Module* module = nullptr;
  std::size_t index = 0;
  double tp = 1;
  double cp = 1;
  bool sequence_parallel = false;
  double samples = 1;  // of the micro-batch that this GPU works on
  std::vector<SequenceBatch> batches;
  double output_tokens = 0;
  double kv_source_tokens = 0;
  bool backward = false, trained = false;
  bool backbone = false;
  int every = 1, pieces = 1;
};

class UnitMaker {
 public:
  UnitMaker(const Scenario& scenario, const CostContext& context)
      : scenario_(scenario), plan_(scenario.plan), context_(context) {}

  // Token embedding, patch embedding and other inputs.
  void AddInput(const Share& share, std::vector<Unit>* units) const {
    const Module& m = *share.module;
    const double tokens = Tokens(share.batches) / share.cp;
    if (m.vocabulary == 0 && m.input.empty() && m.embedding_parameters == 0 && m.queries == 0)
      return;
    const CostContext context = Wide();
    Unit unit = Base(share, "embedding");
    for (const Linear& linear : m.input) {
      unit.first += CostOfLinear(tokens * linear.repeats, static_cast<double>(linear.in),
                                 static_cast<double>(linear.out), context);
      unit.parameters.dense += static_cast<double>(linear.Parameters());
    }
    if (m.vocabulary > 0 && tokens > 0) unit.first += CostOfEmbedding(tokens, m.hidden, context);
    const double table = static_cast<double>(m.vocabulary) * m.hidden / share.tp;
    unit.parameters.embedding = table;
    unit.parameters.dense += table + static_cast<double>(m.embedding_parameters) +
                             static_cast<double>(m.queries) * m.hidden;
    unit.parameters.largest_matrix = table;
    if (share.backbone && plan_.adapter.trains_embeddings && Training())
      unit.parameters.adapters = table;
    const double bytes = kValueBytes * tokens * m.hidden / (share.sequence_parallel ? share.tp : 1);
    unit.memory.work_forward_bytes = bytes;  // then the first layer's own input
    units->push_back(unit);
  }

  void AddLayers(const Share& share, int first, int last, std::vector<Unit>* units) const {
    const Module& m = *share.module;
    const int executed = m.Layers() - m.layers_skipped;
    const Recompute& recompute = plan_.recompute;
    int index = 0;
    for (const LayerRun& run : m.runs) {
      const int from = std::max(first, index), to = std::min({last, index + run.count - 1});
      index += run.count;
      if (from > to) continue;
      const bool full = recompute.scope == RecomputeScope::kFull && share.backward;
      Unit again, once;  // recomputed whole, and not
      bool have_again = false, have_once = false;
      for (int i = from; i <= to; ++i) {
        const int at = i - first;
        const bool whole = full && (recompute.layers < 0 || at < recompute.layers);
        if (whole && !have_again) again = LayerUnit(share, run.layer, recompute);
        if (!whole && !have_once)
          once = LayerUnit(share, run.layer, full ? Recompute{} : recompute);
        (whole ? have_again : have_once) = true;
        Unit unit = whole ? again : once;
        if (i >= executed) {
          if (!units->empty()) units->back().parameters.dense += unit.parameters.dense;
          continue;  // loaded, never run
        }
        unit.recomputed = whole;
        unit.block_start = recompute.layers >= 0 || at % recompute.block_layers == 0;
        if (whole && !unit.block_start) unit.memory.checkpoint_bytes = 0;
        units->push_back(unit);
      }
    }
  }

  // Resampler and output matrices: a merger, a connector, a projection.
  void AddOutput(const Share& share, std::vector<Unit>* units) const {
    const Module& m = *share.module;
    if (m.output.empty() && m.resampler.queries == 0) return;
    const CostContext context = Wide();
    Unit unit = Base(share, "output");
    const double tokens = Tokens(share.batches) / share.cp;
    if (m.resampler.queries > 0) {
      double sequences = 0;
      for (const SequenceBatch& batch : share.batches) sequences += batch.sequences;
      if (sequences > 0)
        unit.first +=
            CostOfResampler(sequences, tokens / sequences, m.hidden, m.resampler, context);
      // Queries, the input projection without a bias, and four square matrices with one (models/model.h).
      const double h = m.hidden;
      unit.parameters.dense += (m.resampler.queries + m.resampler.kv_input) * h + 4 * (h * h + h);
    }
    // A contrastive tower projects its pooled output: once per sample.
    const double outputs = scenario_.model->task == ModelTask::kContrastive
                               ? share.samples
                               : share.output_tokens / share.cp;
    double bytes = 0;
    for (const Linear& linear : m.output) {
      unit.first += CostOfLinear(outputs * linear.repeats, static_cast<double>(linear.in),
                                 static_cast<double>(linear.out), context);
      unit.parameters.dense += static_cast<double>(linear.Parameters());
      bytes += kValueBytes * outputs * static_cast<double>(linear.in + linear.out);
    }
    if (unit.backward)
      unit.memory.kept.push_back({"projector inputs", bytes});
    else
      unit.memory.work_forward_bytes = bytes;
    units->push_back(unit);
  }

  void AddHead(const Share& share, std::vector<Unit>* units) const {
    if (share.module->head_vocabulary <= 0) return;
    units->push_back(HeadUnit(share, /*shared=*/false));
    AddMultiTokenPrediction(share, units);
  }

  // Behind the head: modules that predict further tokens, each a matrix that joins the stream and the
  // next token's embedding, a layer, and another pass of the head. Training alone runs them.
  void AddMultiTokenPrediction(const Share& share, std::vector<Unit>* units) const {
    const Module& m = *share.module;
    if (!Training()) return;
    const bool full = plan_.recompute.scope == RecomputeScope::kFull && share.backward &&
                      plan_.recompute.layers < 0;
    for (int k = 0; k < m.mtp_layers; ++k) {
      Unit unit = LayerUnit(share, m.mtp_layer, plan_.recompute);
      const double h = m.hidden, tokens = Tokens(share.batches) / share.cp;
      unit.name = "prediction module";
      unit.first += CostOfLinear(tokens, 2 * h, h / share.tp, context_);
      unit.parameters.dense += 2 * h * h / share.tp + (m.mtp_layer.layer_norm ? 6 : 3) * h;
      unit.recomputed = full;
      if (unit.backward && !full)
        unit.memory.kept.push_back(
            {"joined streams",
             kValueBytes * tokens * 2 * h / (share.sequence_parallel ? share.tp : 1)});
      units->push_back(std::move(unit));
      units->push_back(HeadUnit(share, /*shared=*/true));
    }
  }

 private:
  // `shared`: its matrix is another head's.
  Unit HeadUnit(const Share& share, bool shared) const {
    const Module& m = *share.module;
    Unit unit = Base(share, "head");
    unit.head = unit.logits = true;
    const double tokens =
        scenario_.workload.task == Task::kGenerate
            ? scenario_.sample.modules.back().batches.front().sequences * share.samples
            : Tokens(share.batches) / share.cp;
    const auto vocabulary = static_cast<double>(m.head_vocabulary);
    const CostContext context = Wide();
    unit.first = CostOfHead(tokens, m.hidden, vocabulary, share.tp, context);
    // A tied head on the embedding's own stage adds no weights; on another stage it is a second copy.
    const double table = vocabulary * m.hidden / share.tp;
    unit.parameters.dense = shared || (m.tied_head && plan_.pp == 1) ? 0 : table;
    unit.parameters.embedding = unit.parameters.dense;
    unit.parameters.largest_matrix = table;
    // Tied and on one stage, the embedding has trained it.
    if (plan_.adapter.trains_embeddings && Training() && unit.parameters.dense > 0)
      unit.parameters.adapters = table;
    unit.memory = ActivationsOfHead(tokens, m.hidden, vocabulary, share.tp, context);
    if (!unit.backward) {
      unit.memory.work_forward_bytes += unit.memory.KeptBytes();
      unit.memory.kept.clear();
    }
    return unit;
  }

  bool Training() const { return scenario_.workload.task == Task::kTrain; }
  // Narrow formats are for the products of the backbone's layers.
  CostContext Wide() const {
    CostContext context = context_;
    if (IsNarrow(context.precision)) context.precision = Precision::kBf16;
    return context;
  }
  // The host enqueues a layer's kernels ahead of the GPU; where it takes longer than they run, the GPU waits.
  void AddHostTime(Unit* unit) const {
    const Stack& stack = *context_.stack;
    const double forward = unit->Forward().Seconds();
    const double backward = unit->Backward().Seconds();
    if (forward <= 0) return;
    unit->first.forward.memory_s +=
        stack.layer_overhead_s + std::max(stack.host_per_layer_s - forward, 0.0);
    unit->first.input_gradient.memory_s +=
        stack.layer_overhead_s + std::max(stack.host_per_layer_s - backward, 0.0);
  }
  static Unit Base(const Share& share, const char* name) {
    Unit unit;
    unit.module = share.index;
    unit.name = name;
    unit.backward = share.backward;
    unit.trained = share.trained;
    unit.every = share.every;
    unit.pieces = share.pieces;
    return unit;
  }
  double AdapterParameters(const Layer& layer, double hidden, double tp, bool apart) const {
    const Adapter& adapter = plan_.adapter;
    if (adapter.kind == AdapterKind::kNone) return 0;
    const Attention& a = layer.attention;
    const double r = adapter.rank, dora = adapter.kind == AdapterKind::kDora ? 1 : 0;
    const double qk = a.head_dim + (a.kind == AttentionKind::kLatent ? a.rope_head_dim : 0);
    const double value = a.value_head_dim > 0 ? a.value_head_dim : a.head_dim;
    double total = 0;
    const auto add = [&](const char* target, double in, double out, double copies) {
      if (adapter.Has(target)) total += copies * (r * (in + out) + dora * out);
    };
    if (a.kind == AttentionKind::kLatent) {
      add("q", hidden, a.q_lora_rank > 0 ? a.q_lora_rank : a.heads * qk, 1);
      add("k", hidden, a.kv_lora_rank + a.rope_head_dim, 1);
    } else {
      add("q", hidden, a.heads * qk, 1);
      add("k", hidden, a.kv_heads * qk, 1);
      add("v", hidden, a.kv_heads * value, 1);
    }
    add("o", a.heads * value, hidden, 1);
    const Mlp& m = layer.mlp;
    double width = m.intermediate, copies = m.intermediate > 0 ? 1 : 0;
    if (m.experts > 0) {
      width = m.expert_intermediate;
      copies = apart ? static_cast<double>(m.experts) / plan_.ep : m.experts;
    }
    add("up", hidden, width, copies);
    if (m.gated) add("gate", hidden, width, copies);
    add("down", width, hidden, copies);
    return total / tp;
  }

  Unit LayerUnit(const Share& share, const Layer& layer, const Recompute& recompute) const {
    const Module& m = *share.module;
    LayerShape shape;
    shape.hidden = m.hidden;
    shape.tp = share.tp;
    shape.sequence_parallel = share.sequence_parallel;
    shape.cp = share.cp;
    shape.cp_kind = plan_.cp_kind;
    shape.batches = share.batches;
    shape.kv_source_tokens = share.kv_source_tokens;
    shape.recompute = recompute;
    CostContext context = context_;
    const bool apart =
        share.backbone && layer.mlp.experts > 0 && (plan_.ep != 1 || plan_.expert_tp != plan_.tp);
    if (share.backbone) {
      shape.adapter = plan_.adapter;
      shape.experts_sharded = apart;
      shape.ep = plan_.ep;
      shape.expert_tp = plan_.expert_tp;
      shape.expert_imbalance = plan_.expert_imbalance;
    } else {
      context = Wide();
    }
    const LayerCost cost = CostOfLayer(layer, shape, context);
    Unit unit = Base(share, "layer");
    unit.layer = &layer;
    unit.first = cost.attention;
    unit.shared = cost.shared;
    unit.second = cost.mlp;
    unit.has_second = true;
    const double tokens = Tokens(share.batches);
    unit.tp_collectives = share.tp > 1;
    // Experts of their own cut take their tokens where sequence parallelism left them; only a shared
    // expert is still tensor-parallel.
    unit.tp_collectives_second = share.tp > 1 && (!apart || layer.mlp.shared_intermediate > 0);
    unit.tp_bytes = kValueBytes * tokens / share.cp * m.hidden;
    if (share.cp > 1) AddContextBytes(layer, share, tokens, &unit);
    if (apart && plan_.ep * plan_.expert_tp > 1) {
      const double row = static_cast<double>(m.hidden);
      unit.dispatch_bytes = cost.routed_tokens * row * (IsNarrow(context.precision) ? 1 : 2);
      unit.combine_bytes = cost.routed_tokens * row * kValueBytes;
      unit.expert_tp_bytes = cost.routed_tokens * row * kValueBytes * plan_.expert_tp;
    }
    CountParameters(layer, share, apart, &unit.parameters);
    unit.kv_cache_bytes = KvCacheBytesPerToken(layer, share.tp);
    unit.memory = ActivationsOfLayer(layer, shape, share.trained, share.backward, context);
    AddHostTime(&unit);
    return unit;
  }

  void AddContextBytes(const Layer& layer, const Share& share, double tokens, Unit* unit) const {
    const Attention& a = layer.attention;
    if (a.kind == AttentionKind::kLinear) return;
    const double heads = a.heads / share.tp;
    const double kv_heads = std::max(a.kv_heads / share.tp, 1.0);
    const double qk = a.head_dim + (a.kind == AttentionKind::kLatent ? a.rope_head_dim : 0);
    const double value = a.value_head_dim > 0 ? a.value_head_dim : a.head_dim;
    if (plan_.cp_kind == ContextParallelKind::kRing) {
      unit->ring_bytes = kValueBytes * tokens * kv_heads * (qk + value);
    } else {
      unit->ulysses_bytes =
          kValueBytes * tokens / share.cp * (heads * qk + kv_heads * (qk + value) + heads * value);
    }
  }

  void CountParameters(const Layer& layer, const Share& share, bool apart,
                       UnitParameters* out) const {
    const int h = share.module->hidden;
    const auto whole = static_cast<double>(LayerParameters(layer, h));
    const auto replicated = static_cast<double>(layer.norm_parameters + layer.other_parameters);
    double routed = 0;
    if (apart) {
      Layer bare = layer;
      bare.mlp.shared_intermediate = 0;
      routed =
          static_cast<double>(MlpParameters(bare, h)) - static_cast<double>(h) * layer.mlp.experts;
      out->experts = routed / plan_.ep / plan_.expert_tp;
    }
    out->dense = (whole - replicated - routed) / share.tp + replicated;
    const Attention& a = layer.attention;
    const double width = std::max<double>(
        layer.mlp.experts > 0 ? layer.mlp.expert_intermediate : layer.mlp.intermediate,
        static_cast<double>(a.heads) * a.head_dim);
    out->largest_matrix = width * h / share.tp;
    if (!share.backbone || !Training()) return;
    out->adapters = AdapterParameters(layer, h, share.tp, apart);
    if (plan_.adapter.kind != AdapterKind::kNone && plan_.adapter.base != QuantisedBase::kNone)
      out->quantised = out->dense - replicated + out->experts;
  }

  const Scenario& scenario_;
  const Plan& plan_;
  const CostContext& context_;
};

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

// Cuts `weights` into `parts` runs so that the heaviest is least: dynamic programming over prefixes
// (the linear partition problem), ties to the earliest cut. O(parts · n²).
std::vector<int> BalancedCut(const std::vector<double>& weights, int parts) {
  const auto n = static_cast<int>(weights.size());
  std::vector<double> prefix(weights.size() + 1, 0);
  for (std::size_t i = 0; i < weights.size(); ++i) prefix[i + 1] = prefix[i] + weights[i];
  const double far = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> best(static_cast<std::size_t>(parts) + 1,
                                        std::vector<double>(weights.size() + 1, far));
  std::vector<std::vector<int>> from(best.size(), std::vector<int>(weights.size() + 1, 0));
  best[0][0] = 0;
  const auto at = [](int i) { return static_cast<std::size_t>(i); };
  for (int k = 1; k <= parts; ++k) {
    for (int end = 0; end <= n; ++end) {
      for (int begin = 0; begin <= end; ++begin) {
        const double heaviest =
            std::max(best[at(k - 1)][at(begin)], prefix[at(end)] - prefix[at(begin)]);
        if (heaviest < best[at(k)][at(end)] * (1 - 1e-12)) {
          best[at(k)][at(end)] = heaviest;
          from[at(k)][at(end)] = begin;
        }
      }
    }
  }
  std::vector<int> counts(at(parts));
  for (int k = parts, end = n; k > 0; --k) {
    const int begin = from[at(k)][at(end)];
    counts[at(k - 1)] = end - begin;
    end = begin;
  }
  return counts;
}

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
      if (end) make_.AddOutput(share, &chunk.units);
      chunk.fusion = chunk.units.size();
      for (std::size_t j = 0; j < i; ++j) {
        if (plan_.modules[j].placement == Placement::kOwnRanks) chunk.sent_bytes += OutputBytes(j);
      }
      const double inside =
          kValueBytes * Tokens(share.batches) * share.module->hidden / share.every * share.pieces;
      chunk.sent_bytes += end ? OutputBytes(i) : inside;
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
          inside += kValueBytes * Tokens(share.batches) * share.module->hidden;
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
  if (plan.adapter.kind != AdapterKind::kNone) backward[n - 1] = true;
  return backward;
}

std::vector<StageUnits> MakeStages(const Scenario& s, const CostContext& context) {
  const StageMaker maker(s, context, s.sample, /*whole_micro_batch=*/false);
  return maker.Make(maker.FindSplit());
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
