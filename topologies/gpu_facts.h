#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace aurum {

// What no topology file tells about a GPU, from its vendor's datasheet. `--gpu NAME` of an importer
// names one; a PCI device id or AMD's gfx number finds it.
struct GpuFacts {
  std::string_view key;      // "h100"
  std::string_view name;     // "H100-SXM5-80GB"
  std::string_view profile;  // of calibrate/profiles; where there is none of that name, W1544
  double memory_gib;
  std::string_view pci_device;  // "0x2330", of vendor 0x10de (the pci.ids database); "" unknown
  int gcn;                      // AMD's gfx number as RCCL writes it: 942; 0 for others
  int links;                    // NVLinks or xGMI links of one GPU; 0: none
  double gb_per_s_per_link;     // one direction
  bool switched_in_eights;      // boards of eight have NVSwitches
  int pcie_generation;
  bool peer_to_peer;
  bool has_profile;
  std::string_view source;
};

const GpuFacts* FindGpuByKey(std::string_view key);           // nullptr if unknown
const GpuFacts* FindGpuByPciDevice(std::string_view device);  // "0x20b0"
const GpuFacts* FindGpuByGcn(int gcn);
std::vector<std::string> GpuKeys();  // sorted

}  // namespace aurum
