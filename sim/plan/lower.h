#pragma once

#include "sim/network/fold.h"
#include "sim/plan/program.h"

namespace aurum {

// What becomes of a collective: an op of its priced duration; with its flows on links as well; or
// all its steps, every rank's, as ops of their own.
enum class Traffic : std::uint8_t { kNone, kFlows, kChunks };

struct LowerOptions {
  Traffic traffic = Traffic::kNone;
  Fold fold = Fold::kOn;       // kOff: every rank is a class of its own, as always with chunks
  bool for_execution = false;  // with the kernels and communications of every op (Program::work)
};

// Turns a validated scenario into its program. Cost: O(stages · micro-batches · layers) ops.
Program Lower(const Scenario& scenario, const LowerOptions& options = {});

}  // namespace aurum
