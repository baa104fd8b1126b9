#include "sim/plan/lower.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <optional>
#include <utility>

#include "sim/plan/pricing.h"
#include "sim/plan/units.h"

// From a plan to a program
// ------------------------
// Each pipeline stage becomes one class of ranks with six streams: compute, tensor-parallel collectives, pipeline
// transfers in both directions, data-parallel collectives, and the exchange of misaligned tokens. Ops are added to a stream
// in the order in which a framework would launch them (1F1B: Narayanan et al., "Efficient Large-Scale Language Model Training
// on GPU Clusters", 2021):
//
//   stage s of p, m micro-batches:  w = min(m, p − s − 1) forwards, then (forward, backward) m − w times, then w backwards.
//
// Example, p = 2, m = 3:   stage 0:  F0 F1 B0 F2 B1 B2        stage 1:  F0 B0 F1 B1 F2 B2
//
// Data parallelism. DDP and ZeRO-1 reduce gradients unit by unit during the last micro-batch's backward; ZeRO-1 gathers the
// updated parameters during the first micro-batch's forward (a step in steady state: the gather of the step before). The stack's
// dp_overlap says which share of these collectives may run beside compute; the rest runs alone. FSDP gathers every unit before its
// forward and before its backward, one unit ahead, and reduces its gradients after it, in every micro-batch (Zhao et al., "PyTorch
// FSDP", 2023). Compute beside a collective runs slower by overlap_slowdown · the time they share.
//
// Cost: ops are O(stages · micro-batches · units).
namespace aurum {
namespace {

constexpr double kValueBytes = 2;

class Lowering {
 public:
  Lowering(const Scenario& scenario, const LowerOptions& options)
      : s_(scenario), options_(options) {
    context_ = {s_.profile.get(), s_.stack.get(), s_.plan.precision, 1};
    program_.provenance = s_.profile->provenance;
  }

  Program Run() {
    program_.own_flops_per_token = ForwardFlopsPerToken(s_, context_);
    if (s_.what_if.flops_per_token)
      program_.flops_scale = *s_.what_if.flops_per_token / program_.own_flops_per_token;
    context_.flops_scale = program_.flops_scale;
    stages_ = MakeStages(s_, context_);
    CheckSize();
    pricer_.emplace(s_, options_.with_traffic, &program_);
    program_.micro_batches = s_.plan.micro_batches;
    program_.micro_batch_tokens =
        s_.sample.backbone_tokens * static_cast<double>(s_.plan.micro_batch_size);
    const std::size_t p = stages_.size();
    for (std::size_t stage = 0; stage < p; ++stage) {
      for (int lane = 0; lane < kLanes; ++lane) program_.graph.AddStream();
      AddClass(stage);
    }
    forward_first_.assign(p, std::vector<OpId>(Micro()));
    backward_first_ = forward_first_;
    forward_send_ = forward_first_;
    backward_send_ = forward_first_;
    for (std::size_t stage = 0; stage < p; ++stage) EmitStage(stage);
    ConnectStages();
    [[maybe_unused]] const bool acyclic = program_.graph.Finish();
    assert(acyclic);
    return std::move(program_);
  }

 private:
  std::size_t Micro() const { return static_cast<std::size_t>(s_.plan.micro_batches); }
  bool Training() const { return s_.workload.task == Task::kTrain; }

  // The clock holds 106 days. All ops in a row must stay a tenth of that, so that sharing has room to delay them.
  void CheckClock(double seconds) {
    total_s_ += seconds;
    if (total_s_ < kLongestStep) return;
    ThrowInput(
        340, "a step of this scenario would take longer than ten days",
        "fewer tokens, images or FLOPs per token, a smaller batch, or faster rates in the profile",
        ExitCode::kInfeasible);
  }

