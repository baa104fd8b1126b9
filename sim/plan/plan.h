#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/model.h"
#include "sim/collectives/algorithm.h"
#include "sim/core/json.h"
#include "sim/core/object_reader.h"
#include "sim/cost/profile.h"
#include "sim/workload/workload.h"
#include "topologies/cluster.h"

namespace aurum {

// Where an encoder runs.
enum class Placement {
  kFirstStage,  // on the ranks of pipeline stage 0, before the backbone's layers: replicated there, or tensor-parallel
  kColocatedDp,  // there too, but each tensor-parallel rank takes its share of the images, and outputs are exchanged
};
// How data-parallel replicas share state.
enum class Sharding { kDdp, kZero1, kFsdp };
enum class Recompute { kNone, kSelective, kFull };

std::string ShardingName(Sharding sharding);     // "ddp", "zero1", "fsdp"
std::string RecomputeName(Recompute recompute);  // "none", "selective", "full"

struct ModulePlan {
  int tp = 1;
  Placement placement = Placement::kFirstStage;
  bool frozen = false;
};

struct Plan {
  std::int64_t micro_batch_size = 1;  // samples
  int tp = 1;                         // of the backbone
  int pp = 1;
  std::vector<int> layers_per_stage;  // of the backbone; pp values
  bool sequence_parallel = false;
  Sharding sharding = Sharding::kZero1;
  Recompute recompute = Recompute::kNone;
  DType precision = DType::kBf16;
  bool overlap_gradient_reduce = true;
  bool overlap_parameter_gather = true;
  // Of the kinds that have it; the others, and auto: the least predicted time.
  CollectiveAlgorithm tensor_parallel_algorithm = CollectiveAlgorithm::kAuto;
  CollectiveAlgorithm data_parallel_algorithm = CollectiveAlgorithm::kAuto;
  bool in_network_reduction = false;  // the network's switches reduce (SHARP)
  std::vector<ModulePlan> modules;    // as Model::modules; the backbone's repeats tp

  // Derived by ReadPlan.
  int dp = 1;                      // GPUs / (tp · pp)
  std::int64_t micro_batches = 1;  // per replica and step: batch / (dp · micro_batch_size)
};

// Reads the scenario's "plan" object and checks it against model, cluster and workload, in that order:
//   E0311 tp does not divide the heads · E0312 tp·pp does not divide the GPUs · E0313 pp does not divide the layers
//   E0314 the batch does not divide · E0316 an encoder's tp · E0318 not possible when generating · E0321 nothing to train
//   E0323 tp does not divide the MLP
// with exit code 4 (infeasible) and the remedy; warnings W13xx are appended.
Plan ReadPlan(ObjectReader reader, const Model& model, const Cluster& cluster,
              const Workload& workload, std::vector<Diagnostic>* warnings);

}  // namespace aurum
