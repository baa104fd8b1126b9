#include "real/cuda/device_query.h"

#include <cuda_runtime_api.h>

#include <string>
#include <utility>

namespace aurum {
namespace {

std::string ErrorText(cudaError_t error) {
  return "CUDA error " + std::to_string(static_cast<int>(error)) + ": " + cudaGetErrorString(error);
}

std::string BackendName() {
  std::string name = "CUDA " + std::to_string(CUDART_VERSION / 1000) + "." +
                     std::to_string(CUDART_VERSION % 1000 / 10);
#ifdef AURUM_NCCL_VERSION
  name += ", NCCL " AURUM_NCCL_VERSION;
#endif
  return name;
}

}  // namespace

DeviceQuery QueryCudaDevices() {
  DeviceQuery query;
  query.backend = BackendName();
  int count = 0;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  if (counted == cudaErrorInsufficientDriver) {
    int driver = 0;
    const bool old = cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0;
    query.absence = old ? "the driver is older than this CUDA" : "no driver";
    return query;
  }
  if (counted == cudaErrorNoDevice) {
    query.absence = "no GPU";
    return query;
  }
  if (counted != cudaSuccess) {
    query.trouble = ErrorText(counted);
    return query;
  }
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    if (const cudaError_t asked = cudaGetDeviceProperties(&properties, i); asked != cudaSuccess) {
      query.trouble = "GPU " + std::to_string(i) + ", " + ErrorText(asked);
      return query;
    }
    DeviceInfo device;
    device.name = properties.name;
    device.memory_bytes = static_cast<double>(properties.totalGlobalMem);
    device.compute_capability_major = properties.major;
    device.compute_capability_minor = properties.minor;
    query.devices.push_back(std::move(device));
  }
  return query;
}

}  // namespace aurum