  // Every micro-batch is simulated: a batch that would take gigabytes of operations is refused, not endured.
  void CheckSize() const {
    double units = 0;
    for (const Stage& stage : stages_) units += static_cast<double>(stage.units.size());
    const double per_unit = s_.plan.tp > 1 ? 10 : 4;
    const double rounds = static_cast<double>(s_.plan.micro_batches);
    const double ops =
        rounds * (units * per_unit + 2 * static_cast<double>(s_.workload.new_tokens));
    if (ops <= kMostOps) return;
    ThrowInput(341,
               std::to_string(s_.plan.micro_batches) + " micro-batches of this model are about " +
                   std::to_string(static_cast<std::int64_t>(ops / 1e6)) +
                   " million operations, too many to simulate",
               "a larger micro_batch_size or a smaller global_batch_size; a step grows by the same "
               "time with every further micro-batch",
               ExitCode::kInfeasible);
  }

  StreamId Stream(std::size_t stage, Lane lane) const {
    return static_cast<StreamId>(stage * kLanes + static_cast<std::size_t>(lane));
  }

  OpId Add(std::size_t stage, Lane lane, OpKind kind, double seconds,
           const Priced* priced = nullptr) {
    CheckClock(seconds);
    const Time duration = TimeFromSeconds(seconds);
    OpId op = 0;
    if (priced != nullptr && priced->pattern != kNoPattern) {
      op = program_.graph.AddTransfer(Stream(stage, lane), duration,
                                      std::min(TimeFromSeconds(priced->latency_s), duration),
                                      priced->pattern);
    } else {
      op = program_.graph.AddOp(Stream(stage, lane), duration);
    }
    OpInfo info;
    info.rank_class = static_cast<std::uint16_t>(stage);
    info.lane = lane;
    info.kind = kind;
    info.micro_batch = micro_batch_;
    if (priced != nullptr) info.bytes = priced->bytes;
    program_.info.push_back(info);
    return op;
  }

  // Follows the data: the new op waits for the front and becomes it.
  OpId Chain(std::size_t stage, Lane lane, OpKind kind, double seconds,
             const Priced* priced = nullptr) {
    const OpId op = Add(stage, lane, kind, seconds, priced);
    if (has_front_) program_.graph.AddDependency(front_, op);
    front_ = op;
    has_front_ = true;
    return op;
  }

  void ChainCollective(std::size_t stage, const Priced& priced, std::size_t module) {
    if (priced.seconds <= 0) return;
    Chain(stage, Lane::kTp, OpKind::kTpCollective, priced.seconds, &priced);
    program_.info.back().module = static_cast<std::int16_t>(module);
  }

  // `beside_s` of collectives run at the same time and slow it down.
  OpId Compute(std::size_t stage, OpKind kind, const Unit& unit, double seconds, double beside_s,
               double flops) {
    const double slowed = s_.stack->overlap_slowdown * std::min(seconds, beside_s);
    const OpId op = Chain(stage, Lane::kMain, kind, seconds + slowed);
    OpInfo& info = program_.info.back();
    info.slowed_s = slowed;
    info.module = static_cast<std::int16_t>(unit.module);
    info.head = unit.head;
    info.flops = flops;
    return op;
  }

  void Remember(OpId op, bool at_end, std::size_t stage, const Unit& unit, double bytes) {
    if (bytes == 0) return;
    program_.memory.push_back({op, at_end, static_cast<std::uint16_t>(stage),
                               unit.logits ? MemoryKind::kLogits : MemoryKind::kActivations,
                               bytes});
  }

  void AddDp(std::size_t stage, OpKind kind, const Unit& unit, const Priced& priced,
             const OpId* after, OpId* made) {
    *made = Add(stage, Lane::kDp, kind, priced.seconds, &priced);
    program_.info.back().module = static_cast<std::int16_t>(unit.module);
    if (after != nullptr) program_.graph.AddDependency(*after, *made);
  }

  // The gather that the next compute of `unit` needs under FSDP: launched while the unit before last ends (one ahead).
  void GatherAhead(std::size_t stage, const Unit& unit, const DpCollectives& dp) {
    if (s_.plan.sharding != Sharding::kFsdp || dp.gather.seconds <= 0) return;
    OpId gather = 0;
    AddDp(stage, OpKind::kParameterGather, unit, dp.gather, has_before_ ? &before_ : nullptr,
          &gather);
    pending_ = gather;
    has_pending_ = true;
  }
  // After an op of the main stream that consumes gathered parameters.
  void Consume(OpId op) {
    if (has_pending_) program_.graph.AddDependency(pending_, op);
    has_pending_ = false;
  }

