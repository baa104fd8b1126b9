#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/study/evaluate.h"

namespace aurum {

// What a step would take if something were otherwise: simulated again each time, never differentiated.

struct Sensitivity {
  std::string name;              // "network", "micro-batch 2 → 4"
  std::vector<std::string> set;  // for --set
  double factor = 1;             // of the resource; 0: no factor, as of a switch
  bool resource = true;          // false: a choice of the plan or the batch
  double step_s = 0;
  double step_share = 0;  // of the step that it takes away; negative: longer
  double samples_per_s = 0, tokens_per_s = 0;
  double throughput_share = 0;  // more tokens a second, over the plan as it is
  // −d ln(step) / d ln(resource): 1 would be a step that is nothing else. Of resources alone.
  double elasticity = 0;
  double peak_bytes = 0;
  Fit verdict = Fit::kFits;
};

// A micro-batch size that the batch divides into, and what it needs.
struct MicroBatchRow {
  std::int64_t size = 1;
  std::vector<std::string> set;
  bool as_told = false;
  double step_s = 0, samples_per_s = 0, peak_bytes = 0;
  Fit verdict = Fit::kFits;
};

// The same for another training of the same model, which asks for other memory.
struct Recipe {
  std::string name;              // "LoRA, rank 16"
  std::vector<std::string> set;  // for --set; empty: the plan as it is
  std::vector<MicroBatchRow> micro_batches;
};

// What links that are no limit would save: every link of that kind a thousand times as fast.
struct LinkLimit {
  std::string name;  // "all links", "network", "NVLink", "inter-socket", …
  double step_s = 0;
  double step_share = 0;
};

struct SensitivityOptions {
  Level level = Level::kAnalytic;
  int jobs = 0;         // threads; 0 = one a core
  double factor = 1.1;  // of resources
};

// The step that changes are compared with: the document as it is, walked the way changed ones are (one
// drawn step where samples differ). Nothing if it is no plan.
struct SensitivityBase {
  double step_s = 0, samples_per_s = 0, tokens_per_s = 0;
};
std::optional<SensitivityBase> BaseOf(const JsonDocument& document, InputCache* cache, Level level);

// Resources that the scenario has: kernels of three kinds and all together, links of three kinds; then
// batch and micro-batch. The most valuable first, choices after resources. A change that is no valid plan
// is left out. The same for any number of threads.
std::vector<Sensitivity> MeasureSensitivities(const Evaluation& evaluation,
                                              const JsonDocument& document, InputCache* cache,
                                              const SensitivityOptions& options);
// By size; powers of two and the largest that the batch allows, the plan's own among them.
std::vector<MicroBatchRow> MicroBatchLadder(const Evaluation& evaluation,
                                            const JsonDocument& document, InputCache* cache,
                                            const SensitivityOptions& options);
// Where the backbone is trained in full: the same with LoRA (rank 16 beside every matrix) and QLoRA (the
// base in 4 bits) in its place. Else none.
std::vector<Recipe> OtherRecipes(const Evaluation& evaluation, const JsonDocument& document,
                                 InputCache* cache, const SensitivityOptions& options);
// All links first, then each kind that the cluster has.
std::vector<LinkLimit> MeasureLinkLimits(const Evaluation& evaluation, const JsonDocument& document,
                                         InputCache* cache, const SensitivityOptions& options);

// The verdict with another amount of memory on every card: no simulation, as no time depends on it.
Fit FitWith(const MemoryReport& memory, double memory_factor);

}  // namespace aurum
