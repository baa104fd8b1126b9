#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine/op_graph.h"
#include "sim/plan/program.h"

namespace aurum {

// How modalities met in a simulated step: the modality alignment ratio (MAR) and what late or
// misplaced tokens cost, measured at the program's fusion points.
//
// A token is aligned when the rank that consumes it made it, and made it in time: before the rank could
// have started the consumer without it. What is not has to be moved or waited for.
//
//   consumer's stream   ──host──▌                 ▐consumer──
//   encoder elsewhere   ──encoder──▌
//   transfer                       ▌──transfer──▐
//                              └wait┘└───move───┘      the stream idles for both
//
// Both are what the consumer really waits: time in which its stream was busy, or waited for something
// else anyway, costs nothing. What gradients wait on their way back is not in here (it is in
// TimeBreakdown::alignment_wait_s).
struct AlignmentOf {
  std::int16_t module = -1;  // the encoder, or its connector
  double tokens = 0;         // of a step, over all ranks that consume
  double aligned = 0;        // of them
  double elsewhere = 0;      // made on another rank
  double late = 0;           // made here, but waited for
  // Of a micro-batch, for the class of ranks that waits longest, s.
  double wait_mean_s = 0, wait_worst_s = 0;
  double move_mean_s = 0, move_worst_s = 0;
};
struct AlignmentOfMicroBatch {
  // Of the modality that comes last, for the class of ranks that waits longest, s.
  double wait_s = 0;  // until its tokens are made
  double move_s = 0;  // until they are here
  double Seconds() const { return wait_s + move_s; }
};

struct AlignmentReport {
  bool any = false;  // tokens cross modalities at all
  double ratio = 1;  // MAR: aligned over cross-modal tokens, of all ranks that consume
  double tokens = 0;
  std::vector<AlignmentOf> modules;                // of those with tokens, in the model's order
  std::vector<AlignmentOfMicroBatch> micro_batch;  // by number
  double mean_s = 0, worst_s = 0;                  // of the micro-batches' seconds
  int worst = -1;                                  // which that is; the first, if equal
};

// `schedule`: of this program. O(fusion points).
AlignmentReport MeasureAlignment(const Program& program, const Schedule& schedule);

}  // namespace aurum