  void Forward(std::size_t stage, std::size_t index) {
    const Unit& unit = stages_[stage].units[index];
    const TpCollectives& tp = tp_[stage][index];
    const DpCollectives& dp = dp_[stage][index];
    GatherAhead(stage, unit, dp);
    const double fsdp_comm = s_.plan.sharding == Sharding::kFsdp ? dp.gather.seconds : 0;
    double beside = fsdp_comm;
    if (micro_batch_ == 0 && s_.plan.sharding == Sharding::kZero1 &&
        s_.plan.overlap_parameter_gather && Overlapped(stage, index)) {
      beside = dp.gather.seconds;
    }
    const double share = unit.has_second ? 0.5 : 1;
    ChainCollective(stage, tp.before, unit.module);
    const OpId begin = Compute(stage, OpKind::kForward, unit, unit.first.forward.Seconds(),
                               beside * share, unit.first.forward.flops);
    Consume(begin);
    if (micro_batch_ == 0 && !gathered_.empty() && gathered_[index] != kNone)
      program_.graph.AddDependency(gathered_[index], begin);
    OpId end = begin;
    if (unit.has_second) {
      ChainCollective(stage, tp.after, unit.module);
      ChainCollective(stage, tp.before, unit.module);
      end = Compute(stage, OpKind::kForward, unit, unit.second.forward.Seconds(), beside * share,
                    unit.second.forward.flops);
    }
    ChainCollective(stage, tp.after, unit.module);
    Remember(begin, false, stage, unit, unit.work_bytes);
    Remember(end, true, stage, unit, unit.kept_bytes - unit.work_bytes);
    Step(begin);
  }

  void Backward(std::size_t stage, std::size_t index) {
    const Unit& unit = stages_[stage].units[index];
    const TpCollectives& tp = tp_[stage][index];
    const DpCollectives& dp = dp_[stage][index];
    GatherAhead(stage, unit, dp);
    FlushReduce();
    const bool last = micro_batch_ + 1 == s_.plan.micro_batches;
    double beside = 0;
    if (s_.plan.sharding == Sharding::kFsdp) {
      beside = dp.gather.seconds + dp.reduce.seconds;
    } else if (last && s_.plan.overlap_gradient_reduce && Overlapped(stage, index)) {
      beside = dp.reduce.seconds;
    }
    const bool again = s_.plan.recompute == Recompute::kFull && unit.layer != nullptr;
    const double parts = unit.has_second ? (again ? 4 : 2) : 1;
    bool started = false;
    OpId begin = 0, end = 0;
    const auto compute = [&](double seconds, double flops) {
      end = Compute(stage, OpKind::kBackward, unit, seconds, beside / parts, flops);
      if (!started) {
        begin = end;
        Consume(end);
      }
      started = true;
    };
    if (again) {
      ChainCollective(stage, tp.before, unit.module);
      compute(unit.first.forward.Seconds(), 0);
      ChainCollective(stage, tp.after, unit.module);
      ChainCollective(stage, tp.before, unit.module);
      compute(unit.second.forward.Seconds(), 0);  // the layer's own output need not be formed again
    }
    const auto gradient = [&](const PassCost& half) {
      KernelCost cost = half.input_gradient;
      if (unit.trained) cost += half.weight_gradient;
      double seconds = cost.Seconds();
      if (s_.plan.recompute == Recompute::kSelective) seconds += half.attention_core.Seconds();
      // Backward of a reduce-scatter is an all-gather and the other way round.
      ChainCollective(stage, tp.before, unit.module);
      compute(seconds, cost.flops);
      ChainCollective(stage, tp.after, unit.module);
    };
    if (unit.has_second) gradient(unit.second);
    gradient(unit.first);
    Remember(begin, false, stage, unit, unit.work_bytes - unit.kept_bytes);
    Remember(end, true, stage, unit, -unit.work_bytes);
    Step(end);
    if (dp.reduce.seconds <= 0) return;
    if (s_.plan.sharding == Sharding::kFsdp) {
      waiting_reduce_ = WaitingReduce{stage, index, end};
    } else if (last) {
      if (s_.plan.overlap_gradient_reduce && Overlapped(stage, index)) {
        OpId reduce = 0;
        AddDp(stage, OpKind::kGradientReduce, unit, dp.reduce, &end, &reduce);
        reduces_.push_back(reduce);
      } else {
        late_.push_back(index);
      }
    }
  }

