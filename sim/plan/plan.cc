#include "sim/plan/plan.h"

#include <string>

#include "sim/plan/split.h"

namespace aurum {

std::string ShardingName(Sharding sharding) {
  switch (sharding) {
    case Sharding::kDdp:
      return "ddp";
    case Sharding::kZero1:
      return "zero1";
    case Sharding::kZero2:
      return "zero2";
    case Sharding::kFsdp:
      return "fsdp";
    case Sharding::kHsdp:
      return "hsdp";
  }
  return "";
}

std::string RecomputeName(RecomputeScope recompute) {
  switch (recompute) {
    case RecomputeScope::kNone:
      return "none";
    case RecomputeScope::kSelective:
      return "selective";
    case RecomputeScope::kFull:
      return "full";
  }
  return "";
}

std::string RankOrderName(const RankOrder& order) {
  constexpr const char* kNames[] = {"tp", "cp", "dp", "pp"};
  std::string name;
  for (const RankDimension dimension : order)
    name += (name.empty() ? "" : "-") + std::string(kNames[static_cast<int>(dimension)]);
  return name;
}

std::string PlacementName(Placement placement) {
  switch (placement) {
    case Placement::kFirstStage:
      return "first_stage";
    case Placement::kColocatedDp:
      return "colocated_dp";
    case Placement::kBalanced:
      return "balanced";
    case Placement::kOwnRanks:
      return "own_ranks";
    case Placement::kInBubbles:
      return "in_bubbles";
  }
  return "";
}

std::string OptimizerName(OptimizerKind optimizer) {
  switch (optimizer) {
    case OptimizerKind::kAdam:
      return "adam";
    case OptimizerKind::kAdam8bit:
      return "adam-8bit";
    case OptimizerKind::kAdam4bit:
      return "adam-4bit";
    case OptimizerKind::kSgd:
      return "sgd";
  }
  return "";
}

PipelineShape Plan::Pipeline() const {
  PipelineShape shape;
  shape.kind = schedule;
  shape.stages = pp;
  shape.chunks = vpp;
  shape.micro_batches = static_cast<int>(micro_batches);
  return shape;
}

int Plan::Positions() const { return schedule == ScheduleKind::kDualPipe ? pp : pp * vpp; }

std::int64_t Plan::EncoderMicroBatch(std::size_t module) const {
  const std::int64_t own = modules[module].micro_batch_size;
  return own == 0 ? micro_batch_size : own;
}

std::string DescribePlan(const Plan& plan) {
  std::string text = "tp " + std::to_string(plan.tp);
  const auto add = [&](const char* name, int degree) {
    if (degree > 1) text += std::string(" · ") + name + " " + std::to_string(degree);
  };
  add("cp", plan.cp);
  add("ep", plan.ep);
  if (plan.ep > 1) add("expert tp", plan.expert_tp);
  text += " · pp " + std::to_string(plan.pp);
  add("vpp", plan.vpp);
  text += " · dp " + std::to_string(plan.dp) + ", micro-batch " +
          std::to_string(plan.micro_batch_size) + " × " + std::to_string(plan.micro_batches);
  if (plan.pp > 1) text += ", " + std::string(ScheduleName(plan.schedule));
  return text;
}

std::string DescribeEncoders(const Plan& plan, const Model& model) {
  std::string text;
  for (std::size_t i = 0; i + 1 < plan.modules.size(); ++i) {
    const ModulePlan& part = plan.modules[i];
    if (part.placement == Placement::kFirstStage && part.tp == 1 && part.micro_batch_size == 0)
      continue;
    text +=
        (text.empty() ? "" : ", ") + model.modules[i].name + " " + PlacementName(part.placement);
    if (part.tp > 1) text += " tp " + std::to_string(part.tp);
    if (SplitsTokens(part)) text += " by tokens";
    if (part.pp > 1) text += " pp " + std::to_string(part.pp);
    if (part.micro_batch_size > 0) text += " micro-batch " + std::to_string(part.micro_batch_size);
  }
  return text;
}

std::string DescribeRecipe(const Plan& plan) {
  std::string text = ShardingName(plan.sharding);
  if (plan.sharding == Sharding::kHsdp) text += " in groups of " + std::to_string(plan.shard_group);
  text +=
      ", recompute " + RecomputeName(plan.recompute.scope) + ", " + PrecisionName(plan.precision);
  if (plan.optimizer != OptimizerKind::kAdam) text += ", " + OptimizerName(plan.optimizer);
  if (plan.adapter.kind != AdapterKind::kNone) {
    if (plan.adapter.kind == AdapterKind::kPrompt) {
      text += ", " + std::to_string(plan.adapter.prompt_tokens) + " prompt tokens";
    } else {
      text += plan.adapter.kind == AdapterKind::kLora ? ", LoRA" : ", DoRA";
      text += " rank " + std::to_string(plan.adapter.rank);
      if (plan.adapter.per_modality) text += " for each modality";
      if (plan.adapter.routed_by_score) text += ", routed by score";
    }
    if (plan.adapter.base != QuantisedBase::kNone)
      text += " over " + QuantisedBaseName(plan.adapter.base);
  }
  const auto away = [&](const char* what, double share) {
    if (share > 0) text += std::string(", ") + what + " offloaded";
  };
  away("optimizer", plan.offload.optimizer);
  away("parameters", plan.offload.parameters);
  away("activations", plan.offload.activations);
  return text;
}

}  // namespace aurum
