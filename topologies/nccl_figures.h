#pragma once

#include <string_view>

namespace aurum {

// Figures and rules that NCCL plans with, for what no datasheet states.

// GPU traffic between two sockets, one direction.
struct SocketFigure {
  double gb_per_s = 0;    // 0: NCCL has none for such a CPU
  std::string_view name;  // the constant of src/graph/topo.h
};
// By the attributes of a <cpu>; NCCL's rule is ncclTopoGetInterCpuBw (src/graph/topo.cc).
SocketFigure NcclSocketFigure(std::string_view arch, std::string_view vendor, int family,
                              int model);

// Generation 4 or 5 if these PCI ids are of a Broadcom switch that shows itself as two levels of
// bridges (`level` 0 and 1), else 0: getBcmGen (src/graph/topo.cc).
int BroadcomGeneration(int vendor, int device, int subsystem_vendor, int subsystem_device,
                       int level);

}  // namespace aurum
