#include "topologies/graph.h"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/breadth_first_search.hpp>
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

constexpr int kFar = std::numeric_limits<int>::max();  // hops to what no link reaches

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
    if (link.kind == LinkKind::kNvLink) boost::add_edge(link.from, link.to, nvlinks);
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

std::vector<Vertex> LayOutVertices(const Layout& at) {
  std::vector<Vertex> vertices;
  vertices.reserve(static_cast<std::size_t>(at.vertex_count));
  AddVertices(VertexKind::kGpu, at.nodes, at.gpus, &vertices);
  if (at.domain_nodes == 1) {
    AddVertices(VertexKind::kNvSwitch, at.domains, 1, &vertices);
  } else {
    AddSwitches(VertexKind::kNvSwitch, at.domains, &vertices);
  }
  AddVertices(VertexKind::kPcieSwitch, at.nodes, at.pcie_switches, &vertices);
  AddVertices(VertexKind::kCpu, at.nodes, at.sockets, &vertices);
  AddVertices(VertexKind::kNic, at.nodes, at.nics, &vertices);
  AddSwitches(VertexKind::kLeaf, at.leaves, &vertices);
  AddSwitches(VertexKind::kSpine, at.spines, &vertices);
  AddSwitches(VertexKind::kCore, at.cores, &vertices);
  assert(static_cast<int>(vertices.size()) == at.vertex_count);
  return vertices;
}

void AddNodeCables(const NodeSpec& spec, const Layout& at, int node, CableList* cables) {
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
      cables->Add(at.first_nic + node * at.nics + x, at.first_leaf + at.Leaf(node, x),
                  LinkKind::kNetwork, spec.node.nic_bytes_per_s, fabric.nic_link_latency_s);
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
                                                      std::vector<Link> links) {
  auto shape = std::make_shared<ClusterShape>();
  shape->adjacency = MakeAdjacency(vertices.size(), links);
  shape->nvlink_domain = NvLinkDomains(vertices, links);
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

std::vector<int> SearchRoute(const ClusterGraph& graph, int src_vertex, int dst_vertex) {
  const Adjacency::Graph& adjacency = graph.shape->adjacency->graph;
  const std::size_t count = graph.shape->vertices.size();
  std::vector<int> hops(count, kFar);
  hops[static_cast<std::size_t>(src_vertex)] = 0;
  // A breadth-first search meets vertices by distance: when one is examined, its width and
  // predecessor are final, because every edge into it from the layer before has been seen.
  std::vector<double> width(count, 0);
  width[static_cast<std::size_t>(src_vertex)] = std::numeric_limits<double>::infinity();
  std::vector<int> last_link(count, -1);
  struct Widest : boost::default_bfs_visitor {
    const std::vector<Link>* links;
    std::vector<int>* hops;
    std::vector<double>* width;
    std::vector<int>* last_link;
    void examine_edge(Adjacency::Graph::edge_descriptor edge,
                      const Adjacency::Graph& g) {  // NOLINT(readability-identifier-naming)
      const std::size_t from = boost::source(edge, g);
      const std::size_t to = boost::target(edge, g);
      if ((*hops)[to] < (*hops)[from] + 1) return;
      (*hops)[to] = (*hops)[from] + 1;
      const int id = g[edge];
      const double through =
          std::min((*width)[from], (*links)[static_cast<std::size_t>(id)].bandwidth_bytes_per_s);
      const bool better =
          through > (*width)[to] ||
          (through == (*width)[to] && (*last_link)[to] >= 0 && id < (*last_link)[to]);
      if (!better) return;
      (*width)[to] = through;
      (*last_link)[to] = id;
    }
  };
  Widest visitor;
  visitor.links = &graph.links;
  visitor.hops = &hops;
  visitor.width = &width;
  visitor.last_link = &last_link;
  boost::breadth_first_search(adjacency, static_cast<std::uint32_t>(src_vertex),
                              boost::visitor(visitor));

  std::vector<int> route;
  if (src_vertex == dst_vertex || last_link[static_cast<std::size_t>(dst_vertex)] < 0) return route;
  for (int at = dst_vertex; at != src_vertex;) {
    const int id = last_link[static_cast<std::size_t>(at)];
    route.push_back(id);
    at = graph.links[static_cast<std::size_t>(id)].from;
  }
  std::reverse(route.begin(), route.end());
  return route;
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
