#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/core/json.h"
#include "sim/core/provenance.h"

namespace aurum {

// A cluster: a directed graph of devices and links, homogeneous GPUs, and routes between them.

// kNvSwitch is the whole NVSwitch plane of an NVLink domain: traffic is striped over its chips in
// hardware, so the plane is one non-blocking crossbar. kCore is the third level of fat trees that
// two levels of switches cannot carry.
enum class VertexKind { kGpu, kNvSwitch, kPcieSwitch, kCpu, kNic, kLeaf, kSpine, kCore };
// kChipToChip joins a CPU and a GPU of one package or board: NVLink-C2C, or the shared memory of a
// SoC. kXgmi is AMD's link between GPUs; wherever NVLink is meant as "the GPUs' own links", it counts
// as one.
enum class LinkKind { kNvLink, kPcie, kInterSocket, kNetwork, kChipToChip, kXgmi };
constexpr bool IsGpuLink(LinkKind kind) {
  return kind == LinkKind::kNvLink || kind == LinkKind::kXgmi;
}
// Which of the equal ways through a fat tree a flow takes: one chosen by the destination, one chosen
// by a hash, or all of them in equal shares (topologies/ways.h).
enum class Routing { kDModK, kEcmp, kAdaptive };
std::string_view RoutingName(Routing routing);  // "d-mod-k", "ecmp", "adaptive"
std::string_view VertexKindName(
    VertexKind kind);  // "gpu", "nvswitch", "pcie", "cpu", "nic", "leaf", "spine", "core"
std::string_view LinkKindName(
    LinkKind kind);  // "NVLink", "PCIe", "inter-socket", "network", "chip-to-chip", "xGMI"

// What carries messages between nodes, which decides what share of a NIC's rate they get and what a
// message costs besides (sim/collectives/protocol.h).
enum class Transport { kInfiniBand, kRoce, kEfa, kSlingshot, kOmniPath, kTcp };
std::string_view TransportName(Transport transport);  // "infiniband", "roce", "efa", …

struct Vertex {
  VertexKind kind = VertexKind::kGpu;
  int node = -1;  // -1 for switches between nodes
  int index = 0;  // within its kind and node
};
std::string VertexName(const Vertex& vertex);  // "node0/gpu3", "leaf2", ...

// One direction of a cable; the reverse direction is another link.
struct Link {
  int from = 0;
  int to = 0;
  LinkKind kind = LinkKind::kNvLink;
  double bandwidth_bytes_per_s = 0;
  double latency_s = 0;
};

struct GpuSpec {
  std::string name;     // "A100-SXM4-80GB"
  std::string profile;  // default profile, a name of calibrate/profiles
  double memory_bytes = 0;
  double power_limit_w = 0;  // set by the operator; 0 = the card's own
};

// One of the paths over which a flow is spread, and the share of its bytes that takes it.
struct RouteShare {
  std::vector<int> links;
  double share = 1;
};
inline constexpr int kMostRoutes = 64;

struct ClusterGraph;  // vertices, links and what routes need; topologies/graph.h, for this room
                      // only

class Cluster {
 public:
  std::string name;
  GpuSpec gpu;
  int nodes = 1;
  int gpus_per_node = 1;
  int nics_per_node = 0;
  Transport transport = Transport::kInfiniBand;  // where nodes are joined
  double host_memory_bytes_per_node = 0;         // 0 = not told
  std::string source;                            // where bandwidths and latencies are from
  std::vector<std::string> warnings;  // what an importer had to assume, kept in the document
  Provenance provenance = Provenance::kDatasheet;

  int GpuCount() const { return nodes * gpus_per_node; }
  int NodeOf(int gpu_id) const { return gpu_id / gpus_per_node; }
  // GPUs with the same domain reach each other over NVLink alone; -1 - node where the node has no
  // NVLink.
  int NvLinkDomainOf(int gpu_id) const;
  bool HasNvLink() const;

  // The first GpuCount() vertices are the GPUs in order: a GPU's id is its vertex.
  const std::vector<Vertex>& vertices() const;
  // Link ids index this. Links come in pairs: 2c and 2c + 1 are the two directions of cable c.
  const std::vector<Link>& links() const;

  // The links from one GPU to another, in order, deterministic; empty for src == dst. Structured
  // where the generator knows the structure (rail-aligned: same rail one leaf, other rail through
  // NVLink to the rail's GPU when there is NVLink), else fewest hops, ties by highest bandwidth and
  // lowest link id. Under ECMP the hash takes src, dst and `flow_label` (one a connection: NCCL opens
  // several between the same two GPUs); under adaptive routing this is the first of Routes().
  // Precondition: both in [0, GpuCount()).
  std::vector<int> Route(int src_gpu, int dst_gpu, std::uint32_t flow_label = 0) const;
  // All the paths over which adaptive routing (fabric.routing, node.equal_paths) spreads what one GPU
  // sends another: at most `most`, equal shares that sum to 1, every one as long as Route(). One path
  // with share 1 under the other routings; none where Route() is empty. If there are more ways than
  // `most`, an even choice of them that the destination rotates. O(most · hops).
  std::vector<RouteShare> Routes(int src_gpu, int dst_gpu, int most = kMostRoutes) const;
  Routing routing() const;
  bool Spreads() const;  // whether Routes() may give more than one path
  // What one flow gets with nothing else on the links, B/s: the narrowest link of the route, or of
  // all its routes, a link that carries a share s of the flow counting 1/s fold (infinity for
  // src == dst); and the sum of the latencies of a route, s. Both are the nominal rates of the
  // hardware: what a protocol makes of them is the business of profiles and collectives.
  double RouteBandwidth(int src_gpu, int dst_gpu) const;
  double RouteLatency(int src_gpu, int dst_gpu) const;
  // What one GPU can send into the inter-node fabric when all GPUs of its node send at once, B/s; 0
  // for one node.
  double NetworkBandwidthPerGpu() const;

  // A copy whose links of these kinds carry `factor` times as much; inter-socket and chip-to-chip
  // links stay. factor > 0. Costs one copy of links(): the rest of the graph is shared.
  Cluster WithScaledLinks(double nvlink_factor, double pcie_factor, double network_factor) const;

  // A copy whose link i carries factor[i] times as much; factors ≥ 0, one per link.
  Cluster WithLinkFactors(const std::vector<double>& factor) const;

  std::shared_ptr<const ClusterGraph> graph;
};

// Reads a cluster file (docs/schema/cluster.schema.json): a generator with its parameters, or a node
// as a graph. E05xx.
Cluster ReadCluster(const JsonDocument& document);
// `name_or_file` as in OpenModel: topologies/catalogue/NAME.json under `data_root`, a size of a
// family, e.g. "64xh100-ndr" from topologies/catalogue/families/h100-ndr.json, or a path. E0220
// unknown cluster, with the nearest name; E0501 the number of GPUs does not fill whole nodes.
JsonDocument OpenCluster(const std::string& name_or_file, const std::string& data_root);
// Sorted names that OpenCluster takes: every file, alias, and the sizes that each family lists as
// examples.
std::vector<std::string> ClusterCatalogue(const std::string& data_root);
// Sorted patterns of the families, "<N>xh100-ndr".
std::vector<std::string> ClusterFamilies(const std::string& data_root);

}  // namespace aurum
