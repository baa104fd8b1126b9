#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "calibrate/bench.h"
#include "sim/core/json.h"

namespace aurum {

// What calibration asks of a machine, and what the machine answered: raw samples, so that a profile
// can be fitted again without the machine. calibrate/fit_profile.h makes the profile.

enum class MeasuredKind : std::uint8_t {
  kKernel,      // `kernel`
  kLaunchGap,   // `graph`
  kCopy,        // `copy`, `bytes`
  kCollective,  // `collective`, `gpus`, `bytes`, `dtype`
  kBeside,      // `kernel` while `collective` of `bytes` runs on all devices
  kBurn,        // `kernel` for `burn_s`
};
std::string MeasuredKindName(MeasuredKind kind);  // "kernel", "launch_gap", …

// One question to a bench.
struct MeasuredItem {
  MeasuredKind kind = MeasuredKind::kKernel;
  Kernel kernel = {};
  bool exact = false;  // kKernel, kCollective: of a plan that the profile is made for
  bool graph = false;
  CopyKind copy = CopyKind::kDevice;
  CollectiveKind collective = CollectiveKind::kAllReduce;
  int gpus = 0;
  double bytes = 0;  // whole
  DType dtype = DType::kBf16;
  double burn_s = 0;
  int samples = 0;
  friend bool operator==(const MeasuredItem&, const MeasuredItem&) = default;
};
std::string Describe(const MeasuredItem& item);  // "all_reduce of 1048576 bytes on 8 devices, bf16"

// In the order in which they are asked.
struct MeasurementPlan {
  std::uint64_t seed = 1;
  double budget_s = 0;  // of the machine's time; what comes later is left out
  std::vector<MeasuredItem> items;
};

// A collective that a plan asks for, among so many ranks.
struct ExactCollective {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  int gpus = 0;
  double bytes = 0;
  friend bool operator==(const ExactCollective&, const ExactCollective&) = default;
};
struct ExactCalls {
  std::vector<Kernel> kernels;  // rounded up to whole sizes, distinct, in order of first use
  std::vector<ExactCollective> collectives;
};

struct MeasurementOptions {
  std::uint64_t seed = 1;
  double budget_s = 240;
  int gemm_shapes = 60;       // in three layouts each, for every type of `dtypes`
  int attention_shapes = 20;  // forward and backward
  int memory_sizes = 12;
  int collective_sizes = 11;
  int samples = 9;
  double burn_s = 15;
  std::vector<DType> dtypes;  // of the random shapes; empty: bf16 and those that `exact` has
};

// What to ask of `device`: the calls of the plans in `exact`, random shapes of products and
// attention spread log-uniformly over the sizes that training has on such a device (a CPU core:
// 10^6 … 1.2·10^9 FLOP a call), memory-bound kernels, launches, copies, collectives, kernels beside
// collectives, a burn. In random order, so that a drift of the machine is no trend over sizes; what a
// budget that runs out must not lose comes in the first half. A function of its arguments alone.
// Types that the device does not have are left out.
MeasurementPlan PlanMeasurements(const BenchDevice& device, const ExactCalls& exact,
                                 const MeasurementOptions& options);

struct MeasuredRow {
  MeasuredItem item;
  Samples samples;        // empty: none that is clean
  Bench::Burn burn = {};  // kBurn
  std::string source;     // of imported rows: the file; empty: this machine
};

struct Measurements {
  BenchDevice device;
  std::uint64_t seed = 0;
  double elapsed_s = 0;           // of the machine's time
  std::vector<MeasuredRow> rows;  // in the order in which they were taken
  struct LeftOut {
    MeasuredItem item;
    std::string reason;  // "budget", "not on this device", "disturbed"
  };
  std::vector<LeftOut> left_out;
};

struct MeasureHooks {
  std::function<void(const std::string&)> narrate;  // may be null
  // Seconds since some moment. Null: the budget is not looked at. Of ranks that measure in lockstep
  // it must be one clock, the same answer on all of them.
  std::function<double()> clock;
};

// Asks everything in order. What the device has no kernel for (no samples, none disturbed) is listed
// in `left_out`; what comes after the budget too. The burn at the end is kept time for.
Measurements Measure(Bench* bench, const MeasurementPlan& plan, const MeasureHooks& hooks);
inline Measurements Measure(Bench* bench, const MeasurementPlan& plan,
                            const std::function<void(const std::string&)>& narrate) {
  return Measure(bench, plan, MeasureHooks{narrate, nullptr});
}

// The median of clean samples; 0 where there are none.
double TypicalSeconds(const MeasuredRow& row);
// Half of the distance between the quartiles over the median: 0.01 is a quiet machine.
double Spread(const MeasuredRow& row);

// "aurum.measurements/1" (docs/schema/measurements.schema.json). Reading is strict:
//   E0830 another kind of document · E0831 rows that contradict themselves, and those of the reader.
Json WriteMeasurements(const Measurements& measurements);
Measurements ReadMeasurements(const JsonDocument& document);
// A plan as JSON, to be handed to the processes of a job.
Json WriteMeasurementPlan(const MeasurementPlan& plan);
MeasurementPlan ReadMeasurementPlan(const JsonDocument& document);

}  // namespace aurum
