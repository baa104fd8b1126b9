#include "topologies/render.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/core/diagnostic.h"
#include "sim/core/units.h"
#include "topologies/graph.h"
#include "topologies/summary.h"

namespace aurum {
namespace {

constexpr int kDrawnGpus = 12;  // more do not fit the width

// Four significant digits, no exponent.
std::string Number(double value) {
  char text[64];
  if (std::abs(value) >= 1000) {
    std::snprintf(text, sizeof text, "%.0f", value);
  } else {
    std::snprintf(text, sizeof text, "%.4g", value);
  }
  return text;
}

std::string GbPerS(double bytes_per_s) { return Number(bytes_per_s / kGiga) + " GB/s"; }
std::string Microseconds(double seconds) { return Number(seconds * 1e6) + " us"; }
std::string Total(double bytes_per_s) {
  return bytes_per_s >= kTera ? Number(bytes_per_s / kTera) + " TB/s" : GbPerS(bytes_per_s);
}

std::string Count(int count, std::string_view one, std::string_view many) {
  return std::to_string(count) + " " + std::string(count == 1 ? one : many);
}

std::string PadRight(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

std::string PadLeft(std::string text, std::size_t width) {
  if (text.size() < width) text.insert(0, width - text.size(), ' ');
  return text;
}

std::string Centred(const std::string& text, int width) {
  const int space = width - static_cast<int>(text.size());
  if (space <= 0) return text.substr(0, static_cast<std::size_t>(width));
  return std::string(static_cast<std::size_t>(space / 2), ' ') + text +
         std::string(static_cast<std::size_t>(space - space / 2), ' ');
}

// Indented by two, broken between words before column 100.
std::string Wrapped(const std::string& text) {
  std::string out;
  std::string line = " ";
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (line.size() > 1 && line.size() + 1 + word.size() > 100) {
      out += line + "\n";
      line = " ";
    }
    line += " " + word;
  }
  return out + line + "\n";
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
  return GbPerS(link.bandwidth_bytes_per_s) + " " + std::string(LinkKindName(link.kind));
}

std::string DrawNode(const Cluster& cluster, const ClusterSpec& spec, const Layout& at) {
  std::string text = "  node 0";
  if (at.nodes > 1) text += " (all " + std::to_string(at.nodes) + " are alike)";
  text += "\n";
  if (at.gpus > kDrawnGpus) {
    return text + "    " + std::to_string(at.gpus) + " GPUs, " +
           Count(at.pcie_switches, "PCIe switch", "PCIe switches") + ", " +
           Count(at.sockets, "CPU", "CPUs") + ", " + Count(at.nics, "NIC", "NICs") + "\n";
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
        {"NVSwitch plane, " + Count(spec.node.nvswitches, "chip", "chips")},
        at.domain_nodes > 1 ? "shared by " + std::to_string(at.domain_nodes) + " nodes" : "");
  }
  text += drawing.Take();
  if (at.nics == 0) return text;
  text +=
      "    " + Count(at.nics, "NIC", "NICs") + " on the " +
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
         GbPerS(link.bandwidth_bytes_per_s) + ", " + Microseconds(link.latency_s) + " --> " +
         above + "\n";
}

std::string DrawFabric(const Cluster& cluster, const Layout& at) {
  if (!at.fabric) return "";
  const auto rate = [&](int cable) {
    return cluster.links()[2 * static_cast<std::size_t>(cable)].bandwidth_bytes_per_s;
  };
  std::string text = std::string("  fabric: ") +
                     (at.rail_optimised ? "rail-optimised fat tree" : "fat tree") + ", " +
                     Count(at.levels, "level", "levels") + " of switches\n";
  std::string leaves = Count(at.leaves, "leaf", "leaves");
  if (at.rail_optimised) {
    leaves +=
        " (" + Count(at.rails, "rail", "rails") + " of " + std::to_string(at.leaves_per_rail) + ")";
  }
  leaves += ", up to " + Count(at.leaf_down, "NIC", "NICs") + " each";
  text += FabricLevel(cluster, Count(at.nodes * at.nics, "NIC", "NICs"), 1, at.nic_to_leaf, leaves);
  const double nics = at.nodes * at.nics * rate(at.nic_to_leaf);
  std::string totals = "    together, per direction: NICs " + Total(nics);
  if (at.spines > 0) {
    std::string spines = Count(at.spines, "spine", "spines");
    if (at.levels == 3) {
      spines += " (" + std::to_string(at.pods) + " pods of " + std::to_string(at.leaves_per_pod) +
                " leaves, " + std::to_string(at.spines_per_pod) + " spines)";
    }
    text += FabricLevel(cluster, Count(at.leaves, "leaf", "leaves"), at.leaf_up, at.leaf_to_spine,
                        spines);
    totals += ", leaves up " + Total(at.leaves * at.leaf_up * rate(at.leaf_to_spine));
  }
  if (at.cores > 0) {
    text += FabricLevel(cluster, Count(at.spines, "spine", "spines"), at.spine_up, at.spine_to_core,
                        Count(at.cores, "core", "cores"));
    totals += ", spines up " + Total(at.spines * at.spine_up * rate(at.spine_to_core));
  }
  return text + totals + "\n";
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
        PadLeft(Number(c.bandwidth_bytes_per_s / kGiga), 20) +
        PadLeft(Number(c.latency_s * 1e6), 8) + "\n";
  }
  return text;
}

