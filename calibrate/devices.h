#pragma once

#include <string>
#include <vector>

#include "sim/cost/profile.h"

namespace aurum {

// What the tables do not say of a device: datasheet figures, and what the step-time study adds to them.
// Everything else is fitted, or scaled from the fits of a relative.
struct Device {
  std::string profile = {};
  std::string table = {};     // in the names of the files; "" = derived from `relative`
  std::string relative = {};  // the profile that a derived one is scaled from
  DeviceFacts facts = {};
  double peak_fp32_flops = 0;  // CUDA cores, no TF32
  double fp8_ratio = 0;        // training GEMM rate over bf16; 0 = no fp8
  std::string fp8_source = {};
  double nvfp4_ratio = 0;  // the same; 0 = no nvfp4
  std::string nvfp4_source = {};
  double sustained_factor = 1;
  double sustained_fp8_factor = 1;
  std::string sustained_source = {};
  double power_limit_w = 0;
  double unaligned_factor = 1;
  std::string unaligned_source = {};
  double error_band = 0;
  std::string error_band_source = {};
  std::string description = {};
  int most_collective_gpus = 8;

  // Of derived ones:
  // The chip of the relative at another power limit: rates follow the limits too (profile.cc).
  bool same_chip = false;
  // Rates over the relative's where it has been measured; 0 = the ratio of the datasheets' peaks.
  double rate_ratio = 0;
  std::string rate_source = {};
  // Collectives: 0 = none, 1 = the relative's links, below 1 = slower links of the same kind.
  double link_ratio = 0;
  MeasuredRate measured = {};
};

// Relatives before what is derived from them.
const std::vector<Device>& Devices();

}  // namespace aurum
