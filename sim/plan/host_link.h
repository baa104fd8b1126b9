#pragma once

#include "topologies/cluster.h"

namespace aurum {

// What one GPU can exchange with its host's memory in one direction while all GPUs of its node do the
// same, B/s: the narrowest of the PCIe or chip-to-chip links on the way to its CPU, each shared by the
// GPUs that need it, times the share of nominal PCIe rates that copies reach. 0 where the cluster
// does not tell such a way.
double HostLinkBandwidth(const Cluster& cluster);

// Seconds of Adam on the host for `parameters` of one node: the memory traffic of the step over what
// the cores of a host sustain.
double HostAdamSeconds(double parameters_of_node);

}  // namespace aurum
