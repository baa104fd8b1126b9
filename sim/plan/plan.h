#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/model.h"
#include "sim/collectives/algorithm.h"
#include "sim/core/json.h"
#include "sim/core/object_reader.h"
#include "sim/plan/schedule.h"
#include "sim/workload/recipe.h"
#include "sim/workload/workload.h"
#include "topologies/cluster.h"

namespace aurum {

// Where an encoder runs.
enum class Placement {
  kFirstStage,  // on the ranks of pipeline stage 0, before the backbone's layers: replicated there, or tensor-parallel
  kColocatedDp,  // there too, but each tensor-parallel rank takes its share of the images, and outputs are exchanged
  kBalanced,  // its layers are spread over the first stages, so that stages take about the same time
  kOwnRanks,  // on stages of its own, before the backbone's, with its own tp
  kInBubbles,  // on every stage, each for its share of the micro-batches, while the backbone waits (Optimus)
};
// How data-parallel replicas share state.
enum class Sharding {
  kDdp,
  kZero1,  // optimizer
  kZero2,  // and gradients, reduced in every micro-batch
  kFsdp,   // and parameters: ZeRO-3
  kHsdp,   // FSDP inside of groups of `shard_group` GPUs, all-reduce between them
};
enum class OptimizerKind { kAdam, kAdam8bit, kAdam4bit, kSgd };
// Which axis of a module's activations its `tp` GPUs share.
enum class SplitAxis {
  kHidden,  // heads and channels: two collectives of the whole stream a layer (Megatron-LM)
  kTokens,  // tokens, every GPU with all weights: all-to-alls around attention (DeepSpeed-Ulysses)
};
// Which entries of a gradient are sent.
enum class GradientSelection {
  kAll,
  kTopK,        // the largest (Aji and Heafield 2017; Lin et al., DGC, 2018)
  kCovariance,  // the largest after weighing by a diagonal or low-rank covariance of gradients
  kMask,        // the largest, and zeros for the rest: sent like any gradient
};
// How ranks are numbered over the GPUs of the cluster, the fastest-changing dimension first: what is
// early stays within a node.
enum class RankDimension : std::uint8_t { kTp, kCp, kDp, kPp };
using RankOrder = std::array<RankDimension, 4>;
inline constexpr RankOrder kDefaultRankOrder = {RankDimension::kTp, RankDimension::kCp,
                                                RankDimension::kDp, RankDimension::kPp};
std::string RankOrderName(const RankOrder& order);  // "tp-cp-dp-pp"
// Of one module. Kept entries travel as values with their indices, which differ from rank to rank,
// so that an all-gather takes the place of the all-reduce.
struct GradientCompression {
  GradientSelection selection = GradientSelection::kAll;
  double keep = 1;  // share of the entries, 0 … 1
  int value_bits = 16;
  int index_bits = 32;
  bool error_feedback = true;  // what is not sent is kept and added in the next step
  int refresh_steps = 1;       // kCovariance: the weights are formed anew every so many steps
  int covariance_rank = 0;     // kCovariance: 0 = the diagonal alone
  bool Any() const { return selection != GradientSelection::kAll; }
  bool Sparse() const { return Any() && selection != GradientSelection::kMask; }
};
// How tokens of a mixture of experts find theirs, in place of an imbalance that is told.
struct ExpertRouting {
  struct Skew {
    std::string module;  // whose tokens: an encoder's, or the backbone's own
    double zipf = 0;     // exponent of the experts' popularity among them; 0 = even
  };
  std::vector<Skew> skew;
  double capacity_factor = 0;  // slots of an expert over the mean of its tokens; 0 = nothing drops
  std::uint64_t seed = 0;      // which experts each modality prefers
};

std::string ShardingName(Sharding sharding);          // "ddp", "zero1", "zero2", "fsdp", "hsdp"
std::string RecomputeName(RecomputeScope recompute);  // "none", "selective", "full"
std::string PlacementName(Placement placement);       // "first_stage", ...
std::string OptimizerName(OptimizerKind optimizer);   // "adam", "adam-8bit", ...

struct ModulePlan {
  int tp = 1;
  Placement placement = Placement::kFirstStage;
  bool frozen = false;
  std::int64_t micro_batch_size = 0;  // samples; of an encoder: 0 = the backbone's
  std::vector<int>
      layers_per_stage;  // kBalanced, told: of the first stages; kOwnRanks: of its stages
  int pp = 1;            // kOwnRanks: its stages
  SplitAxis split = SplitAxis::kHidden;
  GradientCompression compression;
};

// What is kept in host memory and moved over PCIe, as shares of the whole, 0 … 1.
struct Offload {
  double optimizer = 0;    // states, and the CPU takes the optimizer step
  double parameters = 0;   // weights come and go unit by unit
  double activations = 0;  // kept activations leave in forward and return in backward
  bool Any() const { return optimizer > 0 || parameters > 0 || activations > 0; }
};

// What may run beside compute; false: compute waits.
struct Overlap {
  bool gradient_reduce = true;
  bool parameter_gather = true;
  bool tensor_parallel = false;  // collectives in pieces beside the products that make or use them
  bool context_parallel = true;  // the ring's next keys and values beside attention
  bool expert_parallel = false;  // dispatch and combine beside the shared expert
  bool pipeline = true;          // transfers beside the next pass
  bool offload = true;           // host transfers beside compute
};

struct Plan {
  std::int64_t micro_batch_size = 1;  // samples
  int tp = 1;                         // of the backbone
  int cp = 1;                         // GPUs that share each sequence
  ContextParallelKind cp_kind = ContextParallelKind::kRing;
  int ep = 1;         // GPUs among which routed experts are shared out
  int expert_tp = 1;  // tensor parallelism inside of an expert
  int pp = 1;         // pipeline stages of the backbone
  int vpp = 1;        // chunks of every stage
  ScheduleKind schedule = ScheduleKind::k1F1B;
  // Of the backbone: pp · vpp values, by position in the model (schedule.h, PositionOf).
  std::vector<int> layers_per_stage;
  bool sequence_parallel = false;
  // Between stages every rank of a tensor-parallel group sends its share and the receivers gather
  // the whole (Megatron-LM's scatter/gather); with sequence_parallel there is no whole to gather.
  bool scatter_gather = false;
  RankOrder rank_order = kDefaultRankOrder;
  Sharding sharding = Sharding::kZero1;
  int shard_group = 1;      // kHsdp: GPUs among which state is sharded
  double bucket_bytes = 0;  // gradients are reduced when so many bytes are ready; 0 = unit by unit
  int prefetch = 1;         // FSDP: units gathered ahead
  bool reshard_after_forward = true;
  Recompute recompute;
  AttentionKernel attention = AttentionKernel::kStack;
  std::string loss;  // of the stack's loss kernels; "": its default
  Offload offload;
  Precision precision = Precision::kBf16;
  OptimizerKind optimizer = OptimizerKind::kAdam;
  Adapter adapter;  // of the backbone; its base is frozen
  Overlap overlap;
  // Tokens of the busiest rank's experts over the mean: told, or by the routing.
  double expert_imbalance = 1;
  std::optional<ExpertRouting> routing;
  double dropped_tokens = 0;  // share of the tokens' choices that found an expert full
  // Gradients are reduced after every micro-batch, as DDP does without no_sync.
  bool reduce_every_micro_batch = false;
  // Nothing is gathered or reduced across the border between two modules.
  bool modality_barrier = false;
  // Of the kinds that have it; the others, and auto: the least predicted time.
  CollectiveAlgorithm tensor_parallel_algorithm = CollectiveAlgorithm::kAuto;
  CollectiveAlgorithm data_parallel_algorithm = CollectiveAlgorithm::kAuto;
  CollectiveAlgorithm expert_parallel_algorithm = CollectiveAlgorithm::kAuto;
  // Experts' all-to-alls pass through a buffer of this size, piece by piece; 0 = at once.
  double expert_buffer_bytes = 0;
  bool in_network_reduction = false;  // the network's switches reduce (SHARP)
  std::vector<ModulePlan> modules;    // as Model::modules; the backbone's repeats tp and pp

