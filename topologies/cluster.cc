#include "topologies/cluster.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "topologies/graph.h"
#include "topologies/layout.h"
#include "topologies/spec.h"

namespace aurum {
namespace {

template <typename Links>
double Narrowest(const std::vector<Link>& links, const Links& route) {
  double narrowest = std::numeric_limits<double>::infinity();
  for (const int id : route) {
    narrowest = std::min(narrowest, links[static_cast<std::size_t>(id)].bandwidth_bytes_per_s);
  }
  return narrowest;
}

template <typename Links>
double TotalLatency(const std::vector<Link>& links, const Links& route) {
  double total = 0;
  for (const int id : route) total += links[static_cast<std::size_t>(id)].latency_s;
  return total;
}

}  // namespace

std::string_view VertexKindName(VertexKind kind) {
  switch (kind) {
    case VertexKind::kGpu:
      return "gpu";
    case VertexKind::kNvSwitch:
      return "nvswitch";
    case VertexKind::kPcieSwitch:
      return "pcie";
    case VertexKind::kCpu:
      return "cpu";
    case VertexKind::kNic:
      return "nic";
    case VertexKind::kLeaf:
      return "leaf";
    case VertexKind::kSpine:
      return "spine";
    case VertexKind::kCore:
      return "core";
  }
  return "";
}

std::string_view LinkKindName(LinkKind kind) {
  switch (kind) {
    case LinkKind::kNvLink:
      return "NVLink";
    case LinkKind::kPcie:
      return "PCIe";
    case LinkKind::kInterSocket:
      return "inter-socket";
    case LinkKind::kNetwork:
      return "network";
    case LinkKind::kChipToChip:
      return "chip-to-chip";
    case LinkKind::kXgmi:
      return "xGMI";
  }
  return "";
}

std::string_view TransportName(Transport transport) {
  switch (transport) {
    case Transport::kInfiniBand:
      return "infiniband";
    case Transport::kRoce:
      return "roce";
    case Transport::kEfa:
      return "efa";
    case Transport::kSlingshot:
      return "slingshot";
    case Transport::kOmniPath:
      return "omni_path";
    case Transport::kTcp:
      return "tcp";
  }
  return "";
}

std::string_view RoutingName(Routing routing) {
  switch (routing) {
    case Routing::kDModK:
      return "d-mod-k";
    case Routing::kEcmp:
      return "ecmp";
    case Routing::kAdaptive:
      return "adaptive";
  }
  return "";
}

std::string VertexName(const Vertex& vertex) {
  std::string name = vertex.node >= 0 ? "node" + std::to_string(vertex.node) + "/" : "";
  name += VertexKindName(vertex.kind);
  return name + std::to_string(vertex.index);
}

int Cluster::NvLinkDomainOf(int gpu_id) const {
  const ClusterShape& shape = *graph->shape;
  if (!shape.layout) {
    const int domain = shape.nvlink_domain[static_cast<std::size_t>(gpu_id)];
    return domain >= 0 ? domain : -1 - NodeOf(gpu_id);
  }
  const int node = NodeOf(gpu_id);
  if (const NodeGraph* node_graph = shape.layout->node_graph.get()) {
    const int domain = node_graph->domain_of_gpu[static_cast<std::size_t>(gpu_id % gpus_per_node)];
    return domain >= 0 ? node * node_graph->domains + domain : -1 - node;
  }
  return shape.layout->nvlink ? shape.layout->Domain(node) : -1 - node;
}

bool Cluster::HasNvLink() const {
  const ClusterShape& shape = *graph->shape;
  if (shape.layout && shape.layout->node_graph) return shape.layout->node_graph->domains > 0;
  if (shape.layout) return shape.layout->nvlink;
  return std::any_of(shape.nvlink_domain.begin(), shape.nvlink_domain.end(),
                     [](int d) { return d >= 0; });
}

const std::vector<Vertex>& Cluster::vertices() const { return graph->shape->vertices; }
const std::vector<Link>& Cluster::links() const { return graph->links; }

Routing Cluster::routing() const {
  return graph->shape->layout ? graph->shape->layout->routing : Routing::kDModK;
}

std::vector<int> Cluster::Route(int src_gpu, int dst_gpu, std::uint32_t flow_label) const {
  assert(src_gpu >= 0 && src_gpu < GpuCount() && dst_gpu >= 0 && dst_gpu < GpuCount());
  if (!graph->shape->layout) return SearchRoute(*graph, src_gpu, dst_gpu);
  const Path path = StructuredRoute(*graph->shape->layout, src_gpu, dst_gpu, flow_label);
  return {path.begin(), path.end()};
}

std::vector<RouteShare> Cluster::Routes(int src_gpu, int dst_gpu, int most) const {
  assert(src_gpu >= 0 && src_gpu < GpuCount() && dst_gpu >= 0 && dst_gpu < GpuCount());
  assert(most >= 1);
  std::vector<RouteShare> routes;
  const ClusterShape& shape = *graph->shape;
  if (shape.layout) {
    for (const Path& path : StructuredRoutes(*shape.layout, src_gpu, dst_gpu, most))
      routes.push_back({{path.begin(), path.end()}});
  } else {
    for (std::vector<int>& path :
         RouteSearch(*graph, src_gpu).Paths(dst_gpu, shape.spread ? most : 1))
      routes.push_back({std::move(path)});
  }
  for (RouteShare& route : routes) route.share = 1.0 / static_cast<double>(routes.size());
  return routes;
}

bool Cluster::Spreads() const {
  const ClusterShape& shape = *graph->shape;
  if (!shape.layout) return shape.spread;
  return shape.layout->routing == Routing::kAdaptive ||
         (shape.layout->node_graph && shape.layout->node_graph->spread);
}

double Cluster::RouteBandwidth(int src_gpu, int dst_gpu) const {
  if (Spreads()) {
    std::map<int, double> shares;
    for (const RouteShare& route : Routes(src_gpu, dst_gpu)) {
      for (const int id : route.links) shares[id] += route.share;
    }
    double least = std::numeric_limits<double>::infinity();
    for (const auto& [id, share] : shares) {
      // A sum of equal shares misses 1 by rounding; no link carries more than the flow.
      const double carried = share > 1 - 1e-9 ? 1 : share;
      least =
          std::min(least, links()[static_cast<std::size_t>(id)].bandwidth_bytes_per_s / carried);
    }
    return least;
  }
  if (!graph->shape->layout) return Narrowest(links(), SearchRoute(*graph, src_gpu, dst_gpu));
  return Narrowest(links(), StructuredRoute(*graph->shape->layout, src_gpu, dst_gpu));
}

double Cluster::RouteLatency(int src_gpu, int dst_gpu) const {
  if (!graph->shape->layout) return TotalLatency(links(), SearchRoute(*graph, src_gpu, dst_gpu));
  return TotalLatency(links(), StructuredRoute(*graph->shape->layout, src_gpu, dst_gpu));
}

double Cluster::NetworkBandwidthPerGpu() const {
  if (nodes < 2) return 0;
  const ClusterShape& shape = *graph->shape;
  if (shape.layout && !shape.layout->fabric) return 0;
  // Every GPU of the first node sends at once; a link's users share it equally.
  std::map<int, int> users;
  std::vector<std::vector<int>> paths;
  for (int src = 0; src < gpus_per_node; ++src) {
    std::vector<int>& path = paths.emplace_back();
    if (shape.layout) {
      const Path injection = InjectionPath(*shape.layout, src);
      path.assign(injection.begin(), injection.end());
    } else {
      for (const int id : SearchRoute(*graph, src, gpus_per_node + src)) {
        path.push_back(id);
        if (links()[static_cast<std::size_t>(id)].kind == LinkKind::kNetwork) break;
      }
    }
    for (const int id : path) ++users[id];
  }
  double least = std::numeric_limits<double>::infinity();
  for (const std::vector<int>& path : paths) {
    for (const int id : path) {
      least =
          std::min(least, links()[static_cast<std::size_t>(id)].bandwidth_bytes_per_s / users[id]);
    }
  }
  return least;
}

Cluster Cluster::WithScaledLinks(double nvlink_factor, double pcie_factor,
                                 double network_factor) const {
  assert(nvlink_factor > 0 && pcie_factor > 0 && network_factor > 0);
  auto scaled = std::make_shared<ClusterGraph>(*graph);
  for (Link& link : scaled->links) {
    switch (link.kind) {
      case LinkKind::kNvLink:
      case LinkKind::kXgmi:
        link.bandwidth_bytes_per_s *= nvlink_factor;
        break;
      case LinkKind::kPcie:
        link.bandwidth_bytes_per_s *= pcie_factor;
        break;
      case LinkKind::kNetwork:
        link.bandwidth_bytes_per_s *= network_factor;
        break;
      case LinkKind::kInterSocket:
      case LinkKind::kChipToChip:
        break;
    }
  }
  Cluster copy = *this;
  copy.graph = std::move(scaled);
  return copy;
}

Cluster Cluster::WithLinkFactors(const std::vector<double>& factor) const {
  assert(factor.size() == graph->links.size());
  auto scaled = std::make_shared<ClusterGraph>(*graph);
  for (std::size_t link = 0; link < factor.size(); ++link) {
    assert(factor[link] >= 0);
    scaled->links[link].bandwidth_bytes_per_s *= factor[link];
  }
  Cluster copy = *this;
  copy.graph = std::move(scaled);
  return copy;
}

Cluster ReadCluster(const JsonDocument& document) {
  const ClusterSpec spec = ReadClusterSpec(document);
  Cluster cluster;
  cluster.name = spec.name;
  cluster.gpu = spec.gpu;
  cluster.nodes = spec.nodes;
  cluster.gpus_per_node = spec.node.gpus;
  cluster.nics_per_node = spec.node.nics;
  if (spec.fabric) cluster.transport = spec.fabric->transport;
  cluster.host_memory_bytes_per_node = spec.node.host_memory_bytes;
  cluster.source = spec.source;
  cluster.warnings = spec.warnings;
  cluster.provenance = spec.provenance;
  cluster.graph = GenerateGraph(spec);
  return cluster;
}

}  // namespace aurum
