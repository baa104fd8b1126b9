#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "topologies/machine.h"

namespace aurum {

// What a topology of NCCL or RCCL says, element by element, without a judgement of it.

struct NcclNet {
  std::size_t offset = 0;
  std::string name;
  int megabit_per_s = 0;  // ≤ 0: not told
  bool gpu_direct = true;
};

struct NcclGpuLink {
  enum class Kind { kNvLink, kXgmi, kChipToChip };
  std::size_t offset = 0;
  Kind kind = Kind::kNvLink;
  int count = 0;
  std::string target;        // a busid
  std::string target_class;  // PCI class: "0x068000" an NVSwitch, …
  int megabyte_per_s = 0;    // of kChipToChip, one link
};

// A <pci>, or a <nic> that is no PCIe device.
struct NcclDevice {
  enum class Kind { kBridge, kGpu, kNic };
  Kind kind = Kind::kBridge;
  std::size_t offset = 0;
  std::string busid;  // "" for what is no PCIe device
  int parent = -1;    // a device, before this one; -1: on the CPU
  int cpu = 0;
  double gigatransfers_per_s = 0;  // 0: not told
  int lanes = 16;
  int vendor = 0, device = 0, subsystem_vendor = 0, subsystem_device = 0;  // 0: not told
  std::string model;  // "device" as it stands there, lower case

  // Of a GPU.
  bool described = false;  // has a <gpu>
  int number = -1;         // its "dev"
  int gcn = 0;             // AMD's gfx number
  bool gpu_direct = true;
  std::vector<NcclGpuLink> links;

  std::vector<NcclNet> nets;  // of a NIC
};

struct NcclCpu {
  std::size_t offset = 0;
  std::string numa, arch, vendor;
  int family = 0, model = 0;
};

struct NcclDump {
  std::vector<NcclCpu> cpus;
  std::vector<NcclDevice> devices;  // in the order of the file
  std::vector<int> gpus;            // of the devices, by number; at least one
  std::string ignored;              // elements that carry no traffic
  std::size_t ignored_at = 0;
};

// E0540 not XML; E0541 XML of another kind; E0542 an attribute missing or without sense; E0543 no GPU;
// E0544 a device twice; E0556 several hosts.
NcclDump ReadNcclXml(const TextSource& source);

}  // namespace aurum
