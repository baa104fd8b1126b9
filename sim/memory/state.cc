#include "sim/memory/state.h"

#include <algorithm>

#include "sim/plan/gradient_compression.h"
#include "sim/plan/split.h"

// State by ZeRO's stages (Rajbhandari et al. 2020): with N replicas and w + g + o bytes a parameter
//
//   ddp    w + g + o          zero1  w + g + o/N         zero2  w + (g + o)/N
//   fsdp   (w + g + o)/N      hsdp   the same over the shard group
//
// N is dp · cp: the GPUs that share a sequence hold the same weights. Optimizers of some stacks are
// shared out over dp alone. Routed experts are replicated tp · cp · dp / (expert_tp · ep) times, and
// that is their N. A module that is frozen has weights alone, in the format of computation; a base
// under adapters too, in few bits where it is quantised, which some engines cannot shard.

namespace aurum {
namespace {

constexpr double kWideMoments = 8;  // of Adam in 32 bits, both

bool SharesParameters(Sharding sharding) {
  return sharding == Sharding::kFsdp || sharding == Sharding::kHsdp;
}

bool HasAdapter(const Plan& plan) { return plan.adapter.kind != AdapterKind::kNone; }

struct PerParameter {
  double weight = 0, gradient = 0;
};
PerParameter Trained(const Stack& stack, Precision precision) {
  // Trained in 32 bits, weights are their own masters.
  if (precision == Precision::kFp32)
    return {std::max(stack.weight_bytes, 4.0), std::max(stack.gradient_bytes, 4.0)};
  return {stack.weight_bytes, stack.gradient_bytes};
}

// A Transformer Engine that accumulates into the main gradient caches one unused gradient for each
// shape of a weight: those of one layer, and of one expert. The layer with the most of them.
double DummyGradientParameters(const Scenario& s, std::size_t module, const ModuleShare& share) {
  const Module& m = s.model->modules[module];
  const double tp = SplitsTokens(s.plan.modules[module]) ? 1 : s.plan.modules[module].tp;
  double most = 0;
  for (const LayerRun& run : m.runs) {
    double parameters = static_cast<double>(LayerParameters(run.layer, m.hidden)) / tp;
    const Mlp& mlp = run.layer.mlp;
    if (mlp.experts > 1) {
      const double expert =
          (mlp.gated ? 3.0 : 2.0) * static_cast<double>(m.hidden) * mlp.expert_intermediate;
      const bool apart = s.plan.ep != 1 || s.plan.expert_tp != s.plan.tp;
      parameters += expert / (apart ? s.plan.expert_tp : tp) - expert * mlp.experts / tp;
    }
    most = std::max(most, parameters);
  }
  return std::min(most, share.largest_layer);
}

// Elements of the largest matrix that a quantised base unpacks: one of a layer's, never the embedding.
double UnpackedElements(const Scenario& s) {
  const Module& m = s.model->Backbone();
  const double tp = s.plan.tp;
  double most = 0;
  for (const LayerRun& run : m.runs) {
    const Attention& a = run.layer.attention;
    const Mlp& mlp = run.layer.mlp;
    const double width =
        std::max({static_cast<double>(a.heads) * a.head_dim, static_cast<double>(mlp.intermediate),
                  static_cast<double>(mlp.expert_intermediate),
                  static_cast<double>(mlp.shared_intermediate)});
    most = std::max(most, width * m.hidden / tp);
  }
  return most;
}

}  // namespace

StateShards ShardsOf(const Plan& plan, const Stack& stack) {
  StateShards shards;
  const double group = std::max(1, plan.shard_group);
  double replicas = plan.ReplicaRanks(), experts = plan.ExpertReplicas();
  if (plan.sharding == Sharding::kHsdp) {
    replicas = std::min(replicas, group);
    experts = std::min(experts, group);
  }
  switch (plan.sharding) {
    case Sharding::kFsdp:
    case Sharding::kHsdp:
      shards.weights = replicas;
      shards.expert_weights = experts;
      [[fallthrough]];
    case Sharding::kZero2:
      shards.gradients = replicas;
      shards.expert_gradients = experts;
      [[fallthrough]];
    case Sharding::kZero1:
      shards.optimizer = replicas;
      shards.expert_optimizer = experts;
      break;
    case Sharding::kDdp:
      break;
  }
  if (!stack.optimizer_shards_context && !SharesParameters(plan.sharding) &&
      plan.sharding != Sharding::kDdp) {
    shards.optimizer = plan.dp;
    if (plan.sharding == Sharding::kZero2) shards.gradients = plan.dp;
  }
  return shards;
}

double OptimizerBytes(const Stack& stack, OptimizerKind optimizer, Precision precision,
                      bool embedding) {
  const double master =
      precision == Precision::kFp32 ? std::max(stack.master_bytes - 4, 0.0) : stack.master_bytes;
  double moments = precision == Precision::kFp32 ? std::max(stack.moment_bytes, kWideMoments)
                                                 : stack.moment_bytes;
  const bool wide = embedding && !stack.embedding_moments_narrow;
  switch (optimizer) {
    case OptimizerKind::kAdam:
      break;
    case OptimizerKind::kAdam8bit:
      moments = wide ? kWideMoments : stack.moment_8bit_bytes;
      break;
    case OptimizerKind::kAdam4bit:
      moments = wide ? kWideMoments : stack.moment_4bit_bytes;
      break;
    case OptimizerKind::kSgd:
      moments /= 2;  // one buffer, of momentum
      break;
  }
  return master + moments;
}

LastingMemory LastingOf(const Scenario& s, const RankClass& c) {
  const Stack& stack = *s.stack;
  const Plan& plan = s.plan;
  const bool training = s.workload.task == Task::kTrain;
  LastingMemory out;
  out.workspace = stack.workspace_bytes;
  StateShards shards;
  if (training) shards = ShardsOf(plan, stack);
  const double computed = BytesOf(StorageType(plan.precision));
  const PerParameter trained = Trained(stack, plan.precision);
  const double optimizer = OptimizerBytes(stack, plan.optimizer, plan.precision, false);
  const double of_embedding = OptimizerBytes(stack, plan.optimizer, plan.precision, true);
  const bool shares = training && SharesParameters(plan.sharding);
  const double parameters_here = 1 - plan.offload.parameters;
  const double optimizer_here = 1 - plan.offload.optimizer;

  double whole = 0;                // parameters of this GPU before data parallelism
  double exchanged_gradients = 0;  // bytes of all that is reduced
  double gradients = 0, weights = 0, states = 0;
  for (std::size_t i = 0; i < c.modules.size(); ++i) {
    const ModuleShare& share = c.modules[i];
    const bool backbone = i + 1 == c.modules.size();
    // A tower has adapters of its own where prompts are learned before it.
    const bool adapted = training && (backbone ? HasAdapter(plan) : share.adapter_parameters > 0);
    const bool base_trained = training && share.trained && !adapted;
    const double all = share.parameters + share.expert_parameters;
    whole += all;
    out.kv_cache += share.kv_cache_bytes;

    const double each = base_trained ? trained.weight : computed;
    double quantised = 0;
    if (adapted && plan.adapter.base != QuantisedBase::kNone) {
      quantised = std::min(share.quantised_parameters, all);
      weights += quantised * BytesOf(plan.adapter.base) /
                 (stack.quantised_weights_sharded ? shards.weights : 1);
      const bool gptq = plan.adapter.base == QuantisedBase::kGptq4;
      out.workspace =
          std::max(out.workspace, stack.workspace_bytes +
                                      UnpackedElements(s) * (gptq ? stack.dequantised_gptq_bytes
                                                                  : stack.dequantised_bytes));
    }
    // What is quantised is taken from experts in their share.
    const double plain = all > 0 ? 1 - quantised / all : 0;
    weights +=
        each * plain *
        (share.parameters / shards.weights + share.expert_parameters / shards.expert_weights);
    if (IsNarrow(plan.precision) && backbone && training) {
      weights += stack.narrow_copy_bytes * std::max(all - share.embedding_parameters, 0.0);
    }
    if (shares) {
      out.communication +=
          stack.root_window_share * share.embedding_parameters * stack.parameter_exchange_bytes;
    }
    if (base_trained) {
      const double embedding = std::min(share.embedding_parameters, share.parameters);
      gradients += trained.gradient * (share.parameters / shards.gradients +
                                       share.expert_parameters / shards.expert_gradients);
      states += (optimizer * (share.parameters - embedding) + of_embedding * embedding) /
                    shards.optimizer +
                optimizer * share.expert_parameters / shards.expert_optimizer;
      exchanged_gradients += trained.gradient * all;
      states += StateBytesPerEntry(plan.modules[i].compression) * all;
      if (stack.dummy_gradient_bytes > 0)
        out.gradients += stack.dummy_gradient_bytes * DummyGradientParameters(s, i, share);
    }
    if (adapted) {
      // Trained embeddings are whole copies, in the stack's own formats (modules_to_save of PEFT).
      const double copies = plan.adapter.trains_embeddings
                                ? std::min(share.embedding_parameters, share.adapter_parameters)
                                : 0;
      const double adapters = share.adapter_parameters - copies;
      weights += (stack.adapter_weight_bytes * adapters + trained.weight * copies) / shards.weights;
      const double gradient = stack.adapter_gradient_bytes * adapters + trained.gradient * copies;
      gradients += gradient / shards.gradients;
      exchanged_gradients += gradient;
      states +=
          (stack.adapter_optimizer_bytes * adapters + of_embedding * copies) / shards.optimizer;
    }
  }

  out.weights = weights * parameters_here;
  out.optimizer = states * optimizer_here;
  if (stack.gradients_persist) out.gradients += gradients * parameters_here;
  // An optimizer on the host steps there, and its gradients lie there too.
  out.host = weights * plan.offload.parameters + states * plan.offload.optimizer +
             gradients * std::max(plan.offload.parameters, plan.offload.optimizer);
  if (training && plan.ReplicaRanks() > 1) {
    if (plan.sharding == Sharding::kDdp && stack.ddp_copies_gradients)
      out.communication += exchanged_gradients;
    // A sharding engine's buffers hold parameters under ZeRO-3, and gradients otherwise.
    if (shares) {
      out.communication += stack.buffer_bytes;
    } else if (plan.sharding == Sharding::kZero2) {
      out.communication += std::min(stack.buffer_bytes, exchanged_gradients);
    }
  }
  // Every GPU holds the whole checkpoint and its share, before anything else is there.
  if (shares && stack.load_bytes > 0 && plan.ReplicaRanks() > 1)
    out.loading = stack.load_bytes * whole + out.weights + stack.workspace_bytes;
  return out;
}

}  // namespace aurum