  // FSDP launches the next unit's gather before this unit's reduction, or the gather would wait behind it.
  void FlushReduce() {
    if (!waiting_reduce_) return;
    const WaitingReduce& w = *waiting_reduce_;
    OpId reduce = 0;
    AddDp(w.stage, OpKind::kGradientReduce, stages_[w.stage].units[w.index],
          dp_[w.stage][w.index].reduce, &w.after, &reduce);
    reduces_.push_back(reduce);
    waiting_reduce_.reset();
  }

  // Which units' collectives may run beside compute: those whose turn comes while the share dp_overlap of all is not used up.
  bool Overlapped(std::size_t stage, std::size_t index) const { return overlapped_[stage][index]; }
  void DecideOverlap(std::size_t stage) {
    const std::vector<Unit>& units = stages_[stage].units;
    double total = 0;
    for (const Unit& unit : units) total += unit.trained ? unit.parameters : 0;
    double used = 0;
    std::vector<bool> overlapped(units.size(), false);
    for (std::size_t i = units.size(); i-- > 0;) {  // backward order
      if (!units[i].trained) continue;
      used += units[i].parameters;
      overlapped[i] = used <= s_.stack->dp_overlap * total + 0.5;
    }
    overlapped_.push_back(std::move(overlapped));
  }

  // The main stream moved on: `before_` is the compute before the last, the point at which the next gather may start.
  void Step(OpId op) {
    before_ = last_compute_;
    has_before_ = has_last_compute_;
    last_compute_ = op;
    has_last_compute_ = true;
  }

  void Align(std::size_t stage, const Priced& priced) {
    if (priced.seconds > 0) Chain(stage, Lane::kAlign, OpKind::kAlignment, priced.seconds, &priced);
  }

  void ForwardPass(std::size_t stage, std::int32_t micro_batch) {
    micro_batch_ = micro_batch;
    has_front_ = false;
    const Stage& st = stages_[stage];
    const auto at = static_cast<std::size_t>(micro_batch);
    const std::size_t first = program_.info.size();
    for (std::size_t i = 0; i < st.units.size(); ++i) {
      if (stage == 0 && i == st.fusion) Align(stage, pricer_->alignment_forward());
      Forward(stage, i);
    }
    if (stage == 0 && st.fusion == st.units.size()) Align(stage, pricer_->alignment_forward());
    forward_first_[stage][at] = FirstMainOrTp(stage, first);
    if (stage + 1 < stages_.size()) forward_send_[stage][at] = Send(stage, Lane::kPpForward);
  }

  void BackwardPass(std::size_t stage, std::int32_t micro_batch) {
    micro_batch_ = micro_batch;
    // The last stage turns around: its backward follows its own forward's data.
    if (stage + 1 < stages_.size()) has_front_ = false;
    const Stage& st = stages_[stage];
    const auto at = static_cast<std::size_t>(micro_batch);
    const std::size_t first = program_.info.size();
    bool aligned = false;
    for (std::size_t i = st.units.size(); i-- > 0;) {
      if (stage == 0 && i < st.fusion && !aligned) {
        Align(stage, pricer_->alignment_backward());
        aligned = true;
      }
      if (st.units[i].backward) Backward(stage, i);
    }
    FlushReduce();
    backward_first_[stage][at] = FirstMainOrTp(stage, first);
    if (stage > 0 && backward_first_[stage][at] != kNone)
      backward_send_[stage][at] = Send(stage, Lane::kPpBackward);
  }

