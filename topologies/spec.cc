#include "topologies/spec.h"

#include <algorithm>
#include <string>
#include <utility>

#include "sim/core/object_reader.h"
#include "sim/core/units.h"
#include "topologies/layout.h"
#include "topologies/node_graph.h"

namespace aurum {
namespace {

constexpr char kSchema[] = "aurum.cluster/1";
constexpr std::int64_t kMostNodes = 65536;
constexpr std::int64_t kMostParts = 50'000'000;  // of explicit nodes, all copies together
constexpr double kMostGbPerS = 1e6;
constexpr double kMostMicroseconds = 1e6;

double Latency(ObjectReader* reader, const char* key) {
  return reader->Number(key, 0, kMostMicroseconds) * 1e-6;
}

// A rate; zero would make a link that never delivers.
double Positive(ObjectReader* reader, const char* key, double most) {
  const double value = reader->Number(key, 0, most);
  if (value <= 0) {
    reader->Fail(107, key, "'" + std::string(key) + "' is 0: nothing would ever arrive",
                 "leave the block out if there is no such link");
  }
  return value;
}

int Count(ObjectReader* reader, const char* key, std::int64_t low, std::int64_t high) {
  return static_cast<int>(reader->Integer(key, low, high));
}

int CountOr(ObjectReader* reader, const char* key, int fallback, std::int64_t low,
            std::int64_t high) {
  return static_cast<int>(reader->IntegerOr(key, fallback, low, high));
}

LinkSpec ReadLink(ObjectReader* reader) {
  LinkSpec link;
  link.bandwidth_bytes_per_s = Positive(reader, "gb_per_s_per_direction", kMostGbPerS) * kGiga;
  link.latency_s = Latency(reader, "latency_us");
  link.source = reader->String("source");
  return link;
}

LinkSpec ReadPlainLink(ObjectReader reader) {
  LinkSpec link = ReadLink(&reader);
  reader.Finish();
  return link;
}

void ReadNvLink(ObjectReader reader, NodeSpec* node) {
  LinkSpec link;
  node->nvlink_links_per_gpu = Count(&reader, "links_per_gpu", 1, 1024);
  link.bandwidth_bytes_per_s = node->nvlink_links_per_gpu *
                               Positive(&reader, "gb_per_s_per_link_per_direction", kMostGbPerS) *
                               kGiga;
  link.latency_s = Latency(&reader, "latency_us");
  node->nvswitches = Count(&reader, "switches", 1, 1024);
  if (node->nvswitches > node->nvlink_links_per_gpu) {
    reader.Fail(503, "switches",
                std::to_string(node->nvswitches) + " NVSwitches, but a GPU has " +
                    std::to_string(node->nvlink_links_per_gpu) + " NVLinks",
                "each GPU reaches each NVSwitch of its domain: at least one link per switch");
  }
  if (node->kind == NodeKind::kNvl) node->domain_nodes = Count(&reader, "domain_nodes", 1, 1024);
  link.source = reader.String("source");
  reader.Finish();
  node->nvlink = link;
}

void ReadPcie(ObjectReader reader, NodeSpec* node) {
  node->pcie = ReadLink(&reader);
  if (node->kind == NodeKind::kHgx) node->pcie_switches = Count(&reader, "switches", 1, 256);
  if (node->kind == NodeKind::kPcie) {
    node->pcie_switches = CountOr(&reader, "switches", 0, 0, 256);
    node->peer_to_peer = reader.Bool("peer_to_peer");
  }
  reader.Finish();
}

void ReadNics(ObjectReader reader, NodeSpec* node) {
  node->nics = Count(&reader, "count", 1, 256);
  if (node->nics > node->gpus || node->gpus % node->nics != 0) {
    reader.Fail(503, "count",
                std::to_string(node->nics) + " NICs do not share out evenly to " +
                    std::to_string(node->gpus) + " GPUs",
                "a NIC serves one or several whole GPUs; where a GPU has several ports, add their "
                "rates up in "
                "'gbit_per_s' and count them as one");
  }
  node->nic_bytes_per_s = BytesPerSecondFromGbit(Positive(&reader, "gbit_per_s", 1e6));
  node->nic_source = reader.String("source");
  reader.Finish();
}

void CheckSharing(const ObjectReader& reader, const NodeSpec& node) {
  const std::string gpus = std::to_string(node.gpus) + " GPUs";
  if (node.pcie_switches > 0) {
    const std::string switches = std::to_string(node.pcie_switches) + " PCIe switches";
    if (node.gpus % node.pcie_switches != 0) {
      reader.Fail(503, "pcie", gpus + " do not share out evenly to " + switches,
                  "'switches' must divide 'gpus'");
    }
    if (node.pcie_switches % node.sockets != 0) {
      reader.Fail(
          503, "pcie",
          switches + " do not share out evenly to " + std::to_string(node.sockets) + " sockets",
          "'sockets' must divide the number of PCIe switches");
    }
  } else if (node.gpus > 1 && node.gpus % node.sockets != 0) {
    reader.Fail(503, "sockets",
                gpus + " do not share out evenly to " + std::to_string(node.sockets) + " sockets",
                "'sockets' must divide 'gpus'");
  }
}

NodeSpec ReadGraph(ObjectReader reader) {
  NodeSpec node;
  node.kind = NodeKind::kGraph;
  if (reader.Has("host_memory_gib"))
    node.host_memory_bytes = Positive(&reader, "host_memory_gib", 1e9) * kGiB;
  node.graph = ReadNodeGraph(&reader);
  reader.Finish();
  node.gpus = node.graph->gpu_count();
  node.sockets = node.graph->CountOf(VertexKind::kCpu);
  node.nics = node.graph->nic_count();
  for (const int nic : node.graph->nics) {
    const NodeVertex& vertex = node.graph->vertices[static_cast<std::size_t>(nic)];
    node.nic_bytes_per_s = std::max(node.nic_bytes_per_s, vertex.nic_bytes_per_s);
  }
  return node;
}

NodeSpec ReadNode(ObjectReader reader) {
  NodeSpec node;
  node.kind = static_cast<NodeKind>(reader.Choice("kind", {"hgx", "pcie", "soc", "nvl", "graph"}));
  if (node.kind == NodeKind::kGraph) return ReadGraph(std::move(reader));
  node.gpus = node.kind == NodeKind::kSoc ? CountOr(&reader, "gpus", 1, 1, 1)
                                          : Count(&reader, "gpus", 1, 256);
  node.sockets = node.kind == NodeKind::kSoc ? CountOr(&reader, "sockets", 1, 1, 1)
                                             : Count(&reader, "sockets", 1, 16);
  if (reader.Has("host_memory_gib")) {
    node.host_memory_bytes = Positive(&reader, "host_memory_gib", 1e9) * kGiB;
  }
  if (node.kind == NodeKind::kSoc) {
    node.host = ReadPlainLink(reader.Object("shared_memory"));
    node.host_kind = LinkKind::kChipToChip;
    reader.Finish();
    return node;
  }
  if (node.kind == NodeKind::kHgx || node.kind == NodeKind::kNvl)
    ReadNvLink(reader.Object("nvlink"), &node);
  ReadPcie(reader.Object("pcie"), &node);
  node.host = *node.pcie;
  if (node.kind == NodeKind::kNvl) {
    node.host = ReadPlainLink(reader.Object("chip_to_chip"));
    node.host_kind = LinkKind::kChipToChip;
  }
  if (auto inter_socket = reader.ObjectIf("inter_socket")) {
    node.inter_socket = ReadPlainLink(*inter_socket);
  } else if (node.sockets > 1 && node.kind != NodeKind::kNvl) {
    reader.Fail(
        102, "",
        "missing key 'inter_socket': this node has " + std::to_string(node.sockets) + " sockets",
        "state what joins them: {\"gb_per_s_per_direction\": …, \"latency_us\": …, \"source\": …}");
  }
  if (auto nics = reader.ObjectIf("nics")) ReadNics(*nics, &node);
  CheckSharing(reader, node);
  reader.Finish();
  return node;
}

FabricSpec ReadFabric(ObjectReader reader, const NodeSpec& node) {
  FabricSpec fabric;
  fabric.rail_optimised = reader.Choice("kind", {"rail_optimised_fat_tree", "fat_tree"}) == 0;
  fabric.leaf_ports = Count(&reader, "leaf_ports", 2, 4096);
  fabric.leaf_down_ports = CountOr(&reader, "leaf_down_ports", fabric.leaf_ports / 2, 1, 4096);
  fabric.spine_ports = CountOr(&reader, "spine_ports", fabric.leaf_ports, 2, 4096);
  fabric.core_ports = CountOr(&reader, "core_ports", fabric.spine_ports, 2, 4096);
  fabric.oversubscription = CountOr(&reader, "oversubscription", 1, 1, 4096);
  fabric.spine_oversubscription = CountOr(&reader, "spine_oversubscription", 1, 1, 4096);
  if (fabric.leaf_down_ports % fabric.oversubscription != 0) {
    reader.Fail(505, "oversubscription",
                std::to_string(fabric.leaf_down_ports) +
                    " down ports do not divide by an oversubscription of " +
                    std::to_string(fabric.oversubscription),
                "the up ports of a leaf are its down ports / oversubscription: choose a divisor, "
                "or another "
                "'leaf_down_ports'");
  }
  const int up = fabric.leaf_down_ports / fabric.oversubscription;
  if (fabric.leaf_down_ports + up > fabric.leaf_ports) {
    reader.Fail(505, reader.Has("leaf_down_ports") ? "leaf_down_ports" : "leaf_ports",
                std::to_string(fabric.leaf_down_ports) + " down and " + std::to_string(up) +
                    " up ports, but a leaf has " + std::to_string(fabric.leaf_ports),
                "fewer 'leaf_down_ports', more 'oversubscription' or a larger switch");
  }
  fabric.pxn = reader.BoolOr("pxn", true);
  fabric.nic_link_latency_s = Latency(&reader, "nic_link_latency_us");
  fabric.switch_link_latency_s = Latency(&reader, "switch_link_latency_us");
  fabric.switch_link_bytes_per_s =
      reader.Has("switch_link_gbit_per_s")
          ? BytesPerSecondFromGbit(Positive(&reader, "switch_link_gbit_per_s", 1e6))
          : node.nic_bytes_per_s;
  fabric.routing =
      static_cast<Routing>(reader.ChoiceOr("routing", 0, {"d-mod-k", "ecmp", "adaptive"}));
  fabric.transport = static_cast<Transport>(reader.ChoiceOr(
      "transport", 0, {"infiniband", "roce", "efa", "slingshot", "omni_path", "tcp"}));
  if (reader.Has("hash_seed")) {
    fabric.hash_seed =
        static_cast<std::uint64_t>(reader.Integer("hash_seed", 0, std::int64_t{1} << 53));
    if (fabric.routing != Routing::kEcmp) {
      reader.Fail(
          109, "hash_seed",
          "only ECMP hashes, and 'routing' is '" + std::string(RoutingName(fabric.routing)) + "'",
          "remove it, or set 'routing' to 'ecmp'");
    }
  }
  fabric.source = reader.String("source");
  reader.Finish();
  return fabric;
}

void CheckJoined(const ObjectReader& reader, const ClusterSpec& spec) {
  const NodeSpec& node = spec.node;
  const std::string nodes = std::to_string(spec.nodes) + " nodes";
  if (spec.fabric && node.nics == 0) {
    reader.Fail(504, "fabric", "a fabric, but the node has no NICs to connect to it",
                node.kind == NodeKind::kSoc ? "a 'soc' cluster is one node: leave 'fabric' out"
                                            : "add 'nics' to 'node', or leave 'fabric' out");
  }
  const bool one_domain = node.nvlink && spec.nodes <= node.domain_nodes;
  if (spec.nodes > 1 && !one_domain && !spec.fabric) {
    reader.Fail(504, "nodes", nodes + ", but no 'fabric' joins them",
                node.kind == NodeKind::kSoc
                    ? "a 'soc' cluster is one node"
                    : "add 'fabric' (and 'nics' to 'node'), or set nodes to 1");
  }
  if (node.graph) {
    const std::int64_t parts = static_cast<std::int64_t>(node.graph->vertices.size()) +
                               static_cast<std::int64_t>(node.graph->links.size());
    if (parts * spec.nodes > kMostParts) {
      reader.Fail(
          502, "nodes",
          nodes + " of " + std::to_string(parts) + " vertices and links are more than can be held",
          "at most " + std::to_string(kMostParts / parts) + " such nodes");
    }
  }
  if (!spec.fabric || spec.nodes == 1) return;
  const std::int64_t most = MaxNodes(*spec.fabric, node.nics);
  if (spec.nodes > most) {
    reader.Fail(502, "nodes",
                nodes + " (" + std::to_string(std::int64_t{spec.nodes} * node.gpus) +
                    " GPUs) are more than this fabric can join",
                "three levels of its switches reach " + std::to_string(most) + " nodes (" +
                    std::to_string(most * node.gpus) +
                    " GPUs): fewer nodes, or more ports per switch");
  }
}

}  // namespace

ClusterSpec ReadClusterSpec(const JsonDocument& document) {
  ObjectReader reader(document, document.root, "");
  if (reader.Has("family")) {
    reader.Fail(
        506, "family", "this file describes a family of clusters, not one cluster",
        "name a size of it, as in 16xh100-ndr: the number of GPUs, then the name of the family");
  }
  reader.Choice("schema", {kSchema});
  ClusterSpec spec;
  spec.name = reader.String("name");
  spec.description = reader.String("description", "");
  ObjectReader gpu = reader.Object("gpu");
  spec.gpu.name = gpu.String("name");
  spec.gpu.profile = gpu.String("profile");
  spec.gpu.memory_bytes = Positive(&gpu, "memory_gib", 1e6) * kGiB;
  if (gpu.Has("power_limit_w")) spec.gpu.power_limit_w = gpu.Number("power_limit_w", 1, 1e5);
  gpu.String("source", "");
  gpu.Finish();
  spec.nodes = Count(&reader, "nodes", 1, kMostNodes);
  spec.node = ReadNode(reader.Object("node"));
  if (auto fabric = reader.ObjectIf("fabric")) spec.fabric = ReadFabric(*fabric, spec.node);
  if (reader.Has("warnings")) spec.warnings = reader.Strings("warnings");
  spec.source = reader.String("source");
  spec.provenance = static_cast<Provenance>(
      reader.Choice("provenance", {"measured", "calibrated", "datasheet", "assumed"}));
  CheckJoined(reader, spec);
  reader.Finish();
  return spec;
}

}  // namespace aurum
