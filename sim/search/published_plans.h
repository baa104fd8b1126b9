#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/plan/scenario.h"
#include "sim/search/search.h"
#include "sim/study/published/record.h"
#include "sim/study/published/sources.h"

namespace aurum {

// Published configurations among the plans that a search finds: how good are the plans that people
// run, by this simulation?

// One configuration that was run and timed. Rows that read as the same scenario are one.
struct PublishedPlan {
  std::vector<std::string> ids;  // of the rows
  std::string source, model, gpus;
  std::int64_t sequence = 0, batch = 0;
  JsonDocument document;           // its scenario; model and cluster are in the cache
  double measured_s = 0;           // of the first row
  std::uint64_t combinations = 0;  // of the space around it
};

// What can be ranked: training on two GPUs or more, with a measured step, where nothing of model,
// cluster and batch had to be assumed (facts of the plan may be: the notes of the row say which), and
// which is simulated at all. Models and clusters are added to the cache under names of their own.
std::vector<PublishedPlan> CompletePlans(const std::vector<Record>& records,
                                         const PublishedSources& sources,
                                         const std::string& data_root, InputCache* cache);

// The published plan against the best of DefaultSpace() around its scenario: degrees, micro-batch,
// recomputation, sharding, placement; precision, optimizer, overlap and what else is told stay.
struct PlanRank {
  std::string failed;      // why there is no rank; "" = there is
  std::string plan, best;  // in words
  double step_s = 0, best_step_s = 0;
  bool fits = true;         // the published plan, by our memory model
  std::size_t rank = 0;     // 1 + plans that fit and take less
  bool behind_all = false;  // more than `rank` − 1 are better: those that were kept
  std::uint64_t combinations = 0, simulations = 0;
  // What the best saves, over the published plan's step; 0 where it is the best.
  double Gain() const { return step_s > best_step_s ? 1 - best_step_s / step_s : 0; }
};
PlanRank RankOf(const PublishedPlan& published, InputCache* cache, std::size_t kept = 10,
                int jobs = 1);

// One line of the page, and the page: by source in short, then every configuration.
std::string PublishedPlanLine(const PublishedPlan& published, const PlanRank& rank);
std::string PublishedPlansPage(const std::vector<PublishedPlan>& published,
                               const std::vector<PlanRank>& ranks);

}  // namespace aurum
