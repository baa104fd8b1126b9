#include "topologies/summary.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "sim/core/diagnostic.h"
#include "topologies/graph.h"

namespace aurum {
namespace {

constexpr std::size_t kMostExamples = 32;

// The first GPU of `node`, at `local`.
int GpuAt(const Cluster& cluster, int node, int local) {
  return node * cluster.gpus_per_node + local;
}

// What a path inside a node leads over.
std::string PathInNode(const Cluster& cluster, const std::vector<int>& route) {
  int cpus = 0, switches = 0, gpus = 0;
  bool own_links = true;
  for (std::size_t hop = 0; hop < route.size(); ++hop) {
    const Link& link = cluster.links()[static_cast<std::size_t>(route[hop])];
    own_links = own_links && IsGpuLink(link.kind);
    if (hop + 1 == route.size()) break;
    const VertexKind kind = cluster.vertices()[static_cast<std::size_t>(link.to)].kind;
    cpus += kind == VertexKind::kCpu ? 1 : 0;
    switches += kind == VertexKind::kPcieSwitch ? 1 : 0;
    gpus += kind == VertexKind::kGpu ? 1 : 0;
  }
  if (own_links) {
    const std::string kind(
        LinkKindName(cluster.links()[static_cast<std::size_t>(route.front())].kind));
    return kind + (gpus > 0 ? " over another GPU" : "");
  }
  if (cpus > 1) return "across CPUs";
  if (cpus == 1) return "through a CPU";
  return switches == 1 ? "one PCIe switch" : "PCIe switches";
}

// The first pair of each kind of path, length and rate, in one node.
std::vector<ExamplePair> PairsOfNode(const Cluster& cluster) {
  std::vector<ExamplePair> pairs;
  std::set<std::tuple<std::string, std::size_t, double>> met;
  for (int src = 0; src < cluster.gpus_per_node && pairs.size() < kMostExamples; ++src) {
    for (int dst = src + 1; dst < cluster.gpus_per_node; ++dst) {
      const std::vector<int> route = cluster.Route(src, dst);
      if (route.empty()) continue;
      const std::string what = PathInNode(cluster, route);
      if (met.emplace(what, route.size(), cluster.RouteBandwidth(src, dst)).second)
        pairs.push_back({what, src, dst});
    }
  }
  return pairs;
}

}  // namespace

int NarrowestLink(const Cluster& cluster, int src, int dst) {
  std::map<int, double> shares;
  const std::vector<RouteShare> routes = cluster.Routes(src, dst);
  for (const RouteShare& route : routes) {
    for (const int id : route.links) shares[id] += route.share;
  }
  int narrowest = -1;
  double least = 0;
  if (routes.empty()) return narrowest;
  for (const int id : routes.front().links) {
    const double rate =
        cluster.links()[static_cast<std::size_t>(id)].bandwidth_bytes_per_s / shares[id];
    if (narrowest >= 0 && rate >= least * (1 - 1e-9)) continue;
    narrowest = id;
    least = rate;
  }
  return narrowest;
}

std::string NarrowestName(const Cluster& cluster, int src, int dst) {
  const int id = NarrowestLink(cluster, src, dst);
  if (id < 0) return "";
  const Link& link = cluster.links()[static_cast<std::size_t>(id)];
  const auto kind_of = [&](int v) {
    return std::string(VertexKindName(cluster.vertices()[static_cast<std::size_t>(v)].kind));
  };
  return std::string(LinkKindName(link.kind)) + " " + kind_of(link.from) + " - " + kind_of(link.to);
}

std::vector<CableClass> CableClasses(const Cluster& cluster) {
  std::vector<CableClass> classes;
  const auto kind_of = [&](int vertex) {
    return cluster.vertices()[static_cast<std::size_t>(vertex)].kind;
  };
  for (std::size_t id = 0; id < cluster.links().size(); id += 2) {
    const Link& link = cluster.links()[id];
    const auto same = [&](const CableClass& c) {
      return c.kind == link.kind && c.from == kind_of(link.from) && c.to == kind_of(link.to) &&
             c.bandwidth_bytes_per_s == link.bandwidth_bytes_per_s && c.latency_s == link.latency_s;
    };
    auto found = std::find_if(classes.begin(), classes.end(), same);
    if (found == classes.end()) {
      classes.push_back({link.kind, kind_of(link.from), kind_of(link.to),
                         link.bandwidth_bytes_per_s, link.latency_s, 0});
      found = classes.end() - 1;
    }
    ++found->cables;
  }
  return classes;
}

std::vector<ExamplePair> ExamplePairs(const Cluster& cluster) {
  std::vector<ExamplePair> pairs;
  const int gpus = cluster.gpus_per_node;
  if (!cluster.graph->shape->layout || cluster.graph->shape->layout->node_graph) {
    pairs = PairsOfNode(cluster);
  } else {
    if (gpus > 1) pairs.push_back({"same node", 0, 1});
    if (gpus > 1 && cluster.Route(0, gpus - 1).size() != cluster.Route(0, 1).size()) {
      pairs.push_back({"same node, far end", 0, gpus - 1});
    }
  }
  if (cluster.nodes == 1) return pairs;
  const bool same_domain = cluster.NvLinkDomainOf(0) == cluster.NvLinkDomainOf(gpus);
  if (same_domain) pairs.push_back({"other node, same NVLink domain", 0, GpuAt(cluster, 1, 0)});
  // The first node beyond each step outwards: another domain, another leaf, another pod.
  const std::optional<Layout>& layout = cluster.graph->shape->layout;
  const bool rails = layout && layout->rail_optimised;
  const std::string where = rails ? "other node, same rail" : "other node";
  std::size_t hops = 0;
  for (int node = 1; node < cluster.nodes; ++node) {
    const int peer = GpuAt(cluster, node, 0);
    if (cluster.NvLinkDomainOf(peer) == cluster.NvLinkDomainOf(0)) continue;
    const std::vector<int> route = cluster.Route(0, peer);
    if (route.size() <= hops) continue;
    const bool first = hops == 0;
    hops = route.size();
    bool spine = false;
    bool core = false;
    for (const int id : route) {
      const int to = cluster.links()[static_cast<std::size_t>(id)].to;
      spine = spine || cluster.vertices()[static_cast<std::size_t>(to)].kind == VertexKind::kSpine;
      core = core || cluster.vertices()[static_cast<std::size_t>(to)].kind == VertexKind::kCore;
    }
    pairs.push_back({where + (core ? ", over a core" : spine ? ", over a spine" : ""), 0, peer});
    if (first && rails && gpus > 1 && layout->Nic(0) != layout->Nic(gpus - 1))
      pairs.push_back({"other node, other rail", 0, peer + gpus - 1});
    if (core) break;
  }
  return pairs;
}

int CountVertices(const Cluster& cluster, VertexKind kind) {
  return static_cast<int>(std::count_if(cluster.vertices().begin(), cluster.vertices().end(),
                                        [&](const Vertex& vertex) { return vertex.kind == kind; }));
}

std::string VertexNameAt(const Cluster& cluster, int vertex) {
  return VertexName(cluster.vertices()[static_cast<std::size_t>(vertex)]);
}

void CheckGpu(const Cluster& cluster, int gpu) {
  if (gpu >= 0 && gpu < cluster.GpuCount()) return;
  ThrowInput(507, "there is no GPU " + std::to_string(gpu) + " in " + cluster.name,
             "GPUs are numbered 0 … " + std::to_string(cluster.GpuCount() - 1) + ", node by node",
             ExitCode::kUsage);
}

}  // namespace aurum
