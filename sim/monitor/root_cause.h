#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/monitor/step_record.h"

namespace aurum {

// What made steps slower
// ----------------------
// A step that is slow is slow on every rank: whoever is not to blame waits for whoever is. So the times of
// one rank tell little, and the sums over a step less. What does tell is the difference to a healthy step,
// rank by rank, and in which order the parts can cause each other:
//
//   kernels of a few ranks longer than those of the median rank    → a slow GPU, these ranks
//   more waiting for data                                          → the loader
//   more waiting for tokens of another modality                    → misalignment
//   more communication that is not hidden                          → a NIC or link; of its ranks' nodes,
//                                                                    and if NICs resent packets: errors
//   kernels of all ranks longer alike                              → more work in the step
//
// Each is measured in seconds of the excess T − T₀. Waiting is the consequence of all that stands above
// it, so the list is walked from its top and the first that explains a share `explains` of the excess is
// the answer; if none does, the largest. Example: one of eight GPUs takes 1.3 times as long over 0.8 s of
// kernels. T − T₀ = 0.24 s; the slow rank's kernels explain 0.24, the other seven wait 0.24 s in a
// collective: communication would explain as much, and stands below.
//
// Two numbers are fitted, on simulated faults (fault_corpus.h): which excess counts at all, and which
// share explains it.

enum class RootCause {
  kNone,
  kSlowGpu,
  kSickLink,         // a NIC or link below its rate
  kRetransmissions,  // the same, since it resends
  kDataStall,
  kMisalignment,
  kMoreWork,
};
inline constexpr int kRootCauses = 7;
std::string_view RootCauseName(RootCause cause);  // "none", "slow_gpu", "sick_link", …

// What to look at or do about it, a sentence without its full stop; "" of kNone.
std::string_view RootCauseRemedy(RootCause cause);

struct CauseRules {
  double least_excess = 0.025;  // of T₀; below it nothing is wrong
  double explains = 0.45;       // of the excess
  double least_resent = 1e-3;   // share of packets that NICs resend when they are sick
};

struct Diagnosis {
  RootCause cause = RootCause::kNone;
  double excess_share = 0;     // (T − T₀) / T₀
  double explained_share = 0;  // of the excess, by `cause`
  std::vector<int> ranks;      // of a slow GPU
  std::vector<int> nodes;      // that may be to blame: of a slow GPU, NIC or link
};

// `healthy` and `now`: steps with the times of all ranks, in the same order; the mean of several is
// steadier than one (MeanOf). E0784 where ranks are missing or differ.
Diagnosis Diagnose(const StepRecord& healthy, const StepRecord& now, const CauseRules& rules = {});

// The mean of step times, MAR, ranks' parts and counters. E0784 as above; `records` must not be empty.
StepRecord MeanOf(const std::vector<StepRecord>& records);

}  // namespace aurum
