#pragma once

#include <string>
#include <vector>

#include "sim/core/json.h"
#include "sim/study/budget.h"
#include "sim/study/evaluate.h"
#include "sim/study/reshard.h"

namespace aurum {

// A training that changes on its way: phases of a curriculum, rounds of labelling and learning, kinds of
// batches each under its own plan, data that drift. Every phase is the scenario with some values set.
//
//   "phases": [{"name": "labels", "steps": 1000, "visits": 10, "set": {"workload.task": "forward"}}, ...]
//
// A phase's steps are spread over its visits; phases follow one another in the order of the list, as
// often as the one with the most visits says. Entering a phase whose plan lays weights and states
// elsewhere than the last one's moves them (reshard.h).
struct PhaseResult {
  std::string name;
  double steps = 0;
  int visits = 1;
  double step_s = 0;
  std::string limit;
  bool fits = true;
  double tokens_per_s = 0;
  std::vector<std::string> idle;  // modules that the phase gives nothing to do, and hold memory
  int entries = 0;                // from another phase
  Reshard reshard;                // of one entry, mean
  double total_s = 0;             // steps and entries
};
struct PhasesResult {
  std::string name;
  std::vector<PhaseResult> phases;
  double total_s = 0, reshard_s = 0;
  int switches = 0;  // entries that move something
  // Of the scenario's budget: the fullest phase, the longest step, hours and energy of all phases.
  std::vector<BudgetLine> budget;
};

// Errors: E0771 nothing in the list, or a phase that sets its model or cluster; E0772; those of the scenario at a
// phase, which name it.
PhasesResult RunPhases(const JsonDocument& document, InputCache* cache, Level level);
bool HasPhases(const JsonDocument& document);
// The form of the phases alone, without the scenarios that they make: E0771, E01xx.
void CheckPhases(const JsonDocument& document);
// The document of `simulate --json` of a scenario with phases (docs/schema/phases.schema.json).
Json PhasesJson(const PhasesResult& result, const std::string& tool_version);

}  // namespace aurum
