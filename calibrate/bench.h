#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/cost/kernel.h"
#include "sim/cost/profile.h"

namespace aurum {

// A machine to measure: what calibration asks of it, whichever backend answers (cuda, cpu, virtual).
// Every call warms up, rotates its buffers so that no operand is found in a cache where training
// would not find it, fills them with random normal values, and returns samples, not an average.

enum class CopyKind : std::uint8_t { kHostToDevice, kDeviceToHost, kPeer, kDevice };
std::string CopyKindName(CopyKind kind);  // "host_to_device", …

struct BenchDevice {
  std::string backend;        // "cuda", "cpu", "virtual"
  DeviceFacts facts;          // peaks 0 where they are not known
  std::vector<DType> dtypes;  // of products that it has
  int devices = 1;            // that can form groups here
  std::vector<std::pair<std::string, std::string>> versions;
  double power_limit_w = 0;
};

struct Samples {
  std::vector<double> seconds;  // of clean samples, in the order taken
  int disturbed = 0;            // left out: preempted, throttled
  double clock_mhz = 0;         // while it ran; 0 = not known
};

class Bench {
 public:
  virtual ~Bench() = default;
  virtual BenchDevice Describe() = 0;
  // One kernel; sizes are whole. `samples` at most. Nothing where the device has no such kernel.
  virtual Samples Time(const Kernel& kernel, int samples) = 0;
  // Between two empty kernels of one stream, or of one captured graph.
  virtual Samples LaunchGap(bool graph, int samples) = 0;
  virtual Samples Copy(CopyKind kind, double bytes, int samples) = 0;
  // One collective on `gpus` devices of this machine, bytes as nccl-tests counts.
  virtual Samples Collective(CollectiveKind kind, int gpus, double bytes, DType dtype,
                             int samples) = 0;
  // `kernel` while `kind` runs beside it on all devices, long enough to cover it.
  virtual Samples Beside(const Kernel& kernel, CollectiveKind kind, double bytes, int samples) = 0;
  // The same product over and over for `seconds`: how much longer one takes in the last two thirds
  // than in the first tenth. {1, 0}-like values where a device holds its clock.
  struct Burn {
    double first_s = 0, last_s = 0;  // of one product
    double clock_first_mhz = 0, clock_last_mhz = 0;
  };
  virtual Burn BurnFor(const Kernel& kernel, double seconds) = 0;
};

}  // namespace aurum
