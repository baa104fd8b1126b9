#pragma once

#include <cstddef>

#include "sim/plan/program.h"
#include "sim/plan/scenario.h"
#include "sim/plan/simulate.h"

namespace aurum {

// How well the gradients' way to the other replicas uses the links.
//
// The window opens when the first reduction begins, that is with the first gradient that is ready, and
// closes when the last has ended. What the collectives' bytes would take if the links did nothing else
// and at their full rate, over the window, is the utilisation that an operator's counter shows; over
// the time in which a collective runs, it is the algorithm's own. Between the two lies the compute
// that makes gradients more slowly than the links could carry them: a low utilisation of the window
// with nothing exposed is no fault of the network.
struct GradientSync {
  std::size_t collectives = 0;  // reductions of one group in a step
  double bytes = 0;             // in nccl-tests' convention, of all of them
  double window_s = 0;
  double busy_s = 0;     // at least one of them runs
  double wire_s = 0;     // by the full rate of the narrowest link of a ring over the same GPUs
  double exposed_s = 0;  // compute waits for reductions, or for the gathers of what they changed
  double Utilisation() const { return window_s > 0 ? wire_s / window_s : 0; }
  double UtilisationWhileBusy() const { return busy_s > 0 ? wire_s / busy_s : 0; }
};

// Of the group and stage whose window is longest; all 0 where nothing is reduced. The exposed time is
// left to the caller, who has the breakdown. O(ops).
GradientSync MeasureGradientSync(const Scenario& scenario, const Program& program,
                                 const Schedule& schedule);

}  // namespace aurum
