#pragma once

#include <string>
#include <vector>

namespace aurum {

// One GPU of this machine.
struct DeviceInfo {
  std::string name;  // "NVIDIA H100 80GB HBM3"
  double memory_bytes = 0;
  int compute_capability_major = 0;
  int compute_capability_minor = 0;
  friend bool operator==(const DeviceInfo&, const DeviceInfo&) = default;
};

// What asking for GPUs found. No devices, no trouble and no reason: the backend works and there are
// none.
struct DeviceQuery {
  std::string backend;  // "CUDA 13.0, NCCL 2.28.9"; "" for a program that was built without one
  std::vector<DeviceInfo> devices;  // in the backend's order
  std::string absence;  // why there are none, where that is in order: "no driver", "no GPU"
  std::string trouble;  // an error that is neither: something is attached, or should be, and does
                        // not answer
};

// Asks the backend that this program was built with. Never throws; takes as long as the driver
// needs to start.
DeviceQuery QueryDevices();

// One line without a full stop, equal neighbours counted:
//   "CUDA 13.0: 8 × NVIDIA H100 80GB HBM3 (79.1 GiB, compute capability 9.0)"
//   "CUDA 13.0: no GPU attached (no driver)" · "built without CUDA"
std::string DescribeDevices(const DeviceQuery& query);

inline std::string AttachedDevices() { return DescribeDevices(QueryDevices()); }

}  // namespace aurum
