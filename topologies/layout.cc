#include "topologies/layout.h"

#include <algorithm>
#include <cassert>

namespace aurum {
namespace {

int CeilDiv(int a, int b) { return (a + b - 1) / b; }

int Up(int cable) { return 2 * cable; }
int Down(int cable) { return 2 * cable + 1; }

// The fewest switches among which each of `groups` groups of `cables` cables can be dealt out in
// turn, so that none needs more than `ports` ports. Precondition: groups <= ports.
int FewestSwitches(int groups, int cables, int ports) {
  const int most_per_group = ports / groups;
  assert(most_per_group >= 1);
  return CeilDiv(cables, most_per_group);
}

void LayOutFabric(const FabricSpec& spec, Layout* layout) {
  Layout& at = *layout;
  at.fabric = true;
  at.rail_optimised = spec.rail_optimised;
  at.pxn = spec.pxn && spec.rail_optimised;
  at.rails = spec.rail_optimised ? at.nics : 1;
  const int endpoints_per_rail = spec.rail_optimised ? at.nodes : at.nodes * at.nics;
  at.leaf_down = spec.leaf_down_ports;
  at.leaves_per_rail = CeilDiv(endpoints_per_rail, at.leaf_down);
  at.leaves = at.rails * at.leaves_per_rail;
  at.levels = 1;
  if (at.leaves == 1) return;

  // A leaf that is not full needs fewer cables upwards to be as good.
  at.leaf_up = CeilDiv(std::min(endpoints_per_rail, at.leaf_down), spec.oversubscription);
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
  at.pods_per_rail = CeilDiv(at.leaves_per_rail, spine_down);
  at.leaves_per_pod = CeilDiv(at.leaves_per_rail, at.pods_per_rail);
  at.pods = at.rails * at.pods_per_rail;
  at.spines_per_pod = FewestSwitches(at.leaves_per_pod, at.leaf_up, spine_down);
  at.spines = at.pods * at.spines_per_pod;
  const int down_used = at.leaves_per_pod * CeilDiv(at.leaf_up, at.spines_per_pod);
  at.spine_up = CeilDiv(down_used, spec.spine_oversubscription);
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

void AddGpuToNic(const Layout& at, int node, int local_gpu, int nic, Path* path) {
  path->Add(Up(at.NodeCable(node, at.gpu_to_host, local_gpu)));
  AddHostPath(at, node, GpuAttachment(at, local_gpu), GpuAttachment(at, at.FirstGpuOfNic(nic)),
              !at.peer_to_peer, path);
  path->Add(Down(at.NodeCable(node, at.nic_to_host, nic)));
}

void AddNicToGpu(const Layout& at, int node, int nic, int local_gpu, Path* path) {
  path->Add(Up(at.NodeCable(node, at.nic_to_host, nic)));
  AddHostPath(at, node, GpuAttachment(at, at.FirstGpuOfNic(nic)), GpuAttachment(at, local_gpu),
              !at.peer_to_peer, path);
  path->Add(Down(at.NodeCable(node, at.gpu_to_host, local_gpu)));
}

void AddFabricPath(const Layout& at, int src_node, int src_nic, int dst_node, int dst_nic,
                   Path* path) {
  path->Add(Up(at.nic_to_leaf + src_node * at.nics + src_nic));
  const int src_leaf = at.Leaf(src_node, src_nic);
  const int dst_leaf = at.Leaf(dst_node, dst_nic);
  if (src_leaf != dst_leaf) {
    const int way = at.Slot(dst_node, dst_nic) % at.leaf_up;
    path->Add(Up(at.leaf_to_spine + src_leaf * at.leaf_up + way));
    const int src_pod = at.Pod(src_leaf);
    const int dst_pod = at.Pod(dst_leaf);
    if (src_pod != dst_pod) {
      const int spine = way % at.spines_per_pod;
      // Numbers the destinations that come down this spine, so that they spread over its cables.
      const int ways_per_spine = CeilDiv(at.leaf_up, at.spines_per_pod);
      const int above =
          (at.PlaceInPod(dst_leaf) * ways_per_spine + way / at.spines_per_pod) % at.spine_up;
      path->Add(Up(at.spine_to_core + (src_pod * at.spines_per_pod + spine) * at.spine_up + above));
      path->Add(
          Down(at.spine_to_core + (dst_pod * at.spines_per_pod + spine) * at.spine_up + above));
    }
    path->Add(Down(at.leaf_to_spine + dst_leaf * at.leaf_up + way));
  }
  path->Add(Down(at.nic_to_leaf + dst_node * at.nics + dst_nic));
}

void AddNvLinkHop(const Layout& at, int src_node, int src_local, int dst_node, int dst_local,
                  Path* path) {
  path->Add(Up(at.NodeCable(src_node, at.gpu_to_nvswitch, src_local)));
  path->Add(Down(at.NodeCable(dst_node, at.gpu_to_nvswitch, dst_local)));
}

}  // namespace

int Layout::SocketPair(int a, int b) const {
  const int low = std::min(a, b);
  const int high = std::max(a, b);
  return low * sockets - low * (low + 1) / 2 + high - low - 1;
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
  at.domains = at.nvlink ? CeilDiv(at.nodes, at.domain_nodes) : 0;
  at.peer_to_peer = node.peer_to_peer;
  if (spec.fabric && spec.nodes > 1) LayOutFabric(*spec.fabric, &at);

  at.first_nvswitch = at.nodes * at.gpus;
  at.first_pcie = at.first_nvswitch + at.domains;
  at.first_cpu = at.first_pcie + at.nodes * at.pcie_switches;
  at.first_nic = at.first_cpu + at.nodes * at.sockets;
  at.first_leaf = at.first_nic + at.nodes * at.nics;
  at.first_spine = at.first_leaf + at.leaves;
  at.first_core = at.first_spine + at.spines;
  at.vertex_count = at.first_core + at.cores;

  at.gpu_to_nvswitch = 0;
  at.gpu_to_host = at.nvlink ? at.gpus : 0;
  at.pcie_to_cpu = at.gpu_to_host + at.gpus;
  at.nic_to_host = at.pcie_to_cpu + at.pcie_switches;
  at.cpu_to_cpu = at.nic_to_host + at.nics;
  at.node_cables = at.cpu_to_cpu + at.socket_pairs;
  at.nic_to_leaf = at.nodes * at.node_cables;
  at.leaf_to_spine = at.nic_to_leaf + (at.fabric ? at.nodes * at.nics : 0);
  at.spine_to_core = at.leaf_to_spine + at.leaves * at.leaf_up;
  at.cable_count = at.spine_to_core + at.spines * at.spine_up;
  return at;
}

Path StructuredRoute(const Layout& at, int src_gpu, int dst_gpu) {
  Path path;
  if (src_gpu == dst_gpu) return path;
  const int src_node = src_gpu / at.gpus;
  const int dst_node = dst_gpu / at.gpus;
  int src_local = src_gpu % at.gpus;
  const int dst_local = dst_gpu % at.gpus;
  if (at.nvlink && at.Domain(src_node) == at.Domain(dst_node)) {
    AddNvLinkHop(at, src_node, src_local, dst_node, dst_local, &path);
    return path;
  }
  if (src_node == dst_node) {
    path.Add(Up(at.NodeCable(src_node, at.gpu_to_host, src_local)));
    AddHostPath(at, src_node, GpuAttachment(at, src_local), GpuAttachment(at, dst_local),
                !at.peer_to_peer, &path);
    path.Add(Down(at.NodeCable(src_node, at.gpu_to_host, dst_local)));
    return path;
  }
  assert(at.fabric);
  if (at.pxn && at.nvlink && at.Nic(src_local) != at.Nic(dst_local)) {
    AddNvLinkHop(at, src_node, src_local, src_node, dst_local, &path);
    src_local = dst_local;
  }
  AddGpuToNic(at, src_node, src_local, at.Nic(src_local), &path);
  AddFabricPath(at, src_node, at.Nic(src_local), dst_node, at.Nic(dst_local), &path);
  AddNicToGpu(at, dst_node, at.Nic(dst_local), dst_local, &path);
  return path;
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
