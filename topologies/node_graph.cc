#include "topologies/node_graph.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <string>
#include <unordered_map>
#include <utility>

#include "sim/core/units.h"
#include "topologies/graph.h"

namespace aurum {
namespace {

constexpr VertexKind kNodeKinds[] = {VertexKind::kGpu, VertexKind::kNvSwitch,
                                     VertexKind::kPcieSwitch, VertexKind::kCpu, VertexKind::kNic};
constexpr LinkKind kCableKinds[] = {LinkKind::kNvLink, LinkKind::kXgmi, LinkKind::kPcie,
                                    LinkKind::kInterSocket, LinkKind::kChipToChip};
constexpr std::size_t kMostVertices = 4096;
constexpr std::size_t kMostCables = 16384;
constexpr int kMostGpus = 256;

// Kinds of ends that a cable may have, so that a slip of the pen does not become a machine.
bool Fits(LinkKind kind, VertexKind a, VertexKind b) {
  const auto gpu_side = [](VertexKind v) {
    return v == VertexKind::kGpu || v == VertexKind::kNvSwitch;
  };
  switch (kind) {
    case LinkKind::kNvLink:
    case LinkKind::kXgmi:
      return gpu_side(a) && gpu_side(b);
    case LinkKind::kPcie:
      return a != VertexKind::kNvSwitch && b != VertexKind::kNvSwitch &&
             (a == VertexKind::kCpu || a == VertexKind::kPcieSwitch || b == VertexKind::kCpu ||
              b == VertexKind::kPcieSwitch);
    case LinkKind::kInterSocket:
      return a == VertexKind::kCpu && b == VertexKind::kCpu;
    case LinkKind::kChipToChip:
      return (a == VertexKind::kGpu && b == VertexKind::kCpu) ||
             (a == VertexKind::kCpu && b == VertexKind::kGpu);
    case LinkKind::kNetwork:
      return false;
  }
  return false;
}

void ReadVertices(ObjectReader* reader, NodeGraph* graph,
                  std::unordered_map<std::string, int>* by_name) {
  std::vector<std::string> kinds;
  for (const VertexKind kind : kNodeKinds) kinds.emplace_back(VertexKindName(kind));
  std::unordered_map<int, int> count;
  for (ObjectReader& item : reader->Objects("vertices")) {
    NodeVertex vertex;
    vertex.name = item.String("name");
    vertex.kind = kNodeKinds[item.Choice("kind", kinds)];
    vertex.index = count[static_cast<int>(vertex.kind)]++;
    vertex.label = item.String("label", "");
    if (vertex.kind == VertexKind::kNic) {
      const double gbit_per_s = item.Number("gbit_per_s", 0, 1e6);
      if (gbit_per_s <= 0) item.Fail(107, "gbit_per_s", "a NIC of rate 0 never delivers");
      vertex.nic_bytes_per_s = BytesPerSecondFromGbit(gbit_per_s);
    }
    if (vertex.kind == VertexKind::kNic || vertex.kind == VertexKind::kGpu)
      vertex.gpu_direct = item.BoolOr("gpu_direct", true);
    item.Finish();
    if (!by_name->emplace(vertex.name, static_cast<int>(graph->vertices.size())).second) {
      item.Fail(520, "name", "two vertices are called '" + vertex.name + "'",
                "cables name their ends: give each its own name");
    }
    graph->vertices.push_back(std::move(vertex));
  }
  if (graph->vertices.size() > kMostVertices) {
    reader->Fail(107, "vertices", "a node of more than " + std::to_string(kMostVertices) + " parts",
                 "describe one node; 'nodes' says how many there are");
  }
}

void ReadCables(ObjectReader* reader, NodeGraph* graph,
                const std::unordered_map<std::string, int>& by_name) {
  std::vector<std::string> kinds;
  for (const LinkKind kind : kCableKinds) kinds.emplace_back(CableKindKey(kind));
  for (ObjectReader& item : reader->Objects("cables")) {
    Link link;
    const auto end = [&](const char* key) {
      const std::string name = item.String(key);
      const auto found = by_name.find(name);
      if (found != by_name.end()) return found->second;
      std::vector<std::string> names;
      for (const NodeVertex& vertex : graph->vertices) names.push_back(vertex.name);
      const std::string nearest = NearestName(name, names);
      item.Fail(521, key, "there is no vertex '" + name + "'",
                nearest.empty() ? "name one of 'vertices'" : "did you mean '" + nearest + "'?");
    };
    link.from = end("from");
    link.to = end("to");
    link.kind = kCableKinds[item.Choice("kind", kinds)];
    link.bandwidth_bytes_per_s = item.Number("gb_per_s_per_direction", 0, 1e6) * kGiga;
    if (link.bandwidth_bytes_per_s <= 0)
      item.Fail(107, "gb_per_s_per_direction", "a cable of rate 0 never delivers",
                "leave it out if there is no such cable");
    link.latency_s = item.Number("latency_us", 0, 1e6) * 1e-6;
    graph->cable_sources.push_back(item.String("source"));
    item.Finish();
    const VertexKind a = graph->vertices[static_cast<std::size_t>(link.from)].kind;
    const VertexKind b = graph->vertices[static_cast<std::size_t>(link.to)].kind;
    if (link.from == link.to || !Fits(link.kind, a, b)) {
      item.Fail(522, "kind",
                "no " + std::string(CableKindKey(link.kind)) + " goes " +
                    (link.from == link.to ? "from a vertex to itself"
                                          : "from a " + std::string(VertexKindName(a)) + " to a " +
                                                std::string(VertexKindName(b))),
                "nvlink and xgmi join GPUs and NVSwitches; pcie ends at a CPU or a PCIe switch; "
                "inter_socket joins CPUs; chip_to_chip a CPU and a GPU");
    }
    graph->links.push_back(link);
    std::swap(link.from, link.to);
    graph->links.push_back(link);
  }
  if (graph->cable_sources.size() > kMostCables) {
    reader->Fail(107, "cables", "a node of more than " + std::to_string(kMostCables) + " cables",
                 "describe one node; 'nodes' says how many there are");
  }
}

// Finds the routes of a node, and says what is wrong with it.
class Router {
 public:
  Router(const ObjectReader& reader, NodeGraph* graph) : reader_(reader), graph_(*graph) {
    std::vector<Vertex> vertices;
    for (const NodeVertex& v : graph_.vertices) vertices.push_back({v.kind, 0, v.index});
    searched_ = MakeSearchedGraph(std::move(vertices), graph_.links);
  }

