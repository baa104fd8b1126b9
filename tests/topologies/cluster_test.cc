#include "topologies/cluster.h"

#include <doctest/doctest.h>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/breadth_first_search.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/topologies/fixtures.h"
#include "topologies/graph.h"

namespace aurum {
namespace {

constexpr double kGb = 1e9;

// Small enough to look at every pair.
const std::vector<std::string> kSmall = {
    "1x4090",     "2x4090-pcie", "4x4090-pcie", "orin-nx",     "8xa100-hgx",     "8xh100-hgx",
    "8xh200-hgx", "8xb200-hgx",  "16xh100-ndr", "32xa100-hdr", "72xgb200-nvl72", "144xgb200-nvl72",
};

// Fabrics whose switches are so small that a few nodes need every level.
std::vector<std::pair<std::string, Cluster>> SmallFabrics() {
  std::vector<std::pair<std::string, Cluster>> clusters;
  const auto add = [&](const std::string& label, const std::string& base,
                       std::vector<std::string> changes) {
    JsonDocument document = OpenCluster(base, ".");
    for (const std::string& change : changes) ApplyOverride(&document, change);
    clusters.emplace_back(label, ReadCluster(document));
  };
  add("two levels", "32xh100-ndr", {"fabric.leaf_ports=4", "fabric.spine_ports=16"});
  add("two levels, 2:1", "64xh100-ndr",
      {"fabric.leaf_ports=8", "fabric.oversubscription=2", "fabric.spine_ports=64"});
  add("three levels", "128xh100-ndr",
      {"fabric.leaf_ports=4", "fabric.spine_ports=8", "fabric.core_ports=16"});
  add("three levels, two pods a rail", "128xh100-ndr",
      {"fabric.leaf_ports=4", "fabric.spine_ports=8", "fabric.core_ports=32",
       "fabric.spine_oversubscription=2"});
  add("not full", "72xh100-ndr",
      {"fabric.leaf_ports=4", "fabric.spine_ports=8", "fabric.core_ports=24"});
  add("no rails", "32xh100-ndr", {"fabric.kind=fat_tree", "fabric.leaf_ports=8"});
  add("no rails, three levels", "64xh100-ndr",
      {"fabric.kind=fat_tree", "fabric.leaf_ports=8", "fabric.spine_ports=8"});
  add("no rails, one leaf", "16xh100-ndr", {"fabric.kind=fat_tree"});
  add("no pxn", "32xh100-ndr",
      {"fabric.leaf_ports=4", "fabric.spine_ports=16", "fabric.pxn=false"});
  add("two GPUs per NIC", "32xa100-hdr", {"node.nics.count=4"});
  add("one NIC", "32xa100-hdr", {"node.nics.count=1"});
  add("one PCIe switch per GPU", "16xh100-ndr", {"node.pcie.switches=8"});
  add("no rails, 4:1", "64xh100-ndr",
      {"fabric.kind=fat_tree", "fabric.leaf_ports=16", "fabric.oversubscription=4",
       "fabric.spine_ports=8"});
  add("three levels, 2:1 at both", "128xh100-ndr",
      {"fabric.leaf_ports=4", "fabric.spine_ports=8", "fabric.core_ports=32",
       "fabric.oversubscription=2", "fabric.spine_oversubscription=2"});
  add("no pxn, three levels", "96xh100-ndr",
      {"fabric.leaf_ports=4", "fabric.spine_ports=8", "fabric.core_ports=32", "fabric.pxn=false"});
  add("racks, three levels", "288xgb200-nvl72",
      {"fabric.leaf_ports=8", "fabric.spine_ports=8", "fabric.core_ports=64"});
  add("boxes with switches", "4x4090-pcie",
      {"nodes=4", "node.pcie.switches=2", "node.pcie.peer_to_peer=true",
       R"(node.nics={"count":2,"gbit_per_s":100,"source":"a test"})",
       R"(fabric={"kind":"fat_tree","leaf_ports":4,"spine_ports":8,"nic_link_latency_us":1,"switch_link_latency_us":1,"source":"a test"})"});
  add("a graph, two leaves a rail", "./tests/topologies/fixtures/two-sockets.json",
      {"nodes=4",
       R"(fabric={"kind":"rail_optimised_fat_tree","leaf_ports":4,"spine_ports":8,"nic_link_latency_us":1,"switch_link_latency_us":1,"source":"a test"})"});
  add("boxes", "4x4090-pcie",
      {"nodes=4", R"(node.nics={"count":2,"gbit_per_s":100,"source":"a test"})",
       R"(fabric={"kind":"rail_optimised_fat_tree","leaf_ports":4,"spine_ports":8,"nic_link_latency_us":1,"switch_link_latency_us":1,"source":"a test"})"});
  return clusters;
}

using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property,
                                    boost::property<boost::edge_weight_t, double>>;

Graph Independent(const Cluster& cluster) {
  Graph graph(cluster.vertices().size());
  for (const Link& link : cluster.links())
    boost::add_edge(link.from, link.to, link.latency_s, graph);
  return graph;
}

std::vector<int> HopsFrom(const Graph& graph, int src) {
  std::vector<int> hops(boost::num_vertices(graph), -1);
  hops[src] = 0;
  boost::breadth_first_search(graph, src,
                              boost::visitor(boost::make_bfs_visitor(
                                  boost::record_distances(hops.data(), boost::on_tree_edge()))));
  return hops;
}

int CountLinks(const Cluster& cluster, LinkKind kind) {
  int count = 0;
  for (const Link& link : cluster.links()) count += link.kind == kind ? 1 : 0;
  return count;
}

int CountVertices(const Cluster& cluster, VertexKind kind) {
  int count = 0;
  for (const Vertex& vertex : cluster.vertices()) count += vertex.kind == kind ? 1 : 0;
  return count;
}

std::vector<VertexKind> KindsAlong(const Cluster& cluster, int src, int dst) {
  std::vector<VertexKind> kinds = {cluster.vertices()[src].kind};
  for (const int id : cluster.Route(src, dst))
    kinds.push_back(cluster.vertices()[cluster.links()[id].to].kind);
  return kinds;
}

// The rail (index of the NIC in its node) by which a route leaves its node; -1 if it never does.
int RailOf(const Cluster& cluster, const std::vector<int>& route) {
  for (const int id : route) {
    const Vertex& from = cluster.vertices()[cluster.links()[id].from];
    if (cluster.links()[id].kind == LinkKind::kNetwork) return from.index;
  }
  return -1;
}

void CheckEveryRoute(const std::string& label, const Cluster& cluster) {
  CAPTURE(label);
  const Graph graph = Independent(cluster);
  for (int src = 0; src < cluster.GpuCount(); ++src) {
    const std::vector<int> hops = HopsFrom(graph, src);
    for (int dst = 0; dst < cluster.GpuCount(); ++dst) {
      CAPTURE(src);
      CAPTURE(dst);
      const std::vector<int> route = cluster.Route(src, dst);
      if (src == dst) {
        REQUIRE(route.empty());
        continue;
      }
      REQUIRE(!route.empty());
      int at = src;
      double narrowest = INFINITY;
      double latency = 0;
      bool network = false;
      std::map<int, int> visits;
      for (const int id : route) {
        REQUIRE(id >= 0);
        REQUIRE(id < static_cast<int>(cluster.links().size()));
        const Link& link = cluster.links()[id];
        REQUIRE(link.from == at);
        at = link.to;
        REQUIRE(++visits[at] == 1);
        narrowest = std::min(narrowest, link.bandwidth_bytes_per_s);
        latency += link.latency_s;
        network = network || link.kind == LinkKind::kNetwork;
      }
      REQUIRE(at == dst);
      REQUIRE(cluster.RouteBandwidth(src, dst) == narrowest);
      REQUIRE(cluster.RouteLatency(src, dst) == latency);
      // The way back is as long, as wide and as slow.
      REQUIRE(cluster.Route(dst, src).size() == route.size());
      REQUIRE(cluster.RouteBandwidth(dst, src) == narrowest);
      REQUIRE(cluster.RouteLatency(dst, src) == doctest::Approx(latency).epsilon(1e-12));

      // Never shorter than the shortest; as short inside a node and on one rail. Another rail costs
      // a detour of two hops: over NVLink, or over the spine instead of the neighbour's NIC on the
      // same PCIe switch. Without peer-to-peer traffic climbs to the CPU, with rails that lie on
      // one leaf it may have to go up a level.
      const int shortest = hops[dst];
      REQUIRE(static_cast<int>(route.size()) >= shortest);
      if (!network) {
        REQUIRE(static_cast<int>(route.size()) == shortest);
      } else {
        REQUIRE(cluster.NodeOf(src) != cluster.NodeOf(dst));
        REQUIRE(static_cast<int>(route.size()) <= shortest + 4);
      }
      REQUIRE(network == (cluster.NodeOf(src) != cluster.NodeOf(dst) &&
                          cluster.NvLinkDomainOf(src) != cluster.NvLinkDomainOf(dst)));
    }
  }
}

TEST_CASE("every route is a contiguous path, as short as Boost.Graph's or a known detour") {
  for (const std::string& name : kSmall) CheckEveryRoute(name, OpenCatalogue(name));
  for (const auto& [label, cluster] : SmallFabrics()) CheckEveryRoute(label, cluster);
}

TEST_CASE("on its own rail a route is a shortest path by hops and by latency") {
  std::vector<std::pair<std::string, Cluster>> clusters = SmallFabrics();
  for (const std::string& name : kSmall) clusters.emplace_back(name, OpenCatalogue(name));
  int checked = 0;
  for (const auto& [label, cluster] : clusters) {
    CAPTURE(label);
    // Where traffic has to see the CPU, or NICs hang on other switches, a path through a GPU's
    // neighbour may be shorter.
    if (cluster.nics_per_node != cluster.gpus_per_node || label.starts_with("no rails")) continue;
    for (int src = 0; src < cluster.GpuCount(); src += 3) {
      // Other GPUs forward nothing: a neighbour in the rack may lie on the destination's leaf.
      Graph graph(cluster.vertices().size());
      for (const Link& link : cluster.links()) {
        if (link.from == src || cluster.vertices()[link.from].kind != VertexKind::kGpu)
          boost::add_edge(link.from, link.to, link.latency_s, graph);
      }
      const std::vector<int> hops = HopsFrom(graph, src);
      std::vector<double> latency(boost::num_vertices(graph));
      boost::dijkstra_shortest_paths(graph, src, boost::distance_map(latency.data()));
      for (int dst = src % cluster.gpus_per_node; dst < cluster.GpuCount();
           dst += cluster.gpus_per_node) {
        REQUIRE(static_cast<int>(cluster.Route(src, dst).size()) == hops[dst]);
        REQUIRE(cluster.RouteLatency(src, dst) == doctest::Approx(latency[dst]).epsilon(1e-12));
        ++checked;
      }
    }
  }
  CHECK(checked > 1000);
}

TEST_CASE("every vertex reaches every other, and the two directions of a cable are neighbours") {
  std::vector<std::pair<std::string, Cluster>> clusters = SmallFabrics();
  for (const std::string& name : kSmall) clusters.emplace_back(name, OpenCatalogue(name));
  clusters.emplace_back("1024xh100-ndr", OpenCatalogue("1024xh100-ndr"));
  for (const auto& [label, cluster] : clusters) {
    CAPTURE(label);
    // The NICs of a single node lead nowhere, but they are there.
    CHECK(StronglyConnected(*cluster.graph));
    for (int id = 0; id < static_cast<int>(cluster.links().size()); ++id) {
      const Link& link = cluster.links()[id];
      const Link& back = cluster.links()[id ^ 1];
      REQUIRE(link.from == back.to);
      REQUIRE(link.to == back.from);
      REQUIRE(link.kind == back.kind);
      REQUIRE(link.bandwidth_bytes_per_s > 0);
    }
    for (int gpu = 0; gpu < cluster.GpuCount(); ++gpu) {
      REQUIRE(cluster.vertices()[gpu].kind == VertexKind::kGpu);
      REQUIRE(cluster.vertices()[gpu].node == cluster.NodeOf(gpu));
      REQUIRE(cluster.vertices()[gpu].index == gpu % cluster.gpus_per_node);
    }
  }
}

TEST_CASE("nominal bandwidths of known machines") {
  CHECK(OpenCatalogue("8xa100-hgx").RouteBandwidth(0, 7) == 12 * 25 * kGb);
  CHECK(OpenCatalogue("8xh100-hgx").RouteBandwidth(3, 4) == 450 * kGb);
  CHECK(OpenCatalogue("8xh200-hgx").RouteBandwidth(0, 1) == 450 * kGb);
  CHECK(OpenCatalogue("8xb200-hgx").RouteBandwidth(0, 1) == 900 * kGb);
  CHECK(OpenCatalogue("gb200-nvl72").RouteBandwidth(0, 71) == 900 * kGb);

  const Cluster hdr = OpenCatalogue("32xa100-hdr");
  CHECK(hdr.RouteBandwidth(0, 8) == 25 * kGb);
  CHECK(hdr.NetworkBandwidthPerGpu() == 25 * kGb);
  const Cluster ndr = OpenCatalogue("16xh100-ndr");
  CHECK(ndr.RouteBandwidth(0, 15) == 50 * kGb);
  CHECK(ndr.NetworkBandwidthPerGpu() == 50 * kGb);
  // NCCL's ring steps, which the latencies were derived from: 0.6 µs over NVLink, 2.7 µs over the
  // network.
  CHECK(ndr.RouteLatency(0, 1) == doctest::Approx(0.6e-6));
  CHECK(ndr.RouteLatency(0, 8) == doctest::Approx(2.7e-6));
  CHECK(ndr.RouteLatency(0, 9) == doctest::Approx(3.3e-6));

  // PCIe 4.0 x16 inside a socket; between sockets what the sockets' link gives.
  const Cluster box = OpenCatalogue("4x4090-pcie");
  CHECK(box.RouteBandwidth(0, 1) == 31.5 * kGb);
  CHECK(box.RouteBandwidth(0, 2) == 16 * kGb);
  CHECK(box.RouteBandwidth(2, 3) == 31.5 * kGb);
  CHECK(box.NetworkBandwidthPerGpu() == 0);
  CHECK(OpenCatalogue("2x4090-pcie").RouteLatency(0, 1) == doctest::Approx(1e-6));

  CHECK(OpenCatalogue("8xh100-hgx").NetworkBandwidthPerGpu() == 0);
  CHECK(std::isinf(ndr.RouteBandwidth(4, 4)));
  CHECK(ndr.RouteLatency(4, 4) == 0);
}

TEST_CASE("what a GPU sends into the network is shared by those that send with it") {
  CHECK(ReadCluster(Changed("32xa100-hdr", "node.nics.count=4")).NetworkBandwidthPerGpu() ==
        12.5 * kGb);
  CHECK(ReadCluster(Changed("32xa100-hdr", "node.nics.count=1")).NetworkBandwidthPerGpu() ==
        25 * kGb / 8);
  // A NIC faster than its PCIe link is as fast as the PCIe link.
  CHECK(ReadCluster(Changed("32xa100-hdr", "node.nics.gbit_per_s=400")).NetworkBandwidthPerGpu() ==
        31.5 * kGb);
  CHECK(OpenCatalogue("144xgb200-nvl72").NetworkBandwidthPerGpu() == 50 * kGb);
}

TEST_CASE("NVLink domains") {
  const Cluster ndr = OpenCatalogue("16xh100-ndr");
  CHECK(ndr.HasNvLink());
  CHECK(ndr.NvLinkDomainOf(0) == 0);
  CHECK(ndr.NvLinkDomainOf(7) == 0);
  CHECK(ndr.NvLinkDomainOf(8) == 1);
  const Cluster racks = OpenCatalogue("144xgb200-nvl72");
  CHECK(racks.nodes == 36);
  CHECK(racks.NvLinkDomainOf(0) == 0);
  CHECK(racks.NvLinkDomainOf(71) == 0);
  CHECK(racks.NvLinkDomainOf(72) == 1);
  const Cluster box = OpenCatalogue("4x4090-pcie");
  CHECK(!box.HasNvLink());
  CHECK(box.NvLinkDomainOf(3) == -1);
  CHECK(!OpenCatalogue("orin-nx").HasNvLink());
}

TEST_CASE("rails: same rail one leaf, another rail over NVLink first, else over the spine") {
  using V = VertexKind;
  const Cluster ndr = OpenCatalogue("16xh100-ndr");
  const std::vector<V> same_rail = {V::kGpu, V::kPcieSwitch, V::kNic, V::kLeaf,
                                    V::kNic, V::kPcieSwitch, V::kGpu};
  CHECK(KindsAlong(ndr, 3, 11) == same_rail);
  std::vector<V> pxn = same_rail;
  pxn.insert(pxn.begin(), {V::kGpu, V::kNvSwitch});
  CHECK(KindsAlong(ndr, 3, 12) == pxn);
  CHECK(RailOf(ndr, ndr.Route(3, 11)) == 3);
  CHECK(RailOf(ndr, ndr.Route(3, 12)) == 4);

  const Cluster plain = ReadCluster(Changed("16xh100-ndr", "fabric.pxn=false"));
  CHECK(KindsAlong(plain, 3, 12) == std::vector<V>{V::kGpu, V::kPcieSwitch, V::kNic, V::kLeaf,
                                                   V::kSpine, V::kLeaf, V::kNic, V::kPcieSwitch,
                                                   V::kGpu});
  CHECK(RailOf(plain, plain.Route(3, 12)) == 3);

  // 64 nodes are two leaves per rail; 512 nodes still one pod per rail; 2048 nodes are two, joined
  // by the cores.
  const Cluster two = OpenCatalogue("512xh100-ndr");
  CHECK(KindsAlong(two, 0, 31 * 8).size() == same_rail.size());
  CHECK(KindsAlong(two, 0, 32 * 8).size() == same_rail.size() + 2);
  const Cluster three = OpenCatalogue("16384xh100-ndr");
  CHECK(KindsAlong(three, 0, 1023 * 8).size() == same_rail.size() + 2);
  const std::vector<V> core_route = {V::kGpu,   V::kPcieSwitch, V::kNic,   V::kLeaf,
                                     V::kSpine, V::kCore,       V::kSpine, V::kLeaf,
                                     V::kNic,   V::kPcieSwitch, V::kGpu};
  CHECK(KindsAlong(three, 0, 1024 * 8) == core_route);

  // Without peer-to-peer the way below one PCIe switch leads through the CPU.
  const Cluster bounce = ReadCluster(Changed("4x4090-pcie", "node.pcie.switches=2"));
  const std::vector<V> through_cpu = {V::kGpu, V::kPcieSwitch, V::kCpu, V::kPcieSwitch, V::kGpu};
  CHECK(KindsAlong(bounce, 0, 1) == through_cpu);
}

TEST_CASE("D-mod-k: shifts between leaves share no link") {
  // 1:1, each node sends to the one a leaf further: every link of the fabric carries at most one
  // flow.
  for (const auto* name : {"1024xh100-ndr", "16384xh100-ndr"}) {
    const Cluster cluster = OpenCatalogue(name);
    CAPTURE(name);
    for (const int shift : {32, 40, cluster.nodes / 2}) {
      std::map<int, int> flows;
      for (int gpu = 0; gpu < cluster.GpuCount(); ++gpu) {
        for (const int id : cluster.Route(gpu, (gpu + shift * 8) % cluster.GpuCount())) ++flows[id];
      }
      int most = 0;
      for (const auto& [id, count] : flows) most = std::max(most, count);
      CHECK(most == 1);
    }
  }
}

TEST_CASE("switch and cable counts of the DGX SuperPOD reference architecture") {
  // DGX SuperPOD reference architecture for B200 (the same fabric as H100), "Larger SuperPOD
  // component counts".
  struct Row {
    int nodes, leaves, spines, cores, node_leaf, leaf_spine, spine_core;
  };
  for (const Row& row :
       {Row{64, 16, 8, 0, 512, 512, 0}, Row{128, 32, 16, 0, 1024, 1024, 0},
        Row{256, 64, 32, 0, 2048, 2048, 0}, Row{512, 128, 128, 64, 4096, 4096, 4096},
        Row{1024, 256, 256, 128, 8192, 8192, 8192},
        Row{2048, 512, 512, 256, 16384, 16384, 16384}}) {
    CAPTURE(row.nodes);
    const Cluster cluster = OpenCatalogue(std::to_string(row.nodes * 8) + "xh100-ndr");
    CHECK(CountVertices(cluster, VertexKind::kLeaf) == row.leaves);
    CHECK(CountVertices(cluster, VertexKind::kSpine) == row.spines);
    CHECK(CountVertices(cluster, VertexKind::kCore) == row.cores);
    CHECK(CountLinks(cluster, LinkKind::kNetwork) ==
          2 * (row.node_leaf + row.leaf_spine + row.spine_core));
    // No switch has more cables than its 64 ports.
    std::map<int, int> cables;
    for (const Link& link : cluster.links()) {
      if (link.kind == LinkKind::kNetwork) ++cables[link.from];
    }
    for (const auto& [vertex, count] : cables) {
      REQUIRE(count <= (cluster.vertices()[vertex].kind == VertexKind::kNic ? 1 : 64));
    }
  }
}

TEST_CASE("links of each generator") {
  struct Row {
    const char* name;
    int nvlink, pcie, inter_socket, network, chip_to_chip;
  };
  // Both directions. An HGX node: 8 NVLink bundles; 8 GPUs, 8 NICs and 4 switches over PCIe; one
  // pair of sockets.
  for (const Row& row :
       {Row{"1x4090", 0, 2, 0, 0, 0}, Row{"2x4090-pcie", 0, 4, 0, 0, 0},
        Row{"4x4090-pcie", 0, 8, 2, 0, 0}, Row{"orin-nx", 0, 0, 0, 0, 2},
        Row{"8xa100-hgx", 16, 40, 2, 0, 0},
        // 2 nodes: 16 NICs to 8 leaves, each of which has 2 cables to the one spine.
        Row{"16xh100-ndr", 32, 80, 4, 64, 0},
        // 18 trays of 4 GPUs and 4 NICs: 72 NICs to 4 leaves with 18 cables up each.
        Row{"72xgb200-nvl72", 144, 144, 0, 288, 144}}) {
    CAPTURE(row.name);
    const Cluster cluster = OpenCatalogue(row.name);
    CHECK(CountLinks(cluster, LinkKind::kNvLink) == row.nvlink);
    CHECK(CountLinks(cluster, LinkKind::kPcie) == row.pcie);
    CHECK(CountLinks(cluster, LinkKind::kInterSocket) == row.inter_socket);
    CHECK(CountLinks(cluster, LinkKind::kNetwork) == row.network);
    CHECK(CountLinks(cluster, LinkKind::kChipToChip) == row.chip_to_chip);
  }
}

// What the first half of the nodes can send to the second over the network at once, by maximum
// flow.
double Bisection(const Cluster& cluster) {
  using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
  using FlowGraph = boost::adjacency_list<
      boost::vecS, boost::vecS, boost::directedS, boost::no_property,
      boost::property<
          boost::edge_capacity_t, std::int64_t,
          boost::property<boost::edge_residual_capacity_t, std::int64_t,
                          boost::property<boost::edge_reverse_t, Traits::edge_descriptor>>>>;
  const int source = static_cast<int>(cluster.vertices().size());
  FlowGraph graph(cluster.vertices().size() + 2);
  const auto add = [&](int from, int to, double bytes_per_s) {
    const auto there = boost::add_edge(from, to, graph).first;
    const auto back = boost::add_edge(to, from, graph).first;
    boost::put(boost::edge_capacity, graph, there, std::llround(bytes_per_s));
    boost::put(boost::edge_capacity, graph, back, 0);
    boost::put(boost::edge_reverse, graph, there, back);
    boost::put(boost::edge_reverse, graph, back, there);
  };
  for (const Link& link : cluster.links()) {
    if (link.kind == LinkKind::kNetwork) add(link.from, link.to, link.bandwidth_bytes_per_s);
  }
  for (int v = 0; v < source; ++v) {
    const Vertex& vertex = cluster.vertices()[v];
    if (vertex.kind != VertexKind::kNic) continue;
    if (vertex.node < cluster.nodes / 2) {
      add(source, v, 1e15);
    } else {
      add(v, source + 1, 1e15);
    }
  }
  return static_cast<double>(boost::push_relabel_max_flow(graph, source, source + 1));
}

TEST_CASE("bisection: half of all NICs at 1:1, and 1/r of that at r:1") {
  const auto with = [](const std::string& name, std::vector<std::string> changes) {
    JsonDocument document = OpenCluster(name, ".");
    for (const std::string& change : changes) ApplyOverride(&document, change);
    return Bisection(ReadCluster(document));
  };
  CHECK(with("16xh100-ndr", {}) == 8 * 50 * kGb);  // one leaf per rail
  CHECK(with("512xh100-ndr", {}) == 256 * 50 * kGb);
  CHECK(with("512xh100-ndr", {"fabric.oversubscription=2"}) == 128 * 50 * kGb);
  CHECK(with("512xh100-ndr", {"fabric.oversubscription=4"}) == 64 * 50 * kGb);
  CHECK(with("512xh100-ndr", {"fabric.switch_link_gbit_per_s=200"}) == 128 * 50 * kGb);
  const std::vector<std::string> three = {"fabric.leaf_ports=4", "fabric.spine_ports=4",
                                          "fabric.core_ports=16"};
  CHECK(with("64xh100-ndr", three) == 32 * 50 * kGb);
  std::vector<std::string> tapered = three;
  tapered.emplace_back("fabric.spine_oversubscription=2");
  CHECK(with("64xh100-ndr", tapered) == 16 * 50 * kGb);
}

TEST_CASE("WithScaledLinks scales exactly what it says") {
  for (const auto* name : {"16xh100-ndr", "4x4090-pcie", "72xgb200-nvl72"}) {
    const Cluster cluster = OpenCatalogue(name);
    const Cluster scaled = cluster.WithScaledLinks(2, 3, 0.5);
    REQUIRE(scaled.links().size() == cluster.links().size());
    for (std::size_t i = 0; i < cluster.links().size(); ++i) {
      const Link& a = cluster.links()[i];
      const Link& b = scaled.links()[i];
      double factor = 1;
      if (a.kind == LinkKind::kNvLink) factor = 2;
      if (a.kind == LinkKind::kPcie) factor = 3;
      if (a.kind == LinkKind::kNetwork) factor = 0.5;
      REQUIRE(b.bandwidth_bytes_per_s == a.bandwidth_bytes_per_s * factor);
      REQUIRE(b.latency_s == a.latency_s);
      REQUIRE(b.kind == a.kind);
    }
    // Everything else is shared, not copied.
    CHECK(&scaled.vertices() == &cluster.vertices());
    CHECK(scaled.Route(0, cluster.GpuCount() - 1) == cluster.Route(0, cluster.GpuCount() - 1));
  }
  const Cluster ndr = OpenCatalogue("16xh100-ndr");
  CHECK(ndr.WithScaledLinks(1, 1, 0.5).NetworkBandwidthPerGpu() == 25 * kGb);
  CHECK(ndr.WithScaledLinks(0.5, 1, 1).RouteBandwidth(0, 1) == 225 * kGb);
  CHECK(ndr.RouteBandwidth(0, 1) == 450 * kGb);
}

TEST_CASE(
    "a searched graph gives fewest hops, then width, then the lowest ids; its domains are "
    "components") {
  // Two GPUs on a bridge, two without NVLink; two parallel cables to a CPU of different width, two
  // of the same.
  const std::vector<Vertex> vertices = {{VertexKind::kGpu, 0, 0}, {VertexKind::kGpu, 0, 1},
                                        {VertexKind::kGpu, 0, 2}, {VertexKind::kGpu, 0, 3},
                                        {VertexKind::kCpu, 0, 0}, {VertexKind::kCpu, 0, 1}};
  std::vector<Link> links;
  const auto cable = [&](int a, int b, LinkKind kind, double gb) {
    links.push_back({a, b, kind, gb * kGb, 1e-6});
    links.push_back({b, a, kind, gb * kGb, 1e-6});
  };
  cable(0, 1, LinkKind::kNvLink, 300);  // 0
  cable(0, 4, LinkKind::kPcie, 10);     // 2
  cable(0, 5, LinkKind::kPcie, 20);     // 4
  cable(1, 4, LinkKind::kPcie, 10);     // 6
  cable(2, 4, LinkKind::kPcie, 30);     // 8
  cable(2, 5, LinkKind::kPcie, 30);     // 10
  cable(3, 4, LinkKind::kPcie, 30);     // 12
  cable(3, 5, LinkKind::kPcie, 30);     // 14
  Cluster cluster;
  cluster.gpus_per_node = 4;
  cluster.graph = MakeSearchedGraph(vertices, links);
  CHECK(cluster.Route(0, 1) == std::vector<int>{0});
  CHECK(cluster.Route(0, 2) == std::vector<int>{4, 11});  // wider by the second CPU
  CHECK(cluster.Route(2, 3) == std::vector<int>{8, 13});  // a tie: lowest ids
  CHECK(cluster.Route(1, 1).empty());
  CHECK(cluster.RouteBandwidth(0, 2) == 20 * kGb);
  CHECK(cluster.HasNvLink());
  CHECK(cluster.NvLinkDomainOf(0) == 0);
  CHECK(cluster.NvLinkDomainOf(1) == 0);
  CHECK(cluster.NvLinkDomainOf(2) == -1);
  CHECK(StronglyConnected(*cluster.graph));
  links.resize(8);
  CHECK(!StronglyConnected(*MakeSearchedGraph(vertices, links)));
  CHECK(SearchRoute(*MakeSearchedGraph(vertices, links), 0, 3).empty());
}

TEST_CASE("the search finds paths as short as the structured ones inside a node and on a rail") {
  const Cluster cluster = OpenCatalogue("32xa100-hdr");
  for (int dst = 1; dst < 8; ++dst)
    CHECK(SearchRoute(*cluster.graph, 0, dst) == cluster.Route(0, dst));
  for (int dst = 8; dst < 32; dst += 8)
    CHECK(SearchRoute(*cluster.graph, 0, dst) == cluster.Route(0, dst));
}

TEST_CASE("names of vertices") {
  const Cluster ndr = OpenCatalogue("16xh100-ndr");
  CHECK(VertexName(ndr.vertices()[11]) == "node1/gpu3");
  CHECK(VertexName({VertexKind::kLeaf, -1, 2}) == "leaf2");
  CHECK(VertexName({VertexKind::kCore, -1, 0}) == "core0");
}

}  // namespace
}  // namespace aurum
