#include "topologies/render.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/core/units.h"
#include "topologies/graph.h"
#include "topologies/render_text.h"
#include "topologies/summary.h"

namespace aurum {
namespace {

constexpr int kDrawnGpus = 12;  // more do not fit the width

std::string Total(double bytes_per_s) {
  return bytes_per_s >= kTera ? ShowFigure(bytes_per_s / kTera) + " TB/s" : ShowGbPerS(bytes_per_s);
}

std::string Centred(const std::string& text, int width) {
  const int space = width - static_cast<int>(text.size());
  if (space <= 0) return text.substr(0, static_cast<std::size_t>(width));
  return std::string(static_cast<std::size_t>(space / 2), ' ') + text +
         std::string(static_cast<std::size_t>(space - space / 2), ' ');
}

// Rows of equal cells, one column per GPU, with a remark at the right.
class Drawing {
 public:
  explicit Drawing(int columns) : columns_(columns), cell_(columns <= 8 ? 8 : 6) {}

  // One label per group of columns, plain or in a box.
  void Labels(const std::vector<std::string>& labels, const std::string& remark = "") {
    const int width = Width(labels);
    std::string row;
    for (const std::string& label : labels) row += Centred(label, width);
    Row(row, remark);
  }
  void Boxes(const std::vector<std::string>& labels, const std::string& remark = "") {
    const int width = Width(labels);
    std::string row;
    for (const std::string& label : labels) row += "[" + Centred(label, width - 2) + "]";
    Row(row, remark);
  }
  void Stems(int groups, const std::string& remark) {
    Labels(std::vector<std::string>(static_cast<std::size_t>(groups), "|"), remark);
  }
  std::string Take() { return std::move(text_); }

 private:
  int Width(const std::vector<std::string>& labels) const {
    return cell_ * columns_ / static_cast<int>(labels.size());
  }
  void Row(const std::string& row, const std::string& remark) {
    std::string line =
        "    " + PadRight(row, static_cast<std::size_t>(std::max(cell_ * columns_, 16)));
    line += "  " + remark;
    line.erase(line.find_last_not_of(' ') + 1);
    text_ += line + "\n";
  }

