#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/core/json.h"
#include "sim/core/provenance.h"
#include "topologies/cluster.h"

namespace aurum {

// What an "aurum.cluster/1" document says, checked and in SI units. The keys are documented in
// topologies/README.md.

struct NodeGraph;  // topologies/node_graph.h

struct LinkSpec {
  double bandwidth_bytes_per_s = 0;  // per direction
  double latency_s = 0;
  std::string source;
};

enum class NodeKind {
  kHgx,    // NVSwitch plane inside the node, PCIe switches, sockets
  kPcie,   // no NVLink: GPUs on root ports or PCIe switches
  kSoc,    // one GPU and one CPU on the same memory
  kNvl,    // trays that share one NVLink domain; CPUs joined chip to chip
  kGraph,  // a graph, vertex by vertex and cable by cable
};

struct NodeSpec {
  NodeKind kind = NodeKind::kPcie;
  int gpus = 1;
  int sockets = 1;
  int pcie_switches = 0;
  int nics = 0;
  double host_memory_bytes = 0;  // 0 = not told

  std::optional<LinkSpec> nvlink;  // one GPU to the NVSwitch plane, all its NVLinks together
  int nvlink_links_per_gpu = 0;
  int nvswitches = 0;    // chips of the plane of one domain
  int domain_nodes = 1;  // nodes that share one NVLink domain

  LinkSpec host;  // GPU to PCIe switch or CPU
  LinkKind host_kind = LinkKind::kPcie;
  bool peer_to_peer =
      true;  // false: GPU traffic bounces through the CPU even below one PCIe switch
  std::optional<LinkSpec> pcie;  // PCIe switch to CPU, and NIC to either
  std::optional<LinkSpec> inter_socket;
  double nic_bytes_per_s = 0;
  std::string nic_source;

  // kGraph: the node; of the fields above only gpus, sockets, nics (those that serve a GPU),
  // host_memory_bytes and, of the fastest NIC, nic_bytes_per_s then mean anything.
  std::shared_ptr<const NodeGraph> graph;
};

struct FabricSpec {
  bool rail_optimised = true;
  int leaf_ports = 0;
  int leaf_down_ports = 0;  // to NICs
  int spine_ports = 0;
  int core_ports = 0;
  int oversubscription = 1;          // leaf: down ports per up port
  int spine_oversubscription = 1;    // spine: down ports per up port, where there is a third level
  bool pxn = true;                   // other rail: through NVLink to the rail's GPU
  double nic_link_latency_s = 0;     // NIC to leaf
  double switch_link_latency_s = 0;  // between switches
  double switch_link_bytes_per_s = 0;
  Routing routing = Routing::kDModK;
  Transport transport = Transport::kInfiniBand;
  std::uint64_t hash_seed = 0;  // of ECMP
  std::string source;
};

struct ClusterSpec {
  std::string name;
  std::string description;
  GpuSpec gpu;
  int nodes = 1;
  NodeSpec node;
  std::optional<FabricSpec> fabric;
  std::vector<std::string> warnings;
  std::string source;
  Provenance provenance = Provenance::kDatasheet;
};

// Strict. Besides E01xx: E0502 more nodes than the fabric has ports for; E0503 the parts of a node
// do not share out evenly; E0504 several nodes and nothing that joins them; E0505 the ports of the
// fabric contradict each other; E0506 a family where a cluster is needed; those of node_graph.h.
ClusterSpec ReadClusterSpec(const JsonDocument& document);

}  // namespace aurum
