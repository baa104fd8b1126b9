#include "sim/plan/lower.h"

#include <algorithm>
#include <cassert>
#include <memory>
#include <optional>
#include <utility>

#include "sim/plan/bubble_fill.h"
#include "sim/plan/emit.h"
#include "sim/plan/fusion.h"
#include "sim/plan/host_link.h"
#include "sim/plan/lower_taped.h"
#include "sim/plan/plan_costs.h"
#include "sim/plan/pools.h"
#include "sim/plan/pricing.h"
#include "sim/plan/rank_shares.h"
#include "sim/plan/schedule.h"
#include "sim/plan/stage_costs.h"
#include "sim/plan/units.h"
#include "sim/plan/waves.h"
#include "sim/workload/layer_cost.h"

// From a plan to a program
// ------------------------
//   units.h     what every chunk of every pipeline stage runs, and what it costs
//   pricing.h   what its ranks say to each other, and which of them are alike
//   schedule.h  in which order a stage passes its micro-batches
//   emit.h      the ops of those passes
//   here        the order of the above, and how passes of different stages wait for each other
//
// Each stage becomes one class of ranks, or several where its ranks differ. An encoder on ranks of its
// own is a stage before the backbone's, and runs 1F1B with the warm-up that the backbone's first stage
// needs (Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters", 2021).
//
// Cost: ops are O(classes · micro-batches · units).
namespace aurum {
namespace {

class Lowering {
 public:
  Lowering(const Scenario& scenario, const LowerOptions& options, bool taped = false)
      : s_(scenario), options_(options), tape_(taped) {
    context_.profile = s_.profile.get();
    context_.stack = s_.stack.get();
    context_.precision = s_.plan.precision;
    context_.loss_kernel = s_.plan.loss;
    context_.lists_kernels = program_.executable = options.for_execution;
    context_.gemm_speedup = s_.what_if.gemm_speedup;
    context_.attention_speedup = s_.what_if.attention_speedup;
    context_.memory_speedup = s_.what_if.memory_speedup;
    program_.provenance = s_.profile->provenance;
    pipeline_ = s_.plan.Pipeline();
    if (!Training()) pipeline_ = {};
    pipeline_.micro_batches = static_cast<int>(s_.plan.micro_batches);
  }

  Program Lower() {
    Run();
    return std::move(program_);
  }

  // What is left of the lowering, for as long as it lives.
  TapedLowering Taped() {
    TapedLowering taped;
    taped.program = &program_;
    taped.tape = &tape_;
    taped.pricer = &*pricer_;
    taped.stages = &stages_;
    taped.communication = &communication_;
    taped.context = &context_;
    taped.fills_bubbles = HasBubbles();
    return taped;
  }

