#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/core/units.h"
#include "topologies/render_text.h"

namespace aurum {
namespace {

constexpr int kMostDrawn = 100;  // parts of a node

class NodeDrawing {
 public:
  NodeDrawing(const Cluster& cluster, const Layout& at)
      : cluster_(cluster), graph_(*at.node_graph) {
    for (std::size_t id = 0; id < graph_.links.size(); id += 2) {
      cables_[graph_.links[id].from].push_back(id);
      cables_[graph_.links[id].to].push_back(id);
    }
  }

  std::string Draw() {
    for (std::size_t v = 0; v < graph_.vertices.size(); ++v) {
      if (graph_.vertices[v].kind == VertexKind::kCpu) Branch(static_cast<int>(v), 4, "");
    }
    for (std::size_t v = 0; v < graph_.vertices.size(); ++v) {
      if (!drawn_.contains(static_cast<int>(v)) && graph_.vertices[v].kind != VertexKind::kNvSwitch)
        Branch(static_cast<int>(v), 4, "");
    }
    Sockets();
    GpuLinks();
    return text_;
  }

 private:
  double Rate(std::size_t link) const { return cluster_.links()[link].bandwidth_bytes_per_s; }

  std::string Name(int v) const {
    const NodeVertex& vertex = graph_.vertices[static_cast<std::size_t>(v)];
    std::string label;
    for (const char c : vertex.label) label += c >= ' ' && c <= '~' ? c : '?';
    if (label.size() > 40) label = label.substr(0, 37) + "...";
    return std::string(VertexKindName(vertex.kind)) + std::to_string(vertex.index) +
           (label.empty() ? "" : " (" + label + ")");
  }

  void Line(const std::string& left, const std::string& right) {
    std::string line = PadRight(left, 44) + "  " + right;
    line.erase(line.find_last_not_of(' ') + 1);
    if (line.size() > 100) line = line.substr(0, 97) + "...";
    text_ += line + "\n";
  }

  // A part and what hangs below it, by PCIe or chip to chip; the GPU's own links stand beside it.
  void Branch(int v, std::size_t indent, const std::string& cable) {
    if (!drawn_.insert(v).second) return;
    Line(std::string(std::min<std::size_t>(indent, 30), ' ') + Name(v), cable + Remarks(v));
    const auto found = cables_.find(v);
    if (found == cables_.end()) return;
    for (const std::size_t id : found->second) {
      const Link& link = graph_.links[id];
      if (link.kind != LinkKind::kPcie && link.kind != LinkKind::kChipToChip) continue;
      const int other = link.from == v ? link.to : link.from;
      if (graph_.vertices[static_cast<std::size_t>(other)].kind == VertexKind::kCpu) continue;
      Branch(other, indent + 2, ShowGbPerS(Rate(id)) + " " + std::string(LinkKindName(link.kind)));
    }
  }

  std::string Remarks(int v) const {
    const NodeVertex& vertex = graph_.vertices[static_cast<std::size_t>(v)];
    std::string text;
    if (vertex.kind == VertexKind::kGpu) {
      for (const std::size_t id : Cables(v)) {
        const Link& link = graph_.links[id];
        const int other = link.from == v ? link.to : link.from;
        if (graph_.vertices[static_cast<std::size_t>(other)].kind == VertexKind::kNvSwitch)
          text += ", " + ShowGbPerS(Rate(id)) + " to NVSwitches";
      }
    }
    if (vertex.kind == VertexKind::kNic) {
      text += ", " + ShowFigure(vertex.nic_bytes_per_s * 8 / kGiga) + " Gbit/s, ";
      text += Served(v);
    }
    if (!vertex.gpu_direct) text += ", no GPUDirect";
    return text;
  }

  // "serves GPU 0-3 6".
  std::string Served(int nic) const {
    std::string text;
    const int gpus = graph_.gpu_count();
    const auto serves = [&](int g) {
      return g >= 0 && g < gpus &&
             graph_.nics[static_cast<std::size_t>(
                 graph_.nic_of_gpu[static_cast<std::size_t>(g)])] == nic;
    };
    for (int g = 0; g < gpus; ++g) {
      if (!serves(g)) continue;
      if (!serves(g - 1)) text += " " + std::to_string(g);
      if (serves(g - 1) && !serves(g + 1)) text += "-" + std::to_string(g);
    }
    return text.empty() ? "serves no GPU" : "serves GPU" + text;
  }

  std::vector<std::size_t> Cables(int v) const {
    const auto found = cables_.find(v);
    return found == cables_.end() ? std::vector<std::size_t>() : found->second;
  }

  void Sockets() {
    std::map<double, int> rates;
    for (std::size_t id = 0; id < graph_.links.size(); id += 2) {
      if (graph_.links[id].kind == LinkKind::kInterSocket) ++rates[Rate(id)];
    }
    for (const auto& [rate, pairs] : rates)
      Line("    between CPUs, " + ShowCount(pairs, "pair", "pairs"),
           ShowGbPerS(rate) + " inter-socket");
  }

  // GPU to GPU, one line per GPU and rate.
  void GpuLinks() {
    for (const int v : graph_.gpus) {
      std::map<double, std::string> others;
      LinkKind kind = LinkKind::kNvLink;
      for (const std::size_t id : Cables(v)) {
        const Link& link = graph_.links[id];
        const int other = link.from == v ? link.to : link.from;
        const NodeVertex& end = graph_.vertices[static_cast<std::size_t>(other)];
        if (!IsGpuLink(link.kind) || end.kind != VertexKind::kGpu) continue;
        kind = link.kind;
        others[Rate(id)] += " " + std::to_string(end.index);
      }
      for (const auto& [rate, gpus] : others) {
        Line("    gpu" + std::to_string(graph_.vertices[static_cast<std::size_t>(v)].index) +
                 " to GPU" + gpus,
             ShowGbPerS(rate) + " " + std::string(LinkKindName(kind)) + " each");
      }
    }
  }

  const Cluster& cluster_;
  const NodeGraph& graph_;
  std::map<int, std::vector<std::size_t>> cables_;  // by vertex; ids of their first direction
  std::set<int> drawn_;
  std::string text_;
};

}  // namespace

std::string DrawNodeGraph(const Cluster& cluster, const Layout& at) {
  const NodeGraph& graph = *at.node_graph;
  std::string text = "  node 0";
  if (at.nodes > 1) text += " (all " + std::to_string(at.nodes) + " are alike)";
  text += "\n";
  if (graph.vertices.size() > static_cast<std::size_t>(kMostDrawn)) {
    return text + "    " + ShowCount(at.gpus, "GPU", "GPUs") + " and " +
           std::to_string(graph.vertices.size() - graph.gpus.size()) + " other parts, " +
           std::to_string(graph.cable_sources.size()) + " cables\n";
  }
  text += NodeDrawing(cluster, at).Draw();
  if (!graph.peer_to_peer)
    text += "    no peer-to-peer: over PCIe, GPUs reach each other through a CPU\n";
  return text;
}

}  // namespace aurum
