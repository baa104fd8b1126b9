#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/formula/golden.h"
#include "sim/memory/memory.h"
#include "sim/plan/alignment.h"
#include "sim/plan/lower.h"
#include "sim/plan/scenario.h"
#include "sim/plan/simulate.h"
#include "sim/study/data_steps.h"
#include "sim/study/fold_check.h"
#include "sim/study/gradient_sync.h"
#include "sim/study/loader_stall.h"
#include "sim/study/variation.h"

namespace aurum {

// What limits a step: the largest part of the breakdown of the busiest class.
enum class Limit { kCompute, kNetwork, kAlignment, kPipeline, kData };
std::string LimitName(Limit limit);  // "compute", "network", "alignment", "pipeline", "data"

// One scenario, walked to its end.
struct Evaluation {
  Scenario scenario;
  Program program;
  Outcome outcome;
  MemoryReport memory;
  AlignmentReport alignment;  // measured
  Golden golden;
  GradientSync sync;
  std::optional<FoldCheck> fold_check;  // of Fold::kVerify
  std::optional<DataSteps> data;        // where samples differ
  std::optional<VariedSteps> varied;    // where the scenario says what varies
  std::optional<LoaderStall> loader;    // where the workload says how data come
  std::optional<Goodput> goodput;       // where the scenario says how often things break
  std::optional<GoodputSamples> goodput_samples;
  double wall_s = 0;  // that the walk took

  const TimeBreakdown& Time() const {
    return outcome.time[static_cast<std::size_t>(outcome.busiest_class)];
  }
  double StepSeconds() const { return outcome.StepSeconds(); }
  // MAR: imposed by the scenario, else measured.
  double AlignRatio() const {
    return program.alignment.imposed ? program.alignment.ratio : alignment.ratio;
  }
};

// E0354 a fault that begins during the step at the analytic level; E0355 a transfer that a fault
// stops for good. Fold::kVerify simulates folded, then every rank on its own, and compares.
// `epsilon`: of SimulateSchedule; told in the result.
Evaluation Evaluate(Scenario scenario, Level level, Fold fold = Fold::kOn, double epsilon = 0);

// Derived figures.
double TokensPerStep(const Scenario& scenario);  // through the backbone, all replicas, no padding
double ModelFlopsPerGpu(
    const Evaluation&
        evaluation);  // per step, averaged over GPUs; neither recomputed nor repeated work counts
double ModelFlopsUtilisation(const Evaluation& evaluation);
Limit WhatLimits(const TimeBreakdown& time);
// "stage 0 (GPUs 0-7: vision, backbone layers 0-15)": a class of ranks for people.
std::string RankName(const Program& program, int rank_class);

struct GoldenWeights {
  Combine combine = Combine::kMax;
  double alpha = 1, beta = 1;  // nothing hidden, the penalty in full
};
std::string CombineName(Combine combine);  // "max", "sum", "critical_path"

// The document of `simulate --json` (docs/schema/result.schema.json).
Json ResultJson(const Evaluation& evaluation, const GoldenWeights& weights,
                const std::string& tool_version);
// The document of `formula --json`.
Json FormulaJson(const Evaluation& evaluation, const GoldenWeights& weights,
                 const std::string& tool_version);
// What is there at a class's peak, the largest first: [{"name", "unit", "module", "count", "gib"}].
Json TensorsJson(const ClassMemory& memory);
Json DiagnosticJson(const Diagnostic& diagnostic);

}  // namespace aurum
