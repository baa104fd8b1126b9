#include "real/device_query.h"

#include <doctest/doctest.h>

namespace aurum {
namespace {

DeviceInfo Device(const char* name, double gib, int major, int minor) {
  return {name, gib * 1024 * 1024 * 1024, major, minor};
}

TEST_CASE("equal neighbours are counted, others are listed in order") {
  DeviceQuery query;
  query.backend = "CUDA 13.0";
  query.devices = {Device("B", 80, 9, 0), Device("B", 80, 9, 0), Device("A", 15.75, 7, 5),
                   Device("B", 80, 9, 0)};
  CHECK(
      DescribeDevices(query) ==
      "CUDA 13.0: 2 × B (80.0 GiB, compute capability 9.0), A (15.8 GiB, compute capability 7.5), "
      "B (80.0 GiB, compute capability 9.0)");
}

TEST_CASE("same name, other memory: two devices, not two of one") {
  DeviceQuery query;
  query.backend = "CUDA 12.4";
  query.devices = {Device("A100", 40, 8, 0), Device("A100", 80, 8, 0)};
  CHECK(DescribeDevices(query) ==
        "CUDA 12.4: A100 (40.0 GiB, compute capability 8.0), A100 (80.0 GiB, compute capability "
        "8.0)");
}

TEST_CASE("absence and trouble are told apart") {
  DeviceQuery query;
  CHECK(DescribeDevices(query) == "built without CUDA");
  query.backend = "CUDA 13.0, NCCL 2.28.9";
  CHECK(DescribeDevices(query) == "CUDA 13.0, NCCL 2.28.9: no GPU attached");
  query.absence = "no driver";
  CHECK(DescribeDevices(query) == "CUDA 13.0, NCCL 2.28.9: no GPU attached (no driver)");
  query.trouble = "CUDA error 3: initialization error";
  CHECK(DescribeDevices(query).find("do not answer (CUDA error 3") != std::string::npos);
}

TEST_CASE("asking this machine gives devices with memory, or a reason why there are none") {
  const DeviceQuery query = QueryDevices();
  for (const DeviceInfo& device : query.devices) {
    CHECK(!device.name.empty());
    CHECK(device.memory_bytes > 0);
    CHECK(device.compute_capability_major > 0);
  }
  if (!query.backend.empty() && query.devices.empty()) CHECK((query.absence + query.trouble) != "");
  CHECK(query.backend.empty() == (DescribeDevices(query) == "built without CUDA"));
  MESSAGE(DescribeDevices(query));
}

}  // namespace
}  // namespace aurum