  void Route() {
    for (std::size_t v = 0; v < graph_.vertices.size(); ++v) {
      const bool gpu = graph_.vertices[v].kind == VertexKind::kGpu;
      std::vector<int>& list = gpu ? graph_.gpus : graph_.others;
      graph_.place.push_back(static_cast<int>(list.size()));
      list.push_back(static_cast<int>(v));
      if (graph_.vertices[v].kind == VertexKind::kNic) nics_.push_back(static_cast<int>(v));
    }
    if (graph_.gpus.empty())
      reader_.Fail(523, "vertices", "this node has no GPU", "add a vertex of kind 'gpu'");
    if (graph_.gpu_count() > kMostGpus)
      reader_.Fail(107, "vertices", "a node of more than " + std::to_string(kMostGpus) + " GPUs",
                   "describe one node; 'nodes' says how many there are");
    for (const int gpu : graph_.gpus) from_gpu_.emplace_back(*searched_, gpu);
    RouteGpus();
    NameDomains();
    if (!nics_.empty()) {
      ChooseNics();
      RouteNics();
    } else {
      graph_.nic_of_gpu.assign(graph_.gpus.size(), -1);
    }
  }

 private:
  const NodeVertex& At(int v) const { return graph_.vertices[static_cast<std::size_t>(v)]; }

  std::vector<int> Checked(std::vector<int> path, int from, int to) const {
    if (path.empty()) {
      reader_.Fail(524, "cables", "no path from '" + At(from).name + "' to '" + At(to).name + "'",
                   "add the cables that join them; a NIC does not forward, and a GPU only from GPU "
                   "to GPU");
    }
    if (path.size() > static_cast<std::size_t>(kMostNodeHops)) {
      reader_.Fail(525, "cables",
                   "the path from '" + At(from).name + "' to '" + At(to).name + "' has " +
                       std::to_string(path.size()) + " hops",
                   "no machine has more than " + std::to_string(kMostNodeHops));
    }
    return path;
  }

