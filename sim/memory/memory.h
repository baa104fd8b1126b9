#pragma once

#include <array>
#include <string>
#include <vector>

#include "sim/plan/program.h"
#include "sim/plan/simulate.h"

namespace aurum {

// Peak memory of one GPU of every rank class, over the step, by component. Never an average over classes: the heaviest is what
// runs out.

enum class MemoryComponent {
  kWeights,
  kGradients,
  kOptimizer,
  kActivations,
  kLogits,
  kCommunication,
  kKvCache,
  kRuntime
};
inline constexpr int kMemoryComponents = 8;
std::string MemoryComponentName(MemoryComponent component);  // "weights", ...

struct ClassMemory {
  std::array<double, kMemoryComponents> at_peak{};  // bytes
  double peak_bytes = 0;
  double allocated_bytes = 0;  // of the peak, what the framework's allocator hands out
  Time peak_time;
  std::string at;  // "backward of micro-batch 3, backbone"
  // Steps over time; a value holds until the next. Constant components are in `at_peak` alone.
  std::vector<Time> times;
  std::vector<double> activations, logits, communication;
};

struct MemoryReport {
  std::vector<ClassMemory> classes;
  int heaviest = 0;
  double device_bytes = 0;
  double low_bytes = 0, high_bytes = 0;  // of the heaviest class, 90 %
  bool fits = true;
  bool at_risk = false;  // fits, but high_bytes does not
  const ClassMemory& Heaviest() const { return classes[static_cast<std::size_t>(heaviest)]; }
};

// Follows the program's own takes and returns through the outcome's times. Bytes per parameter, kept activations, context and
// fragmentation are the stack's (see sim/cost/stack.h).
MemoryReport MeasureMemory(const Scenario& scenario, const Program& program,
                           const Outcome& outcome);

}  // namespace aurum
