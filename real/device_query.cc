#include "real/device_query.h"

#include <cstddef>
#include <cstdio>

#ifdef AURUM_WITH_CUDA
#include "real/cuda/device_query.h"
#endif

namespace aurum {

DeviceQuery QueryDevices() {
#ifdef AURUM_WITH_CUDA
  return QueryCudaDevices();
#else
  return {};
#endif
}

std::string DescribeDevices(const DeviceQuery& query) {
  if (query.backend.empty()) return "built without CUDA";
  std::string line = query.backend + ": ";
  if (!query.trouble.empty()) return line + "the GPUs do not answer (" + query.trouble + ")";
  if (query.devices.empty()) {
    return line + "no GPU attached" + (query.absence.empty() ? "" : " (" + query.absence + ")");
  }
  std::size_t first = 0;
  while (first < query.devices.size()) {
    const DeviceInfo& device = query.devices[first];
    std::size_t end = first + 1;
    while (end < query.devices.size() && query.devices[end] == device) ++end;
    char facts[96];
    std::snprintf(facts, sizeof facts, " (%.1f GiB, compute capability %d.%d)",
                  device.memory_bytes / (1024.0 * 1024.0 * 1024.0), device.compute_capability_major,
                  device.compute_capability_minor);
    if (first > 0) line += ", ";
    if (end - first > 1) line += std::to_string(end - first) + " × ";
    line += device.name + facts;
    first = end;
  }
  return line;
}

}  // namespace aurum
