#pragma once

#include <cstdint>
#include <string>

namespace aurum {

// What a core of this machine is, and the clocks that count what was done on it. No library of
// linear algebra or messages is needed: the command line asks here, too.

struct CoreFacts {
  std::string model;            // "AMD EPYC"; "" where the kernel does not tell
  int cores = 1;                // that this process may run on
  double memory_bytes = 0;      // of the machine, or of this container where it has less
  double last_level_bytes = 0;  // the cache that all cores share; 0 = not known
  double flops_per_cycle = 0;   // fp32, by what the core's instructions can do; 0 = not known
  double most_mhz = 0;          // 0 = not told (often so in a virtual machine)
  std::string instructions;     // "avx512f", "avx2"; "" = neither
};
CoreFacts ThisCore();

// The value of OPENBLAS_CORETYPE that makes OpenBLAS take its kernels for this core; "" = its own
// choice is as good. It has to be in the environment before the library loads. Without it OpenBLAS
// 0.3.21 does not know cores that are younger than itself and falls back to SSE3: measured 31
// instead of 150 GFLOP/s.
std::string BlasCoreType();

// CPU time of this thread in seconds: it stands still while another process has the core.
double ThreadCpuSeconds();
double WallSeconds();
// How often this thread lost its core without asking: a sample that contains one found its caches
// changed.
std::int64_t InvoluntarySwitches();
// Whether so many losses spoil a sample of `seconds` of CPU time. What another process leaves is a cache
// to fill again: 512 KiB of second level at 10 GB/s are 50 µs a loss, and 2 % of a sample are borne.
bool Disturbed(std::int64_t switches, double seconds);
// Most memory that this process held so far, bytes (VmHWM); 0 where the kernel does not tell.
double PeakResidentBytes();

// From here on this thread's floating point takes denormals for zero, as GPUs do: a gradient that
// fades away would otherwise cost a hundred cycles an element.
void FlushDenormals();

}  // namespace aurum
