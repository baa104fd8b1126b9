#include "topologies/summary.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "topologies/graph.h"

namespace aurum {
namespace {

// The first GPU of `node`, at `local`.
int GpuAt(const Cluster& cluster, int node, int local) {
  return node * cluster.gpus_per_node + local;
}

}  // namespace

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
  if (gpus > 1) pairs.push_back({"same node", 0, 1});
  if (gpus > 1 && cluster.Route(0, gpus - 1).size() != cluster.Route(0, 1).size()) {
    pairs.push_back({"same node, far end", 0, gpus - 1});
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
    if (first && rails && gpus > 1) pairs.push_back({"other node, other rail", 0, peer + gpus - 1});
    if (core) break;
  }
  return pairs;
}

int CountVertices(const Cluster& cluster, VertexKind kind) {
  return static_cast<int>(std::count_if(cluster.vertices().begin(), cluster.vertices().end(),
                                        [&](const Vertex& vertex) { return vertex.kind == kind; }));
}

}  // namespace aurum
