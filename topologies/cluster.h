#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/core/json.h"
#include "sim/core/provenance.h"

namespace aurum {

// A cluster: a directed graph of devices and links, homogeneous GPUs, and routes between them.

enum class VertexKind { kGpu, kNvSwitch, kPcieSwitch, kCpu, kNic, kLeaf, kSpine };
enum class LinkKind { kNvLink, kPcie, kInterSocket, kNetwork };

struct Vertex {
  VertexKind kind = VertexKind::kGpu;
  int node = -1;   // -1 for switches between nodes
  int index = 0;   // within its kind and node
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
};

struct ClusterGraph;  // the Boost.Graph behind it, cluster.cc only

class Cluster {
 public:
  std::string name;
  GpuSpec gpu;
  int nodes = 1;
  int gpus_per_node = 1;
  int nics_per_node = 0;
  double host_memory_bytes_per_node = 0;  // 0 = not told
  std::string source;                     // where bandwidths and latencies are from
  Provenance provenance = Provenance::kDatasheet;

  int GpuCount() const { return nodes * gpus_per_node; }
  int NodeOf(int gpu_id) const { return gpu_id / gpus_per_node; }
  // GPUs with the same domain reach each other over NVLink alone; -1 - node where the node has no NVLink.
  int NvLinkDomainOf(int gpu_id) const;
  bool HasNvLink() const;

  const std::vector<Vertex>& vertices() const;
  const std::vector<Link>& links() const;  // link ids index this

  // The links from one GPU to another, in order, deterministic; empty for src == dst. Structured where the generator knows
  // the structure (rail-aligned: same rail one leaf, other rail through NVLink to the rail's GPU when there is NVLink),
  // else fewest hops, ties by highest bandwidth and lowest link id. Precondition: both in [0, GpuCount()).
  std::vector<int> Route(int src_gpu, int dst_gpu) const;
  // The narrowest link of the route, B/s; and the sum of its latencies, s.
  double RouteBandwidth(int src_gpu, int dst_gpu) const;
  double RouteLatency(int src_gpu, int dst_gpu) const;
  // What one GPU can send into the inter-node fabric when all GPUs of its node send at once, B/s; 0 for one node.
  double NetworkBandwidthPerGpu() const;

  // A copy whose links of these kinds carry `factor` times as much. factor > 0.
  Cluster WithScaledLinks(double nvlink_factor, double pcie_factor, double network_factor) const;

  std::shared_ptr<const ClusterGraph> graph;
};

// Reads a cluster file (docs/schema/cluster.schema.json): a generator with its parameters. E05xx.
Cluster ReadCluster(const JsonDocument& document);
// `name_or_file` as in OpenModel. "8xh100-hgx" or a generated size "N" × 8, e.g. "64xh100-hgx" where a family file says so.
// E0220 unknown cluster, with the nearest name.
JsonDocument OpenCluster(const std::string& name_or_file, const std::string& data_root);
std::vector<std::string> ClusterCatalogue(const std::string& data_root);

}  // namespace aurum