  // The CPU that is nearest to a device, -1 if none can be reached.
  int NearestCpu(const RouteSearch& search) const {
    int best = -1;
    for (const int v : graph_.others) {
      if (At(v).kind != VertexKind::kCpu || !search.Reaches(v)) continue;
      if (best < 0 || search.Hops(v) < search.Hops(best)) best = v;
    }
    return best;
  }

  // Up to the nearest CPU of `from`, then down.
  std::vector<int> Bounce(const RouteSearch& search, int from, int to) const {
    const int cpu = NearestCpu(search);
    if (cpu < 0) return Checked({}, from, to);
    std::vector<int> path = search.Path(cpu);
    const std::vector<int> down = SearchRoute(*searched_, cpu, to);
    if (down.empty()) return Checked({}, from, to);
    path.insert(path.end(), down.begin(), down.end());
    return path;
  }

  bool OverGpuLinks(const std::vector<int>& path) const {
    return std::all_of(path.begin(), path.end(), [&](int id) {
      return IsGpuLink(graph_.links[static_cast<std::size_t>(id)].kind);
    });
  }

  void RouteGpus() {
    for (std::size_t src = 0; src < graph_.gpus.size(); ++src) {
      const RouteSearch& search = from_gpu_[src];
      for (std::size_t dst = 0; dst < graph_.gpus.size(); ++dst) {
        std::vector<std::vector<int>>& paths = graph_.gpu_to_gpu.emplace_back();
        if (src == dst) continue;
        const int from = graph_.gpus[src];
        const int to = graph_.gpus[dst];
        paths = search.Paths(to, kMostNodePaths);
        if (paths.empty()) paths.push_back(Checked({}, from, to));
        if (!graph_.peer_to_peer && !OverGpuLinks(paths.front()))
          paths = {Bounce(search, from, to)};
        for (const std::vector<int>& path : paths) Checked(path, from, to);
      }
    }
  }

  // A domain is a component of GPU links in which nobody needs to leave them.
  void NameDomains() {
    const std::size_t n = graph_.gpus.size();
    graph_.domain_of_gpu.assign(n, -1);
    const auto joined = [&](std::size_t a, std::size_t b) {
      return OverGpuLinks(graph_.gpu_to_gpu[a * n + b].front()) &&
             OverGpuLinks(graph_.gpu_to_gpu[b * n + a].front());
    };
    for (std::size_t first = 0; first < n; ++first) {
      if (graph_.domain_of_gpu[first] >= 0) continue;
      std::vector<std::size_t> members = {first};
      for (std::size_t other = first + 1; other < n; ++other) {
        if (graph_.domain_of_gpu[other] < 0 &&
            std::all_of(members.begin(), members.end(),
                        [&](std::size_t member) { return joined(member, other); })) {
          members.push_back(other);
        }
      }
      if (members.size() < 2) continue;
      for (const std::size_t member : members) graph_.domain_of_gpu[member] = graph_.domains;
      ++graph_.domains;
    }
  }

  std::vector<int> ToNic(std::size_t gpu, int nic) const {
    const int from = graph_.gpus[gpu];
    if (!At(from).gpu_direct || !At(nic).gpu_direct) return Bounce(from_gpu_[gpu], from, nic);
    return from_gpu_[gpu].Path(nic);
  }

  // NCCL's rule (ncclTopoGetLocal, src/graph/topo.cc): the most bandwidth, then the nearest. Where
  // several are as good, the one with the fewest GPUs, then the first.
  void ChooseNics() {
    std::vector<int> users(graph_.vertices.size(), 0);
    std::vector<int> chosen;
    for (std::size_t g = 0; g < graph_.gpus.size(); ++g) {
      int best = -1;
      for (const int nic : nics_) {
        if (!from_gpu_[g].Reaches(nic)) continue;
        if (best < 0 || Better(from_gpu_[g], nic, best, users)) best = nic;
      }
      if (best < 0) Checked({}, graph_.gpus[g], nics_.front());
      ++users[static_cast<std::size_t>(best)];
      chosen.push_back(best);
    }
    for (const int nic : nics_) {
      if (users[static_cast<std::size_t>(nic)] > 0) graph_.nics.push_back(nic);
    }
    for (const int nic : chosen) {
      const auto found = std::find(graph_.nics.begin(), graph_.nics.end(), nic);
      graph_.nic_of_gpu.push_back(static_cast<int>(found - graph_.nics.begin()));
    }
  }