  void Run() {
    assert(!program_.executable || options_.traffic == Traffic::kNone);
    MakeUnits();
    if (s_.step != nullptr) {
      if (options_.traffic != Traffic::kNone) {
        ThrowInput(387, "samples that differ are simulated at the analytic level alone",
                   "--level analytic, or samples that are all alike", ExitCode::kInfeasible);
      }
      CheckLoads();
      loads_ = MakeStagesOfLoads(s_, s_.step->micro_batches, context_);
    }
    program_.micro_batches = s_.plan.micro_batches;
    program_.micro_batch_tokens =
        s_.sample.backbone_tokens * static_cast<double>(s_.plan.micro_batch_size);
    pricer_.emplace(s_, options_, &program_);
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) AskForCommunication(stage);
    pricer_->Settle();
    if (program_.executable) program_.communications = pricer_->Communications();
    CheckSize();
    waves_.emplace(*pricer_, &program_, &tape_);
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) AddClasses(stage);
    const double host = s_.plan.offload.Any() && Training() ? HostBandwidth() : 0;
    const std::vector<std::vector<Pass>> passes = Passes();
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      emitters_.push_back(std::make_unique<StageEmitter>(
          StageEmitter::Inputs{s_, context_, *pricer_, communication_[stage], stages_[stage],
                               by_class_[stage], stage, host, tape_},
          &*waves_, &program_, &total_s_));
      emitters_.back()->Run(passes[stage]);
    }
    if (Training()) {
      ConnectStages();
      ConnectEncoders();
    }
    program_.fusion = FusionPoints(
        {s_, *pricer_, *waves_, emitters_,
         [&](std::size_t stage, std::size_t chunk) { return stages_[stage].chunks[chunk].meets; },
         [&](std::size_t stage) { return stages_[stage].chunks.size(); },
         [&](std::size_t stage, std::size_t chunk) {
           std::optional<std::pair<std::size_t, std::size_t>> at;
           if (!Training()) return at;
           if (const std::optional<Link> link = Previous(stage, chunk))
             at.emplace(link->stage, link->chunk);
           return at;
         },
         [&](std::size_t from, std::size_t to) { return Across(from, to); }, First(),
         encoder_stage_});
    [[maybe_unused]] const bool acyclic = program_.graph.Finish();
    assert(acyclic);
  }

  PlanCosts Costs(bool communication, PriceBook* book) {
    MakeUnits();
    pricer_.emplace(s_, options_, &program_);
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) AskForCommunication(stage);
    communication ? pricer_->SettleCosts(book) : pricer_->SettleUnpriced();
    PlanCosts costs;
    costs.encoder_stages = s_.plan.encoder_stages;
    costs.pipeline = pipeline_;
    costs.begin_s = s_.stack->step_overhead_s + s_.data_stall_s;
    costs.host_bandwidth = s_.plan.offload.Any() && Training() ? HostBandwidth() : 0;
    costs.exact_loads = s_.step == nullptr;
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      costs.stages.push_back(CostsOfStage(s_, *pricer_, stages_[stage], communication_[stage],
                                          stage, costs.host_bandwidth));
    }
    return costs;
  }

 private:
  // What every chunk runs, by stage and kind of device.
  void MakeUnits() {
    program_.own_flops_per_token = ForwardFlopsPerToken(s_, context_);
    if (s_.what_if.flops_per_token)
      program_.flops_scale = *s_.what_if.flops_per_token / program_.own_flops_per_token;
    context_.flops_scale = program_.flops_scale;
    stages_ = MakeStages(s_, context_);
    for (const Pool& pool : s_.pools) {
      CostContext context = context_;
      context.profile = pool.profile.get();
      pool_stages_.push_back(MakeStages(s_, context, &context_));
      program_.provenance = Weakest(program_.provenance, pool.profile->provenance);
    }
  }

  bool Training() const { return s_.workload.task == Task::kTrain; }
  std::size_t First() const { return static_cast<std::size_t>(s_.plan.encoder_stages); }
  bool Own(std::size_t stage) const { return stage < First(); }

  double HostBandwidth() const {
    const double bandwidth = HostLinkBandwidth(*s_.cluster);
    if (bandwidth > 0) return bandwidth;
    ThrowInput(385, "cluster '" + s_.cluster->name + "' has no link between a GPU and its host",
               "a cluster whose nodes tell their PCIe, or a plan without offload",
               ExitCode::kInfeasible);
  }

  // Every micro-batch of every replica has costs of its own where samples differ.
  void CheckLoads() const {
    constexpr double kMostUnits = 3e5;
    double units = 0;
    for (const StageUnits& stage : stages_) {
      for (const Chunk& chunk : stage.chunks) units += static_cast<double>(chunk.units.size());
    }
    const double loads = static_cast<double>(s_.step->micro_batches.size());
    if (loads * units <= kMostUnits) return;
    ThrowInput(341,
               std::to_string(s_.step->micro_batches.size()) +
                   " micro-batches of all replicas hold different samples: too many to simulate "
                   "one by one",
               "a smaller global_batch_size, a larger micro_batch_size or fewer replicas; what "
               "they differ by is seen on a part of the cluster",
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
      double units = 0;
      for (const Chunk& chunk : stages_[stage].chunks)
        units += static_cast<double>(chunk.units.size());
      ops += here * rounds * (units * per_unit + 2 * static_cast<double>(s_.workload.new_tokens));
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

  // Where the passes of a chunk go next, or come from: the stage and chunk, and the pairs of ranks
  // over which; nothing of those where both are on one stage.
  struct Link {
    std::size_t stage = 0, chunk = 0;
    std::optional<GroupKind> over;
  };
  // Interleaved chunks go around from the last stage to the first; a V and a second direction go back
  // over the same pairs.
  std::optional<Link> LinkBetween(std::size_t from, std::optional<StageChunk> to,
                                  bool forward) const {
    if (!to) return std::nullopt;
    Link link{First() + static_cast<std::size_t>(to->stage), static_cast<std::size_t>(to->chunk),
              std::nullopt};
    if (link.stage == from) return link;
    const bool up = link.stage > from;
    link.over = up ? GroupKind::kForward : GroupKind::kBackward;
    if (pipeline_.kind == ScheduleKind::kInterleaved && up != forward)
      link.over = GroupKind::kAround;
    return link;
  }
  std::optional<Link> Next(std::size_t stage, std::size_t chunk) const {
    if (Own(stage)) return Link{stage + 1, 0, GroupKind::kForward};
    return LinkBetween(
        stage, NextOf(pipeline_, static_cast<int>(stage - First()), static_cast<int>(chunk)), true);
  }
  std::optional<Link> Previous(std::size_t stage, std::size_t chunk) const {
    if (Own(stage)) {
      if (stage == 0) return std::nullopt;
      return Link{stage - 1, 0, GroupKind::kBackward};
    }
    const std::optional<StageChunk> before =
        PreviousOf(pipeline_, static_cast<int>(stage - First()), static_cast<int>(chunk));
    if (!before && First() > 0) return Link{First() - 1, 0, GroupKind::kBackward};
    return LinkBetween(stage, before, false);
  }

  // What the stage's ranks will say to each other: asked for before any op is made.
  void AskForCommunication(std::size_t stage) {
    StageCommunication asked;
    const StageUnits& units = stages_[stage];
    for (std::size_t c = 0; c < units.chunks.size(); ++c) {
      const Chunk& chunk = units.chunks[c];
      ChunkCommunication said = AskForUnits(chunk, stage);
      if (chunk.meets) said.alignment = pricer_->AskForAlignment(stage);
      if (chunk.meets && s_.step != nullptr) {
        // Post-balancing: what one GPU sends to other replicas in a micro-batch, on average.
        const std::vector<double>& moved = s_.step->moved_tokens;
        double bytes = 0;
        for (std::size_t i = 0; i < moved.size(); ++i)
          bytes += moved[i] * s_.model->modules[i].hidden * kValueBytes;
        bytes /= static_cast<double>(s_.plan.micro_batches) * s_.plan.dp * s_.plan.tp * s_.plan.cp;
        said.rebalance =
            pricer_->Collective(CollectiveKind::kAllToAll, bytes, stage, GroupKind::kDp);
      }
      const std::optional<Link> next = Next(stage, c);
      said.ends = !next;
      if (next && next->over) {
        said.send_forward = pricer_->Transfer(
            chunk.sent_bytes * FanOut(s_.plan, stage, *next->over), stage, *next->over);
      }
      const std::optional<Link> before = Previous(stage, c);
      if (before && before->over) {
        const double bytes = stages_[before->stage].chunks[before->chunk].sent_bytes;
        said.send_backward = pricer_->Transfer(
            bytes * (Own(before->stage) != Own(stage) ? FanOut(s_.plan, stage, *before->over) : 1),
            stage, *before->over);
      }
      asked.chunks.push_back(std::move(said));
    }
    asked.bubbles = AskForUnits(units.bubbles, stage);
    if (!units.bubbles.units.empty() && stage > First()) {
      asked.bubbles.send_forward =
          pricer_->Transfer(units.bubbles.sent_bytes, stage, GroupKind::kBackward);
    }
    if (!Training()) {
      asked.decode_reduce = pricer_->Collective(
          CollectiveKind::kAllReduce,
          static_cast<double>(s_.plan.micro_batch_size) * s_.model->Backbone().hidden * kValueBytes,
          stage, GroupKind::kTp);
    }
    communication_.push_back(std::move(asked));
  }

  // Whether GPUs of a tensor-parallel group hold the same weights and see different tokens or images.
  bool AddsUpOverTp(const Unit& unit, std::size_t stage) const {
    if (unit.split_tokens) return true;
    return s_.plan.modules[unit.module].placement == Placement::kColocatedDp &&
           LayoutOf(s_.plan, stage).tp > 1;
  }

  // Gradients are reduced in buckets: with the unit whose backward fills one.
  ChunkCommunication AskForUnits(const Chunk& chunk, std::size_t stage) {
    ChunkCommunication said;
    for (const Unit& unit : chunk.units) {
      said.units.push_back(pricer_->Inside(unit, stage));
      pricer_->AskForGathers(unit, stage, &said.units.back());
    }
    const bool whole_units =
        s_.plan.sharding == Sharding::kFsdp || s_.plan.sharding == Sharding::kHsdp;
    Bucket bucket;
    const auto compressed = [&](std::size_t i) {
      return s_.plan.modules[chunk.units[i].module].compression.Any();
    };
    std::size_t carrier = 0;  // of the bucket's units, the last whose gradients are made
    for (std::size_t i = chunk.units.size(); i-- > 0;) {
      const UnitParameters& p = chunk.units[i].parameters;
      const bool trained = chunk.units[i].trained;
      bucket.dense += (trained ? p.dense : 0) + p.adapters;
      if (AddsUpOverTp(chunk.units[i], stage)) bucket.split += (trained ? p.dense : 0) + p.adapters;
      bucket.experts += trained ? p.experts : 0;
      if (chunk.units[i].TrainedParameters() > 0) carrier = i;
      const bool full = (bucket.dense + bucket.experts) * s_.stack->gradient_exchange_bytes >=
                        s_.plan.bucket_bytes;
      // A bucket is of one module where modules compress or keep to themselves.
      const bool border = i > 0 && chunk.units[i - 1].module != chunk.units[i].module &&
                          (s_.plan.modality_barrier || compressed(i) || compressed(i - 1));
      if (!full && !whole_units && !border && i > 0) continue;
      if (bucket.dense + bucket.experts == 0) continue;
      // What is frozen makes no gradients, and so none that a reduction could follow.
      bucket.module = chunk.units[carrier].module;
      pricer_->AskForReductions(bucket, stage, &said.units[carrier]);
      bucket = {};
    }
    return said;
  }

  void AddClasses(std::size_t stage) {
    const StageClasses& classes = pricer_->Classes(stage);
    const auto first = static_cast<std::uint32_t>(program_.classes.size());
    waves_->AddStage(first);
    for (std::size_t c = 0; c < classes.rank.size(); ++c) {
      program_.classes.push_back(MakeRankClass(s_, UnitsOf(stage, classes.rank[c]), stage, c,
                                               *pricer_, communication_[stage]));
    }
    for (const std::uint32_t c : classes.class_of) program_.class_of_gpu.push_back(first + c);
    by_class_.emplace_back();
    if (!s_.pools.empty()) {
      for (const int gpu : classes.rank) {
        by_class_.back().emplace_back(static_cast<std::size_t>(s_.plan.micro_batches),
                                      &UnitsOf(stage, gpu));
      }
    }
    if (s_.step == nullptr) return;
    const StageLayout layout = LayoutOf(s_.plan, stage);
    for (const int gpu : classes.rank) {
      const auto replica = static_cast<std::size_t>((gpu - layout.first_gpu) / layout.PerReplica());
      const auto micro = static_cast<std::size_t>(s_.plan.micro_batches);
      std::vector<const StageUnits*> mine;
      for (std::size_t i = 0; i < micro; ++i) mine.push_back(&loads_[replica * micro + i][stage]);
      by_class_.back().push_back(std::move(mine));
    }
  }

  const StageUnits& UnitsOf(std::size_t stage, int gpu) const {
    const std::size_t pool = PoolOf(s_, gpu);
    return pool == 0 ? stages_[stage] : pool_stages_[pool - 1][stage];
  }

  // By stage. An encoder's own stages run as many forwards ahead as the backbone's first stage takes
  // before its first backward, and one more a stage.
  std::vector<std::vector<Pass>> Passes() {
    std::vector<std::vector<Pass>> passes;
    if (!Training()) return std::vector<std::vector<Pass>>(stages_.size());
    std::vector<std::vector<Pass>> backbone = MakeSchedule(pipeline_);
    if (HasBubbles()) {
      BubbleFill filled = FillPasses();
      backbone = std::move(filled.stages);
      encoder_stage_ = std::move(filled.encoder_stage);
    }
    const auto m = static_cast<int>(s_.plan.micro_batches);
    int ahead = 0;
    for (const Pass& pass : backbone.front()) {
      if (PositionOf(pipeline_, 0, pass.chunk) != 0) continue;
      if (pass.kind != PassKind::kForward) break;
      ++ahead;
    }
    for (std::size_t stage = 0; stage < First(); ++stage) {
      const int warm_up = std::min(m, ahead + static_cast<int>(First() - stage));
      std::vector<Pass> mine;
      for (int i = 0; i < warm_up; ++i) mine.push_back({PassKind::kForward, 0, i});
      for (int i = warm_up; i < m; ++i) {
        mine.push_back({PassKind::kBackward, 0, i - warm_up});
        mine.push_back({PassKind::kForward, 0, i});
      }
      for (int i = m - warm_up; i < m; ++i) mine.push_back({PassKind::kBackward, 0, i});
      passes.push_back(std::move(mine));
    }
    for (std::vector<Pass>& mine : backbone) passes.push_back(std::move(mine));
    return passes;
  }

  bool HasBubbles() const {
    return std::any_of(stages_.begin(), stages_.end(),
                       [](const StageUnits& stage) { return !stage.bubbles.units.empty(); });
  }
  // Kernels and what is chained to them, coarsely: enough to find gaps.
  double PassSeconds(const Chunk& chunk, const ChunkCommunication& said, bool backward) const {
    double seconds = 0;
    for (std::size_t i = 0; i < chunk.units.size(); ++i) {
      const Unit& unit = chunk.units[i];
      if (backward && !unit.backward) continue;
      const UnitCommunication& of = said.units[i];
      const double talk = (pricer_->Seconds(of.tp_before) + pricer_->Seconds(of.tp_after)) *
                              (unit.tp_collectives ? (unit.has_second ? 2 : 1) : 0) +
                          pricer_->Seconds(of.dispatch) + pricer_->Seconds(of.combine);
      seconds += talk + (backward ? unit.Backward().Seconds() : unit.Forward().Seconds());
      if (backward && unit.recomputed) seconds += unit.Forward().Seconds();
    }
    return seconds;
  }
  BubbleFill FillPasses() const {
    BubbleFillInput input;
    input.shape = pipeline_;
    for (std::size_t stage = First(); stage < stages_.size(); ++stage) {
      input.seconds.emplace_back();
      for (std::size_t c = 0; c < stages_[stage].chunks.size(); ++c) {
        const Chunk& chunk = stages_[stage].chunks[c];
        const ChunkCommunication& said = communication_[stage].chunks[c];
        input.seconds.back().push_back(
            {PassSeconds(chunk, said, false), PassSeconds(chunk, said, true), 0});
      }
    }
    const Chunk& bubbles = stages_.back().bubbles;
    const ChunkCommunication& said = communication_.back().bubbles;
    input.most_ahead = 2 * pipeline_.stages;  // as much again as the backbone has in flight
    input.encoder_forward_s = PassSeconds(bubbles, said, false);
    input.encoder_backward_s = PassSeconds(bubbles, said, true);
    return FillBubbles(input);
  }

  // Passes of one micro-batch wait for each other from chunk to chunk.
  void ConnectStages() {
    const auto micro = static_cast<std::size_t>(s_.plan.micro_batches);
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      for (std::size_t c = 0; c < stages_[stage].chunks.size(); ++c) {
        const std::optional<Link> next = Next(stage, c);
        if (!next) continue;
        const StageEmitter::Table& here = emitters_[stage]->table();
        const StageEmitter::Table& there = emitters_[next->stage]->table();
        const std::optional<Link> back = Previous(next->stage, next->chunk);
        for (std::size_t i = 0; i < micro; ++i) {
          Connect(here.forward[c][i], there.forward[next->chunk][i], stage, next->over);
          Connect(there.backward[next->chunk][i], here.backward[c][i], next->stage,
                  back ? back->over : std::nullopt);
        }
      }
    }
  }

  // Classes of one stage and of another that is some stages before or after it, rank by rank.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> Across(std::size_t from,
                                                              std::size_t to) const {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
    for (std::uint32_t c = 0; c < pricer_->Classes(from).rank.size(); ++c) pairs.emplace_back(c, c);
    while (from != to) {
      const GroupKind kind = to > from ? GroupKind::kForward : GroupKind::kBackward;
      std::vector<std::pair<std::uint32_t, std::uint32_t>> further;
      for (const auto& [here, there] : pairs) {
        for (const auto& [a, b] : pricer_->Classes(from).partners[static_cast<std::size_t>(kind)])
          if (a == there) further.emplace_back(here, b);
      }
      pairs = std::move(further);
      from = to > from ? from + 1 : from - 1;
    }
    return pairs;
  }

  // An encoder in a bubble: its tokens go to where the model begins, their gradients come back.
  void ConnectEncoders() {
    const auto begins = First();
    for (std::size_t i = 0; i < encoder_stage_.size(); ++i) {
      const std::size_t at = First() + static_cast<std::size_t>(encoder_stage_[i]);
      const StageEmitter::Table& there = emitters_[begins]->table();
      const StageEmitter::Table& here = emitters_[at]->table();
      const auto join = [&](const Wave& made, const std::vector<Wave>& firsts, std::size_t from,
                            std::size_t to) {
        if (!made.Exists()) return;
        for (const Wave& first : firsts) {
          for (const auto& [a, b] : Across(from, to))
            program_.graph.AddDependency(waves_->At(made, a), waves_->EntryAt(first, b));
        }
      };
      const StageEmitter::Marks& out = here.encoder_forward[i];
      join(out.sent.Exists() ? out.sent : out.last, there.forward[0][i].first, at, begins);
      join(there.backward[0][i].last, here.encoder_backward[i].first, begins, at);
    }
  }

  // `after` waits for `before`, which `stage` ran, over those pairs of ranks.
  void Connect(const StageEmitter::Marks& before, const StageEmitter::Marks& after,
               std::size_t stage, std::optional<GroupKind> over) {
    const Wave& made = before.sent.Exists() ? before.sent : before.last;
    if (!made.Exists()) return;
    for (const Wave& first : after.first) {
      if (!over) {
        waves_->Follow(made, first);
        continue;
      }
      for (const auto& [here, there] :
           pricer_->Classes(stage).partners[static_cast<std::size_t>(*over)]) {
        program_.graph.AddDependency(waves_->At(made, here), waves_->EntryAt(first, there));
      }
    }
  }

  const Scenario& s_;
  const LowerOptions options_;
  Tape tape_;
  CostContext context_;
  PipelineShape pipeline_;
  Program program_;
  std::vector<StageUnits> stages_;
  std::vector<std::vector<StageUnits>> pool_stages_;  // the same, of each pool's device
  std::optional<PlanPricer> pricer_;
  std::optional<Waves> waves_;
  std::vector<StageCommunication> communication_;  // by stage
  // By stage, rank class and micro-batch: the units where micro-batches or devices differ.
  std::vector<std::vector<std::vector<const StageUnits*>>> by_class_;
  std::vector<std::unique_ptr<StageEmitter>> emitters_;
  std::vector<std::vector<StageUnits>> loads_;  // by replica and micro-batch, where they differ
  std::vector<int> encoder_stage_;              // by micro-batch: whose bubble its encoder fills

  double total_s_ = 0;  // of all waves
};

}  // namespace

std::uint32_t Program::ClassOf(int gpu) const {
  if (!class_of_gpu.empty()) return class_of_gpu[static_cast<std::size_t>(gpu)];
  std::uint32_t c = 0;
  while (gpu >= classes[c].first_gpu + classes[c].count) ++c;
  return c;
}

PlanCosts CostPlan(const Scenario& scenario, bool communication, PriceBook* book) {
  const LowerOptions options;
  return Lowering(scenario, options).Costs(communication, book);
}

Program Lower(const Scenario& scenario, const LowerOptions& options) {
  return Lowering(scenario, options).Lower();
}

TapedLowering LowerOnTape(const Scenario& scenario, const LowerOptions& options) {
  const auto lowering = std::make_shared<Lowering>(scenario, options, /*taped=*/true);
  lowering->Run();
  TapedLowering taped = lowering->Taped();
  taped.owner = lowering;
  return taped;
}

}  // namespace aurum
