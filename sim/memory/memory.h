#pragma once

#include <array>
#include <string>
#include <vector>

#include "sim/memory/state.h"
#include "sim/plan/program.h"
#include "sim/plan/simulate.h"

namespace aurum {

// Peak memory of one GPU of every rank class, over the step, by component. Never an average over
// classes: the heaviest is what runs out.

enum class MemoryComponent {
  kWeights,
  kGradients,
  kOptimizer,
  kActivations,
  kLogits,
  kCommunication,
  kWorkspace,  // recomputation, optimizer temporaries, unpacked matrices, libraries
  kKvCache,
  kRuntime  // beside the allocator: context, communicators, fragmentation
};
inline constexpr int kMemoryComponents = 9;
std::string MemoryComponentName(MemoryComponent component);  // "weights", ...

// Tensors of one name that are there at the peak.
struct PeakTensor {
  std::string name, unit, module;  // "MLP up and gate", "layer", "backbone"
  double count = 0;
  double bytes = 0;  // of all of them
};

struct ClassMemory {
  std::array<double, kMemoryComponents> at_peak{};  // bytes; they sum to peak_bytes
  double peak_bytes = 0;                            // what the device's own tools show
  double allocated_bytes = 0;  // of the peak, what the framework's allocator hands out
  double reserved_bytes = 0;   // and what it holds: with fragmentation
  Time peak_time;
  std::string at;  // "backward of micro-batch 3, backbone", "loading", "whole step"
  // Steps over time; a value holds until the next. Constant parts are in `at_peak` alone; what of a
  // component moves is here, at peak_time as in `at_peak` less its constant part.
  std::vector<Time> times;
  std::vector<double> activations, logits, communication, gradients, workspace;
  double left_bytes = 0;     // taken and never returned: 0 for a sound program
  double loading_bytes = 0;  // allocated while a checkpoint is loaded; 0 = no more than state
  double host_bytes = 0;     // kept in host memory for this GPU
  std::vector<PeakTensor> largest;  // of what moves, the ten largest names at the peak
};

// Against 93 and 107 % of the memory that a program can have on the device: within 7 % of it nobody
// can tell (memory study: of four wrong verdicts two lay there).
enum class Fit { kFits, kAtRisk, kDoesNotFit };
std::string FitName(Fit fit);  // "fits", "at risk", "does not fit"
inline constexpr double kFitsBelow = 0.93, kFailsAbove = 1.07;

struct MemoryReport {
  std::vector<ClassMemory> classes;
  int heaviest = 0;
  double device_bytes = 0;                                 // of the card
  double usable_bytes = 0;                                 // of them, what the driver leaves
  double low_bytes = 0, high_bytes = 0;                    // of the heaviest class's peak, 90 %
  double reserved_low_bytes = 0, reserved_high_bytes = 0;  // the same of its reserved memory
  std::vector<std::string> untold;  // what was not told and widens the band, in words
  Fit verdict = Fit::kFits;
  bool fits = true;       // verdict is not kDoesNotFit
  bool at_risk = false;   // verdict is kAtRisk
  double over_bytes = 0;  // of the peak beyond what is usable; 0 if none
  MemoryComponent largest = MemoryComponent::kWeights;  // of the heaviest class
  double host_bytes_per_node = 0;                       // at most, of all GPUs of a node
  const ClassMemory& Heaviest() const { return classes[static_cast<std::size_t>(heaviest)]; }
};

// Bytes of a card that programs can have: the driver, its tables and ECC keep 0.25 GiB and 0.7 % of
// it, between 0.5 and 1 GiB (CUDA offers 23.6 GiB of an RTX 4090's 24, 39.4 of an A100's 40, 79.2 of
// 80). An integrated GPU shares its memory with the system: there it is an upper bound.
double UsableBytes(double card_bytes);

// The peak of a GPU that holds what lasts and so much of what moves at once; loading apart.
double PeakOf(const Scenario& scenario, const LastingMemory& lasting, double moving_bytes);

// Follows the program's own takes and returns through the outcome's times, on top of the state that
// lasts (state.h). Bytes per parameter, kept activations, context and fragmentation are the stack's
// (sim/cost/stack.h).
MemoryReport MeasureMemory(const Scenario& scenario, const Program& program,
                           const Outcome& outcome);

}  // namespace aurum