  bool Better(const RouteSearch& search, int a, int b, const std::vector<int>& users) const {
    const double rate_a = std::min(search.Width(a), At(a).nic_bytes_per_s);
    const double rate_b = std::min(search.Width(b), At(b).nic_bytes_per_s);
    if (rate_a != rate_b) return rate_a > rate_b;
    if (search.Hops(a) != search.Hops(b)) return search.Hops(a) < search.Hops(b);
    return users[static_cast<std::size_t>(a)] < users[static_cast<std::size_t>(b)];
  }

  void RouteNics() {
    for (std::size_t g = 0; g < graph_.gpus.size(); ++g) {
      for (const int nic : graph_.nics)
        graph_.gpu_to_nic.push_back(Checked(ToNic(g, nic), graph_.gpus[g], nic));
    }
    for (const int nic : graph_.nics) {
      const RouteSearch search(*searched_, nic);
      for (const int gpu : graph_.gpus) {
        const bool direct = At(gpu).gpu_direct && At(nic).gpu_direct;
        graph_.nic_to_gpu.push_back(
            Checked(direct ? search.Path(gpu) : Bounce(search, nic, gpu), nic, gpu));
      }
    }
  }

  const ObjectReader& reader_;
  NodeGraph& graph_;
  std::shared_ptr<const ClusterGraph> searched_;
  std::vector<RouteSearch> from_gpu_;
  std::vector<int> nics_;  // all of them
};

}  // namespace

int NodeGraph::CountOf(VertexKind kind) const {
  return static_cast<int>(std::count_if(vertices.begin(), vertices.end(),
                                        [&](const NodeVertex& v) { return v.kind == kind; }));
}

std::string_view CableKindKey(LinkKind kind) {
  switch (kind) {
    case LinkKind::kNvLink:
      return "nvlink";
    case LinkKind::kXgmi:
      return "xgmi";
    case LinkKind::kPcie:
      return "pcie";
    case LinkKind::kInterSocket:
      return "inter_socket";
    case LinkKind::kChipToChip:
      return "chip_to_chip";
    case LinkKind::kNetwork:
      return "network";
  }
  return "";
}

std::shared_ptr<const NodeGraph> ReadNodeGraph(ObjectReader* reader) {
  auto graph = std::make_shared<NodeGraph>();
  graph->peer_to_peer = reader->BoolOr("peer_to_peer", true);
  graph->spread = reader->ChoiceOr("equal_paths", 0, {"first", "spread"}) == 1;
  std::unordered_map<std::string, int> by_name;
  reader->Value("vertices");  // there, if only as an empty array
  reader->Value("cables");
  ReadVertices(reader, graph.get(), &by_name);
  ReadCables(reader, graph.get(), by_name);
  Router(*reader, graph.get()).Route();
  return graph;
}

Json NodeGraphJson(const NodeGraph& graph) {
  Json node = Json::Object();
  node.Set("kind", "graph");
  if (!graph.peer_to_peer) node.Set("peer_to_peer", false);
  if (graph.spread) node.Set("equal_paths", "spread");
  Json vertices = Json::Array();
  for (const NodeVertex& v : graph.vertices) {
    Json vertex = Json::Object();
    vertex.Set("name", v.name);
    vertex.Set("kind", VertexKindName(v.kind));
    if (!v.label.empty()) vertex.Set("label", v.label);
    if (v.kind == VertexKind::kNic) vertex.Set("gbit_per_s", v.nic_bytes_per_s * 8 / kGiga);
    if (!v.gpu_direct) vertex.Set("gpu_direct", false);
    vertices.Append(std::move(vertex));
  }
  node.Set("vertices", std::move(vertices));
  Json cables = Json::Array();
  for (std::size_t c = 0; c < graph.cable_sources.size(); ++c) {
    const Link& link = graph.links[2 * c];
    Json cable = Json::Object();
    cable.Set("from", graph.vertices[static_cast<std::size_t>(link.from)].name);
    cable.Set("to", graph.vertices[static_cast<std::size_t>(link.to)].name);
    cable.Set("kind", CableKindKey(link.kind));
    cable.Set("gb_per_s_per_direction", link.bandwidth_bytes_per_s / kGiga);
    cable.Set("latency_us", link.latency_s * 1e6);
    cable.Set("source", graph.cable_sources[c]);
    cables.Append(std::move(cable));
  }
  node.Set("cables", std::move(cables));
  return node;
}

}  // namespace aurum
