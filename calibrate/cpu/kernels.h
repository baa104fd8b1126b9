#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "calibrate/cpu/attention.h"
#include "sim/cost/kernel.h"

namespace aurum {

// C = A · B as a linear layer's role lays the operands out (sim/cost/kernel.h), m × n × k, row by
// row, overwriting C.
void Gemm(GemmRole role, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
          const float* b, float* c);

// Runs kernels on this core, one OpenBLAS thread, on synthetic operands.
//
// Operands are taken one behind the other from an arena of random normal values that is larger than
// the last-level cache, and begun anew at its end: what a kernel reads was last touched an arena
// ago, as a layer's weights and activations in training. (A product over and over on one set of
// operands finds them in the cache and is 10 % too fast.) Outputs go round in an arena of their
// own, so that inputs stay random normal for ever.
class KernelRunner {
 public:
  // Takes about 2 · `arena_bytes`; 0: twice the last-level cache, 64 MiB to 512 MiB.
  explicit KernelRunner(std::uint64_t seed, std::size_t arena_bytes = 0);

  // "" or why this backend has no such kernel.
  static std::string Refusal(const Kernel& kernel);
  // Makes the arenas large enough for a kernel; outside of any timing.
  void Reserve(const Kernel& kernel);
  // Sizes are whole and Reserve()d. E0932 where Refusal() has a reason.
  void Run(const Kernel& kernel);

  std::size_t ArenaBytes() const { return inputs_.size() * sizeof(float); }

 private:
  const float* In(std::size_t floats);
  float* Out(std::size_t floats);
  void Stream(double bytes);
  void Attend(const Kernel& kernel, bool backward);
  void Decode(const Kernel& kernel);

  std::uint64_t seed_;
  std::vector<float> inputs_, outputs_, scratch_;
  std::size_t next_in_ = 0, next_out_ = 0;
};

// "OpenBLAS 0.3.21, kernels of SkylakeX": what the library found itself on.
std::string BlasVersion();

}  // namespace aurum
