#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/compare/document_diff.h"
#include "sim/compare/step_parts.h"
#include "sim/core/diagnostic.h"
#include "sim/memory/memory.h"

namespace aurum {

// Which of the inputs that differ makes which part of the difference.
//
// Two scenarios differ in several places at once, and their effects do not add up: more GPUs make communication
// longer, smaller micro-batches make it more frequent, and both together cost more than the sum of each. So every
// place is told twice:
//
//   alone     A with this one place as in B. What these sum to, and what they leave of the whole, which is the
//             *interaction*: what the changes do to each other and to places that cannot change alone.
//   in order  A becomes B place by place, in the order of A's file. The steps of this walk (a waterfall) sum to the
//             whole, to the picosecond; a step holds what the place does after the ones before it, so another order
//             would deal the interaction differently.
//
// A place whose change alone makes no valid plan (other GPUs without other degrees) has no share of its own; in the
// walk it goes together with the next ones until there is a plan again. B is one, so the walk always arrives.
//
// Cost: at most two simulations a place; more than `most` places are dealt with by sections of the scenario.
struct Substituted {
  Time step;
  double peak_bytes = 0;
  Fit verdict = Fit::kFits;
  StepParts parts;
};

struct AloneChange {
  ChangeGroup what;
  std::optional<Substituted> with;    // A with it
  std::optional<Diagnostic> refused;  // why there is no such plan
};

struct WalkStep {
  std::vector<ChangeGroup> what;  // one, or several that can only change together
  Substituted with;               // A with these and all before
  std::int64_t change_ps = 0;     // against the step before
  double memory_change_bytes = 0;
  std::string why;  // "+1.2 s: gradient reductions +1.1 s, …"
};

struct Substitution {
  std::vector<AloneChange> alone;
  std::vector<WalkStep> walk;
  std::int64_t alone_sum_ps = 0;                      // of those that are plans
  std::int64_t interaction_ps = 0;                    // the whole less that
  double alone_sum_bytes = 0, interaction_bytes = 0;  // the same of the peak
  int simulations = 0;
};

struct SubstituteOptions {
  Level level = Level::kAnalytic;
  std::size_t most = 32;
};

// `a` and `b` are documents whose defaults are told (TellDefaults), `of_a` and `of_b` what they evaluate to without
// anything drawn. Deterministic.
Substitution Substitute(const JsonDocument& a, const Evaluation& of_a, const Evaluation& of_b,
                        const std::vector<KeyChange>& changes, InputCache* cache,
                        const SubstituteOptions& options = {});

// The scenario as one step: nothing is drawn (variation, failures), so that a change is of the inputs and not of chance.
Evaluation EvaluatePlain(const JsonDocument& document, InputCache* cache, Level level);

}  // namespace aurum
