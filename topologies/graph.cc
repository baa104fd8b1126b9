#include "topologies/graph.h"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/connected_components.hpp>
#include <boost/graph/strong_components.hpp>
#include <cassert>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>

namespace aurum {

// The edge property is the link id.
struct Adjacency {
  using Graph =
      boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, int,
                                         boost::no_property, std::uint32_t, std::uint32_t>;
  Graph graph;
};

namespace {

std::shared_ptr<const Adjacency> MakeAdjacency(std::size_t vertices,
                                               const std::vector<Link>& links) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> ends;
  ends.reserve(links.size());
  for (const Link& link : links) {
    ends.emplace_back(static_cast<std::uint32_t>(link.from), static_cast<std::uint32_t>(link.to));
  }
  std::vector<int> ids(links.size());
  std::iota(ids.begin(), ids.end(), 0);
  auto adjacency = std::make_shared<Adjacency>();
  adjacency->graph =
      Adjacency::Graph(boost::edges_are_unsorted_multi_pass, ends.begin(), ends.end(), ids.begin(),
                       static_cast<std::uint32_t>(vertices));
  return adjacency;
}

std::vector<int> NvLinkDomains(const std::vector<Vertex>& vertices,
                               const std::vector<Link>& links) {
  boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS> nvlinks(vertices.size());
  for (const Link& link : links) {
    if (IsGpuLink(link.kind)) boost::add_edge(link.from, link.to, nvlinks);
  }
  std::vector<int> component(vertices.size());
  boost::connected_components(
      nvlinks, boost::make_iterator_property_map(component.begin(),
                                                 boost::get(boost::vertex_index, nvlinks)));
  // Domains are named in the order of their first GPU.
  std::vector<int> domains;
  std::vector<int> name(vertices.size(), -1);
  int next = 0;
  for (std::size_t v = 0; v < vertices.size() && vertices[v].kind == VertexKind::kGpu; ++v) {
    if (boost::degree(v, nvlinks) == 0) {
      domains.push_back(-1);
      continue;
    }
    int& known = name[static_cast<std::size_t>(component[v])];
    if (known < 0) known = next++;
    domains.push_back(known);
  }
  return domains;
}

// Emits cables in the order of the layout, both directions each.
class CableList {
 public:
  explicit CableList(int cables) { links_.reserve(2 * static_cast<std::size_t>(cables)); }
  void Add(int child, int parent, LinkKind kind, double bandwidth, double latency) {
    links_.push_back({child, parent, kind, bandwidth, latency});
    links_.push_back({parent, child, kind, bandwidth, latency});
  }
  void Add(int child, int parent, LinkKind kind, const LinkSpec& spec) {
    Add(child, parent, kind, spec.bandwidth_bytes_per_s, spec.latency_s);
  }
  int cables() const { return static_cast<int>(links_.size() / 2); }
  std::vector<Link> Take() { return std::move(links_); }

