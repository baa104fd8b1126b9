#include "topologies/node_graph.h"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/support/shared.h"
#include "tests/topologies/fixtures.h"
#include "topologies/graph.h"

namespace aurum {
namespace {

JsonDocument Fixture(const std::string& name, const std::vector<std::string>& changes = {}) {
  JsonDocument document = ReadJsonFile("tests/topologies/fixtures/" + name);
  for (const std::string& change : changes) ApplyOverride(&document, change);
  return document;
}

std::vector<std::string> NamesAlong(const Cluster& cluster, const std::vector<int>& route) {
  std::vector<std::string> names;
  for (const int id : route) {
    const Link& link = cluster.links()[static_cast<std::size_t>(id)];
    if (names.empty()) names.push_back(VertexName(cluster.vertices()[link.from]));
    names.push_back(VertexName(cluster.vertices()[link.to]));
  }
  return names;
}

TEST_CASE("a node as a graph: its routes, domains and NICs") {
  // Two sockets; each has a PCIe switch with two GPUs and a NIC. GPUs 0 and 1 have a bridge.
  const Cluster node = ReadCluster(Fixture("two-sockets.json"));
  CHECK(node.GpuCount() == 4);
  CHECK(node.nodes == 1);
  CHECK(node.nics_per_node == 2);
  CHECK(node.HasNvLink());
  CHECK(node.NvLinkDomainOf(0) == 0);
  CHECK(node.NvLinkDomainOf(1) == 0);
  CHECK(node.NvLinkDomainOf(2) == -1);
  CHECK(node.RouteBandwidth(0, 1) == 100e9);
  CHECK(node.RouteBandwidth(2, 3) == 31.5e9);
  CHECK(node.RouteBandwidth(0, 3) == 16e9);  // the sockets
  CHECK(node.RouteLatency(0, 3) == doctest::Approx(2.5e-6));
  CHECK(NamesAlong(node, node.Route(0, 3)) ==
        std::vector<std::string>{"node0/gpu0", "node0/pcie0", "node0/cpu0", "node0/cpu1",
                                 "node0/pcie1", "node0/gpu3"});
  CHECK(node.NetworkBandwidthPerGpu() == 0);
  CHECK(node.warnings == std::vector<std::string>{"an example"});
  CHECK(StronglyConnected(*node.graph));
}

TEST_CASE("copies of the node on a fabric: rails, PXN over the bridge, shares of a NIC") {
  const std::vector<std::string> four = {
      "nodes=4",
      R"(fabric={"kind":"rail_optimised_fat_tree","leaf_ports":4,"spine_ports":8,"nic_link_latency_us":0.35,"switch_link_latency_us":0.25,"source":"a test"})"};
  const Cluster cluster = ReadCluster(Fixture("two-sockets.json", four));
  CHECK(cluster.GpuCount() == 16);
  CHECK(cluster.nics_per_node == 2);
  // Two GPUs share a NIC of 200 Gbit/s.
  CHECK(cluster.NetworkBandwidthPerGpu() == 12.5e9);
  CHECK(NamesAlong(cluster, cluster.Route(2, 6)) ==
        std::vector<std::string>{"node0/gpu2", "node0/pcie1", "node0/nic1", "leaf2", "node1/nic1",
                                 "node1/pcie1", "node1/gpu2"});
  // Another rail: GPU 0 has no GPU link to GPU 2's, so the spines carry it.
  CHECK(NamesAlong(cluster, cluster.Route(0, 6)).size() == 9);
  // Every node is a copy, every GPU is where its id says.
  for (int gpu = 0; gpu < cluster.GpuCount(); ++gpu) {
    CHECK(cluster.vertices()[gpu].kind == VertexKind::kGpu);
    CHECK(cluster.vertices()[gpu].node == gpu / 4);
    CHECK(cluster.vertices()[gpu].index == gpu % 4);
  }
  CHECK(cluster.NvLinkDomainOf(4) == 1);
  CHECK(cluster.NvLinkDomainOf(6) == -2);
  for (int src = 0; src < 16; ++src) {
    for (int dst = 0; dst < 16; ++dst) {
      if (src == dst) continue;
      int at = src;
      std::set<int> met = {src};
      for (const int id : cluster.Route(src, dst)) {
        REQUIRE(cluster.links()[id].from == at);
        at = cluster.links()[id].to;
        REQUIRE(met.insert(at).second);
      }
      REQUIRE(at == dst);
    }
  }
  // Inside a node, what Boost.Graph finds.
  for (int dst = 5; dst < 8; ++dst)
    CHECK(SearchRoute(*cluster.graph, 4, dst) == cluster.Route(4, dst));
}

TEST_CASE("without peer-to-peer or GPUDirect traffic sees a CPU") {
  const Cluster bounced = ReadCluster(Fixture("two-sockets.json", {"node.peer_to_peer=false"}));
  CHECK(NamesAlong(bounced, bounced.Route(2, 3)) ==
        std::vector<std::string>{"node0/gpu2", "node0/pcie1", "node0/cpu1", "node0/pcie1",
                                 "node0/gpu3"});
  CHECK(bounced.Route(0, 1).size() == 1);  // the bridge needs no PCIe

  const std::vector<std::string> two = {
      "nodes=2",
      R"(fabric={"kind":"fat_tree","leaf_ports":8,"nic_link_latency_us":0.35,"switch_link_latency_us":0.25,"source":"a test"})"};
  std::vector<std::string> changes = two;
  changes.emplace_back("node.vertices.8.gpu_direct=false");  // nic0
  const Cluster staged = ReadCluster(Fixture("two-sockets.json", changes));
  CHECK(NamesAlong(staged, staged.Route(0, 4)) ==
        std::vector<std::string>{"node0/gpu0", "node0/pcie0", "node0/cpu0", "node0/pcie0",
                                 "node0/nic0", "leaf0", "node1/nic0", "node1/pcie0", "node1/cpu0",
                                 "node1/pcie0", "node1/gpu0"});
  CHECK(NamesAlong(staged, staged.Route(2, 6)).size() == 7);
}

TEST_CASE("equal paths are spread on request") {
  // GPUs in a square of xGMI: two ways to the opposite corner.
  const Cluster first = ReadCluster(Fixture("square.json"));
  CHECK(first.Routes(0, 3).size() == 1);
  CHECK(first.RouteBandwidth(0, 3) == 50e9);
  const Cluster spread = ReadCluster(Fixture("square.json", {"node.equal_paths=spread"}));
  REQUIRE(spread.Routes(0, 3).size() == 2);
  CHECK(spread.RouteBandwidth(0, 3) == 100e9);
  CHECK(spread.RouteBandwidth(0, 1) == 50e9);
  CHECK(spread.HasNvLink());
  CHECK(spread.NvLinkDomainOf(3) == 0);
  // What a factor scales: GPU links.
  CHECK(spread.WithScaledLinks(2, 1, 1).RouteBandwidth(0, 1) == 100e9);
}

TEST_CASE("a written graph reads as the same cluster") {
  for (const char* name : {"two-sockets.json", "square.json"}) {
    JsonDocument document = Fixture(name, {"node.equal_paths=spread", "node.peer_to_peer=false",
                                           "node.vertices.0.gpu_direct=false"});
    const auto written = [](const JsonDocument& from) {
      ObjectReader root(from, from.root, "");
      ObjectReader reader = root.Object("node");
      return NodeGraphJson(*ReadNodeGraph(&reader));
    };
    Json node = written(document);
    const Cluster before = ReadCluster(document);
    const std::string text = node.Dump();
    document.root.Set("node", std::move(node));
    const Cluster after = ReadCluster(ParseJson(document.root.Dump(), "written.json"));
    CHECK(written(document).Dump() == text);
    REQUIRE(after.links().size() == before.links().size());
    for (std::size_t id = 0; id < after.links().size(); ++id) {
      CHECK(after.links()[id].from == before.links()[id].from);
      CHECK(after.links()[id].to == before.links()[id].to);
      CHECK(after.links()[id].kind == before.links()[id].kind);
      CHECK(after.links()[id].bandwidth_bytes_per_s == before.links()[id].bandwidth_bytes_per_s);
    }
    CHECK(after.Route(0, 3) == before.Route(0, 3));
  }
}

TEST_CASE("what contradicts itself is an error with code, place and remedy") {
  struct Row {
    const char* change;
    int code;
    const char* pointer;
    const char* help;
  };
  const std::vector<Row> rows = {
      {"node.vertices=null", 102, "/node", ""},
      {"node.cables=null", 102, "/node", ""},
      {"node.cables={}", 103, "/node/cables", ""},
      {"node.gpus=4", 101, "/node/gpus", ""},
      {"node.equal_paths=all", 108, "/node/equal_paths", "spread"},
      {"node.vertices.0.kind=leaf", 108, "/node/vertices/0/kind", "nvswitch"},
      {"node.vertices.0.gbit_per_s=1", 101, "/node/vertices/0/gbit_per_s", ""},
      {"node.vertices.8.gbit_per_s=0", 107, "/node/vertices/8/gbit_per_s", ""},
      {"node.vertices.1.name=gpu0", 520, "/node/vertices/1/name", "own name"},
      {"node.cables.0.from=gpu9", 521, "/node/cables/0/from", "did you mean 'gpu"},
      {"node.cables.0.kind=network", 108, "/node/cables/0/kind", ""},
      {"node.cables.0.kind=inter_socket", 522, "/node/cables/0/kind", "inter_socket joins CPUs"},
      {"node.cables.0.to=gpu0", 522, "/node/cables/0/kind", ""},
      {"node.cables.0.gb_per_s_per_direction=0", 107, "/node/cables/0/gb_per_s_per_direction",
       "leave it out"},
      {"node.cables.0.source=null", 102, "/node/cables/0", ""},
      {"node.vertices=[]", 521, "/node/cables/0/from", ""},
      {"nodes=2", 504, "/nodes", "add 'fabric'"},
      {"warnings=[1]", 103, "/warnings", ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.change);
    const Diagnostic d = ThrownBy([&] { ReadCluster(Fixture("two-sockets.json", {row.change})); });
    CHECK(d.code == row.code);
    CHECK(d.where.pointer.starts_with(row.pointer));
    CHECK(d.where.line > 0);
    CHECK(d.help.find(row.help) != std::string::npos);
  }
  Diagnostic d = ThrownBy([] {
    ReadCluster(Fixture("two-sockets.json", {"node.vertices=[]", "node.cables=[]"}));
  });
  CHECK(d.code == 523);
  d = ThrownBy([] { ReadCluster(Fixture("two-sockets.json", {"node.cables=[]"})); });
  CHECK(d.code == 524);
  CHECK(d.message.find("'gpu0'") != std::string::npos);

  // A chain of switches that no machine has.
  JsonDocument chain = Fixture("two-sockets.json", {"node.vertices=[]", "node.cables=[]"});
  std::string vertices = R"({"name":"gpu0","kind":"gpu"},{"name":"gpu1","kind":"gpu"})";
  std::string cables;
  for (int i = 0; i <= 30; ++i) {
    vertices += R"(,{"name":"p)" + std::to_string(i) + R"(","kind":"pcie"})";
    const std::string from = i == 0 ? "gpu0" : "p" + std::to_string(i - 1);
    cables += R"({"from":")" + from + R"(","to":"p)" + std::to_string(i) +
              R"(","kind":"pcie","gb_per_s_per_direction":1,"latency_us":1,"source":"a test"},)";
  }
  cables +=
      R"({"from":"p30","to":"gpu1","kind":"pcie","gb_per_s_per_direction":1,"latency_us":1,"source":"a test"})";
  ApplyOverride(&chain, "node.vertices=[" + vertices + "]");
  ApplyOverride(&chain, "node.cables=[" + cables + "]");
  d = ThrownBy([&] { ReadCluster(chain); });
  CHECK(d.code == 525);
  CHECK(d.message.find("32 hops") != std::string::npos);
}

}  // namespace
}  // namespace aurum
