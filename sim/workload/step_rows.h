#pragma once

#include <cstdint>
#include <vector>

#include "sim/workload/sample_tokens.h"
#include "sim/workload/step_draw.h"

namespace aurum {

// Between samples and micro-batches: rows, and which of them go to which step. Internal to
// step_draw.cc and its test.

struct Row {
  std::vector<CountedSample> samples;
  double tokens = 0;   // of all its samples
  unsigned media = 0;  // one bit for each MediaKind in it
};

// Steps whose rows are put in order together: kBucketWindow with bucketing, else 1.
std::uint64_t WindowSteps(const Workload& workload);

// The rows of steps window · WindowSteps … + WindowSteps − 1, one step after the other, each in the
// order in which its rows are dealt out: micro-batch by micro-batch of all replicas, replica by
// replica within.
std::vector<Row> RowsOfWindow(const Model& model, const Workload& workload, const StepShape& shape,
                              std::uint64_t window);

}  // namespace aurum