  // The first op of a pass that waits for data of another stage: compute, or the collective before it.
  OpId FirstMainOrTp(std::size_t stage, std::size_t from) const {
    for (std::size_t op = from; op < program_.info.size(); ++op) {
      const OpInfo& info = program_.info[op];
      if (info.rank_class == stage && (info.lane == Lane::kMain || info.lane == Lane::kTp))
        return static_cast<OpId>(op);
    }
    return kNone;
  }

  OpId Send(std::size_t stage, Lane lane) {
    const std::size_t link = lane == Lane::kPpForward ? stage : stage - 1;
    const OpId op =
        Chain(stage, lane, OpKind::kPipelineTransfer, transfers_[link].seconds, &transfers_[link]);
    return op;
  }

  void EmitStage(std::size_t stage) {
    const auto m = static_cast<std::int32_t>(s_.plan.micro_batches);
    has_before_ = has_last_compute_ = has_pending_ = false;
    reduces_.clear();
    late_.clear();
    micro_batch_ = -1;
    has_front_ = false;
    Chain(stage, Lane::kMain, OpKind::kHost, s_.stack->step_overhead_s);
    if (!Training()) {
      Generate(stage);
      return;
    }
    GatherParameters(stage);
    const auto p = static_cast<std::int32_t>(stages_.size());
    const std::int32_t warm_up = std::min(m, p - static_cast<std::int32_t>(stage) - 1);
    for (std::int32_t i = 0; i < warm_up; ++i) ForwardPass(stage, i);
    for (std::int32_t i = 0; i + warm_up < m; ++i) {
      ForwardPass(stage, i + warm_up);
      BackwardPass(stage, i);
    }
    for (std::int32_t i = m - warm_up; i < m; ++i) BackwardPass(stage, i);
    micro_batch_ = -1;
    const OpId end = last_compute_;
    for (const std::size_t index : late_) {
      const Unit& unit = stages_[stage].units[index];
      OpId reduce = 0;
      AddDp(stage, OpKind::kGradientReduce, unit, dp_[stage][index].reduce,
            has_last_compute_ ? &end : nullptr, &reduce);
      reduces_.push_back(reduce);
    }
    has_front_ = false;
    const OpId optimizer =
        Chain(stage, Lane::kMain, OpKind::kOptimizer, program_.classes[stage].optimizer_s);
    for (const OpId reduce : reduces_) program_.graph.AddDependency(reduce, optimizer);
  }

  // ZeRO-1: the parameters that the optimizers of the step before updated, gathered while the first forward runs.
  void GatherParameters(std::size_t stage) {
    const std::vector<Unit>& units = stages_[stage].units;
    gathered_.assign(units.size(), kNone);
    if (s_.plan.sharding != Sharding::kZero1) return;
    OpId last_alone = kNone;
    const auto gather = [&](bool overlapped) {
      for (std::size_t i = 0; i < units.size(); ++i) {
        const DpCollectives& dp = dp_[stage][i];
        if (dp.gather.seconds <= 0 ||
            (Overlapped(stage, i) && s_.plan.overlap_parameter_gather) != overlapped)
          continue;
        AddDp(stage, OpKind::kParameterGather, units[i], dp.gather, nullptr, &gathered_[i]);
        if (!overlapped) last_alone = gathered_[i];
      }
    };
    gather(false);
    gather(true);
    // What may not overlap is gathered before anything runs.
    if (last_alone != kNone) {
      for (OpId& op : gathered_) {
        if (op == kNone) op = last_alone;
      }
    }
  }

  void Generate(std::size_t stage) {
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(s_.plan.micro_batches); ++i) {
      ForwardPass(stage, i);
      Decode(stage, i);
    }
  }

