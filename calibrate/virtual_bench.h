#pragma once

#include <cstdint>

#include "calibrate/bench.h"

namespace aurum {

struct VirtualBenchOptions {
  double noise = 0;  // standard deviation of a sample, relative
  std::uint64_t seed = 1;
  double disturbed_share = 0.02;  // of samples that are seen to be disturbed, and left out
  double outlier_share = 0.01;    // of samples that are half as long again and not noticed
  double overlap_slowdown = 1;    // of a kernel beside a collective
};

// A machine without hardware: every call takes what a hidden profile says, on a logical clock, times
// noise. It is what calibration is tested on: the truth is known, so a fit can be compared with it.
// A function of its arguments: the same calls in the same order give the same samples, and call
// number n gives the same noise whatever was asked before.
class VirtualBench : public Bench {
 public:
  VirtualBench(Profile truth, const VirtualBenchOptions& options);

  BenchDevice Describe() override;
  Samples Time(const Kernel& kernel, int samples) override;
  // The truth has one gap, whoever launches. Nothing where it has none.
  Samples LaunchGap(bool graph, int samples) override;
  // Within the device alone: a profile knows no links to the host.
  Samples Copy(CopyKind kind, double bytes, int samples) override;
  Samples Collective(CollectiveKind kind, int gpus, double bytes, DType dtype,
                     int samples) override;
  Samples Beside(const Kernel& kernel, CollectiveKind kind, double bytes, int samples) override;
  // The first at the burst's rate, the last at the sustained one.
  Burn BurnFor(const Kernel& kernel, double seconds) override;

  // Of the logical clock: what all calls have taken, warm-up and disturbed samples too.
  double ClockSeconds() const { return clock_s_; }

 private:
  Samples Draw(double seconds, int samples);
  bool Knows(const Kernel& kernel) const;
  double BurstSeconds(const Kernel& kernel) const;

  Profile truth_;  // without its sustained factors
  double sustained_ = 1, sustained_narrow_ = 1;
  VirtualBenchOptions options_;
  std::uint64_t call_ = 0;
  double clock_s_ = 0;
};

}  // namespace aurum
