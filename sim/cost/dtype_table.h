#pragma once

#include <vector>

#include "sim/cost/profile.h"

namespace aurum {

// Which number formats a device multiplies matrices in, and how fast.

enum class MatrixUnit {
  kNone,        // the device has no such product
  kCudaCores,   // multiplied and added in fp32 by the general units
  kTensorCores  // by units for matrices
};
std::string MatrixUnitName(MatrixUnit unit);  // "tensor cores"

struct DTypeRow {
  DType dtype = DType::kBf16;
  MatrixUnit unit = MatrixUnit::kNone;
  double bytes = 0;            // of an element; fp16 and bf16 are alike
  double rate_flops = 0;       // that a large product reaches by the profile; 0 = none
  double sustained_flops = 0;  // the same in a long run of training
  double over_fp32 = 0;
};
// In the order bf16, fp16, fp32, fp8, fp8_block, nvfp4.
std::vector<DTypeRow> DTypeTable(const Profile& profile);

// Whether products of this type run on units for matrices: a device whose bf16 products are no
// faster than its fp32 ones has none for it (Volta and Turing: fp16 alone).
bool HasMatrixUnits(const Profile& profile, DType dtype);
// How many times as long as in fp16 compute-bound kernels take in bf16: 1 where both have units. The
// models of attention are fitted on fp16 or bf16 kernels of matrix units.
double Bf16Slowdown(const Profile& profile);

}  // namespace aurum
