#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/study/boundary.h"
#include "sim/study/evaluate.h"

namespace aurum {

// Steps to fit the formula to, and to compare it with: what was simulated or measured beside the
// terms of the same scenario.

// The terms of an evaluation beside its own simulated step; the same beside a measured one.
FormulaPoint PointOf(const Evaluation& evaluation, const std::vector<std::string>& modules);
// Module names of all evaluations or points together, sorted.
std::vector<std::string> ModulesOf(const Evaluation& evaluation);

// The points of a sweep's database that succeeded. E0742 where none has the formula's terms; E0720
// and following as of StoreReader.
std::vector<FormulaPoint> PointsOfStore(const std::string& path);
// Points whose modules differ, brought to one list: a module that a model lacks spends nothing.
void JoinModules(std::vector<FormulaPoint>* points);

// How many points each subnetwork decides, by name, of a fit for kMax; empty for the others.
std::vector<std::pair<std::string, std::size_t>> ActiveCounts(
    const GoldenFit& fit, const std::vector<std::string>& modules);

// The grid that `formula --boundary` runs: the scenario's own three axes if its sweep has them, in
// its values, or `count` values a side around its own operating point: FLOPs per token and bandwidth
// from an eighth to eight times, the ratio from 0 to 1. What the plan does not have (a network,
// tokens of another modality) stays one value.
struct BoundaryAxes {
  std::vector<Axis> axes;  // those that are varied, in the order FLOPs, bandwidth, ratio
  BoundaryGrid grid;       // names and values; no points yet
  bool told = false;       // the scenario's own
};
BoundaryAxes AxesAround(const JsonDocument& scenario, const Evaluation& evaluation,
                        std::size_t count);
// Walks the grid. E0745 where all of its points fail: the first one's reason is told. `jobs`: as of
// SweepOptions.
void RunBoundary(const JsonDocument& scenario, InputCache* cache, Level level, int jobs,
                 BoundaryAxes* axes);

}  // namespace aurum