 private:
  std::vector<Link> links_;
};

void AddVertices(VertexKind kind, int nodes, int per_node, std::vector<Vertex>* vertices) {
  for (int node = 0; node < nodes; ++node) {
    for (int i = 0; i < per_node; ++i) vertices->push_back({kind, node, i});
  }
}

void AddSwitches(VertexKind kind, int count, std::vector<Vertex>* vertices) {
  for (int i = 0; i < count; ++i) vertices->push_back({kind, -1, i});
}

std::vector<Vertex> LayOutNodes(const Layout& at) {
  std::vector<Vertex> vertices;
  vertices.reserve(static_cast<std::size_t>(at.vertex_count));
  AddVertices(VertexKind::kGpu, at.nodes, at.gpus, &vertices);
  if (at.node_graph) {
    for (int node = 0; node < at.nodes; ++node) {
      for (const int v : at.node_graph->others) {
        const NodeVertex& vertex = at.node_graph->vertices[static_cast<std::size_t>(v)];
        vertices.push_back({vertex.kind, node, vertex.index});
      }
    }
    return vertices;
  }
  if (at.domain_nodes == 1) {
    AddVertices(VertexKind::kNvSwitch, at.domains, 1, &vertices);
  } else {
    AddSwitches(VertexKind::kNvSwitch, at.domains, &vertices);
  }
  AddVertices(VertexKind::kPcieSwitch, at.nodes, at.pcie_switches, &vertices);
  AddVertices(VertexKind::kCpu, at.nodes, at.sockets, &vertices);
  AddVertices(VertexKind::kNic, at.nodes, at.nics, &vertices);
  return vertices;
}

std::vector<Vertex> LayOutVertices(const Layout& at) {
  std::vector<Vertex> vertices = LayOutNodes(at);
  AddSwitches(VertexKind::kLeaf, at.leaves, &vertices);
  AddSwitches(VertexKind::kSpine, at.spines, &vertices);
  AddSwitches(VertexKind::kCore, at.cores, &vertices);
  assert(static_cast<int>(vertices.size()) == at.vertex_count);
  return vertices;
}

void AddGraphCables(const Layout& at, int node, CableList* cables) {
  const std::vector<Link>& links = at.node_graph->links;
  for (std::size_t id = 0; id < links.size(); id += 2) {
    const Link& link = links[id];
    cables->Add(at.GraphVertex(node, link.from), at.GraphVertex(node, link.to), link.kind,
                link.bandwidth_bytes_per_s, link.latency_s);
  }
}

void AddNodeCables(const NodeSpec& spec, const Layout& at, int node, CableList* cables) {
  if (at.node_graph) {
    AddGraphCables(at, node, cables);
    return;
  }
  const auto gpu_host = [&](int local) {
    const int pcie_switch = at.PcieSwitch(local);
    return pcie_switch >= 0 ? at.first_pcie + node * at.pcie_switches + pcie_switch
                            : at.first_cpu + node * at.sockets + at.Socket(local);
  };
  const int first_gpu = node * at.gpus;
  if (at.nvlink) {
    for (int g = 0; g < at.gpus; ++g) {
      cables->Add(first_gpu + g, at.first_nvswitch + at.Domain(node), LinkKind::kNvLink,
                  *spec.nvlink);
    }
  }
  for (int g = 0; g < at.gpus; ++g)
    cables->Add(first_gpu + g, gpu_host(g), spec.host_kind, spec.host);
  for (int p = 0; p < at.pcie_switches; ++p) {
    cables->Add(at.first_pcie + node * at.pcie_switches + p,
                at.first_cpu + node * at.sockets + at.SocketOfPcieSwitch(p), LinkKind::kPcie,
                *spec.pcie);
  }
  for (int x = 0; x < at.nics; ++x) {
    cables->Add(at.first_nic + node * at.nics + x, gpu_host(at.FirstGpuOfNic(x)), LinkKind::kPcie,
                *spec.pcie);
  }
  if (at.socket_pairs == 0) return;
  for (int a = 0; a < at.sockets; ++a) {
    for (int b = a + 1; b < at.sockets; ++b) {
      cables->Add(at.first_cpu + node * at.sockets + a, at.first_cpu + node * at.sockets + b,
                  LinkKind::kInterSocket, *spec.inter_socket);
    }
  }
}

void AddFabricCables(const ClusterSpec& spec, const Layout& at, CableList* cables) {
  const FabricSpec& fabric = *spec.fabric;
  for (int node = 0; node < at.nodes; ++node) {
    for (int x = 0; x < at.nics; ++x) {
      const double rate = at.node_graph ? at.node_graph
                                              ->vertices[static_cast<std::size_t>(
                                                  at.node_graph->nics[static_cast<std::size_t>(x)])]
                                              .nic_bytes_per_s
                                        : spec.node.nic_bytes_per_s;
      cables->Add(at.NicVertex(node, x), at.first_leaf + at.Leaf(node, x), LinkKind::kNetwork, rate,
                  fabric.nic_link_latency_s);
    }
  }
  for (int leaf = 0; leaf < at.leaves; ++leaf) {
    for (int j = 0; j < at.leaf_up; ++j) {
      cables->Add(at.first_leaf + leaf,
                  at.first_spine + at.Pod(leaf) * at.spines_per_pod + j % at.spines_per_pod,
                  LinkKind::kNetwork, fabric.switch_link_bytes_per_s, fabric.switch_link_latency_s);
    }
  }
  for (int spine = 0; spine < at.spines; ++spine) {
    for (int i = 0; i < at.spine_up; ++i) {
      cables->Add(
          at.first_spine + spine,
          at.first_core + spine % at.spines_per_pod * at.cores_per_group + i % at.cores_per_group,
          LinkKind::kNetwork, fabric.switch_link_bytes_per_s, fabric.switch_link_latency_s);
    }
  }
}

}  // namespace