  int columns_;
  int cell_;
  std::string text_;
};

std::vector<std::string> Numbered(const std::string& stem, int count) {
  std::vector<std::string> labels;
  for (int i = 0; i < count; ++i) labels.push_back(stem + std::to_string(i));
  return labels;
}

std::string LinkRemark(const Cluster& cluster, int cable) {
  const Link& link = cluster.links()[2 * static_cast<std::size_t>(cable)];
  return ShowGbPerS(link.bandwidth_bytes_per_s) + " " + std::string(LinkKindName(link.kind));
}

std::string DrawNode(const Cluster& cluster, const ClusterSpec& spec, const Layout& at) {
  if (at.node_graph) return DrawNodeGraph(cluster, at);
  std::string text = "  node 0";
  if (at.nodes > 1) text += " (all " + std::to_string(at.nodes) + " are alike)";
  text += "\n";
  if (at.gpus > kDrawnGpus) {
    return text + "    " + std::to_string(at.gpus) + " GPUs, " +
           ShowCount(at.pcie_switches, "PCIe switch", "PCIe switches") + ", " +
           ShowCount(at.sockets, "CPU", "CPUs") + ", " + ShowCount(at.nics, "NIC", "NICs") + "\n";
  }
  Drawing drawing(at.gpus);
  const int sockets = std::min(at.sockets, at.gpus);
  std::string cpus_remark;
  if (at.socket_pairs > 0) cpus_remark = LinkRemark(cluster, at.NodeCable(0, at.cpu_to_cpu, 0));
  drawing.Boxes(Numbered("CPU", sockets), cpus_remark);
  if (at.pcie_switches > 0) {
    drawing.Stems(at.pcie_switches, LinkRemark(cluster, at.NodeCable(0, at.pcie_to_cpu, 0)));
    drawing.Boxes(
        Numbered(at.pcie_switches == at.gpus ? "PCIe" : "PCIe switch ", at.pcie_switches));
  }
  drawing.Stems(at.gpus, LinkRemark(cluster, at.NodeCable(0, at.gpu_to_host, 0)));
  drawing.Labels(Numbered("GPU", at.gpus));
  if (at.nvlink) {
    drawing.Stems(at.gpus, LinkRemark(cluster, at.NodeCable(0, at.gpu_to_nvswitch, 0)));
    drawing.Boxes(
        {"NVSwitch plane, " + ShowCount(spec.node.nvswitches, "chip", "chips")},
        at.domain_nodes > 1 ? "shared by " + std::to_string(at.domain_nodes) + " nodes" : "");
  }
  text += drawing.Take();
  if (at.nics == 0) return text;
  text +=
      "    " + ShowCount(at.nics, "NIC", "NICs") + " on the " +
      (at.pcie_switches > 0 ? "PCIe switches" : "CPUs") + " by " +
      LinkRemark(cluster, at.NodeCable(0, at.nic_to_host, 0)) + ", one for " +
      (at.nics == at.gpus ? "each GPU" : "every " + std::to_string(at.gpus / at.nics) + " GPUs");
  if (!at.fabric) return text + ", connected to nothing\n";
  return text + ", " + LinkRemark(cluster, at.nic_to_leaf) + "\n";
}

std::string FabricLevel(const Cluster& cluster, const std::string& below, int each, int cable,
                        const std::string& above) {
  const Link& link = cluster.links()[2 * static_cast<std::size_t>(cable)];
  return "    " + PadRight(below, 13) + " -- " + PadLeft(std::to_string(each), 3) + " x " +
         ShowGbPerS(link.bandwidth_bytes_per_s) + ", " + ShowMicroseconds(link.latency_s) +
         " --> " + above + "\n";
}

std::string DrawFabric(const Cluster& cluster, const Layout& at) {
  if (!at.fabric) return "";
  const auto rate = [&](int cable) {
    return cluster.links()[2 * static_cast<std::size_t>(cable)].bandwidth_bytes_per_s;
  };
  std::string text = std::string("  fabric: ") +
                     (at.rail_optimised ? "rail-optimised fat tree" : "fat tree") + ", " +
                     ShowCount(at.levels, "level", "levels") + " of switches\n";
  std::string leaves = ShowCount(at.leaves, "leaf", "leaves");
  if (at.rail_optimised) {
    leaves += " (" + ShowCount(at.rails, "rail", "rails") + " of " +
              std::to_string(at.leaves_per_rail) + ")";
  }
  leaves += ", up to " + ShowCount(at.leaf_down, "NIC", "NICs") + " each";
  text +=
      FabricLevel(cluster, ShowCount(at.nodes * at.nics, "NIC", "NICs"), 1, at.nic_to_leaf, leaves);
  const double nics = at.nodes * at.nics * rate(at.nic_to_leaf);
  std::string totals = "    together, per direction: NICs " + Total(nics);
  if (at.spines > 0) {
    std::string spines = ShowCount(at.spines, "spine", "spines");
    if (at.levels == 3) {
      spines += " (" + std::to_string(at.pods) + " pods of " + std::to_string(at.leaves_per_pod) +
                " leaves, " + std::to_string(at.spines_per_pod) + " spines)";
    }
    text += FabricLevel(cluster, ShowCount(at.leaves, "leaf", "leaves"), at.leaf_up,
                        at.leaf_to_spine, spines);
    totals += ", leaves up " + Total(at.leaves * at.leaf_up * rate(at.leaf_to_spine));
  }
  if (at.cores > 0) {
    text += FabricLevel(cluster, ShowCount(at.spines, "spine", "spines"), at.spine_up,
                        at.spine_to_core, ShowCount(at.cores, "core", "cores"));
    totals += ", spines up " + Total(at.spines * at.spine_up * rate(at.spine_to_core));
  }
  text += totals + "\n";
  if (at.leaves > 1) {
    text += "    routing: " + std::string(RoutingName(at.routing));
    if (at.routing == Routing::kEcmp)
      text += ", hash seed " + std::to_string(at.hash_seed) + ": flows may collide";
    if (at.routing == Routing::kAdaptive) text += ", every flow over all equal ways";
    text += "\n";
  }
  return text;
}

std::string DrawCables(const Cluster& cluster) {
  std::string text = "  " + PadRight("cables", 14) + PadRight("between", 18) +
                     PadLeft("number", 8) + PadLeft("GB/s per direction", 20) + PadLeft("us", 8) +
                     "\n";
  for (const CableClass& c : CableClasses(cluster)) {
    text +=
        "  " + PadRight(std::string(LinkKindName(c.kind)), 14) +
        PadRight(std::string(VertexKindName(c.from)) + " - " + std::string(VertexKindName(c.to)),
                 18) +
        PadLeft(std::to_string(c.cables), 8) +
        PadLeft(ShowFigure(c.bandwidth_bytes_per_s / kGiga), 20) +
        PadLeft(ShowFigure(c.latency_s * 1e6), 8) + "\n";
  }
  return text;
}

std::string DrawRoutes(const Cluster& cluster) {
  const std::vector<ExamplePair> pairs = ExamplePairs(cluster);
  if (pairs.empty()) return "";
  std::string text = "  " + PadRight("routes", 32) + PadRight("for example", 16) +
                     PadLeft("hops", 6) + PadLeft("GB/s", 8) + PadLeft("us", 8) + "  narrowest\n";
  for (const ExamplePair& pair : pairs) {
    text += "  " + PadRight(pair.what, 32) +
            PadRight(std::to_string(pair.src) + " -> " + std::to_string(pair.dst), 16) +
            PadLeft(std::to_string(cluster.Route(pair.src, pair.dst).size()), 6) +
            PadLeft(ShowFigure(cluster.RouteBandwidth(pair.src, pair.dst) / kGiga), 8) +
            PadLeft(ShowFigure(cluster.RouteLatency(pair.src, pair.dst) * 1e6), 8) + "  " +
            NarrowestName(cluster, pair.src, pair.dst) + "\n";
  }
  return text;
}

std::string SpreadRemark(const Cluster& cluster, int src, int dst) {
  const std::size_t ways = cluster.Routes(src, dst).size();
  if (ways < 2) return "";
  return "  the first of " + std::to_string(ways) + " equal ways, each with 1/" +
         std::to_string(ways) + " of the bytes\n";
}

// Drawings are ASCII; a document's own words may not be.
std::string Ascii(const std::string& text) {
  std::string out;
  for (const char c : text) out += c >= ' ' && c <= '~' ? c : '?';
  return out;
}

}  // namespace

std::string DrawCluster(const Cluster& cluster) {
  const ClusterShape& shape = *cluster.graph->shape;
  std::string text = cluster.name + ": " + ShowCount(cluster.nodes, "node", "nodes") + " x " +
                     ShowCount(cluster.gpus_per_node, "GPU", "GPUs") + " = " +
                     ShowCount(cluster.GpuCount(), "GPU", "GPUs") + ", " + cluster.gpu.name + ", " +
                     ShowFigure(cluster.gpu.memory_bytes / kGiB) + " GiB each\n";
  if (shape.spec && !shape.spec->description.empty())
    text += Wrapped(Ascii(shape.spec->description));
  text += "\n";
  if (shape.layout) {
    text += DrawNode(cluster, *shape.spec, *shape.layout) + "\n";
    const std::string fabric = DrawFabric(cluster, *shape.layout);
    if (!fabric.empty()) text += fabric + "\n";
  }
  text += DrawCables(cluster);
  const std::string routes = DrawRoutes(cluster);
  if (!routes.empty()) text += "\n" + routes;
  text +=
      "\n  nominal rates; provenance: " + std::string(ProvenanceName(cluster.provenance)) + "\n";
  if (!cluster.warnings.empty()) text += "\n  what the import had to assume:\n";
  for (const std::string& warning : cluster.warnings) text += Wrapped(Ascii(warning), 2);
  return text;
}

std::string DescribePath(const Cluster& cluster, int src, int dst) {
  CheckGpu(cluster, src);
  CheckGpu(cluster, dst);
  std::string text = "GPU " + std::to_string(src) + " (" + VertexNameAt(cluster, src) +
                     ") -> GPU " + std::to_string(dst) + " (" + VertexNameAt(cluster, dst) + ")\n";
  const std::vector<int> route = cluster.Route(src, dst);
  if (route.empty()) return text + (src == dst ? "  the same GPU: no link\n" : "  no path\n");
  const double narrowest = cluster.RouteBandwidth(src, dst);
  const Link& limit = cluster.links()[static_cast<std::size_t>(NarrowestLink(cluster, src, dst))];
  text +=
      "  " + PadRight("", 24) + PadRight("link", 14) + PadLeft("GB/s", 8) + PadLeft("us", 8) + "\n";
  text += "  " + VertexNameAt(cluster, src) + "\n";
  for (const int id : route) {
    const Link& link = cluster.links()[static_cast<std::size_t>(id)];
    text += "  " + PadRight(VertexNameAt(cluster, link.to), 24) +
            PadRight(std::string(LinkKindName(link.kind)), 14) +
            PadLeft(ShowFigure(link.bandwidth_bytes_per_s / kGiga), 8) +
            PadLeft(ShowFigure(link.latency_s * 1e6), 8) +
            (link.bandwidth_bytes_per_s == limit.bandwidth_bytes_per_s ? "  narrowest" : "") + "\n";
  }
  return text + "  " + ShowCount(static_cast<int>(route.size()), "hop", "hops") + ", " +
         ShowGbPerS(narrowest) + ", " + ShowMicroseconds(cluster.RouteLatency(src, dst)) + "\n" +
         SpreadRemark(cluster, src, dst);
}

std::string BandwidthMatrix(const Cluster& cluster) {
  const int gpus = cluster.GpuCount();
  if (gpus > kMatrixGpus || gpus < 2) return "";
  const std::size_t cell = gpus <= 12 ? 7 : 5;
  std::string text = "  " + PadRight("GB/s", 6);
  for (int dst = 0; dst < gpus; ++dst)
    text += PadLeft((gpus <= 12 ? "to " : "") + std::to_string(dst), cell);
  text += "\n";
  for (int src = 0; src < gpus; ++src) {
    text += "  " + PadRight("GPU" + std::to_string(src), 6);
    for (int dst = 0; dst < gpus; ++dst) {
      text +=
          PadLeft(src == dst ? "-" : ShowFigure(cluster.RouteBandwidth(src, dst) / kGiga), cell);
    }
    text += "\n";
  }
  return text;
}

}  // namespace aurum
