#include "sim/plan/lower.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <optional>
#include <utility>

#include "sim/collectives/chunk.h"
#include "sim/plan/pricing.h"
#include "sim/plan/units.h"

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

// The ops of one moment: one for each class of ranks of a stage, or of its groups of one kind. Ids are consecutive. A collective
// of many steps has an op before them, `entry`, and one after them, `first`.
struct Wave {
  OpId first = kNoOp;
  OpId entry = kNoOp;
  std::size_t stage = 0;
  std::optional<GroupKind> groups{};
  bool Exists() const { return first != kNoOp; }
};

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
    for (std::size_t stage = 0; stage < p; ++stage) {
      AddStreams(stage);
      AddClasses(stage);
    }
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
    tp_.emplace_back();
    dp_.emplace_back();
    for (const Unit& unit : stages_[stage].units) {
      tp_.back().push_back(pricer_->TensorParallel(unit, stage));
      dp_.back().push_back(pricer_->DataParallel(unit, stage));
    }
    const double bytes = program_.micro_batch_tokens * s_.model->Backbone().hidden * kValueBytes /
                         (s_.plan.sequence_parallel ? s_.plan.tp : 1);
    send_forward_.push_back(stage + 1 < stages_.size()
                                ? pricer_->Transfer(bytes, stage, GroupKind::kForward)
                                : kNoComm);
    send_backward_.push_back(stage > 0 ? pricer_->Transfer(bytes, stage, GroupKind::kBackward)
                                       : kNoComm);
    if (!Training()) {
      decode_reduce_.push_back(pricer_->Collective(
          CollectiveKind::kAllReduce,
          static_cast<double>(s_.plan.micro_batch_size) * s_.model->Backbone().hidden * kValueBytes,
          stage, GroupKind::kTp));
    }
  }

  // Classes of the stage's ranks, or of its groups of a kind.
  std::size_t CountOf(std::size_t stage, std::optional<GroupKind> groups) const {
    const StageClasses& classes = pricer_->Classes(stage);
    return groups ? classes.first_group[static_cast<int>(*groups)].size() : classes.rank.size();
  }
  // Which op of a wave rank class `c` takes part in.
  OpId IndexOf(const Wave& wave, std::size_t c) const {
    if (!wave.groups) return static_cast<OpId>(c);
    return pricer_->Classes(wave.stage).group_of[static_cast<int>(*wave.groups)][c];
  }
  OpId At(const Wave& wave, std::size_t c) const { return wave.first + IndexOf(wave, c); }
  OpId EntryAt(const Wave& wave, std::size_t c) const { return wave.entry + IndexOf(wave, c); }
  void Follow(const Wave& before, const Wave& after) {
    if (before.groups && before.groups == after.groups) {
      for (std::size_t g = 0; g < CountOf(before.stage, before.groups); ++g) {
        program_.graph.AddDependency(before.first + static_cast<OpId>(g),
                                     after.entry + static_cast<OpId>(g));
      }
      return;
    }
    for (std::size_t c = 0; c < CountOf(after.stage, {}); ++c)
      program_.graph.AddDependency(At(before, c), EntryAt(after, c));
  }

  // A stream for each class of ranks, or of groups that a collective's lane serves.
  void AddStreams(std::size_t stage) {
    const std::size_t tp = CountOf(stage, GroupKind::kTp);
    const std::size_t dp = CountOf(stage, GroupKind::kDp);
    const std::size_t ranks = CountOf(stage, {});
    for (const std::size_t count : {ranks, tp, ranks, ranks, dp, std::max(tp, dp)}) {
      first_stream_.push_back(static_cast<StreamId>(program_.graph.stream_count()));
      for (std::size_t i = 0; i < count; ++i) program_.graph.AddStream();
    }
    // The first rank class of each class of groups, which speaks for it.
    const StageClasses& classes = pricer_->Classes(stage);
    leader_.emplace_back();
    for (int k = 0; k < kGroupKinds; ++k) {
      leader_.back()[static_cast<std::size_t>(k)].resize(classes.first_group[k].size());
      for (std::size_t c = classes.rank.size(); c-- > 0 && !classes.group_of[k].empty();)
        leader_.back()[static_cast<std::size_t>(k)][classes.group_of[k][c]] =
            static_cast<std::uint32_t>(c);
    }
  }
  StreamId Stream(std::size_t stage, Lane lane, std::size_t index) const {
    return first_stream_[stage * kLanes + static_cast<std::size_t>(lane)] +
           static_cast<StreamId>(index);
  }
  std::uint32_t FirstClass(std::size_t stage) const { return first_class_[stage]; }

  OpInfo& NewInfo(std::size_t stage, Lane lane, OpKind kind, std::size_t rank_class) {
    OpInfo info;
    info.rank_class = FirstClass(stage) + static_cast<std::uint32_t>(rank_class);
    info.lane = lane;
    info.kind = kind;
    info.micro_batch = micro_batch_;
    program_.info.push_back(info);
    return program_.info.back();
  }
  OpId NextOp() const { return static_cast<OpId>(program_.info.size()); }
  // The first wave of a pass waits for another stage's data.
  void Note(const Wave& wave) {
    if (!first_wave_.Exists()) first_wave_ = wave;
  }

  // Follows the data: the new wave waits for the front and becomes it.
  void Chain(const Wave& wave) {
    if (front_.Exists()) Follow(front_, wave);
    front_ = wave;
  }

  // A kernel on every rank of the stage; `slowed_s` of it is what communication beside it costs.
  Wave AddKernel(std::size_t stage, OpKind kind, double seconds, double slowed_s = 0) {
    CheckClock(seconds + slowed_s);
    const Wave wave{.first = NextOp(), .entry = NextOp(), .stage = stage};
    Note(wave);
    for (std::size_t c = 0; c < CountOf(stage, {}); ++c) {
      const double slowdown =
          kind == OpKind::kHost ? 1 : program_.classes[FirstClass(stage) + c].slowdown;
      program_.graph.AddOp(Stream(stage, Lane::kMain, c),
                           TimeFromSeconds(seconds * slowdown + slowed_s));
      NewInfo(stage, Lane::kMain, kind, c).slowed_s = slowed_s;
    }
    return wave;
  }

  // A communication of every group of its kind. `times`: so many of it in a row, as one op.
  Wave AddCommunication(std::size_t stage, Lane lane, OpKind kind, CommId comm, int module = -1,
                        double times = 1) {
    CheckClock(pricer_->Seconds(comm) * times);
    const GroupKind groups = pricer_->Groups(comm);
    if (times == 1 && pricer_->Price(comm, 0).chunks != nullptr)
      return AddSteps(stage, lane, kind, comm, module);
    const Wave wave{.first = NextOp(), .entry = NextOp(), .stage = stage, .groups = groups};
    if (lane == Lane::kTp) Note(wave);
    for (std::size_t g = 0; g < CountOf(stage, groups); ++g) {
      const Priced& priced = pricer_->Price(comm, g);
      const Time duration = TimeFromSeconds(priced.seconds * times);
      const StreamId stream = Stream(stage, lane, g);
      if (priced.pattern != kNoPattern && times == 1) {
        program_.graph.AddTransfer(stream, duration,
                                   std::min(TimeFromSeconds(priced.latency_s), duration),
                                   priced.pattern);
      } else {
        program_.graph.AddOp(stream, duration);  // many small messages in a row: latency alone
      }
      NewCommunication(stage, lane, kind, comm, g, module).bytes = pricer_->Bytes(comm) * times;
    }
    return wave;
  }

  OpInfo& NewCommunication(std::size_t stage, Lane lane, OpKind kind, CommId comm, std::size_t g,
                           int module) {
    const auto groups = static_cast<std::size_t>(pricer_->Groups(comm));
    OpInfo& info = NewInfo(stage, lane, kind, leader_[stage][groups][g]);
    info.module = static_cast<std::int16_t>(module);
    return info;
  }

  // All steps of a collective of every group, between an op that waits for the members and one that they wait for.
  Wave AddSteps(std::size_t stage, Lane lane, OpKind kind, CommId comm, int module) {
    const GroupKind groups = pricer_->Groups(comm);
    const std::size_t count = CountOf(stage, groups);
    Wave wave{.stage = stage, .groups = groups};
    const auto marks = [&] {
      const OpId first = NextOp();
      for (std::size_t g = 0; g < count; ++g) {
        program_.graph.AddOp(Stream(stage, lane, g), Time{0});
        NewCommunication(stage, lane, kind, comm, g, module);
      }
      return first;
    };
    wave.entry = marks();
    std::vector<std::pair<OpId, OpId>> exits;  // (last step, group)
    for (std::size_t g = 0; g < count; ++g) {
      const ExpandedChunks steps = ExpandChunks(*pricer_->Price(comm, g).chunks, &program_.graph);
      while (program_.info.size() < program_.graph.op_count())
        NewCommunication(stage, lane, kind, comm, g, module);
      for (const OpId op : steps.entry)
        program_.graph.AddDependency(wave.entry + static_cast<OpId>(g), op);
      for (const OpId op : steps.exit) exits.emplace_back(op, static_cast<OpId>(g));
      CheckOps();
    }
    wave.first = marks();
    for (std::size_t g = 0; g < count; ++g)
      program_.info[wave.first + g].bytes = pricer_->Bytes(comm);
    for (const auto& [op, g] : exits) program_.graph.AddDependency(op, wave.first + g);
    if (lane == Lane::kTp) Note(wave);
    return wave;
  }

  // How many steps there will be is known only when they are there.
  void CheckOps() const {
    if (static_cast<double>(program_.graph.op_count()) <= kMostOps) return;
    ThrowInput(341,
               "the chunk level of this scenario is more than " +
                   std::to_string(static_cast<std::int64_t>(kMostOps / 1e6)) +
                   " million operations",
               "--level flow, which has one operation a collective; or fewer micro-batches or GPUs",
               ExitCode::kInfeasible);
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
    for (std::size_t c = 0; c < CountOf(wave.stage, {}); ++c) {
      program_.memory.push_back(
          {At(wave, c), at_end, FirstClass(wave.stage) + static_cast<std::uint32_t>(c),
           unit.logits ? MemoryKind::kLogits : MemoryKind::kActivations, bytes});
    }
  }

  Wave AddDp(std::size_t stage, OpKind kind, const Unit& unit, CommId comm, const Wave& after) {
    const Wave wave = AddCommunication(stage, Lane::kDp, kind, comm, static_cast<int>(unit.module));
    if (after.Exists()) Follow(after, wave);
    return wave;
  }

  // The gather that the next compute of `unit` needs under FSDP: launched while the unit before last ends (one ahead).
  void GatherAhead(std::size_t stage, const Unit& unit, const DpCollectives& dp) {
    if (s_.plan.sharding != Sharding::kFsdp || pricer_->Seconds(dp.gather) <= 0) return;
    pending_ = AddDp(stage, OpKind::kParameterGather, unit, dp.gather, before_);
  }
  // After an op of the main stream that consumes gathered parameters.
  void Consume(const Wave& wave) {
    if (pending_.Exists()) Follow(pending_, wave);
    pending_ = {};
  }

  void Forward(std::size_t stage, std::size_t index) {
    const Unit& unit = stages_[stage].units[index];
    const TpCollectives& tp = tp_[stage][index];
    const DpCollectives& dp = dp_[stage][index];
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
      Follow(gathered_[index], begin);
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
    const TpCollectives& tp = tp_[stage][index];
    const DpCollectives& dp = dp_[stage][index];
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
                             dp_[w.stage][w.index].reduce, w.after));
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
    const CommId comm = lane == Lane::kPpForward ? send_forward_[stage] : send_backward_[stage];
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
                               dp_[stage][index].reduce, last_compute_));
    }
    const Wave optimizer = AddKernel(stage, OpKind::kOptimizer, optimizer_s_[stage]);
    for (const Wave& reduce : reduces_) Follow(reduce, optimizer);
  }

  // ZeRO-1: the parameters that the optimizers of the step before updated, gathered while the first forward runs.
  void GatherParameters(std::size_t stage) {
    const std::vector<Unit>& units = stages_[stage].units;
    gathered_.assign(units.size(), Wave{});
    if (s_.plan.sharding != Sharding::kZero1) return;
    Wave last_alone;
    const auto gather = [&](bool overlapped) {
      for (std::size_t i = 0; i < units.size(); ++i) {
        const DpCollectives& dp = dp_[stage][i];
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
    const CommId reduce = decode_reduce_[stage];
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
      for (std::size_t c = 0; c < CountOf(stage, {}); ++c) {
        RankClass& rank_class = program_.classes[FirstClass(stage) + c];
        ModuleShare& share = rank_class.modules[module];
        share.flops += cost.flops;
        share.forward_flops += cost.flops;
        share.forward_s += cost.Seconds() * rank_class.slowdown;
        share.tp_s += SecondsFor(stage, c, reduce) * count;
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
          program_.graph.AddDependency(At(forward_send_[stage][i], c),
                                       EntryAt(forward_first_[stage + 1][i], next[c]));
          if (!backward) continue;
          program_.graph.AddDependency(At(backward_send_[stage + 1][i], next[c]),
                                       EntryAt(backward_first_[stage][i], c));
        }
      }
    }
  }

  // What the communication costs the groups of rank class `c`.
  double SecondsFor(std::size_t stage, std::size_t c, CommId comm) const {
    if (comm == kNoComm) return 0;
    const auto kind = static_cast<int>(pricer_->Groups(comm));
    return pricer_->Price(comm, pricer_->Classes(stage).group_of[kind][c]).seconds;
  }

  std::string NameOf(std::size_t stage, std::size_t c) const {
    const StageClasses& classes = pricer_->Classes(stage);
    std::string name = "stage " + std::to_string(stage);
    if (classes.rank.size() == 1) return name;
    if (classes.count[c] > 1) {
      name +=
          ", " + std::to_string(classes.count[c]) + " GPUs like " + std::to_string(classes.rank[c]);
    } else {
      name += ", GPU " + std::to_string(classes.rank[c]);
    }
    return name;
  }

  void AddClasses(std::size_t stage) {
    const StageClasses& classes = pricer_->Classes(stage);
    DecideOverlap(stage);
    first_class_.push_back(static_cast<std::uint32_t>(program_.classes.size()));
    for (std::size_t c = 0; c < classes.rank.size(); ++c) AddClass(stage, c);
    for (const std::uint32_t c : classes.class_of)
      program_.class_of_gpu.push_back(first_class_.back() + c);
  }

  void AddClass(std::size_t stage, std::size_t index) {
    const Plan& plan = s_.plan;
    const StageClasses& classes = pricer_->Classes(stage);
    RankClass c;
    c.name = NameOf(stage, index);
    c.stage = static_cast<int>(stage);
    c.count = classes.count[index];
    c.first_gpu = classes.rank[index];
    c.consecutive = classes.rank.size() == 1 || c.count == 1;
    if (!s_.faults.gpu_slowdown.empty())
      c.slowdown = s_.faults.gpu_slowdown[static_cast<std::size_t>(c.first_gpu)];
    c.modules.resize(s_.model->modules.size());
    const Stage& st = stages_[stage];
    if (stage == 0) {
      for (std::size_t i = 0; i + 1 < s_.model->modules.size(); ++i)
        c.layers += s_.model->modules[i].name + ", ";
    }
    c.layers += s_.model->Backbone().name + " layers " + std::to_string(st.first_layer) + "-" +
                std::to_string(st.last_layer);
    const auto seconds_for = [&](CommId comm) { return SecondsFor(stage, index, comm); };
    double optimized = 0;
    for (std::size_t i = 0; i < st.units.size(); ++i) {
      const Unit& unit = st.units[i];
      ModuleShare& share = c.modules[unit.module];
      share.parameters += unit.parameters;
      share.largest_unit = std::max(share.largest_unit, unit.parameters);
      share.trained = unit.trained;
      const TpCollectives& tp = tp_[stage][i];
      const DpCollectives& dp = dp_[stage][i];
      const double halves = unit.has_second ? 2 : 1;
      const double tp_after = seconds_for(tp.after);
      const double tp_pass = halves * (seconds_for(tp.before) + tp_after);
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
          share.tp_s += tp_pass - tp_after;
        } else if (plan.recompute == Recompute::kSelective) {
          share.backward_s +=
              unit.first.attention_core.Seconds() + unit.second.attention_core.Seconds();
        }
      }
      const double rounds =
          plan.sharding == Sharding::kFsdp ? static_cast<double>(plan.micro_batches) : 1;
      const auto bytes_of = [&](CommId comm) { return comm == kNoComm ? 0 : pricer_->Bytes(comm); };
      share.gradient_bytes += bytes_of(dp.reduce) * rounds;
      share.gradient_s += seconds_for(dp.reduce) * rounds;
      const double gathers =
          plan.sharding == Sharding::kFsdp ? rounds * (unit.backward ? 2 : 1) : 1;
      share.gather_s += seconds_for(dp.gather) * gathers;
      if (unit.trained) optimized += unit.parameters;
    }
    double optimizer_s = 0;
    if (Training() && optimized > 0) {
      const double shards = plan.sharding == Sharding::kDdp ? 1 : plan.dp;
      optimizer_s =
          s_.profile->MemoryBoundSeconds(optimized / shards * s_.stack->optimizer_traffic_bytes) *
          s_.stack->memory_bound_factor;
    }
    if (index == 0) optimizer_s_.push_back(optimizer_s);
    c.optimizer_s = optimizer_s * c.slowdown;
    for (ModuleShare& share : c.modules) {
      share.forward_s *= c.slowdown;
      share.backward_s *= c.slowdown;
    }
    c.transfer_s = 2 * seconds_for(send_forward_[stage]);
    program_.classes.push_back(std::move(c));
  }

  static constexpr double kLongestStep = 9e5;  // s
  static constexpr double kMostOps = 1e7;

  const Scenario& s_;
  const LowerOptions& options_;
  CostContext context_;
  Program program_;
  std::vector<Stage> stages_;
  std::optional<PlanPricer> pricer_;
  std::vector<std::vector<TpCollectives>> tp_;  // by stage and unit
  std::vector<std::vector<DpCollectives>> dp_;
  std::vector<CommId> send_forward_, send_backward_, decode_reduce_;  // by stage
  std::vector<std::vector<bool>> overlapped_;
  std::vector<double> optimizer_s_;         // by stage, at full speed
  std::vector<std::uint32_t> first_class_;  // by stage
  std::vector<StreamId> first_stream_;      // by stage and lane
  std::vector<std::array<std::vector<std::uint32_t>, kGroupKinds>> leader_;  // by stage
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
