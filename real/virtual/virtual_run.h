#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "real/execution.h"

namespace aurum {

// Executes a plan without hardware: every rank is a thread with a logical clock, which ops advance by
// what a hidden `truth` profile says, with seeded noise; collectives and messages between the threads
// carry the clocks. What comes out is deterministic.
struct VirtualRun {
  std::string truth;  // profile, by name or file
  double noise = 0;   // relative standard deviation of an op's duration
  std::uint64_t seed = 1;
  StepPlan steps;
  // For tests: before op `index` of step `step` on `rank`, what the rank does. Called from its thread.
  std::function<void(int rank, std::int64_t step, std::size_t index)> disturb;
  double silence_timeout_s = 30;  // no rank has moved for so long: one hangs
};

// `truth`: the same scenario with the hidden profile. One run a rank, in order. Errors: E0910 a rank has died, E0911 one hangs: which, where, and
// who waits for it; E0905 the truth's program is not the plan's.
std::vector<RankRun> RunVirtually(const Executable& executable, const Executable& truth,
                                  const VirtualRun& run);

}  // namespace aurum
