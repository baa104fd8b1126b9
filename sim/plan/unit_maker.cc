#include "sim/plan/unit_maker.h"

#include <algorithm>
#include <cmath>

#include "sim/workload/adapter_routing.h"
#include "sim/workload/layer_cost.h"

namespace aurum {
namespace {}  // namespace

double TotalTokens(const std::vector<SequenceBatch>& batches) {
  double tokens = 0;
  for (const SequenceBatch& batch : batches) tokens += batch.sequences * batch.tokens;
  return tokens;
}

void UnitMaker::AddInput(const Share& share, std::vector<Unit>* units) const {
  const Module& m = *share.module;
  const double prompts = PromptTokens(share);
  double sequences = 0;
  for (const SequenceBatch& batch : share.batches) sequences += batch.sequences;
  const double all = TotalTokens(share.batches) / share.cp;
  const double tokens = std::max(all - prompts * sequences / share.cp, 0.0);  // that come in
  if (m.vocabulary == 0 && m.input.empty() && m.embedding_parameters == 0 && m.queries == 0 &&
      prompts == 0)
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
  if (prompts > 0) {
    const PassCost look_up = CostOfEmbedding(prompts * sequences, m.hidden, context);
    unit.first.forward += look_up.forward;
    unit.first.adapter_gradient += look_up.weight_gradient;
    unit.parameters.adapters += prompts * m.hidden;
  }
  if (share.backbone) AddRouting(&unit);
  const double bytes = kValueBytes * all * m.hidden / (share.sequence_parallel ? share.tp : 1);
  unit.memory.work_forward_bytes = bytes;  // then the first layer's own input
  units->push_back(unit);
}

void UnitMaker::AddLayers(const Share& share, int first, int last, std::vector<Unit>* units) const {
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
      if (!whole && !have_once) once = LayerUnit(share, run.layer, full ? Recompute{} : recompute);
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

void UnitMaker::AddOutput(const Share& share, std::vector<Unit>* units) const {
  const Module& m = *share.module;
  if (m.output.empty() && m.resampler.queries == 0) return;
  const CostContext context = Wide();
  Unit unit = Base(share, "output");
  const double tokens = TotalTokens(share.batches) / share.cp;
  if (m.resampler.queries > 0) {
    double sequences = 0;
    for (const SequenceBatch& batch : share.batches) sequences += batch.sequences;
    if (sequences > 0)
      unit.first += CostOfResampler(sequences, tokens / sequences, m.hidden, m.resampler, context);
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

void UnitMaker::AddHead(const Share& share, std::vector<Unit>* units) const {
  if (share.module->head_vocabulary <= 0) return;
  units->push_back(HeadUnit(share, /*shared=*/false));
  AddMultiTokenPrediction(share, units);
}

// Behind the head: modules that predict further tokens, each a matrix that joins the stream and the
// next token's embedding, a layer, and another pass of the head. Training alone runs them.
void UnitMaker::AddMultiTokenPrediction(const Share& share, std::vector<Unit>* units) const {
  const Module& m = *share.module;
  if (!Training()) return;
  const bool full = plan_.recompute.scope == RecomputeScope::kFull && share.backward &&
                    plan_.recompute.layers < 0;
  for (int k = 0; k < m.mtp_layers; ++k) {
    Unit unit = LayerUnit(share, m.mtp_layer, plan_.recompute);
    const double h = m.hidden, tokens = TotalTokens(share.batches) / share.cp;
    unit.name = "prediction module";
    unit.first += CostOfLinear(tokens, 2 * h, h / share.tp, context_);
    unit.parameters.dense += 2 * h * h / share.tp + (m.mtp_layer.layer_norm ? 6 : 3) * h;
    unit.recomputed = full;
    if (unit.backward && !full)
      unit.memory.kept.push_back({"joined streams", kValueBytes * tokens * 2 * h /
                                                        (share.sequence_parallel ? share.tp : 1)});
    units->push_back(std::move(unit));
    units->push_back(HeadUnit(share, /*shared=*/true));
  }
}

// Learned tokens before every sequence of this module.
double UnitMaker::PromptTokens(const Share& share) const {
  if (plan_.adapter.kind != AdapterKind::kPrompt || !Training() || share.module->runs.empty())
    return 0;
  return plan_.adapter.prompt_tokens;
}

// A router that branches on a figure of the device (`.item()`) waits until all that was enqueued has
// run. The device then stands idle until the host has enqueued again: in a framework that runs
// layers one by one, for the host's time of a layer pass, after which the queue grows again where
// the device is the slower of the two. Nothing is told of a wake-up below that.
void UnitMaker::AddRouting(Unit* unit) const {
  if (!plan_.adapter.routed_by_score) return;
  constexpr double kReadBackSeconds = 10e-6;  // a copy of four bytes to the host, and its interrupt
  Kernel kernel;
  kernel.kind = KernelKind::kHost;
  kernel.host_s = kReadBackSeconds + context_.stack->host_per_layer_s;
  unit->first.forward.memory_s += kernel.host_s;
  if (context_.lists_kernels) unit->first.forward.kernels.push_back(kernel);
}

// `shared`: its matrix is another head's.
// Every GPU gathers the features of both towers from all replicas, and scores its own images against all
// texts and its own texts against all images (Radford et al. 2021; open_clip's local loss). Gradients
// stay with the GPU's own features.
void UnitMaker::AddContrastiveLoss(const Share& share, std::vector<Unit>* units) const {
  const Module& m = *share.module;
  if (m.output.empty()) return;
  const auto width = static_cast<double>(m.output.back().out);
  const double own = share.samples, all = own * plan_.dp;
  Unit unit = Base(share, "contrastive loss");
  unit.trained = false;
  const CostContext context = Wide();
  for (int way = 0; way < 2; ++way) unit.first += CostOfLinear(own, width, all, context);
  unit.first += CostOfLossTraffic(2 * own * all, context);
  unit.feature_bytes = plan_.dp > 1 ? 2 * kValueBytes * all * width : 0;
  constexpr double kSimilarityBytes = 4;  // 32-bit, both ways
  const double bytes = 2 * kSimilarityBytes * own * all + 2 * kValueBytes * all * width;
  if (unit.backward)
    unit.memory.kept.push_back({"similarities and features", bytes});
  else
    unit.memory.work_forward_bytes = bytes;
  units->push_back(unit);
}

Unit UnitMaker::HeadUnit(const Share& share, bool shared) const {
  const Module& m = *share.module;
  Unit unit = Base(share, "head");
  unit.head = unit.logits = true;
  const double tokens =
      scenario_.workload.task == Task::kGenerate
          ? scenario_.sample.modules.back().batches.front().sequences * share.samples
          : TotalTokens(share.batches) / share.cp;
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

CostContext UnitMaker::Wide() const {
  CostContext context = context_;
  if (IsNarrow(context.precision)) context.precision = Precision::kBf16;
  return context;
}

// The host enqueues a layer's kernels ahead of the GPU; where it takes longer than they run, the GPU waits.
void UnitMaker::AddHostTime(Unit* unit) const {
  const Stack& stack = *context_.stack;
  const double forward = unit->Forward().Seconds();
  const double backward = unit->Backward().Seconds();
  if (forward <= 0) return;
  const double host = unit->layer != nullptr && unit->layer->mlp.experts > 0
                          ? stack.host_per_expert_layer_s
                          : stack.host_per_layer_s;
  const auto add = [&](KernelCost* cost, double seconds) {
    cost->memory_s += seconds;
    if (!context_.lists_kernels || seconds <= 0) return;
    Kernel kernel;
    kernel.kind = KernelKind::kHost;
    kernel.host_s = seconds;
    cost->kernels.push_back(kernel);
  };
  add(&unit->first.forward, stack.layer_overhead_s + std::max(host - forward, 0.0));
  add(&unit->first.input_gradient, stack.layer_overhead_s + std::max(host - backward, 0.0));
}

Unit UnitMaker::Base(const Share& share, const char* name) {
  Unit unit;
  unit.module = share.index;
  unit.name = name;
  unit.backward = share.backward;
  unit.trained = share.trained;
  unit.split_tokens = share.split_tokens;
  unit.every = share.every;
  unit.pieces = share.pieces;
  return unit;
}

double UnitMaker::AdapterParameters(const Layer& layer, double hidden, double tp,
                                    bool apart) const {
  const Adapter& adapter = plan_.adapter;
  if (adapter.kind == AdapterKind::kNone) return 0;
  const Attention& a = layer.attention;
  const double r = adapter.rank, dora = adapter.kind == AdapterKind::kDora ? 1 : 0;
  const double qk = a.head_dim + (a.kind == AttentionKind::kLatent ? a.rope_head_dim : 0);
  const double value = a.value_head_dim > 0 ? a.value_head_dim : a.head_dim;
  double total = 0;
  // `joins`: its input's side is that of the target before, where the stack has one adapter for both.
  std::string before;
  const auto add = [&](const char* target, double in, double out, double copies,
                       bool joins = false) {
    if (!adapter.Has(target)) return;
    const bool joint = joins && !before.empty() && context_.stack->adapters_joint;
    total += copies * (r * ((joint ? 0 : in) + out) + dora * out);
    before = target;
  };
  if (a.kind == AttentionKind::kLatent) {
    add("q", hidden, a.q_lora_rank > 0 ? a.q_lora_rank : a.heads * qk, 1);
    add("k", hidden, a.kv_lora_rank + a.rope_head_dim, 1);
  } else {
    add("q", hidden, a.heads * qk, 1);
    add("k", hidden, a.kv_heads * qk, 1, true);
    add("v", hidden, a.kv_heads * value, 1, true);
  }
  add("o", a.heads * value, hidden, 1);
  const Mlp& m = layer.mlp;
  double width = m.intermediate, copies = m.intermediate > 0 ? 1 : 0;
  if (m.experts > 0) {
    width = m.expert_intermediate;
    copies = apart ? static_cast<double>(m.experts) / plan_.ep : m.experts;
  }
  before.clear();
  add("up", hidden, width, copies);
  if (m.gated) add("gate", hidden, width, copies, true);
  add("down", width, hidden, copies);
  return total * AdapterCopies() / tp;
}

// With an adapter for every modality, all of them are held and trained, whichever a sample takes.
double UnitMaker::AdapterCopies() const {
  if (!plan_.adapter.per_modality) return 1;
  return static_cast<double>(ModalitiesOf(*scenario_.model).size());
}

Unit UnitMaker::LayerUnit(const Share& share, const Layer& layer,
                          const Recompute& recompute) const {
  const Module& m = *share.module;
  LayerShape shape;
  shape.hidden = m.hidden;
  shape.tp = share.tp;
  shape.sequence_parallel = share.sequence_parallel;
  shape.cp = share.cp;
  shape.cp_kind = share.cp_kind;
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
    shape.expert_kept = 1 - plan_.dropped_tokens;
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
  const double tokens = TotalTokens(share.batches);
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

void UnitMaker::AddContextBytes(const Layer& layer, const Share& share, double tokens,
                                Unit* unit) const {
  const Attention& a = layer.attention;
  if (a.kind == AttentionKind::kLinear) return;
  const double heads = a.heads / share.tp;
  const double kv_heads = std::max(a.kv_heads / share.tp, 1.0);
  const double qk = a.head_dim + (a.kind == AttentionKind::kLatent ? a.rope_head_dim : 0);
  const double value = a.value_head_dim > 0 ? a.value_head_dim : a.head_dim;
  if (share.cp_kind == ContextParallelKind::kRing) {
    unit->ring_bytes = kValueBytes * tokens * kv_heads * (qk + value);
  } else {
    unit->ulysses_bytes =
        kValueBytes * tokens / share.cp * (heads * qk + kv_heads * (qk + value) + heads * value);
  }
}

void UnitMaker::CountParameters(const Layer& layer, const Share& share, bool apart,
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

}  // namespace aurum
