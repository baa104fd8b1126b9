#pragma once

#include <span>
#include <vector>

#include "sim/workload/balance.h"
#include "sim/workload/step_rows.h"

namespace aurum {

// Which rows each replica loads for each of its micro-batches: [replica · micro_batches + i],
// micro_batch_size rows each. `work`: of the backbone for one sequence.
std::vector<std::vector<const Row*>> RowsToReplicas(std::span<const Row> rows,
                                                    const StepShape& shape, Balance balance,
                                                    const SequenceWork& work);

// Which replica takes which bin of a micro-batch: the heaviest goes to the one that had the least
// work so far in the step, so that what cannot be split does not pile up on one. Adds to `done`.
std::vector<int> HeaviestToLightest(const std::vector<double>& bins, std::vector<double>* done);

}  // namespace aurum
