#include "topologies/gpu_facts.h"

#include <algorithm>

namespace aurum {
namespace {

constexpr std::string_view kHgx = "memory: nvidia-smi total; NVLinks and PCIe: datasheet";
constexpr std::string_view kSheet =
    "as the vendor's datasheet is usually quoted, not checked against it (memory as sold, less is "
    "usable)";

// Rates of one link and direction: P100 20 GB/s (NVLink 1), V100, A100 and H100 25 (NVLink 2 to 4),
// B200 50 (NVLink 5), Ampere's bridges 14.0625 (112.5 GB/s both ways over four links); xGMI: MI100
// 46 (276 GB/s both ways over three), MI200 50, MI300X 64.
constexpr GpuFacts kGpus[] = {
    {"a10", "A10-24GB", "a10", 24, "0x2236", 0, 0, 0, false, 4, true, true, kSheet},
    {"a100", "A100-SXM4-80GB", "a100", 80, "0x20b2", 0, 12, 25, true, 4, true, true, kHgx},
    {"a100-40", "A100-SXM4-40GB", "a100-40", 40, "0x20b0", 0, 12, 25, true, 4, true, true, kHgx},
    {"a100-pcie-40", "A100-PCIe-40GB", "a100-pcie-40", 40, "0x20f1", 0, 12, 25, false, 4, true,
     true, kSheet},
    {"a100-pcie-80", "A100-PCIe-80GB", "a100-pcie-80", 80, "0x20b5", 0, 12, 25, false, 4, true,
     true, kSheet},
    {"a10g", "A10G-24GB", "a10g", 24, "0x2237", 0, 0, 0, false, 4, true, false, kSheet},
    {"a30", "A30-24GB", "a30", 24, "0x20b7", 0, 4, 25, false, 4, true, true, kSheet},
    {"a40", "A40-48GB", "a40", 48, "0x2235", 0, 4, 14.0625, false, 4, true, true, kSheet},
    {"a5000", "RTX A5000 24GB", "a5000", 24, "0x2231", 0, 4, 14.0625, false, 4, true, true, kSheet},
    {"a6000", "RTX A6000 48GB", "a6000", 48, "0x2230", 0, 4, 14.0625, false, 4, true, true, kSheet},
    {"a800", "A800-SXM4-80GB", "a800", 80, "0x20f3", 0, 8, 25, true, 4, true, true, kSheet},
    {"b200", "B200-SXM-180GB", "b200", 179.1, "0x2901", 0, 18, 50, true, 5, true, true, kHgx},
    {"b300", "B300-SXM-288GB", "b300", 288, "0x3182", 0, 18, 50, true, 6, true, true, kSheet},
    {"gb200", "GB200-186GB", "gb200", 185.0, "0x2941", 0, 18, 50, false, 5, true, true, kHgx},
    {"gb300", "GB300-288GB", "gb300", 288, "0x31c2", 0, 18, 50, false, 6, true, true, kSheet},
    {"h100", "H100-SXM5-80GB", "h100", 79.65, "0x2330", 0, 18, 25, true, 5, true, true, kHgx},
    {"h100-nvl", "H100-NVL-94GB", "h100-nvl", 94, "0x2321", 0, 12, 25, false, 5, true, true,
     kSheet},
    {"h100-pcie", "H100-PCIe-80GB", "h100-pcie", 80, "0x2331", 0, 12, 25, false, 5, true, true,
     kSheet},
    {"h20", "H20-SXM5-96GB", "h20", 96, "0x2329", 0, 18, 25, true, 5, true, true, kSheet},
    {"h200", "H200-SXM5-141GB", "h200", 140.4, "0x2335", 0, 18, 25, true, 5, true, true, kHgx},
    {"h800", "H800-SXM5-80GB", "h800", 80, "0x2324", 0, 8, 25, true, 5, true, true, kSheet},
    {"l4", "L4-24GB", "l4", 24, "0x27b8", 0, 0, 0, false, 4, true, true, kSheet},
    {"l40", "L40-48GB", "l40", 48, "0x26b5", 0, 0, 0, false, 4, true, true, kSheet},
    {"l40s", "L40S-48GB", "l40s", 44.99, "0x26b9", 0, 0, 0, false, 4, true, true,
     "memory: nvidia-smi total 46068 MiB; PCIe: datasheet"},
    {"mi100", "Instinct MI100 32GB", "mi100", 32, "", 908, 3, 46, false, 4, true, false, kSheet},
    {"mi250", "Instinct MI200 series, one die, 64GB", "mi250", 64, "", 910, 8, 50, false, 4, true,
     false, kSheet},
    {"mi300x", "Instinct MI300X 192GB", "mi300x", 192, "", 942, 7, 64, false, 5, true, false,
     kSheet},
    {"orin-agx", "Jetson AGX Orin 64GB", "orin-agx", 64, "", 0, 0, 0, false, 4, false, true,
     kSheet},
    {"orin-nx", "Jetson Orin NX 16GB", "orin-nx", 16, "", 0, 0, 0, false, 4, false, true, kSheet},
    {"p100", "P100-SXM2-16GB", "p100", 16, "0x15f9", 0, 4, 20, false, 3, true, false, kSheet},
    {"rtx-pro-6000", "RTX PRO 6000 Server 96GB", "rtx-pro-6000", 95.59, "0x2bb5", 0, 0, 0, false, 5,
     true, true, "memory: nvidia-smi total 97887 MiB; PCIe: datasheet"},
    {"rtx-pro-6000-max-q", "RTX PRO 6000 Max-Q 96GB", "rtx-pro-6000-max-q", 95.59, "0x2bb4", 0, 0,
     0, false, 5, true, true, "memory: nvidia-smi total 97887 MiB; PCIe: datasheet"},
    {"rtx3090", "GeForce RTX 3090", "rtx3090", 24, "0x2204", 0, 4, 14.0625, false, 4, false, true,
     kSheet},
    {"rtx4090", "GeForce RTX 4090", "rtx4090", 23.99, "0x2684", 0, 0, 0, false, 4, false, true,
     "memory: nvidia-smi total 24564 MiB; no peer-to-peer: as the catalogue's 2x4090-pcie"},
    {"rtx5090", "GeForce RTX 5090", "rtx5090", 32, "0x2b85", 0, 0, 0, false, 5, false, true,
     kSheet},
    {"rtx6000-ada", "RTX 6000 Ada 48GB", "rtx6000-ada", 48, "0x26b1", 0, 0, 0, false, 4, true, true,
     kSheet},
    {"t4", "T4-16GB", "t4", 16, "0x1eb8", 0, 0, 0, false, 3, true, true, kSheet},
    {"v100-16", "V100-SXM2-16GB", "v100-16", 16, "0x1db1", 0, 6, 25, false, 3, true, true, kSheet},
    {"v100-32", "V100-SXM2-32GB", "v100-32", 32, "0x1db5", 0, 6, 25, false, 3, true, true, kSheet},
    {"v100-sxm3", "V100-SXM3-32GB", "v100-sxm3", 32, "0x1db8", 0, 6, 25, true, 3, true, false,
     kSheet},
};

template <typename Matches>
const GpuFacts* FindIf(Matches matches) {
  const auto* found = std::find_if(std::begin(kGpus), std::end(kGpus), matches);
  return found == std::end(kGpus) ? nullptr : found;
}

}  // namespace

const GpuFacts* FindGpuByKey(std::string_view key) {
  return FindIf([&](const GpuFacts& gpu) { return gpu.key == key; });
}

const GpuFacts* FindGpuByPciDevice(std::string_view device) {
  if (device.empty()) return nullptr;
  return FindIf([&](const GpuFacts& gpu) { return gpu.pci_device == device; });
}

const GpuFacts* FindGpuByGcn(int gcn) {
  if (gcn == 0) return nullptr;
  return FindIf([&](const GpuFacts& gpu) { return gpu.gcn == gcn; });
}

std::vector<std::string> GpuKeys() {
  std::vector<std::string> keys;
  for (const GpuFacts& gpu : kGpus) keys.emplace_back(gpu.key);
  return keys;
}

}  // namespace aurum
