#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "calibrate/bench.h"

namespace aurum {
namespace cuda {
class Api;
}

struct CudaBenchOptions {
  int device = 0;              // that is measured; collectives take the first ones
  std::uint64_t seed = 1;      // of the operands' values
  bool beside_others = false;  // also where another process computes on the GPU
  std::string libraries;       // folder of NVIDIA's libraries, before all others
  double timeout_s = 60;       // of one batch of calls: beyond, the GPU hangs
};

// The GPUs of this machine. Errors, now or while it measures:
//   E0940 no GPU, no driver, or a program that was built without CUDA (exit code 7)
//   E0941 a library is missing (exit code 7); without NCCL there are no collectives, and without
//         cuDNN attention is made of products: neither is an error
//   E0942 another process computes on the GPU
//   E0943 … E0949 of the libraries: docs/diagnostics.md
// Nothing of the card is set: not its clocks, nor its limits.
std::unique_ptr<Bench> MakeCudaBench(const CudaBenchOptions& options);
// The same over another implementation of the libraries.
std::unique_ptr<Bench> MakeCudaBench(const CudaBenchOptions& options,
                                     std::unique_ptr<cuda::Api> api);

}  // namespace aurum
