#include "sim/plan/lower.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <optional>
#include <utility>

#include "sim/plan/pricing.h"
#include "sim/plan/rank_shares.h"
#include "sim/plan/units.h"
#include "sim/plan/waves.h"

// From a plan to a program
// ------------------------
// Each pipeline stage becomes one class of ranks, or several where its ranks differ, with six streams: compute,
// tensor-parallel collectives, pipeline transfers in both directions, data-parallel collectives, and the exchange of
// misaligned tokens. Ops are added to a stream in the order in which a framework would launch them (1F1B: Narayanan et al.,
// "Efficient Large-Scale Language Model Training on GPU Clusters", 2021):
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
// All ranks of a stage run the same program, so ops are emitted in waves: one op for each class of ranks, or for each class
// of groups that meet in a collective. A wave that follows another is joined to it class by class. With one class a stage, a
// wave is one op; with one class a rank (fold off), it is what a launcher would start on every GPU.
//
// Cost: ops are O(classes · micro-batches · units).
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
    program_.micro_batches = s_.plan.micro_batches;
    program_.micro_batch_tokens =
        s_.sample.backbone_tokens * static_cast<double>(s_.plan.micro_batch_size);
    const std::size_t p = stages_.size();
    pricer_.emplace(s_, options_, &program_);
    for (std::size_t stage = 0; stage < p; ++stage) AskForCommunication(stage);
    pricer_->Settle();
    CheckSize();
    waves_.emplace(*pricer_, &program_);
    for (std::size_t stage = 0; stage < p; ++stage) AddClasses(stage);
    forward_first_.assign(p, std::vector<Wave>(Micro()));
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
    const double per_unit = s_.plan.tp > 1 ? 10 : 4;
    const double rounds = static_cast<double>(s_.plan.micro_batches);
    double ops = 0, classes = 0;
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      const auto here = static_cast<double>(pricer_->Classes(stage).rank.size());
      classes += here;
      ops += here * rounds *
             (static_cast<double>(stages_[stage].units.size()) * per_unit +
              2 * static_cast<double>(s_.workload.new_tokens));
    }
    if (ops <= kMostOps) return;
    const std::string millions = std::to_string(static_cast<std::int64_t>(ops / 1e6));
    if (classes > static_cast<double>(stages_.size())) {
      ThrowInput(341,
                 std::to_string(s_.plan.micro_batches) + " micro-batches on " +
                     std::to_string(static_cast<std::int64_t>(classes)) +
                     " classes of ranks that differ are about " + millions +
                     " million operations, too many to simulate",
                 options_.fold == Fold::kOff
                     ? "--fold on, which simulates ranks that are alike once, and no variation, "
                       "which makes all ranks differ"
                     : "fewer faults, or fewer GPUs",
                 ExitCode::kInfeasible);
    }
    ThrowInput(341,
               std::to_string(s_.plan.micro_batches) + " micro-batches of this model are about " +
                   millions + " million operations, too many to simulate",
               "a larger micro_batch_size or a smaller global_batch_size; a step grows by the same "
               "time with every further micro-batch",
               ExitCode::kInfeasible);
  }

  // What the stage's ranks will say to each other: asked for before any op is made.
  void AskForCommunication(std::size_t stage) {
    StageCommunication asked;
    for (const Unit& unit : stages_[stage].units) {
      asked.tp.push_back(pricer_->TensorParallel(unit, stage));
      asked.dp.push_back(pricer_->DataParallel(unit, stage));
    }
    const double hidden = s_.model->Backbone().hidden;
    const double bytes = program_.micro_batch_tokens * hidden * kValueBytes /
                         (s_.plan.sequence_parallel ? s_.plan.tp : 1);
    if (stage + 1 < stages_.size())
      asked.send_forward = pricer_->Transfer(bytes, stage, GroupKind::kForward);
    if (stage > 0) asked.send_backward = pricer_->Transfer(bytes, stage, GroupKind::kBackward);
    if (!Training()) {
      asked.decode_reduce =
          pricer_->Collective(CollectiveKind::kAllReduce,
                              static_cast<double>(s_.plan.micro_batch_size) * hidden * kValueBytes,
                              stage, GroupKind::kTp);
    }
    communication_.push_back(std::move(asked));
  }

  // Follows the data: the new wave waits for the front and becomes it.
  void Chain(const Wave& wave) {
    if (front_.Exists()) waves_->Follow(front_, wave);
    front_ = wave;
  }

  // The first wave of a pass waits for another stage's data.
  void Note(const Wave& wave) {
    if (!first_wave_.Exists()) first_wave_ = wave;
  }

  Wave AddKernel(std::size_t stage, OpKind kind, double seconds, double slowed_s = 0) {
    CheckClock(seconds + slowed_s);
    const Wave wave = waves_->AddKernel(stage, kind, micro_batch_, seconds, slowed_s);
    Note(wave);
    return wave;
  }
  Wave AddCommunication(std::size_t stage, Lane lane, OpKind kind, CommId comm, int module = -1,
                        double times = 1) {
    CheckClock(pricer_->Seconds(comm) * times);
    const Wave wave =
        waves_->AddCommunication(stage, lane, kind, micro_batch_, comm, module, times);
    if (lane == Lane::kTp) Note(wave);
    return wave;
  }

  void ChainCollective(std::size_t stage, CommId comm, std::size_t module, double times = 1) {
    if (pricer_->Seconds(comm) <= 0) return;
    Chain(AddCommunication(stage, Lane::kTp, OpKind::kTpCollective, comm, static_cast<int>(module),
                           times));
  }

  // `beside_s` of collectives run at the same time and slow it down.
  Wave Compute(std::size_t stage, OpKind kind, const Unit& unit, double seconds, double beside_s,
               double flops) {
    const double slowed = s_.stack->overlap_slowdown * std::min(seconds, beside_s);
    const Wave wave = AddKernel(stage, kind, seconds, slowed);
    for (std::size_t op = wave.first; op < program_.info.size(); ++op) {
      OpInfo& info = program_.info[op];
      info.module = static_cast<std::int16_t>(unit.module);
      info.head = unit.head;
      info.flops = flops;
    }
    Chain(wave);
    return wave;
  }

  void Remember(const Wave& wave, bool at_end, const Unit& unit, double bytes) {
    if (bytes == 0) return;
    for (std::size_t c = 0; c < waves_->CountOf(wave.stage, {}); ++c) {
      program_.memory.push_back({waves_->At(wave, c), at_end,
                                 waves_->FirstClass(wave.stage) + static_cast<std::uint32_t>(c),
                                 unit.logits ? MemoryKind::kLogits : MemoryKind::kActivations,
                                 bytes});
    }
  }

  Wave AddDp(std::size_t stage, OpKind kind, const Unit& unit, CommId comm, const Wave& after) {
    const Wave wave = AddCommunication(stage, Lane::kDp, kind, comm, static_cast<int>(unit.module));
    if (after.Exists()) waves_->Follow(after, wave);
    return wave;
  }

  // The gather that the next compute of `unit` needs under FSDP: launched while the unit before last ends (one ahead).
  void GatherAhead(std::size_t stage, const Unit& unit, const DpCollectives& dp) {
    if (s_.plan.sharding != Sharding::kFsdp || pricer_->Seconds(dp.gather) <= 0) return;
    pending_ = AddDp(stage, OpKind::kParameterGather, unit, dp.gather, before_);
  }
  // After an op of the main stream that consumes gathered parameters.
  void Consume(const Wave& wave) {
    if (pending_.Exists()) waves_->Follow(pending_, wave);
    pending_ = {};
  }

  void Forward(std::size_t stage, std::size_t index) {
    const Unit& unit = stages_[stage].units[index];
    const TpCollectives& tp = communication_[stage].tp[index];
    const DpCollectives& dp = communication_[stage].dp[index];
    GatherAhead(stage, unit, dp);
    double beside = s_.plan.sharding == Sharding::kFsdp ? pricer_->Seconds(dp.gather) : 0;
    if (micro_batch_ == 0 && s_.plan.sharding == Sharding::kZero1 &&
        s_.plan.overlap_parameter_gather && Overlapped(stage, index)) {
      beside = pricer_->Seconds(dp.gather);
    }
    const double share = unit.has_second ? 0.5 : 1;
    ChainCollective(stage, tp.before, unit.module);
    const Wave begin = Compute(stage, OpKind::kForward, unit, unit.first.forward.Seconds(),
                               beside * share, unit.first.forward.flops);
    Consume(begin);
    if (micro_batch_ == 0 && !gathered_.empty() && gathered_[index].Exists())
      waves_->Follow(gathered_[index], begin);
    Wave end = begin;
    if (unit.has_second) {
      ChainCollective(stage, tp.after, unit.module);
      ChainCollective(stage, tp.before, unit.module);
      end = Compute(stage, OpKind::kForward, unit, unit.second.forward.Seconds(), beside * share,
                    unit.second.forward.flops);
    }
    ChainCollective(stage, tp.after, unit.module);
    Remember(begin, false, unit, unit.work_bytes);
    Remember(end, true, unit, unit.kept_bytes - unit.work_bytes);
    Step(begin);
  }

  void Backward(std::size_t stage, std::size_t index) {
    const Unit& unit = stages_[stage].units[index];
    const TpCollectives& tp = communication_[stage].tp[index];
    const DpCollectives& dp = communication_[stage].dp[index];
    GatherAhead(stage, unit, dp);
    FlushReduce();
    const bool last = micro_batch_ + 1 == s_.plan.micro_batches;
    double beside = 0;
    if (s_.plan.sharding == Sharding::kFsdp) {
      beside = pricer_->Seconds(dp.gather) + pricer_->Seconds(dp.reduce);
    } else if (last && s_.plan.overlap_gradient_reduce && Overlapped(stage, index)) {
      beside = pricer_->Seconds(dp.reduce);
    }
    const bool again = s_.plan.recompute == Recompute::kFull && unit.layer != nullptr;
    const double parts = unit.has_second ? (again ? 4 : 2) : 1;
    Wave begin, end;
    const auto compute = [&](double seconds, double flops) {
      end = Compute(stage, OpKind::kBackward, unit, seconds, beside / parts, flops);
      if (begin.Exists()) return;
      begin = end;
      Consume(end);
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
    Remember(begin, false, unit, unit.work_bytes - unit.kept_bytes);
    Remember(end, true, unit, -unit.work_bytes);
    Step(end);
    if (pricer_->Seconds(dp.reduce) <= 0) return;
    if (s_.plan.sharding == Sharding::kFsdp) {
      waiting_reduce_ = WaitingReduce{stage, index, end};
    } else if (last) {
      if (s_.plan.overlap_gradient_reduce && Overlapped(stage, index)) {
        reduces_.push_back(AddDp(stage, OpKind::kGradientReduce, unit, dp.reduce, end));
      } else {
        late_.push_back(index);
      }
    }
  }

  // FSDP launches the next unit's gather before this unit's reduction, or the gather would wait behind it.
  void FlushReduce() {
    if (!waiting_reduce_) return;
    const WaitingReduce& w = *waiting_reduce_;
    reduces_.push_back(AddDp(w.stage, OpKind::kGradientReduce, stages_[w.stage].units[w.index],
                             communication_[w.stage].dp[w.index].reduce, w.after));
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
  void Step(const Wave& wave) {
    before_ = last_compute_;
    last_compute_ = wave;
  }

  void Align(std::size_t stage, CommId comm) {
    if (pricer_->Seconds(comm) > 0)
      Chain(AddCommunication(stage, Lane::kAlign, OpKind::kAlignment, comm));
  }

  void ForwardPass(std::size_t stage, std::int32_t micro_batch) {
    micro_batch_ = micro_batch;
    front_ = {};
    first_wave_ = {};
    const Stage& st = stages_[stage];
    const auto at = static_cast<std::size_t>(micro_batch);
    for (std::size_t i = 0; i < st.units.size(); ++i) {
      if (stage == 0 && i == st.fusion) Align(stage, pricer_->alignment_forward());
      Forward(stage, i);
    }
    if (stage == 0 && st.fusion == st.units.size()) Align(stage, pricer_->alignment_forward());
    forward_first_[stage][at] = first_wave_;
    if (stage + 1 < stages_.size()) forward_send_[stage][at] = Send(stage, Lane::kPpForward);
  }

  void BackwardPass(std::size_t stage, std::int32_t micro_batch) {
    micro_batch_ = micro_batch;
    // The last stage turns around: its backward follows its own forward's data.
    if (stage + 1 < stages_.size()) front_ = {};
    first_wave_ = {};
    const Stage& st = stages_[stage];
    const auto at = static_cast<std::size_t>(micro_batch);
    bool aligned = false;
    for (std::size_t i = st.units.size(); i-- > 0;) {
      if (stage == 0 && i < st.fusion && !aligned) {
        Align(stage, pricer_->alignment_backward());
        aligned = true;
      }
      if (st.units[i].backward) Backward(stage, i);
    }
    FlushReduce();
    backward_first_[stage][at] = first_wave_;
    if (stage > 0 && first_wave_.Exists())
      backward_send_[stage][at] = Send(stage, Lane::kPpBackward);
  }

  Wave Send(std::size_t stage, Lane lane) {
    const CommId comm = lane == Lane::kPpForward ? communication_[stage].send_forward
                                                 : communication_[stage].send_backward;
    const Wave wave = AddCommunication(stage, lane, OpKind::kPipelineTransfer, comm);
    Chain(wave);
    return wave;
  }

  void EmitStage(std::size_t stage) {
    const auto m = static_cast<std::int32_t>(s_.plan.micro_batches);
    front_ = before_ = last_compute_ = pending_ = {};
    reduces_.clear();
    late_.clear();
    micro_batch_ = -1;
    Chain(AddKernel(stage, OpKind::kHost, s_.stack->step_overhead_s));
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
    for (const std::size_t index : late_) {
      reduces_.push_back(AddDp(stage, OpKind::kGradientReduce, stages_[stage].units[index],
                               communication_[stage].dp[index].reduce, last_compute_));
    }
    const Wave optimizer =
        AddKernel(stage, OpKind::kOptimizer, OptimizerSeconds(s_, stages_[stage]));
    for (const Wave& reduce : reduces_) waves_->Follow(reduce, optimizer);
  }

  // ZeRO-1: the parameters that the optimizers of the step before updated, gathered while the first forward runs.
  void GatherParameters(std::size_t stage) {
    const std::vector<Unit>& units = stages_[stage].units;
    gathered_.assign(units.size(), Wave{});
    if (s_.plan.sharding != Sharding::kZero1) return;
    Wave last_alone;
    const auto gather = [&](bool overlapped) {
      for (std::size_t i = 0; i < units.size(); ++i) {
        const DpCollectives& dp = communication_[stage].dp[i];
        if (pricer_->Seconds(dp.gather) <= 0 ||
            (Overlapped(stage, i) && s_.plan.overlap_parameter_gather) != overlapped)
          continue;
        gathered_[i] = AddDp(stage, OpKind::kParameterGather, units[i], dp.gather, Wave{});
        if (!overlapped) last_alone = gathered_[i];
      }
    };
    gather(false);
    gather(true);
    // What may not overlap is gathered before anything runs.
    for (Wave& wave : gathered_) {
      if (!wave.Exists()) wave = last_alone;
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
    const CommId reduce = communication_[stage].decode_reduce;
    const double count = 2.0 * backbone.Layers();
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
      ChainCollective(stage, reduce, module, count);
      for (std::size_t c = 0; c < waves_->CountOf(stage, {}); ++c) {
        RankClass& rank_class = program_.classes[waves_->FirstClass(stage) + c];
        ModuleShare& share = rank_class.modules[module];
        share.flops += cost.flops;
        share.forward_flops += cost.flops;
        share.forward_s += cost.Seconds() * rank_class.slowdown;
        share.tp_s += SecondsFor(*pricer_, stage, c, reduce) * count;
      }
    }
  }

  void ConnectStages() {
    if (!Training()) return;
    for (std::size_t stage = 0; stage + 1 < stages_.size(); ++stage) {
      const std::vector<std::uint32_t>& next = pricer_->Classes(stage).next;
      for (std::size_t i = 0; i < Micro(); ++i) {
        const bool backward =
            backward_first_[stage][i].Exists() && backward_first_[stage + 1][i].Exists();
        for (std::size_t c = 0; c < next.size(); ++c) {
          program_.graph.AddDependency(waves_->At(forward_send_[stage][i], c),
                                       waves_->EntryAt(forward_first_[stage + 1][i], next[c]));
          if (!backward) continue;
          program_.graph.AddDependency(waves_->At(backward_send_[stage + 1][i], next[c]),
                                       waves_->EntryAt(backward_first_[stage][i], c));
        }
      }
    }
  }

  void AddClasses(std::size_t stage) {
    const StageClasses& classes = pricer_->Classes(stage);
    DecideOverlap(stage);
    const auto first = static_cast<std::uint32_t>(program_.classes.size());
    waves_->AddStage(first);
    for (std::size_t c = 0; c < classes.rank.size(); ++c) {
      program_.classes.push_back(
          MakeRankClass(s_, stages_[stage], stage, c, *pricer_, communication_[stage]));
    }
    for (const std::uint32_t c : classes.class_of) program_.class_of_gpu.push_back(first + c);
  }

  const Scenario& s_;
  const LowerOptions& options_;
  CostContext context_;
  Program program_;
  std::vector<Stage> stages_;
  std::optional<PlanPricer> pricer_;
  std::optional<Waves> waves_;
  std::vector<StageCommunication> communication_;  // by stage
  std::vector<std::vector<bool>> overlapped_;      // by stage and unit
  std::vector<std::vector<Wave>> forward_first_, backward_first_, forward_send_, backward_send_;

  double total_s_ = 0;  // of all waves

  // State of the emission.
  std::int32_t micro_batch_ = -1;
  Wave front_, before_, last_compute_, pending_;
  Wave first_wave_;  // of a pass, on the lanes that wait for another stage's data
  std::vector<Wave> gathered_, reduces_;
  struct WaitingReduce {
    std::size_t stage, index;
    Wave after;
  };
  std::optional<WaitingReduce> waiting_reduce_;
  std::vector<std::size_t> late_;
};

}  // namespace

std::uint32_t Program::ClassOf(int gpu) const {
  if (!class_of_gpu.empty()) return class_of_gpu[static_cast<std::size_t>(gpu)];
  std::uint32_t c = 0;
  while (gpu >= classes[c].first_gpu + classes[c].count) ++c;
  return c;
}

Program Lower(const Scenario& scenario, const LowerOptions& options) {
  return Lowering(scenario, options).Run();
}

}  // namespace aurum