std::shared_ptr<const ClusterGraph> MakeSearchedGraph(std::vector<Vertex> vertices,
                                                      std::vector<Link> links, bool spread) {
  auto shape = std::make_shared<ClusterShape>();
  shape->adjacency = MakeAdjacency(vertices.size(), links);
  shape->nvlink_domain = NvLinkDomains(vertices, links);
  shape->spread = spread;
  shape->vertices = std::move(vertices);
  auto graph = std::make_shared<ClusterGraph>();
  graph->shape = std::move(shape);
  graph->links = std::move(links);
  return graph;
}

std::shared_ptr<const ClusterGraph> GenerateGraph(const ClusterSpec& spec) {
  auto shape = std::make_shared<ClusterShape>();
  shape->spec = spec;
  shape->layout = MakeLayout(spec);
  const Layout& at = *shape->layout;
  shape->vertices = LayOutVertices(at);
  CableList cables(at.cable_count);
  for (int node = 0; node < at.nodes; ++node) AddNodeCables(spec.node, at, node, &cables);
  if (at.fabric) AddFabricCables(spec, at, &cables);
  assert(cables.cables() == at.cable_count);
  auto graph = std::make_shared<ClusterGraph>();
  graph->links = cables.Take();
  shape->adjacency = MakeAdjacency(shape->vertices.size(), graph->links);
  graph->shape = std::move(shape);
  return graph;
}

RouteSearch::RouteSearch(const ClusterGraph& graph, int src_vertex)
    : graph_(graph),
      src_(src_vertex),
      hops_(graph.shape->vertices.size(), kFar),
      width_(graph.shape->vertices.size(), 0),
      last_link_(graph.shape->vertices.size(), -1) {
  const Adjacency::Graph& adjacency = graph.shape->adjacency->graph;
  hops_[static_cast<std::size_t>(src_)] = 0;
  width_[static_cast<std::size_t>(src_)] = std::numeric_limits<double>::infinity();
  // Vertices are met by distance: when one is taken from the queue, its width and predecessor are
  // final, because every edge into it from the layer before has been seen.
  std::vector<int> queue = {src_};
  for (std::size_t head = 0; head < queue.size(); ++head) {
    const std::size_t from = static_cast<std::size_t>(queue[head]);
    const auto edges = boost::out_edges(static_cast<std::uint32_t>(from), adjacency);
    for (auto edge = edges.first; edge != edges.second; ++edge) {
      const int id = adjacency[*edge];
      const Link& link = graph.links[static_cast<std::size_t>(id)];
      const std::size_t to = static_cast<std::size_t>(link.to);
      if (hops_[to] < hops_[from] + 1 || !Passes(static_cast<int>(from), link)) continue;
      if (hops_[to] == kFar) {
        hops_[to] = hops_[from] + 1;
        queue.push_back(link.to);
      }
      const double through = std::min(width_[from], link.bandwidth_bytes_per_s);
      const bool better = through > width_[to] ||
                          (through == width_[to] && last_link_[to] >= 0 && id < last_link_[to]);
      if (!better) continue;
      width_[to] = through;
      last_link_[to] = id;
    }
  }
}