std::string DrawRoutes(const Cluster& cluster) {
  const std::vector<ExamplePair> pairs = ExamplePairs(cluster);
  if (pairs.empty()) return "";
  std::string text = "  " + PadRight("routes", 32) + PadRight("for example", 16) +
                     PadLeft("hops", 6) + PadLeft("GB/s", 8) + PadLeft("us", 8) + "\n";
  for (const ExamplePair& pair : pairs) {
    text += "  " + PadRight(pair.what, 32) +
            PadRight(std::to_string(pair.src) + " -> " + std::to_string(pair.dst), 16) +
            PadLeft(std::to_string(cluster.Route(pair.src, pair.dst).size()), 6) +
            PadLeft(Number(cluster.RouteBandwidth(pair.src, pair.dst) / kGiga), 8) +
            PadLeft(Number(cluster.RouteLatency(pair.src, pair.dst) * 1e6), 8) + "\n";
  }
  return text;
}

std::string NameAt(const Cluster& cluster, int vertex) {
  return VertexName(cluster.vertices()[static_cast<std::size_t>(vertex)]);
}

void CheckGpu(const Cluster& cluster, int gpu) {
  if (gpu >= 0 && gpu < cluster.GpuCount()) return;
  ThrowInput(507, "there is no GPU " + std::to_string(gpu) + " in " + cluster.name,
             "GPUs are numbered 0 … " + std::to_string(cluster.GpuCount() - 1) + ", node by node");
}

Json PairJson(const Cluster& cluster, int src, int dst) {
  Json json = Json::Object();
  json.Set("src_gpu", src);
  json.Set("dst_gpu", dst);
  json.Set("hop_count", static_cast<std::int64_t>(cluster.Route(src, dst).size()));
  json.Set("narrowest_gb_per_s", cluster.RouteBandwidth(src, dst) / kGiga);
  json.Set("latency_us", cluster.RouteLatency(src, dst) * 1e6);
  return json;
}

