#include "calibrate/bench.h"

namespace aurum {

std::string CopyKindName(CopyKind kind) {
  switch (kind) {
    case CopyKind::kHostToDevice:
      return "host_to_device";
    case CopyKind::kDeviceToHost:
      return "device_to_host";
    case CopyKind::kPeer:
      return "peer";
    case CopyKind::kDevice:
      return "device";
  }
  return "device";
}

}  // namespace aurum
