#pragma once

#include <string>

#include "topologies/machine.h"

namespace aurum {

// Reads the table of `nvidia-smi topo -m`, as tabs or pasted with spaces, with or without the NIC,
// affinity and NUMA columns of newer drivers, and with cells that run into each other (drivers did
// that beyond ten NICs). A table that was cut off is completed from its other half where that says
// enough, with a warning.
//
// NVn between all pairs that adds up to more than a GPU has is an NVSwitch plane; else n links join
// the two. PIX, PXB, PHB, NODE and SYS give the PCIe tree (pcie_tree.h). The table tells neither the
// GPU (--gpu) nor any rate.
//
// Errors: E0545 no --gpu; E0547 no table; E0548 a cell that is no relation; E0549 a row with too few
// cells; E0550 two halves of the table that disagree; E0551 a table cut off too early; E0552 NVLinks
// that the GPU does not have; E0553 a NIC's rate is needed; and those of ReadCluster. Warnings W1540 …
// W1549.
ImportedCluster ImportNvidiaSmi(const TextSource& source, const TopologyImportOptions& options);

}  // namespace aurum
