#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "topologies/node_graph.h"
#include "topologies/spec.h"

namespace aurum {

// Where everything lies in a generated cluster, as arithmetic.
//
// All nodes of a generated cluster are alike and the fabric is regular, so the id of a vertex or a
// cable is an offset plus a small product, and a route can be written down hop by hop without
// looking at the graph. For example, in 2 nodes of 8 GPUs with one NIC each, the cable from NIC x
// of node n to its leaf is nic_to_leaf + 8n + x; its two directions are the links 2·cable (up,
// towards the leaf) and 2·cable + 1 (down). A route costs O(its length), about ten nanoseconds,
// with no table: at 16,384 GPUs a table of next hops would be 16,384² entries.
//
// The fat tree. A leaf has leaf_down ports to NICs and leaf_up cables to spines; cable j of a leaf
// goes to spine j mod spines_per_pod of its pod. Two levels are one pod with all leaves. If there
// are more leaves than a spine has ports, there is a third level: each rail (or the whole tree, if
// it is not rail-optimised) is cut into pods of at most spine_ports/2 leaves, and cable i of spine
// k of any pod goes to core i mod cores_per_group of group k. Switch counts are the least that
// these rules allow; at the published sizes of the DGX SuperPOD they are the published counts.
//
// A node that is a graph keeps its place in this: its cables are numbered as its document numbers
// them, its routes are looked up in its own table, and only the fabric is arithmetic.
//
// D-mod-k (Zahavi, "D-Mod-K routing providing non-blocking traffic for shift permutations on real
// life fat trees", 2010): the way up is chosen by the destination alone, slot mod leaf_up, so that
// each destination has its own way down and shift patterns do not collide.
struct Layout {
  int nodes = 1;
  int gpus = 1;  // per node, as are the next four
  int sockets = 1;
  int pcie_switches = 0;
  int nics = 0;
  int socket_pairs = 0;
  bool nvlink = false;
  int domain_nodes = 1;
  int domains = 0;
  bool peer_to_peer = true;
  std::shared_ptr<const NodeGraph> node_graph;  // null for a generated node

  Routing routing = Routing::kDModK;
  std::uint64_t hash_seed = 0;
  bool fabric = false;
  bool rail_optimised = false;
  bool pxn = false;
  int rails = 1;  // 1 if not rail-optimised
  int leaf_down = 0;
  int leaf_up = 0;
  int leaves_per_rail = 0;
  int leaves = 0;
  int levels = 0;  // of switches: 1, 2 or 3
  int pods = 0;
  int pods_per_rail = 0;  // three levels only
  int leaves_per_pod = 0;
  int spines_per_pod = 0;
  int spines = 0;
  int spine_up = 0;
  int cores_per_group = 0;
  int cores = 0;

  // First vertex of each kind; GPUs start at 0.
  int first_nvswitch = 0;
  int first_pcie = 0;
  int first_cpu = 0;
  int first_nic = 0;       // of generated nodes, as are the three above
  int first_of_graph = 0;  // of the other vertices of nodes that are graphs
  int first_leaf = 0;
  int first_spine = 0;
  int first_core = 0;
  int vertex_count = 0;

  // Cables. The first ones are per node, `node_cables` apart, at these offsets.
  int gpu_to_nvswitch = 0;
  int gpu_to_host = 0;
  int pcie_to_cpu = 0;
  int nic_to_host = 0;
  int cpu_to_cpu = 0;
  int node_cables = 0;
  int nic_to_leaf = 0;
  int leaf_to_spine = 0;
  int spine_to_core = 0;
  int cable_count = 0;

  int Domain(int node) const { return node / domain_nodes; }
  int Nic(int local_gpu) const {  // the GPU's own
    return node_graph ? node_graph->nic_of_gpu[static_cast<std::size_t>(local_gpu)]
                      : local_gpu * nics / gpus;
  }
  int NicVertex(int node, int nic) const;
  // Of a node that is a graph: where its vertex lies in the cluster.
  int GraphVertex(int node, int local_vertex) const;
  // Whether GPUs of one node, or of nodes of one domain, reach each other over their own links.
  bool SameGpuDomain(int src_gpu, int dst_gpu) const;
  int FirstGpuOfNic(int nic) const { return nic * gpus / nics; }
  int PcieSwitch(int local_gpu) const {
    return pcie_switches > 0 ? local_gpu * pcie_switches / gpus : -1;
  }
  int Socket(int local_gpu) const { return local_gpu * sockets / gpus; }
  int SocketOfPcieSwitch(int pcie_switch) const { return pcie_switch * sockets / pcie_switches; }
  int SocketPair(int a, int b) const;  // index of the unordered pair a != b

  int NodeCable(int node, int offset, int index) const {
    return node * node_cables + offset + index;
  }

  // Of leaf `leaf`: its pod, and its place among the pod's leaves.
  int Pod(int leaf) const {
    return levels < 3
               ? 0
               : leaf / leaves_per_rail * pods_per_rail + leaf % leaves_per_rail / leaves_per_pod;
  }
  int PlaceInPod(int leaf) const {
    return levels < 3 ? leaf : leaf % leaves_per_rail % leaves_per_pod;
  }
  // Of a NIC: its leaf and its down port there.
  int Leaf(int node, int nic) const {
    return rail_optimised ? nic * leaves_per_rail + node / leaf_down
                          : (node * nics + nic) / leaf_down;
  }
  int Slot(int node, int nic) const {
    return rail_optimised ? node % leaf_down : (node * nics + nic) % leaf_down;
  }
};

// The most nodes of `nics` NICs that the switches can join.
std::int64_t MaxNodes(const FabricSpec& fabric, int nics);

// Precondition: a spec that ReadClusterSpec accepted.
Layout MakeLayout(const ClusterSpec& spec);

// Link ids in order. The longest: GPU links 2, up to the NIC kMostNodeHops, fabric 6, down again.
struct Path {
  static constexpr std::size_t kMost = 2 * kMostNodeHops + 16;
  std::array<int, kMost> links;
  int size = 0;
  void Add(int link) { links[static_cast<std::size_t>(size++)] = link; }
  const int* begin() const { return links.data(); }
  const int* end() const { return links.data() + size; }
};

// Precondition: GPU ids in range. Empty for src == dst.
Path StructuredRoute(const Layout& layout, int src_gpu, int dst_gpu, std::uint32_t flow_label = 0);
// The paths of adaptive routing, see Cluster::Routes; one path under another routing.
std::vector<Path> StructuredRoutes(const Layout& layout, int src_gpu, int dst_gpu, int most);
// From a GPU through its own NIC onto its leaf: what a GPU's share of the network is limited by.
Path InjectionPath(const Layout& layout, int gpu);

}  // namespace aurum
