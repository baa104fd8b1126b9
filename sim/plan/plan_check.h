#pragma once

#include <optional>
#include <vector>

#include "sim/plan/plan.h"

namespace aurum {

// Where the parts of a plan stand in its document, for diagnostics.
struct PlanReaders {
  ObjectReader whole;
  ObjectReader backbone;                             // the whole where it has no object of its own
  std::vector<std::optional<ObjectReader>> modules;  // as Model::modules; only those that are told
};

struct PlanInputs {
  const Model& model;
  const Cluster& cluster;
  const Profile& profile;
  const Workload& workload;
};

// Checks a plan that was read, one rule after another, and derives dp, micro_batches,
// encoder_stages and the even split of layers. A broken rule is thrown (E03xx); what works but
// costs is appended to `warnings` (W13xx).
void CheckPlan(const PlanInputs& inputs, const PlanReaders& at, Plan* plan,
               std::vector<Diagnostic>* warnings);

}  // namespace aurum