bool RouteSearch::Passes(int vertex, const Link& next) const {
  if (vertex == src_) return true;
  const auto kind_of = [&](int v) {
    return graph_.shape->vertices[static_cast<std::size_t>(v)].kind;
  };
  const int last = last_link_[static_cast<std::size_t>(vertex)];
  assert(last >= 0);
  const LinkKind arrived = graph_.links[static_cast<std::size_t>(last)].kind;
  switch (kind_of(vertex)) {
    case VertexKind::kNic:
      return arrived == LinkKind::kNetwork || next.kind == LinkKind::kNetwork;
    case VertexKind::kGpu:
      return Hops(vertex) == 1 && IsGpuLink(arrived) && IsGpuLink(next.kind) &&
             kind_of(src_) == VertexKind::kGpu && kind_of(next.to) == VertexKind::kGpu;
    default:
      return true;
  }
}

std::vector<int> RouteSearch::Path(int dst) const {
  std::vector<int> route;
  if (dst == src_ || !Reaches(dst)) return route;
  for (int at = dst; at != src_;) {
    const int id = last_link_[static_cast<std::size_t>(at)];
    route.push_back(id);
    at = graph_.links[static_cast<std::size_t>(id)].from;
  }
  std::reverse(route.begin(), route.end());
  return route;
}

std::vector<std::vector<int>> RouteSearch::Paths(int dst, int most) const {
  std::vector<std::vector<int>> paths;
  if (dst == src_ || !Reaches(dst)) return paths;
  // Backwards over every link that ends a shortest and widest way, in the order of the ids. All of
  // them lead to the source, so no step is in vain.
  const Adjacency::Graph& adjacency = graph_.shape->adjacency->graph;
  const auto ways_into = [&](int at) {
    std::vector<int> ways;
    const auto edges = boost::out_edges(static_cast<std::uint32_t>(at), adjacency);
    for (auto edge = edges.first; edge != edges.second; ++edge) {
      const int id = adjacency[*edge] ^ 1;  // the cable's other direction
      const Link& link = graph_.links[static_cast<std::size_t>(id)];
      const std::size_t from = static_cast<std::size_t>(link.from);
      if (hops_[from] == kFar || hops_[from] + 1 != Hops(at) || !Passes(link.from, link)) continue;
      if (std::min(width_[from], link.bandwidth_bytes_per_s) == Width(at)) ways.push_back(id);
    }
    std::sort(ways.begin(), ways.end());
    return ways;
  };
  struct Step {
    std::vector<int> ways;
    std::size_t next = 0;
  };
  std::vector<Step> steps = {{ways_into(dst)}};
  while (!steps.empty() && static_cast<int>(paths.size()) < most) {
    Step& step = steps.back();
    if (step.next == step.ways.size()) {
      steps.pop_back();
      continue;
    }
    const int from = graph_.links[static_cast<std::size_t>(step.ways[step.next++])].from;
    if (from != src_) {
      steps.push_back({ways_into(from)});
      continue;
    }
    std::vector<int>& path = paths.emplace_back();
    for (auto s = steps.rbegin(); s != steps.rend(); ++s) path.push_back(s->ways[s->next - 1]);
  }
  return paths;
}

std::vector<int> SearchRoute(const ClusterGraph& graph, int src_vertex, int dst_vertex) {
  return RouteSearch(graph, src_vertex).Path(dst_vertex);
}

bool StronglyConnected(const ClusterGraph& graph) {
  std::vector<std::uint32_t> component(graph.shape->vertices.size());
  if (component.empty()) return true;
  const auto& adjacency = graph.shape->adjacency->graph;
  return boost::strong_components(
             adjacency, boost::make_iterator_property_map(
                            component.begin(), boost::get(boost::vertex_index, adjacency))) == 1;
}

}  // namespace aurum
