#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/core/object_reader.h"
#include "topologies/cluster.h"

namespace aurum {

// One node as an explicit graph, "node": {"kind": "graph"}: what importers write for a machine that
// no generator describes. All nodes of the cluster are copies of it; the fabric joins their NICs as it
// does those of a generated node.

struct NodeVertex {
  VertexKind kind = VertexKind::kGpu;
  int index = 0;  // within its kind
  std::string name;
  std::string label;           // what the machine calls it: "mlx5_0", "0000:0f:00.0"
  double nic_bytes_per_s = 0;  // of a NIC, all its ports together, per direction
  bool gpu_direct = true;      // of a GPU or NIC: false sends traffic between them through a CPU
};

// The graph and its routes. Vertices and links are local: link 2c and 2c + 1 are the directions of
// cable c.
struct NodeGraph {
  std::vector<NodeVertex> vertices;
  std::vector<Link> links;
  std::vector<std::string> cable_sources;
  bool peer_to_peer = true;  // false: what does not go over GPU links goes through a CPU
  bool spread = false;       // Routes() gives all equal paths between two GPUs of the node

  std::vector<int> gpus, others, nics;  // local vertices; `nics` are those that serve a GPU
  std::vector<int> place;               // by vertex: its index in `gpus` or in `others`
  std::vector<int> nic_of_gpu;          // index into `nics`; -1 without NICs
  std::vector<int> domain_of_gpu;       // GPUs that reach each other over GPU links; -1: none
  int domains = 0;
  // Local links, by [src · gpus + dst], [gpu · nics + nic] and [nic · gpus + gpu].
  std::vector<std::vector<std::vector<int>>> gpu_to_gpu;  // equal paths, the first is Route()'s
  std::vector<std::vector<int>> gpu_to_nic, nic_to_gpu;

  int gpu_count() const { return static_cast<int>(gpus.size()); }
  int nic_count() const { return static_cast<int>(nics.size()); }
  int CountOf(VertexKind kind) const;
};

inline constexpr int kMostNodeHops = 24;
inline constexpr int kMostNodePaths = 8;

// Reads "vertices", "cables", "peer_to_peer" and "equal_paths" of a node. Besides E01xx: E0520 a name
// twice; E0521 a cable to a vertex that is not there; E0522 a kind of cable that does not go between
// such ends; E0523 no GPU; E0524 two GPUs, or a GPU and a NIC, without a path; E0525 a path of more
// than kMostNodeHops.
std::shared_ptr<const NodeGraph> ReadNodeGraph(ObjectReader* reader);

// The same as a document's "node". Only vertices, links and flags are read.
Json NodeGraphJson(const NodeGraph& graph);

// Names in documents: "gpu", "nvswitch", "pcie", "cpu", "nic"; "nvlink", "xgmi", "pcie",
// "inter_socket", "chip_to_chip".
std::string_view CableKindKey(LinkKind kind);

}  // namespace aurum
