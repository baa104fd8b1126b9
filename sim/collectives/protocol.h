#pragma once

#include <string>

#include "sim/collectives/algorithm.h"
#include "sim/collectives/group_shape.h"

namespace aurum {

// How NCCL puts bytes on a link. protocol.cc has what each costs.
enum class Protocol { kLl, kLl128, kSimple };
std::string ProtocolName(Protocol protocol);  // "LL", "LL128", "Simple"

// What a transport between nodes makes of a NIC: the share of its rate that large messages get, and
// what a message costs besides the links and NCCL's own software.
struct TransportFacts {
  double efficiency = 1;
  double message_s = 0;
  double chunk_bytes = 0;  // largest chunk of NVLS trees that its plugin sets; 0 = NCCL's
  std::string_view source;
};
const TransportFacts& FactsOf(Transport transport);

// NVLink rate that NCCL plans with and reaches, as a share of the datasheet's.
double NcclNvLinkShare(double compute_capability);
// Of that, what in-switch reduction reaches; 0 where there is none (below 9.0).
double NvlsShare(double compute_capability);
// Whether NCCL's figures have an all-reduce of large messages on `ranks` GPUs of an NVSwitch faster
// through the switch than by a ring: from 4 on Hopper, from 6 on Blackwell.
bool NvlsBeatsRing(double compute_capability, int ranks);

// The protocol of least time for one collective whose bytes take `flow_s` at the links' full rate,
// and its parts. `intra_s`, `network_s`: latency of the links of the longest step inside a domain and
// between nodes.
struct ProtocolTime {
  Protocol protocol = Protocol::kSimple;
  double latency_s = 0;
  double flow_s = 0;
};
// Ring, tree, NVLS and direct alone.
bool HasProtocols(CollectiveAlgorithm algorithm);
ProtocolTime BestProtocol(CollectiveAlgorithm algorithm, CollectiveKind kind, double bytes,
                          const GroupShape& shape, const Cluster& cluster,
                          double compute_capability, double intra_s, double network_s,
                          bool over_network, double flow_s);

}  // namespace aurum
