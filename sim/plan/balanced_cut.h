#pragma once

#include <vector>

namespace aurum {

// Cuts `weights` into `parts` consecutive runs, some of them perhaps empty, so that the heaviest run
// is as light as can be; returns the length of each run.
//
// The linear partition problem, by dynamic programming over prefixes: the least heaviest run of k
// parts that end before item e is the least, over where the last one begins, of the greater of the
// same for k − 1 parts and the weight of the last. {5, 1, 1, 1} in two is {1, 3} with 5, not the
// even {2, 2} with 6. Ties go to the earliest cut. O(parts · n²) time.
//
// It sees one number an item. What a pipeline adds (transfers, a warm-up, memory, several chunks a
// stage) it does not see: sim/study/pipeline_cut.h simulates.
std::vector<int> BalancedCut(const std::vector<double>& weights, int parts);

}  // namespace aurum