  // Derived by ReadPlan.
  int dp = 1;                      // replicas: GPUs / (tp · cp · pp), encoders' own ranks apart
  std::int64_t micro_batches = 1;  // per replica and step: batch / (dp · micro_batch_size)
  int encoder_stages = 0;          // of kOwnRanks, before the backbone's
  PipelineShape Pipeline() const;  // of the backbone
  int StageCount() const { return encoder_stages + pp; }
  int Positions() const;  // pieces that the backbone's layers are cut into
  std::int64_t EncoderMicroBatch(std::size_t module) const;  // samples at once
  // GPUs that gradients of dense parameters are reduced over, and states sharded over: cp · dp.
  int ReplicaRanks() const { return dp * cp; }
  // The same of routed experts: tp · cp · dp / (expert_tp · ep).
  int ExpertReplicas() const { return tp * cp * dp / (expert_tp * ep); }
};

// "tp 8 · pp 4 · dp 2, micro-batch 1 × 64": the degrees that are not 1, the schedule where it matters.
std::string DescribePlan(const Plan& plan);
// "vision colocated_dp, audio own_ranks tp 2 · pp 1": encoders that are not on the first stage; "" = none.
std::string DescribeEncoders(const Plan& plan, const Model& model);
// "zero1, recompute selective, bf16": what is done to state and layers.
std::string DescribeRecipe(const Plan& plan);

// Reads the scenario's "plan" object and checks it against model, cluster, profile and workload:
// E03xx (docs/diagnostics.md), with exit code 4 (infeasible) and the remedy; warnings W13xx are
// appended.
Plan ReadPlan(ObjectReader reader, const Model& model, const Cluster& cluster,
              const Profile& profile, const Workload& workload, std::vector<Diagnostic>* warnings);

}  // namespace aurum
