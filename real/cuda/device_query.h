#pragma once

#include "real/device_query.h"

namespace aurum {

// The GPUs that the CUDA runtime sees. No driver (cudaErrorInsufficientDriver, 35) and no device
// (cudaErrorNoDevice, 100) are absences; any other error is trouble, told with CUDA's own number
// and text.
DeviceQuery QueryCudaDevices();

}  // namespace aurum