Json FabricJson(const Cluster& cluster, const Layout& at) {
  if (!at.fabric) return {};
  const auto total = [&](int cables, int first) {
    if (cables == 0) return Json();
    const Link& link = cluster.links()[2 * static_cast<std::size_t>(first)];
    return Json(cables * link.bandwidth_bytes_per_s / kGiga);
  };
  Json json = Json::Object();
  json.Set("kind", at.rail_optimised ? "rail_optimised_fat_tree" : "fat_tree");
  json.Set("levels", at.levels);
  json.Set("rails", at.rails);
  json.Set("leaves", at.leaves);
  json.Set("nics_per_leaf", at.leaf_down);
  json.Set("cables_up_per_leaf", at.leaf_up);
  json.Set("pods", at.pods);
  json.Set("spines", at.spines);
  json.Set("cables_up_per_spine", at.spine_up);
  json.Set("cores", at.cores);
  json.Set("nics_total_gb_per_s_per_direction", total(at.nodes * at.nics, at.nic_to_leaf));
  json.Set("leaves_up_total_gb_per_s_per_direction",
           total(at.leaves * at.leaf_up, at.leaf_to_spine));
  json.Set("spines_up_total_gb_per_s_per_direction",
           total(at.spines * at.spine_up, at.spine_to_core));
  return json;
}

Json SourcesJson(const ClusterSpec& spec) {
  Json json = Json::Object();
  const auto add = [&](const char* key, const std::string& source) {
    if (!source.empty()) json.Set(key, source);
  };
  if (spec.node.nvlink) add("nvlink", spec.node.nvlink->source);
  if (spec.node.pcie) add("pcie", spec.node.pcie->source);
  if (spec.node.host_kind == LinkKind::kChipToChip) add("chip_to_chip", spec.node.host.source);
  if (spec.node.inter_socket) add("inter_socket", spec.node.inter_socket->source);
  add("nics", spec.node.nic_source);
  if (spec.fabric) add("fabric", spec.fabric->source);
  return json;
}

}  // namespace

std::string DrawCluster(const Cluster& cluster) {
  const ClusterShape& shape = *cluster.graph->shape;
  std::string text = cluster.name + ": " + Count(cluster.nodes, "node", "nodes") + " x " +
                     Count(cluster.gpus_per_node, "GPU", "GPUs") + " = " +
                     Count(cluster.GpuCount(), "GPU", "GPUs") + ", " + cluster.gpu.name + ", " +
                     Number(cluster.gpu.memory_bytes / kGiB) + " GiB each\n";
  if (shape.spec && !shape.spec->description.empty()) text += Wrapped(shape.spec->description);
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
  return text;
}

std::string DescribePath(const Cluster& cluster, int src, int dst) {
  CheckGpu(cluster, src);
  CheckGpu(cluster, dst);
  std::string text = "GPU " + std::to_string(src) + " (" + NameAt(cluster, src) + ") -> GPU " +
                     std::to_string(dst) + " (" + NameAt(cluster, dst) + ")\n";
  const std::vector<int> route = cluster.Route(src, dst);
  if (route.empty()) return text + (src == dst ? "  the same GPU: no link\n" : "  no path\n");
  const double narrowest = cluster.RouteBandwidth(src, dst);
  text +=
      "  " + PadRight("", 24) + PadRight("link", 14) + PadLeft("GB/s", 8) + PadLeft("us", 8) + "\n";
  text += "  " + NameAt(cluster, src) + "\n";
  for (const int id : route) {
    const Link& link = cluster.links()[static_cast<std::size_t>(id)];
    text += "  " + PadRight(NameAt(cluster, link.to), 24) +
            PadRight(std::string(LinkKindName(link.kind)), 14) +
            PadLeft(Number(link.bandwidth_bytes_per_s / kGiga), 8) +
            PadLeft(Number(link.latency_s * 1e6), 8) +
            (link.bandwidth_bytes_per_s == narrowest ? "  narrowest" : "") + "\n";
  }
  return text + "  " + Count(static_cast<int>(route.size()), "hop", "hops") + ", " +
         GbPerS(narrowest) + ", " + Microseconds(cluster.RouteLatency(src, dst)) + "\n";
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
      text += PadLeft(src == dst ? "-" : Number(cluster.RouteBandwidth(src, dst) / kGiga), cell);
    }
    text += "\n";
  }
  return text;
}

