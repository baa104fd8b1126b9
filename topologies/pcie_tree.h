#pragma once

#include <string>
#include <vector>

#include "topologies/machine.h"

namespace aurum {

// How near two devices are to each other, in the words of nvidia-smi topo -m.
enum class Relation { kUnknown, kSelf, kGpuLinks, kPix, kPxb, kPhb, kNode, kSys };
std::string_view RelationName(Relation relation);  // "PIX", …

// What a table of relations says: devices, GPUs first, and for each where its socket is told.
struct RelationTable {
  struct Device {
    bool gpu = false;
    std::string label;
    std::string socket;  // "NUMA 0", "CPUs 0-13"; "" not told
    bool told = true;    // has a row of its own
  };
  std::vector<Device> devices;
  std::vector<std::vector<Relation>> relation;  // symmetric
};

// The PCIe tree behind the relations: devices that are PIX to each other hang on one switch; switches
// whose devices are PXB to each other on one above; PHB, NODE and an equal socket mean one CPU (a
// NUMA node), and CPUs are joined in pairs. A relation says nothing of what lies on the way for GPUs
// with NVLinks between them; there the sockets and the NICs' columns decide. O(devices²).
//
// Adds CPUs and switches to the machine, and cables to `vertices`, by device. Warnings: W1545 where
// a device's place is not told, W1546 where the relations fit no tree.
void AddPcieTree(const RelationTable& table, const std::vector<int>& vertices, std::size_t offset,
                 Machine* machine);

}  // namespace aurum
