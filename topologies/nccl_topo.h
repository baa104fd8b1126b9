#pragma once

#include <string>

#include "topologies/machine.h"

namespace aurum {

// Reads what NCCL or RCCL write with NCCL_TOPO_DUMP_FILE and read with NCCL_TOPO_FILE: one node as XML.
//
// PCIe links come from link_speed and link_width, NVLinks and xGMI links from their counts (to a
// device of class 0x068000: the NVSwitch plane), what joins sockets from the CPUs' family and model
// (NCCL's own figures, src/graph/topo.h), NICs from <net>: the ports of a card are one NIC of their
// summed rate. Rates are nominal, not NCCL's planning figures (20 of 25 GB/s of an NVLink, 12 of 15.75
// GB/s of a PCIe 3.0 x16): what protocols make of a link is applied later, once. Broadcom's PCIe
// switches that show two levels of bridges are one switch, as in NCCL (ncclTopoFlattenBcmSwitches).
//
// Errors: E0540 not XML; E0541 XML of another kind, e.g. a graph dump; E0542 an attribute that is
// missing or no number; E0543 no GPU; E0544 a device twice; E0545 the GPU's model is not told; E0546
// GPUs of two models; E0552 more NVLinks than the GPU has; E0553 a NIC's rate is needed; E0556 several
// hosts in one file; and those of ReadCluster. Warnings W1540 … W1549.
ImportedCluster ImportNcclTopology(const TextSource& source, const TopologyImportOptions& options);

}  // namespace aurum