Json ClusterJson(const Cluster& cluster) {
  const ClusterShape& shape = *cluster.graph->shape;
  Json json = Json::Object();
  json.Set("schema", "aurum.topology/1");
  json.Set("name", cluster.name);
  Json gpu = Json::Object();
  gpu.Set("name", cluster.gpu.name);
  gpu.Set("profile", cluster.gpu.profile);
  gpu.Set("memory_gib", cluster.gpu.memory_bytes / kGiB);
  json.Set("gpu", std::move(gpu));
  json.Set("nodes", cluster.nodes);
  json.Set("gpus_per_node", cluster.gpus_per_node);
  json.Set("gpus", cluster.GpuCount());
  json.Set("nics_per_node", cluster.nics_per_node);
  json.Set("host_memory_gib_per_node", cluster.host_memory_bytes_per_node > 0
                                           ? Json(cluster.host_memory_bytes_per_node / kGiB)
                                           : Json());
  json.Set("network_gb_per_s_per_gpu", cluster.NetworkBandwidthPerGpu() / kGiga);
  Json vertices = Json::Object();
  for (const VertexKind kind :
       {VertexKind::kGpu, VertexKind::kNvSwitch, VertexKind::kPcieSwitch, VertexKind::kCpu,
        VertexKind::kNic, VertexKind::kLeaf, VertexKind::kSpine, VertexKind::kCore}) {
    vertices.Set(VertexKindName(kind), CountVertices(cluster, kind));
  }
  json.Set("vertices", std::move(vertices));
  Json cables = Json::Array();
  for (const CableClass& c : CableClasses(cluster)) {
    Json cable = Json::Object();
    cable.Set("kind", LinkKindName(c.kind));
    cable.Set("from", VertexKindName(c.from));
    cable.Set("to", VertexKindName(c.to));
    cable.Set("count", c.cables);
    cable.Set("gb_per_s_per_direction", c.bandwidth_bytes_per_s / kGiga);
    cable.Set("latency_us", c.latency_s * 1e6);
    cables.Append(std::move(cable));
  }
  json.Set("cables", std::move(cables));
  json.Set("fabric", shape.layout ? FabricJson(cluster, *shape.layout) : Json());
  Json routes = Json::Array();
  for (const ExamplePair& pair : ExamplePairs(cluster)) {
    Json route = PairJson(cluster, pair.src, pair.dst);
    route.Set("what", pair.what);
    routes.Append(std::move(route));
  }
  json.Set("routes", std::move(routes));
  if (cluster.GpuCount() <= kMatrixGpus) {
    Json rows = Json::Array();
    for (int src = 0; src < cluster.GpuCount(); ++src) {
      Json row = Json::Array();
      for (int dst = 0; dst < cluster.GpuCount(); ++dst) {
        row.Append(src == dst ? Json() : Json(cluster.RouteBandwidth(src, dst) / kGiga));
      }
      rows.Append(std::move(row));
    }
    json.Set("pairs_gb_per_s", std::move(rows));
  }
  json.Set("source", cluster.source);
  if (shape.spec) json.Set("sources", SourcesJson(*shape.spec));
  json.Set("provenance", ProvenanceName(cluster.provenance));
  return json;
}

Json PathJson(const Cluster& cluster, int src, int dst) {
  CheckGpu(cluster, src);
  CheckGpu(cluster, dst);
  Json json = PairJson(cluster, src, dst);
  if (src == dst) json.Set("narrowest_gb_per_s", Json());
  json.Set("src", NameAt(cluster, src));
  json.Set("dst", NameAt(cluster, dst));
  Json hops = Json::Array();
  for (const int id : cluster.Route(src, dst)) {
    const Link& link = cluster.links()[static_cast<std::size_t>(id)];
    Json hop = Json::Object();
    hop.Set("from", NameAt(cluster, link.from));
    hop.Set("to", NameAt(cluster, link.to));
    hop.Set("kind", LinkKindName(link.kind));
    hop.Set("gb_per_s", link.bandwidth_bytes_per_s / kGiga);
    hop.Set("latency_us", link.latency_s * 1e6);
    hops.Append(std::move(hop));
  }
  json.Set("hops", std::move(hops));
  return json;
}

}  // namespace aurum
