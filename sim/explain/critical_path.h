#pragma once

#include <string>
#include <vector>

#include "sim/plan/program.h"
#include "sim/study/time_parts.h"

namespace aurum {

// The chain of ops that makes a step as long as it is: each starts when the one before it ends, the first at
// the beginning and the last at the end. Whatever is not on it may take longer, by its slack, without
// anybody noticing; whatever is on it lengthens the step by as much as it grows. It crosses stages, where
// the breakdown of one class of ranks tells of one stage alone.
struct CriticalPath {
  std::vector<OpId> ops;  // in time order
  // The path by kind of op, over all stages: `exposed` is its time on the path, `busy` the same, `ops` how
  // many. The longest first. They and `idle` sum to the step exactly.
  std::vector<TimePart> parts;
  // An op that starts later than all it waits for has ended: nothing of ours does.
  Time idle{};
  int crossings = 0;           // from one stage to another
  std::vector<Time> by_stage;  // of kernels and collectives of a stage; transfers are the sender's

  Time Length() const;
};

// Backwards from the op that ends last, always to the predecessor that ended last (ties: a kernel before a
// communication, then the first in launch order), so that a collective that ends with a kernel is not
// blamed. O(ops on the path · their predecessors).
CriticalPath FindCriticalPath(const Program& program, const Schedule& schedule);

}  // namespace aurum