  // One op per new token: all layers and the head, then the tensor-parallel collectives of all layers.
  void Decode(std::size_t stage, std::int32_t micro_batch) {
    micro_batch_ = micro_batch;
    const Module& backbone = s_.model->Backbone();
    const auto sequences = static_cast<double>(s_.plan.micro_batch_size);
    const std::size_t module = s_.model->modules.size() - 1;
    Unit unit;
    unit.module = module;
    const PassCost head =
        CostOfHead(sequences, backbone.hidden, static_cast<double>(backbone.head_vocabulary),
                   s_.plan.tp, context_);
    const Priced reduce = pricer_->Collective(
        CollectiveKind::kAllReduce, sequences * backbone.hidden * kValueBytes, stage, false);
    Priced all = reduce;
    const double count = 2.0 * backbone.Layers();
    all.seconds *= count;
    all.bytes *= count;
    all.pattern = kNoPattern;  // 2·layers small messages in a row: latency, not bandwidth
    for (std::int64_t token = 1; token < s_.workload.new_tokens;
         ++token) {  // the first new token comes from the prefill
      KernelCost cost = head.forward;
      const double context_tokens = s_.sample.backbone_tokens + static_cast<double>(token);
      for (const LayerRun& run : backbone.runs) {
        const KernelCost layer = CostOfDecodeLayer(run.layer, backbone.hidden, s_.plan.tp,
                                                   sequences, context_tokens, context_);
        for (int i = 0; i < run.count; ++i) cost += layer;
      }
      cost.memory_s += s_.stack->layer_overhead_s * backbone.Layers();
      Compute(stage, OpKind::kDecode, unit, cost.Seconds(), 0, cost.flops);
      if (s_.plan.tp > 1) ChainCollective(stage, all, module);
      program_.classes[stage].modules[module].flops += cost.flops;
      program_.classes[stage].modules[module].forward_flops += cost.flops;
      program_.classes[stage].modules[module].forward_s += cost.Seconds();
      if (s_.plan.tp > 1) program_.classes[stage].modules[module].tp_s += all.seconds;
    }
  }

  void ConnectStages() {
    if (!Training()) return;
    for (std::size_t stage = 0; stage + 1 < stages_.size(); ++stage) {
      for (std::size_t i = 0; i < Micro(); ++i) {
        program_.graph.AddDependency(forward_send_[stage][i], forward_first_[stage + 1][i]);
        if (backward_first_[stage][i] != kNone && backward_first_[stage + 1][i] != kNone) {
          program_.graph.AddDependency(backward_send_[stage + 1][i], backward_first_[stage][i]);
        }
      }
    }
  }

