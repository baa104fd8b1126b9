#include <cstdint>
#include <string>
#include <utility>

#include "sim/core/units.h"
#include "topologies/graph.h"
#include "topologies/render.h"
#include "topologies/summary.h"

namespace aurum {
namespace {

Json PairJson(const Cluster& cluster, int src, int dst) {
  Json json = Json::Object();
  json.Set("src_gpu", src);
  json.Set("dst_gpu", dst);
  json.Set("hop_count", static_cast<std::int64_t>(cluster.Route(src, dst).size()));
  json.Set("narrowest_gb_per_s", cluster.RouteBandwidth(src, dst) / kGiga);
  json.Set("narrowest_link", NarrowestName(cluster, src, dst));
  json.Set("equal_ways", static_cast<std::int64_t>(cluster.Routes(src, dst).size()));
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
  json.Set("routing", RoutingName(at.routing));
  if (at.routing == Routing::kEcmp) json.Set("hash_seed", static_cast<std::int64_t>(at.hash_seed));
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
  if (spec.node.graph) {
    // One for each kind of cable: those of a kind mostly say the same of different parts.
    for (std::size_t c = spec.node.graph->cable_sources.size(); c-- > 0;)
      add(std::string(CableKindKey(spec.node.graph->links[2 * c].kind)).c_str(),
          spec.node.graph->cable_sources[c]);
  }
  if (spec.fabric) add("fabric", spec.fabric->source);
  return json;
}

}  // namespace

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
  Json warnings = Json::Array();
  for (const std::string& warning : cluster.warnings) warnings.Append(warning);
  json.Set("warnings", std::move(warnings));
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
  json.Set("src", VertexNameAt(cluster, src));
  json.Set("dst", VertexNameAt(cluster, dst));
  Json hops = Json::Array();
  for (const int id : cluster.Route(src, dst)) {
    const Link& link = cluster.links()[static_cast<std::size_t>(id)];
    Json hop = Json::Object();
    hop.Set("from", VertexNameAt(cluster, link.from));
    hop.Set("to", VertexNameAt(cluster, link.to));
    hop.Set("kind", LinkKindName(link.kind));
    hop.Set("gb_per_s", link.bandwidth_bytes_per_s / kGiga);
    hop.Set("latency_us", link.latency_s * 1e6);
    hops.Append(std::move(hop));
  }
  json.Set("hops", std::move(hops));
  return json;
}

}  // namespace aurum
