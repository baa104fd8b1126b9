#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

#include "sim/study/shard.h"
#include "sim/study/store.h"

namespace aurum {

// One store from several of one study: of shards, of runs that were interrupted on two machines, or
// of both.
struct MergeOptions {
  bool partial = false;  // also without some points; what there is of them is stored
  const std::atomic<bool>* stop = nullptr;  // true ends it early; the same call goes on
};

struct MergeInput {
  std::string path;
  Shard shard;
  std::size_t points = 0;  // stored there
};

struct MergeSummary {
  std::vector<MergeInput> inputs;  // in the order given
  std::size_t points = 0;          // of the study
  std::size_t stored_before = 0;   // in the output
  std::size_t merged = 0;          // new in the output
  std::size_t duplicates = 0;      // rows dropped because another of the inputs had the point too
  std::size_t missing = 0;         // with `partial`
  std::size_t ok = 0, infeasible = 0, failed = 0;  // of the output
  bool interrupted = false;

  // 130 if interrupted, 6 if points are missing or failed, else 0.
  ExitCode exit_code() const;
};

// Writes the points of all inputs to `output`, which is created, or continued if it is a store of
// the same study. What comes out is byte for byte what one process would have written, however the
// points were spread over the inputs and in whatever order these are named. (Where a point failed in
// two inputs, and for instance the name of the scenario's file stands in both messages, the message
// of the input that is named first is taken.) Reads every input twice
// and keeps a row of each and a few bytes a point in memory.
//
// Errors, all before the output is touched unless said otherwise:
//   E0201, E0720 ... E0722, E0724, E0727 of an input, and those of Store::Open of the output
//   E0847  an input is of another study than the first: says in what they differ
//   E0848  points are missing, and `partial` is not set (exit code 6): names the shards that are not
//          there or not complete, and how to compute them
//   E0849  a point has another result in two inputs, or an id that is not its own: names point,
//          files and values. Results are functions of their inputs, so one of them was not made of
//          what it says, and neither is taken.
//   E0850  no inputs, or one twice
MergeSummary MergeStores(const std::vector<std::string>& inputs, const std::string& output,
                         const MergeOptions& options);

}  // namespace aurum