  void AddClass(std::size_t stage) {
    const Plan& plan = s_.plan;
    RankClass c;
    c.name = "stage " + std::to_string(stage);
    c.count = plan.tp * plan.dp;
    c.first_gpu = static_cast<int>(stage) * c.count;
    c.modules.resize(s_.model->modules.size());
    const Stage& st = stages_[stage];
    if (stage == 0) {
      for (std::size_t i = 0; i + 1 < s_.model->modules.size(); ++i)
        c.layers += s_.model->modules[i].name + ", ";
    }
    c.layers += s_.model->Backbone().name + " layers " + std::to_string(st.first_layer) + "-" +
                std::to_string(st.last_layer);
    double optimized = 0;
    DecideOverlap(stage);
    tp_.emplace_back();
    dp_.emplace_back();
    for (const Unit& unit : st.units) {
      ModuleShare& share = c.modules[unit.module];
      share.parameters += unit.parameters;
      share.largest_unit = std::max(share.largest_unit, unit.parameters);
      share.trained = unit.trained;
      tp_.back().push_back(pricer_->TensorParallel(unit, stage));
      dp_.back().push_back(pricer_->DataParallel(unit, stage));
      const TpCollectives& tp = tp_.back().back();
      const DpCollectives& dp = dp_.back().back();
      const double halves = unit.has_second ? 2 : 1;
      const double tp_pass = halves * (tp.before.seconds + tp.after.seconds);
      share.forward_s += unit.first.forward.Seconds() + unit.second.forward.Seconds();
      share.forward_flops += unit.first.forward.flops + unit.second.forward.flops;
      share.flops += unit.first.forward.flops + unit.second.forward.flops;
      share.tp_s += tp_pass;
      share.kv_cache_bytes +=
          unit.kv_cache_bytes *
          (s_.sample.backbone_tokens + static_cast<double>(s_.workload.new_tokens)) *
          static_cast<double>(plan.micro_batch_size) *
          (unit.module + 1 == s_.model->modules.size() ? 1 : 0) * (Training() ? 0 : 1);
      if (unit.backward) {
        KernelCost gradient = unit.first.input_gradient + unit.second.input_gradient;
        if (unit.trained) gradient += unit.first.weight_gradient + unit.second.weight_gradient;
        share.backward_s += gradient.Seconds();
        share.flops += gradient.flops;
        share.tp_s += tp_pass;
        if (plan.recompute == Recompute::kFull && unit.layer != nullptr) {
          share.backward_s += unit.first.forward.Seconds() + unit.second.forward.Seconds();
          share.tp_s += tp_pass - tp.after.seconds;
        } else if (plan.recompute == Recompute::kSelective) {
          share.backward_s +=
              unit.first.attention_core.Seconds() + unit.second.attention_core.Seconds();
        }
      }
      const double rounds =
          plan.sharding == Sharding::kFsdp ? static_cast<double>(plan.micro_batches) : 1;
      share.gradient_bytes += dp.reduce.bytes * rounds;
      share.gradient_s += dp.reduce.seconds * rounds;
      const double gathers =
          plan.sharding == Sharding::kFsdp ? rounds * (unit.backward ? 2 : 1) : 1;
      share.gather_s += dp.gather.seconds * gathers;
      if (unit.trained) optimized += unit.parameters;
    }
    if (Training()) {
      const double shards = plan.sharding == Sharding::kDdp ? 1 : plan.dp;
      c.optimizer_s = optimized > 0 ? s_.profile->MemoryBoundSeconds(
                                          optimized / shards * s_.stack->optimizer_traffic_bytes) *
                                          s_.stack->memory_bound_factor
                                    : 0;
    }
    if (stage + 1 < stages_.size()) {
      const double bytes = program_.micro_batch_tokens * s_.model->Backbone().hidden * kValueBytes /
                           (plan.sequence_parallel ? plan.tp : 1);
      transfers_.push_back(pricer_->Transfer(bytes, stage));
      c.transfer_s = 2 * transfers_.back().seconds;
    }
    program_.classes.push_back(std::move(c));
  }

  static constexpr OpId kNone = 0xffffffffU;
  static constexpr double kLongestStep = 9e5;  // s
  static constexpr double kMostOps = 1e7;

  const Scenario& s_;
  const LowerOptions& options_;
  CostContext context_;
  Program program_;
  std::vector<Stage> stages_;
  std::optional<PlanPricer> pricer_;
  std::vector<Priced> transfers_;               // from stage i to i + 1
  std::vector<std::vector<TpCollectives>> tp_;  // by stage and unit
  std::vector<std::vector<DpCollectives>> dp_;
  std::vector<std::vector<bool>> overlapped_;
  std::vector<std::vector<OpId>> forward_first_, backward_first_, forward_send_, backward_send_;

  double total_s_ = 0;  // of all ops

  // State of the emission.
  std::int32_t micro_batch_ = -1;
  OpId front_ = 0;
  bool has_front_ = false;
  OpId before_ = 0, last_compute_ = 0, pending_ = 0;
  bool has_before_ = false, has_last_compute_ = false, has_pending_ = false;
  std::vector<OpId> gathered_;
  std::vector<OpId> reduces_;
  struct WaitingReduce {
    std::size_t stage, index;
    OpId after;
  };
  std::optional<WaitingReduce> waiting_reduce_;
  std::vector<std::size_t> late_;
};

}  // namespace

Program Lower(const Scenario& scenario, const LowerOptions& options) {
  return Lowering(scenario, options).Run();
}

}  // namespace aurum
