#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/core/json.h"
#include "sim/study/published/media.h"
#include "sim/study/published/record.h"
#include "sim/study/published/sources.h"

namespace aurum {

// The plan and the workload of a record whose facts are all told or assumed, in the grammar of a
// scenario. What means nothing that Aurum simulates goes to *skip as a reason; what had to be taken
// for granted on the way is noted in *assumed.

// Degrees of parallelism and the batch.
struct PlanNumbers {
  std::int64_t tp = 1, pp = 1, vpp = 1, cp = 1, ep = 1, dp = 1;
  std::int64_t micro_batch = 1, global_batch = 1;
};

// Adds a note once.
void AddNote(std::vector<std::string>* notes, std::string note);

// From what is told and what follows from it; "", or why they do not come out.
std::string CountPlan(const RecordFacts& facts, PlanNumbers* numbers,
                      std::vector<std::string>* assumed);

// `modules`: names of the model's encoders and connectors, which a plan may freeze.
Json PlanDocument(const RecordFacts& facts, const PublishedSources& sources,
                  const PlanNumbers& numbers, const std::vector<std::string>& modules,
                  std::vector<std::string>* assumed, std::string* skip);
// facts.model.sequence must be told.
Json WorkloadDocument(const RecordFacts& facts, const PlanNumbers& numbers, const MediaFacts& media,
                      std::string* skip);

}  // namespace aurum
