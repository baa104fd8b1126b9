#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "models/model.h"
#include "sim/workload/workload.h"

namespace aurum {

// Forward FLOPs of one sequence through a module, as a function of its length: what work is balanced
// by. Projections and MLPs are linear in it, attention is quadratic, halved if causal, or as wide as
// its window. Trailing layers that nobody reads cost nothing. Keys of cross-attention from elsewhere
// are not in it.
class SequenceWork {
 public:
  explicit SequenceWork(const Module& module);
  double operator()(double tokens) const;
  double Of(const std::vector<SequenceBatch>& batches) const;

 private:
  struct Pairs {
    double flops;   // of one pair of tokens
    double window;  // 0 = all
    bool causal;
  };
  double linear_ = 0;
  std::vector<Pairs> pairs_;
};

// Bin of each item: the heaviest first, each to the bin with the least load that holds fewer than
// `room` items (0 = any number; else room · bins ≥ items). Ties go to the lower number.
std::vector<int> LongestProcessingTime(const std::vector<double>& loads, int bins,
                                       std::size_t room = 0);

// Bin of each row where all rows of a bin are padded to its longest: the split that makes the
// heaviest bin, rows · work(longest), as light as can be. Rows of like length end up together.
std::vector<int> LeastPaddedSplit(const std::vector<double>& lengths, int bins,
                                  const std::function<double(double)>& work);

}  // namespace aurum
