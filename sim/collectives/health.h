#pragma once

#include <string>
#include <vector>

#include "sim/collectives/expect.h"
#include "sim/collectives/nccl_tests.h"

namespace aurum {

// Measured beside expected: is this system healthy, and if not, what would explain it?

enum class HealthVerdict { kHealthy, kBelow, kAbove };
std::string VerdictName(
    HealthVerdict verdict);  // "healthy", "below expectation", "above expectation"

struct SizeHealth {
  Expectation expected;
  double measured_busbw_bytes_per_s = 0;  // the better of in and out of place
  double share = 0;                       // of the expected
  HealthVerdict verdict = HealthVerdict::kHealthy;
  bool wrong = false;
};

struct Health {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  int gpus = 0;
  std::vector<SizeHealth> sizes;
  // Of the large messages, which say what the links carry (all, where none is large); the middle
  // share, and the sizes that lie below.
  HealthVerdict verdict = HealthVerdict::kHealthy;
  double share = 0;
  double below_from_bytes = 0, below_to_bytes = 0;  // 0 where none lies below
  // The likeliest first; empty where it is healthy. Each says what to look at.
  std::vector<std::string> causes;
  bool wrong = false;  // results were wrong at some size
};

// `gpus` of the run on the cluster; `kind` decides. 2 ≤ gpus ≤ GpuCount().
Health Examine(const NcclTestRun& run, CollectiveKind kind, int gpus, const Cluster& cluster,
               const Profile& profile, const ExpectOptions& options);

}  // namespace aurum
