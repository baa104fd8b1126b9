#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "sim/core/json.h"
#include "sim/plan/scenario.h"

namespace aurum {

// What a search chooses from. A space is the product of its dimensions; a candidate is one choice of
// each, and the scenario with what they set is its plan.

struct Choice {
  std::string label;  // "8", "full"
  std::vector<std::pair<std::string, Json>>
      set;  // paths of the scenario; the same for all choices of a dimension
};
std::string LabelOf(const Json& value);  // as --set takes it
// The choices of one path.
std::vector<Choice> ChoicesOf(const std::string& path, const std::vector<Json>& values);
struct Dimension {
  std::string name;  // "tp"
  std::vector<Choice> choices;
  // Moves ranks and communication and nothing else: neither the kernels of a pass nor what it keeps.
  bool late = false;
  // May change the weights, gradients and optimizer states of a GPU.
  bool state = true;
};
// By dimension: which choice.
using ChoiceIndices = std::vector<std::size_t>;

// How many executions of the space a combination stands for: those that differ in what makes no
// difference here, and those of them that no placement realises.
struct Multiplicity {
  std::uint64_t alike = 1;  // 0: the combination is not in the space
  std::uint64_t unplaceable = 0;
};

struct PlanSpace {
  std::string name;                                              // "auto", "calculon", "scenario"
  std::vector<Dimension> dimensions;                             // late ones last
  std::function<Multiplicity(const ChoiceIndices&)> stands_for;  // empty: every one for itself
  std::string unplaceable_reason;
  std::string alike_reason;

  std::size_t Early() const;  // dimensions that are not late
  std::uint64_t Combinations() const;
  Multiplicity StandsFor(const ChoiceIndices& at) const;
  void Apply(const ChoiceIndices& at, JsonDocument* document) const;
};

constexpr std::uint64_t kMostCombinations = 50'000'000;

// The dimensions that plans of this model on this cluster usually have: degrees of parallelism,
// micro-batch, chunks, recomputation, sharding, offload, the encoders' placement, the order of ranks.
// What the plan's other keys say stays.
PlanSpace DefaultSpace(const Scenario& scenario);

// The space of Calculon's exhaustive search (Isaev et al., SC '23) for one transformer on a cluster with two networks: every
// tensor parallelism that divides GPUs, hidden width and heads, every pipeline depth that divides the
// rest and the layers, interleavings that divide a stage's layers, micro-batches that divide a
// replica's batch; recomputation none, selective, full; optimizer sharding; tensor-parallel traffic as
// all-reduce, with scattered transfers, or as reduce-scatter and all-gather, with the gather redone in
// backward or kept; overlap of tensor- and data-parallel traffic; offload of weights, activations and
// optimizer; and which of two networks serves tensor, pipeline and data parallelism.
PlanSpace CalculonSpace(const Scenario& scenario);

// Replaces the choices of one path, or adds a dimension: "plan.backbone.tp=1,2,4" (sim/study/axis.h).
// E0871 a path that belongs to a dimension which sets others as well.
void Vary(const std::string& assignment, PlanSpace* space);
// Takes a dimension out: the plan's own value stays. E0872 no such dimension.
void Keep(const std::string& name, PlanSpace* space);
// Reads the scenario with every choice of every dimension alone: a dimension of which none can be read,
// a misspelled path say, is refused with the reader's own words; what is no plan is an answer.
void CheckChoices(const JsonDocument& document, const PlanSpace& space, InputCache* cache);
// The scenario's "search" section (docs/schema/scenario.schema.json); DefaultSpace() where it has none.
PlanSpace ReadSpace(const JsonDocument& document, const Scenario& scenario);

}  // namespace aurum
