#include "topologies/nccl_figures.h"

namespace aurum {

SocketFigure NcclSocketFigure(std::string_view arch, std::string_view vendor, int family,
                              int model) {
  if (arch == "ppc64") return {32, "P9_BW"};
  if (arch == "arm64") return {6, "ARM_BW"};
  if (vendor == "GenuineIntel") {
    if (family == 6 && model >= 0xcf) return {40, "ERP_QPI_BW"};
    if (family == 6 && model >= 0x8f) return {22, "SRP_QPI_BW"};
    if (family == 6 && model >= 0x55) return {10, "SKL_QPI_BW"};
    return {6, "BDW_QPI_BW"};
  }
  if (vendor == "AuthenticAMD") {
    // NCCL writes base family + 16 · extended family: 25 (Zen 3 and 4) is 175, 26 (Zen 5) 191.
    if (family >= 191) return {32, "AMD_ZEN5_BW"};
    if (family >= 175) return {24, "AMD_ZEN34_BW"};
    return {16, "AMD_ZEN12_BW"};
  }
  if (vendor == "CentaurHauls" || vendor == "  Shanghai  ") {
    if (family == 7 && model == 0x5b) return {9, "YONGFENG_ZPI_BW"};
    return {6, "ZPI_BW"};
  }
  return {};
}

int BroadcomGeneration(int vendor, int device, int subsystem_vendor, int subsystem_device,
                       int level) {
  if (vendor != 0x1000 || subsystem_vendor != 0x1000) return 0;
  const int sub = subsystem_device & 0xf000;
  if (device == 0xc010 && sub == 0xa000) return 4;
  if (device == 0xc030 && sub == level * 0x1000) return 5;
  return 0;
}

}  // namespace aurum
