#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/study/evaluate.h"
#include "sim/study/time_parts.h"

namespace aurum {

// What the kernels of one class of ranks are and what binds them.

// What limits a kernel, by the roofline (Williams, Waterman, Patterson, CACM 2009): its arithmetic at the
// device's rate for its type, its device memory traffic at the device's bandwidth, or neither, where both
// together explain less than half of its time: launches, small or odd sizes, the host.
enum class Bound : std::uint8_t { kArithmetic, kMemory, kNeither };
std::string_view BoundName(Bound bound);  // "compute", "HBM", "launch and size"

// Kernels of one kind in one kind of op of one module.
struct KernelGroup {
  int module = -1;
  OpKind kind = OpKind::kForward;
  bool head = false;
  KernelKind kernel = KernelKind::kMemory;
  std::int64_t calls = 0;
  double seconds = 0;  // on the class's GPUs, slow ones as slow as they are
  double flops = 0;    // executed: recomputation counts
  double bytes = 0;    // of device memory that they cannot do without
  // Of the seconds, by what binds the single kernels.
  double arithmetic_bound_s = 0, memory_bound_s = 0, neither_s = 0;
  // What arithmetic and traffic alone would take at the device's rates.
  double arithmetic_s = 0, memory_s = 0;
  Bound Binds() const;      // most of the seconds
  double Attained() const;  // of the rate that binds: 0 … 1; of neither: the larger of the two
};

// One shape of kernel, of all modules.
struct KernelShape {
  std::string what;   // Describe(kernel)
  std::string where;  // "backbone forward"
  std::int64_t calls = 0;
  double seconds = 0, flops = 0;
  Bound bound = Bound::kNeither;
  double attained = 0;
};

struct WorkTree {
  // By module (none last), kind of op, head, kernel kind. Seconds of a module, kind and head sum to the
  // busy time of its TimePart less `slowed_s`.
  std::vector<KernelGroup> groups;
  std::vector<KernelShape> shapes;  // the longest first
};

// Lowers the plan once more, with its kernels.
WorkTree MakeWorkTree(const Evaluation& evaluation, int rank_class);

}  // namespace aurum
