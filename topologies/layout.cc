#include "topologies/layout.h"

#include <algorithm>
#include <cassert>

#include "sim/core/rounding.h"
#include "topologies/ways.h"

namespace aurum {
namespace {

int Up(int cable) { return 2 * cable; }
int Down(int cable) { return 2 * cable + 1; }

// The fewest switches among which each of `groups` groups of `cables` cables can be dealt out in
// turn, so that none needs more than `ports` ports. Precondition: groups <= ports.
int FewestSwitches(int groups, int cables, int ports) {
  const int most_per_group = ports / groups;
  assert(most_per_group >= 1);
  return CeilDivide(cables, most_per_group);
}

void LayOutFabric(const FabricSpec& spec, Layout* layout) {
  Layout& at = *layout;
  at.fabric = true;
  at.rail_optimised = spec.rail_optimised;
  at.pxn = spec.pxn && spec.rail_optimised;
  at.routing = spec.routing;
  at.hash_seed = spec.hash_seed;
  at.rails = spec.rail_optimised ? at.nics : 1;
  const int endpoints_per_rail = spec.rail_optimised ? at.nodes : at.nodes * at.nics;
  at.leaf_down = spec.leaf_down_ports;
  at.leaves_per_rail = CeilDivide(endpoints_per_rail, at.leaf_down);
  at.leaves = at.rails * at.leaves_per_rail;
  at.levels = 1;
  if (at.leaves == 1) return;

  // A leaf that is not full needs fewer cables upwards to be as good.
  at.leaf_up = CeilDivide(std::min(endpoints_per_rail, at.leaf_down), spec.oversubscription);
  if (at.leaves <= spec.spine_ports) {
    at.levels = 2;
    at.pods = 1;
    at.leaves_per_pod = at.leaves;
    at.spines_per_pod = FewestSwitches(at.leaves, at.leaf_up, spec.spine_ports);
    at.spines = at.spines_per_pod;
    return;
  }
  at.levels = 3;
  const int spine_down = spec.spine_ports / 2;
  at.pods_per_rail = CeilDivide(at.leaves_per_rail, spine_down);
  at.leaves_per_pod = CeilDivide(at.leaves_per_rail, at.pods_per_rail);
  at.pods = at.rails * at.pods_per_rail;
  at.spines_per_pod = FewestSwitches(at.leaves_per_pod, at.leaf_up, spine_down);
  at.spines = at.pods * at.spines_per_pod;
  const int down_used = at.leaves_per_pod * CeilDivide(at.leaf_up, at.spines_per_pod);
  at.spine_up = CeilDivide(down_used, spec.spine_oversubscription);
  at.cores_per_group = FewestSwitches(at.pods, at.spine_up, spec.core_ports);
  at.cores = at.spines_per_pod * at.cores_per_group;
}

// Where a device hangs: a PCIe switch, or directly (-1) a root port of its socket.
struct Attachment {
  int socket;
  int pcie_switch;
};

Attachment GpuAttachment(const Layout& at, int local_gpu) {
  const int pcie_switch = at.PcieSwitch(local_gpu);
  return {pcie_switch < 0 ? at.Socket(local_gpu) : at.SocketOfPcieSwitch(pcie_switch), pcie_switch};
}

// Between two attachments of one node; nothing if they are the same and the traffic need not see
// the CPU.
void AddHostPath(const Layout& at, int node, Attachment from, Attachment to, bool through_cpu,
                 Path* path) {
  if (from.pcie_switch == to.pcie_switch && from.socket == to.socket &&
      (!through_cpu || from.pcie_switch < 0)) {
    return;
  }
  if (from.pcie_switch >= 0) path->Add(Up(at.NodeCable(node, at.pcie_to_cpu, from.pcie_switch)));
  if (from.socket != to.socket) {
    const int cable = at.NodeCable(node, at.cpu_to_cpu, at.SocketPair(from.socket, to.socket));
    path->Add(from.socket < to.socket ? Up(cable) : Down(cable));
  }
  if (to.pcie_switch >= 0) path->Add(Down(at.NodeCable(node, at.pcie_to_cpu, to.pcie_switch)));
}

// A path of a node's own table, moved to where the node's links are.
void AddLocal(const Layout& at, int node, const std::vector<int>& local, Path* path) {
  for (const int id : local) path->Add(2 * at.NodeCable(node, 0, 0) + id);
}

std::size_t Index(int row, int columns, int column) {
  return static_cast<std::size_t>(row) * static_cast<std::size_t>(columns) +
         static_cast<std::size_t>(column);
}

void AddGpuToNic(const Layout& at, int node, int local_gpu, int nic, Path* path) {
  if (at.node_graph) {
    AddLocal(at, node, at.node_graph->gpu_to_nic[Index(local_gpu, at.nics, nic)], path);
    return;
  }
  path->Add(Up(at.NodeCable(node, at.gpu_to_host, local_gpu)));
  AddHostPath(at, node, GpuAttachment(at, local_gpu), GpuAttachment(at, at.FirstGpuOfNic(nic)),
              !at.peer_to_peer, path);
  path->Add(Down(at.NodeCable(node, at.nic_to_host, nic)));
}

void AddNicToGpu(const Layout& at, int node, int nic, int local_gpu, Path* path) {
  if (at.node_graph) {
    AddLocal(at, node, at.node_graph->nic_to_gpu[Index(nic, at.gpus, local_gpu)], path);
    return;
  }
  path->Add(Up(at.NodeCable(node, at.nic_to_host, nic)));
  AddHostPath(at, node, GpuAttachment(at, at.FirstGpuOfNic(nic)), GpuAttachment(at, local_gpu),
              !at.peer_to_peer, path);
  path->Add(Down(at.NodeCable(node, at.gpu_to_host, local_gpu)));
}

// Between two leaves, by the way chosen.
void AddFabricPath(const Layout& at, const FabricEnds& ends, const FabricWay& way, Path* path) {
  path->Add(Up(at.leaf_to_spine + ends.src_leaf * at.leaf_up + way.leaf_up));
  const int src_pod = at.Pod(ends.src_leaf);
  const int dst_pod = at.Pod(ends.dst_leaf);
  if (src_pod != dst_pod) {
    const int spine = way.leaf_up % at.spines_per_pod;
    const auto cable = [&](int pod, int above) {
      return at.spine_to_core + (pod * at.spines_per_pod + spine) * at.spine_up + above;
    };
    path->Add(Up(cable(src_pod, way.spine_up)));
    path->Add(Down(cable(dst_pod, way.spine_down)));
  }
  path->Add(Down(at.leaf_to_spine + ends.dst_leaf * at.leaf_up + way.leaf_down));
}

// The way between GPUs that have their own links; of a node that is a graph, the `which`th of the
// equal paths.
void AddGpuLinks(const Layout& at, int src_gpu, int dst_gpu, std::size_t which, Path* path) {
  const int src_node = src_gpu / at.gpus;
  const int dst_node = dst_gpu / at.gpus;
  if (at.node_graph) {
    const std::size_t pair = Index(src_gpu % at.gpus, at.gpus, dst_gpu % at.gpus);
    AddLocal(at, src_node, at.node_graph->gpu_to_gpu[pair][which], path);
    return;
  }
  path->Add(Up(at.NodeCable(src_node, at.gpu_to_nvswitch, src_gpu % at.gpus)));
  path->Add(Down(at.NodeCable(dst_node, at.gpu_to_nvswitch, dst_gpu % at.gpus)));
}

// Inside a node without GPU links: up and down the host's tree.
void AddHostRoute(const Layout& at, int node, int src_local, int dst_local, Path* path) {
  path->Add(Up(at.NodeCable(node, at.gpu_to_host, src_local)));
  AddHostPath(at, node, GpuAttachment(at, src_local), GpuAttachment(at, dst_local),
              !at.peer_to_peer, path);
  path->Add(Down(at.NodeCable(node, at.gpu_to_host, dst_local)));
}

// A route over the network, without its choice of way: the NICs that it leaves and arrives by.
struct Crossing {
  int src_gpu;  // that hands over to the NIC: with PXN, the GPU of the destination's rail
  int dst_gpu;
  int src_nic;
  int dst_nic;
  FabricEnds ends;
};

Crossing Cross(const Layout& at, int src_gpu, int dst_gpu) {
  assert(at.fabric);
  const int src_node = src_gpu / at.gpus;
  const int dst_node = dst_gpu / at.gpus;
  const int relay = src_node * at.gpus + dst_gpu % at.gpus;
  const int dst_nic = at.Nic(dst_gpu % at.gpus);
  const bool detour =
      at.pxn && at.Nic(src_gpu % at.gpus) != dst_nic && at.SameGpuDomain(src_gpu, relay);
  Crossing crossing;
  crossing.src_gpu = detour ? relay : src_gpu;
  crossing.dst_gpu = dst_gpu;
  crossing.src_nic = at.Nic(crossing.src_gpu % at.gpus);
  crossing.dst_nic = dst_nic;
  crossing.ends = {at.Leaf(src_node, crossing.src_nic), at.Leaf(dst_node, dst_nic),
                   at.Slot(dst_node, dst_nic)};
  return crossing;
}

Path CrossingPath(const Layout& at, int src_gpu, const Crossing& c, const FabricWay& way) {
  Path path;
  const int src_node = src_gpu / at.gpus;
  const int dst_node = c.dst_gpu / at.gpus;
  if (c.src_gpu != src_gpu) AddGpuLinks(at, src_gpu, c.src_gpu, 0, &path);
  AddGpuToNic(at, src_node, c.src_gpu % at.gpus, c.src_nic, &path);
  path.Add(Up(at.nic_to_leaf + src_node * at.nics + c.src_nic));
  if (c.ends.src_leaf != c.ends.dst_leaf) AddFabricPath(at, c.ends, way, &path);
  path.Add(Down(at.nic_to_leaf + dst_node * at.nics + c.dst_nic));
  AddNicToGpu(at, dst_node, c.dst_nic, c.dst_gpu % at.gpus, &path);
  return path;
}

bool Crosses(const Layout& at, int src_gpu, int dst_gpu) {
  return src_gpu / at.gpus != dst_gpu / at.gpus && !at.SameGpuDomain(src_gpu, dst_gpu);
}

}  // namespace

int Layout::SocketPair(int a, int b) const {
  const int low = std::min(a, b);
  const int high = std::max(a, b);
  return low * sockets - low * (low + 1) / 2 + high - low - 1;
}

int Layout::NicVertex(int node, int nic) const {
  return node_graph ? GraphVertex(node, node_graph->nics[static_cast<std::size_t>(nic)])
                    : first_nic + node * nics + nic;
}

int Layout::GraphVertex(int node, int local_vertex) const {
  const std::size_t v = static_cast<std::size_t>(local_vertex);
  const int place = node_graph->place[v];
  return node_graph->vertices[v].kind == VertexKind::kGpu
             ? node * gpus + place
             : first_of_graph + node * static_cast<int>(node_graph->others.size()) + place;
}

bool Layout::SameGpuDomain(int src_gpu, int dst_gpu) const {
  const int src_node = src_gpu / gpus;
  const int dst_node = dst_gpu / gpus;
  if (!node_graph) return nvlink && Domain(src_node) == Domain(dst_node);
  const int domain = node_graph->domain_of_gpu[static_cast<std::size_t>(src_gpu % gpus)];
  return src_node == dst_node && domain >= 0 &&
         domain == node_graph->domain_of_gpu[static_cast<std::size_t>(dst_gpu % gpus)];
}

std::int64_t MaxNodes(const FabricSpec& fabric, int nics) {
  const std::int64_t rails = fabric.rail_optimised ? nics : 1;
  const std::int64_t per_endpoint = fabric.rail_optimised ? 1 : nics;
  const std::int64_t two_levels = fabric.spine_ports / rails * fabric.leaf_down_ports;
  const std::int64_t three_levels =
      fabric.core_ports / rails * (fabric.spine_ports / 2) * fabric.leaf_down_ports;
  return std::max(two_levels, three_levels) / per_endpoint;
}

Layout MakeLayout(const ClusterSpec& spec) {
  const NodeSpec& node = spec.node;
  Layout at;
  at.nodes = spec.nodes;
  at.gpus = node.gpus;
  at.sockets = node.sockets;
  at.pcie_switches = node.pcie_switches;
  at.nics = node.nics;
  at.socket_pairs = node.inter_socket ? node.sockets * (node.sockets - 1) / 2 : 0;
  at.nvlink = node.nvlink.has_value();
  at.domain_nodes = node.domain_nodes;
  at.domains = at.nvlink ? CeilDivide(at.nodes, at.domain_nodes) : 0;
  at.peer_to_peer = node.peer_to_peer;
  at.node_graph = node.graph;
  if (spec.fabric && spec.nodes > 1) LayOutFabric(*spec.fabric, &at);

  at.first_nvswitch = at.nodes * at.gpus;
  at.first_pcie = at.first_nvswitch + at.domains;
  at.first_cpu = at.first_pcie + at.nodes * at.pcie_switches;
  at.first_nic = at.first_cpu + at.nodes * at.sockets;
  at.first_of_graph = at.first_nvswitch;
  at.first_leaf = node.graph
                      ? at.first_of_graph + at.nodes * static_cast<int>(node.graph->others.size())
                      : at.first_nic + at.nodes * at.nics;
  at.first_spine = at.first_leaf + at.leaves;
  at.first_core = at.first_spine + at.spines;
  at.vertex_count = at.first_core + at.cores;

  at.gpu_to_nvswitch = 0;
  at.gpu_to_host = at.nvlink ? at.gpus : 0;
  at.pcie_to_cpu = at.gpu_to_host + at.gpus;
  at.nic_to_host = at.pcie_to_cpu + at.pcie_switches;
  at.cpu_to_cpu = at.nic_to_host + at.nics;
  at.node_cables = node.graph ? static_cast<int>(node.graph->cable_sources.size())
                              : at.cpu_to_cpu + at.socket_pairs;
  at.nic_to_leaf = at.nodes * at.node_cables;
  at.leaf_to_spine = at.nic_to_leaf + (at.fabric ? at.nodes * at.nics : 0);
  at.spine_to_core = at.leaf_to_spine + at.leaves * at.leaf_up;
  at.cable_count = at.spine_to_core + at.spines * at.spine_up;
  return at;
}

Path StructuredRoute(const Layout& at, int src_gpu, int dst_gpu, std::uint32_t flow_label) {
  Path path;
  if (src_gpu == dst_gpu) return path;
  if (Crosses(at, src_gpu, dst_gpu)) {
    const Crossing crossing = Cross(at, src_gpu, dst_gpu);
    FabricWay way;
    if (crossing.ends.src_leaf != crossing.ends.dst_leaf) {
      way = at.routing == Routing::kEcmp
                ? EcmpWay(at, crossing.ends, FlowHash(at.hash_seed, src_gpu, dst_gpu, flow_label))
                : DModKWay(at, crossing.ends);
    }
    return CrossingPath(at, src_gpu, crossing, way);
  }
  if (at.node_graph || at.SameGpuDomain(src_gpu, dst_gpu)) {
    AddGpuLinks(at, src_gpu, dst_gpu, 0, &path);
  } else {
    AddHostRoute(at, src_gpu / at.gpus, src_gpu % at.gpus, dst_gpu % at.gpus, &path);
  }
  return path;
}

std::vector<Path> StructuredRoutes(const Layout& at, int src_gpu, int dst_gpu, int most) {
  std::vector<Path> paths;
  if (src_gpu == dst_gpu) return paths;
  if (at.routing == Routing::kAdaptive && Crosses(at, src_gpu, dst_gpu)) {
    const Crossing crossing = Cross(at, src_gpu, dst_gpu);
    if (crossing.ends.src_leaf != crossing.ends.dst_leaf) {
      for (const FabricWay& way : AdaptiveWays(at, crossing.ends, most))
        paths.push_back(CrossingPath(at, src_gpu, crossing, way));
      return paths;
    }
  }
  if (at.node_graph && at.node_graph->spread && src_gpu / at.gpus == dst_gpu / at.gpus) {
    const std::size_t pair = Index(src_gpu % at.gpus, at.gpus, dst_gpu % at.gpus);
    const std::size_t equal = at.node_graph->gpu_to_gpu[pair].size();
    for (std::size_t i = 0; i < std::min(equal, static_cast<std::size_t>(most)); ++i)
      AddGpuLinks(at, src_gpu, dst_gpu, i, &paths.emplace_back());
    return paths;
  }
  paths.push_back(StructuredRoute(at, src_gpu, dst_gpu));
  return paths;
}

Path InjectionPath(const Layout& at, int gpu) {
  assert(at.fabric);
  Path path;
  const int node = gpu / at.gpus;
  const int local = gpu % at.gpus;
  AddGpuToNic(at, node, local, at.Nic(local), &path);
  path.Add(Up(at.nic_to_leaf + node * at.nics + at.Nic(local)));
  return path;
}

}  // namespace aurum
