#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/core/provenance.h"
#include "sim/cost/kernel.h"
#include "sim/engine/op_graph.h"
#include "sim/network/event_loop.h"
#include "sim/plan/rank_groups.h"
#include "sim/plan/scenario.h"
#include "sim/workload/kept.h"

namespace aurum {

// The one description of a plan: what every class of ranks does in a step, in order. The simulator, the memory model and
// the executors all read it. One class stands for all ranks that behave alike: a whole pipeline
// stage, unless a fault or the network makes a difference (rank_classes.h).

// A stream of every rank, or of every group of one kind.
enum class Lane : std::uint8_t {
  kMain,  // kernels
  kTp,
  kCp,
  kEp,
  kExpertTp,
  kPpForward,
  kPpBackward,
  kPpAround,
  kDp,
  kExpertDp,
  kShard,
  kReplica,
  kAlign,
  kHost,    // transfers to host memory, and the host's optimizer
  kHostIn,  // and from it
};
inline constexpr int kLanes = 15;

enum class OpKind : std::uint8_t {
  kHost,  // the host prepares the step
  kForward,
  kBackward,  // recomputation included
  kOptimizer,
  kDecode,
  kTpCollective,
  kPipelineTransfer,
  kParameterGather,
  kGradientReduce,
  kAlignment,          // tokens of one modality move to the ranks that consume them
  kContextCollective,  // keys and values, or heads, among the GPUs that share a sequence
  kExpertCollective,   // tokens to their experts and back
  kHostTransfer,       // offloaded state or activations over PCIe
  kWeightGradient,     // of a backward in two (zero bubble)
};

struct OpInfo {
  std::uint32_t rank_class = 0;  // a collective of several classes: the first of them
  Lane lane = Lane::kMain;
  OpKind kind = OpKind::kForward;
  std::int16_t module = -1;  // index into Model::modules; -1: none
  bool head = false;         // output head and loss
  std::int8_t chunk = 0;     // of the stage
  std::int32_t micro_batch = -1;
  std::uint32_t instances = 1;  // ranks or groups that do this at once
  double flops = 0;             // model FLOPs on one GPU; recomputation not counted
  double slowed_s = 0;          // of its time: what a collective beside it costs
  double bytes = 0;             // that one GPU exchanges (nccl-tests' size)
};

// Memory that an op takes or returns on every GPU of its class. What lasts for the whole step (weights,
// optimizer states, gradients that a stack keeps) is not among them: see ModuleShare.
enum class MemoryKind : std::uint8_t {
  kActivations,
  kLogits,
  kCommunication,  // gathered parameters, buckets, receive and transfer buffers
  kGradients,      // of stacks that free them after the optimizer
  kWorkspace,      // recomputation, optimizer temporaries
};
inline constexpr std::uint32_t kNoTensors = 0xffffffffU;
struct MemoryEvent {
  OpId op = 0;
  bool at_end = false;  // at the op's end, else at its start
  std::uint32_t rank_class = 0;
  MemoryKind kind = MemoryKind::kActivations;
  double bytes = 0;                    // > 0 takes, < 0 returns
  std::uint32_t tensors = kNoTensors;  // what: index of Program::tensors
};
// The tensors that one unit takes or returns at once.
struct TensorSet {
  std::int16_t module = -1;
  std::string unit;  // "layer", "head", "embedding", "connector"
  std::vector<KeptTensor> tensors;
};

// What it takes to run an op for real, beside what it takes to time it. Only of a program that was
// lowered for execution (LowerOptions).
inline constexpr std::uint32_t kNoWork = 0xffffffffU;
struct OpWork {
  std::uint32_t kernels = kNoWork;        // index of Program::kernels: one after another
  std::uint32_t repeats = 1;              // of them all
  std::uint32_t communication = kNoWork;  // index of Program::communications
  std::uint32_t group = 0;                // of its kind and stage (GroupsOfStage)
  double times = 1;                       // so many of that communication in a row
};
// A collective or a transfer that the plan asks for.
struct Communication {
  bool transfer = false;  // from a rank to its partners in another stage
  CollectiveKind kind = CollectiveKind::kSendRecv;
  double bytes = 0;  // as nccl-tests counts; of a transfer, what the sender passes on in all
  std::size_t stage = 0;
  GroupKind groups = GroupKind::kTp;
};

// What one module leaves on one GPU of a class.
struct ModuleShare {
  // On this GPU, before sharding over data parallelism; adapters and routed experts are not among
  // `parameters`.
  double parameters = 0;
  double expert_parameters = 0;     // of routed experts: replicated ExpertReplicas() times
  double adapter_parameters = 0;    // of adapters, trained
  double quantised_parameters = 0;  // of both, those that the adapter's base stores in few bits
  double embedding_parameters = 0;  // of `parameters`, token embedding and output head
  double largest_unit =
      0;  // parameters in the largest block that is gathered at once, experts included
  double largest_layer = 0;   // the same, of layers alone
  double largest_matrix = 0;  // elements of the largest matrix
  bool trained = false;
  double forward_s = 0, backward_s = 0;  // kernels of one micro-batch, recomputation in backward
  double flops = 0;  // of one micro-batch, forward and backward, recomputation not counted
  double forward_flops = 0;
  double model_flops = 0;  // of `flops`, this GPU's part of what the model needs: work that ranks
                           // of a replica repeat counts once
  double gradient_bytes = 0;  // exchanged per step
  double gradient_s = 0;      // its collectives, undisturbed
  double gather_s = 0;        // parameter gathers per step, undisturbed
  double tp_s = 0;            // tensor-parallel collectives of one micro-batch
  double kv_cache_bytes = 0;  // generation
};

struct RankClass {
  std::string name;    // "stage 0", "stage 0, GPU 13"
  std::string layers;  // "vision, connector, backbone layers 0-15"
  int stage = 0;
  int count = 0;  // ranks
  int first_gpu = 0;
  bool consecutive = true;           // GPUs first_gpu … first_gpu + count − 1
  double slowdown = 1;               // of its kernels
  std::vector<ModuleShare> modules;  // as Model::modules
  double transfer_s = 0;  // pipeline transfers of one micro-batch out of this class, both ways
  double optimizer_s = 0;
};

struct Alignment {
  double ratio = 1;  // MAR of this program
  bool imposed = false;
  double tokens_per_micro_batch = 0;   // cross-modal
  double bytes_per_micro_batch = 0;    // moved
  double seconds_per_micro_batch = 0;  // undisturbed, forward and backward
};

// Where tokens of an encoder reach the backbone: one for every encoder, micro-batch and class of ranks
// that consumes them.
struct FusionPoint {
  std::uint32_t rank_class = 0;  // of the consumer
  std::int16_t module = -1;      // the encoder, or its connector
  std::int32_t micro_batch = 0;
  OpId consumer = kNoOp;  // the first op that needs the tokens
  OpId producer = kNoOp;  // the last kernel that made them
  OpId arrival = kNoOp;   // what brought them: an exchange, a transfer, or the producer itself
  double tokens = 0;      // that one consumer takes
  double own_share = 1;   // of them, made on the consumer's own GPU
};

struct Program {
  OpGraph graph;
  std::vector<OpInfo> info;  // by op
  // Lowered with traffic: the links that the patterns of the graph name, at the rates that
  // collectives reach. Folded, they are classes; `link_of` gives the cluster's link that stands for
  // each, `link_count` how many it stands for. Empty: they are the cluster's links.
  Fabric fabric{};
  std::vector<std::uint32_t> link_of{}, link_count{};
  std::vector<MemoryEvent> memory;
  std::vector<TensorSet> tensors;
  // Lowered for execution: by op, and what those refer to.
  bool executable = false;
  std::vector<OpWork> work{};
  std::vector<std::vector<Kernel>> kernels{};
  std::vector<Communication> communications{};
  std::vector<RankClass> classes;             // by stage
  std::uint32_t ClassOf(int gpu) const;       // index of classes
  std::vector<std::uint32_t> class_of_gpu{};  // empty: a class per stage
  Alignment alignment;
  std::vector<FusionPoint> fusion{};
  std::int64_t micro_batches = 1;
  double micro_batch_tokens = 0;  // of the backbone
  double flops_scale = 1;         // what-if factors that were applied
  double comm_scale = 1;
  double own_flops_per_token = 0;  // forward FLOPs per backbone token, unscaled, whole model
  double own_bus_bandwidth = 0;    // B/s of the widest group, unscaled; 0 on one GPU
  Provenance provenance = Provenance::kAssumed;  // the weakest of its costs
};

}  // namespace aurum
