#include "sim/search/twins.h"

#include <algorithm>
#include <array>
#include <vector>

#include "sim/study/axis.h"

namespace aurum {
namespace {

constexpr std::array<const char*, 6> kShardings = {"ddp",  "zero1", "zero2",
                                                   "fsdp", "hsdp",  "zero3"};

bool HasExperts(const Module& module) {
  return std::any_of(module.runs.begin(), module.runs.end(),
                     [](const LayerRun& run) { return run.layer.mlp.experts > 0; });
}

// Every parameter is on one GPU: there is nobody to reduce its gradient with or to share its state.
bool OneReplica(const Scenario& s) {
  const Plan& plan = s.plan;
  if (plan.ReplicaRanks() > 1) return false;
  if (HasExperts(s.model->Backbone()) && plan.ExpertReplicas() > 1) return false;
  for (std::size_t i = 0; i + 1 < plan.modules.size(); ++i) {
    const ModulePlan& part = plan.modules[i];
    const bool own_group =
        part.placement == Placement::kColocatedDp || part.placement == Placement::kOwnRanks;
    if (own_group || part.tp != plan.tp || part.split != SplitAxis::kHidden) return false;
  }
  return true;
}

bool OneTensorRank(const Plan& plan) {
  return plan.expert_tp == 1 && std::all_of(plan.modules.begin(), plan.modules.end(),
                                            [](const ModulePlan& part) { return part.tp == 1; });
}

// The orders of ranks that leave the same GPUs in the same groups: dimensions of one rank do not count.
std::string OrderOfGroups(const Plan& plan, const RankOrder& order) {
  std::string name;
  for (const RankDimension dimension : order) {
    const int ranks = dimension == RankDimension::kTp   ? plan.tp
                      : dimension == RankDimension::kCp ? plan.cp
                      : dimension == RankDimension::kDp ? plan.dp
                                                        : plan.pp;
    if (ranks > 1) name += static_cast<char>('0' + static_cast<int>(dimension));
  }
  return name;
}

std::string GroupsOfOrder(const Plan& plan, const std::string& order_name) {
  RankOrder order = kDefaultRankOrder;
  do {
    if (RankOrderName(order) == order_name) return OrderOfGroups(plan, order);
  } while (std::next_permutation(order.begin(), order.end()));
  return order_name;
}

// How much a value says: the least stands for all. Of equals the first of the space.
std::size_t Says(const Json& value) {
  if (value.IsBool()) return value.AsBool() ? 1 : 0;
  if (!value.IsString()) return 0;
  const auto at = std::find(kShardings.begin(), kShardings.end(), value.AsString());
  return at == kShardings.end() ? 0 : static_cast<std::size_t>(at - kShardings.begin());
}

}  // namespace

std::string WhyWithoutEffect(const Scenario& s, const std::string& pointer) {
  const Plan& plan = s.plan;
  const std::string backbone = "/plan/" + s.model->Backbone().name + "/";
  const auto is = [&](std::initializer_list<std::string> pointers) {
    return std::find(pointers.begin(), pointers.end(), pointer) != pointers.end();
  };
  if (is({"/plan/sharding", "/plan/overlap/gradient_reduce", "/plan/overlap/parameter_gather",
          "/plan/bucket_mb", "/plan/prefetch", "/plan/reshard_after_forward",
          "/plan/reduce_every_micro_batch", "/plan/collectives/data_parallel"}))
    return OneReplica(s) ? "there is one replica" : "";
  if (is({backbone + "sequence_parallel", "/plan/overlap/tensor_parallel",
          "/plan/collectives/tensor_parallel"}))
    return OneTensorRank(plan) ? "tp is 1" : "";
  if (is({backbone + "context_parallel", "/plan/overlap/context_parallel"}))
    return plan.cp == 1 ? "cp is 1" : "";
  if (is({"/plan/overlap/expert_parallel", "/plan/collectives/expert_parallel",
          backbone + "expert_buffer_mb"}))
    return plan.ep == 1 && plan.expert_tp == 1 ? "ep is 1" : "";
  if (is({"/plan/overlap/pipeline"})) return plan.StageCount() == 1 ? "there is one stage" : "";
  if (is({"/plan/overlap/offload"})) return plan.offload.Any() ? "" : "nothing is offloaded";
  return "";
}

std::vector<Twin> TwinsOf(const PlanSpace& space, const ChoiceIndices& at, const Scenario& s,
                          std::size_t first, std::size_t last) {
  std::vector<Twin> twins;
  for (std::size_t d = first; d < last; ++d) {
    const Dimension& dimension = space.dimensions[d];
    const auto& set = dimension.choices[at[d]].set;
    if (set.size() != 1) continue;
    const std::string pointer = AxisPointer(set.front().first);
    const auto value = [&](std::size_t choice) -> const Json& {
      return dimension.choices[choice].set.front().second;
    };
    const bool orders = pointer == "/plan/rank_order";
    const std::string why = orders ? "the order of the groups of more than one rank is the same"
                                   : WhyWithoutEffect(s, pointer);
    if (why.empty()) continue;
    std::vector<std::size_t> less;
    for (std::size_t choice = 0; choice < dimension.choices.size(); ++choice) {
      const bool same =
          !orders || (value(choice).IsString() && GroupsOfOrder(s.plan, value(choice).AsString()) ==
                                                      OrderOfGroups(s.plan, s.plan.rank_order));
      const auto says = [&](std::size_t c) { return std::pair(Says(value(c)), c); };
      if (same && says(choice) < says(at[d])) less.push_back(choice);
    }
    std::stable_sort(less.begin(), less.end(),
                     [&](std::size_t a, std::size_t b) { return Says(value(a)) < Says(value(b)); });
    for (const std::size_t choice : less)
      twins.push_back({d, choice, dimension.name + " has no effect: " + why});
  }
  return twins;
}

}  // namespace aurum
