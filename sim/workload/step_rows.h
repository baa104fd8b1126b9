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

// The rows of step `draw` in the order in which they are dealt out: micro-batch by micro-batch of
// all replicas, replica by replica within.
std::vector<Row> RowsOfStep(const Model& model, const Workload& workload, const StepShape& shape,
                            std::uint64_t draw);

}  // namespace aurum
