#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/shared.h"
#include "tests/topologies/fixtures.h"
#include "topologies/graph.h"
#include "topologies/ways.h"

namespace aurum {
namespace {

Cluster With(const std::string& name, const std::vector<std::string>& changes) {
  JsonDocument document = OpenCluster(name, ".");
  for (const std::string& change : changes) ApplyOverride(&document, change);
  return ReadCluster(document);
}

// Fat trees that are small enough for every pair and have every kind of choice: two and three levels,
// parallel cables, oversubscription, leaves that are not full, with and without rails and PXN.
std::vector<std::pair<std::string, std::vector<std::string>>> Fabrics() {
  return {
      {"32xh100-ndr", {"fabric.leaf_ports=4", "fabric.spine_ports=16"}},
      {"64xh100-ndr", {"fabric.leaf_ports=8", "fabric.spine_ports=64"}},
      {"64xh100-ndr",
       {"fabric.leaf_ports=8", "fabric.oversubscription=2", "fabric.spine_ports=64"}},
      {"128xh100-ndr", {"fabric.leaf_ports=4", "fabric.spine_ports=8", "fabric.core_ports=16"}},
      {"128xh100-ndr",
       {"fabric.leaf_ports=4", "fabric.spine_ports=8", "fabric.core_ports=32",
        "fabric.spine_oversubscription=2"}},
      {"96xh100-ndr",
       {"fabric.leaf_ports=8", "fabric.spine_ports=8", "fabric.core_ports=32", "fabric.pxn=false"}},
      {"72xh100-ndr", {"fabric.leaf_ports=4", "fabric.spine_ports=8", "fabric.core_ports=24"}},
      {"64xh100-ndr", {"fabric.kind=fat_tree", "fabric.leaf_ports=8", "fabric.spine_ports=8"}},
      {"64xh100-ndr",
       {"fabric.kind=fat_tree", "fabric.leaf_ports=16", "fabric.oversubscription=4",
        "fabric.spine_ports=8"}},
      {"64xa100-hdr",
       {"node.nics.count=4", "fabric.leaf_ports=4", "fabric.spine_ports=4",
        "fabric.core_ports=16"}},
      {"288xgb200-nvl72", {"fabric.leaf_ports=8", "fabric.spine_ports=8", "fabric.core_ports=64"}},
  };
}

// A contiguous path from src to dst that meets no vertex twice.
void CheckPath(const Cluster& cluster, const std::vector<int>& path, int src, int dst) {
  int at = src;
  std::set<int> met = {src};
  for (const int id : path) {
    const Link& link = cluster.links()[static_cast<std::size_t>(id)];
    REQUIRE(link.from == at);
    at = link.to;
    REQUIRE(met.insert(at).second);
  }
  REQUIRE(at == dst);
}

TEST_CASE("every way of every routing is a path as long as D-mod-k's; shares sum to 1") {
  for (const auto& [name, changes] : Fabrics()) {
    CAPTURE(name);
    CAPTURE(changes.front());
    const Cluster plain = With(name, changes);
    std::vector<std::string> more = changes;
    more.emplace_back("fabric.routing=adaptive");
    const Cluster adaptive = With(name, more);
    more.back() = "fabric.routing=ecmp";
    more.emplace_back("fabric.hash_seed=7");
    const Cluster ecmp = With(name, more);
    CHECK(plain.routing() == Routing::kDModK);
    CHECK(!plain.Spreads());
    CHECK(adaptive.Spreads());
    int spread = 0;
    for (int src = 0; src < plain.GpuCount(); src += 3) {
      for (int dst = 0; dst < plain.GpuCount(); ++dst) {
        const std::vector<int> route = plain.Route(src, dst);
        const std::vector<int> hashed = ecmp.Route(src, dst);
        REQUIRE(hashed.size() == route.size());
        CheckPath(ecmp, hashed, src, dst);
        REQUIRE(ecmp.Route(src, dst) == hashed);
        REQUIRE(ecmp.RouteBandwidth(src, dst) == plain.RouteBandwidth(src, dst));
        const std::vector<RouteShare> single = ecmp.Routes(src, dst);
        const std::vector<RouteShare> ways = adaptive.Routes(src, dst);
        if (src == dst) {
          REQUIRE(ways.empty());
          REQUIRE(single.empty());
          continue;
        }
        REQUIRE(single.size() == 1);
        REQUIRE(single.front().links == hashed);
        REQUIRE(ways.front().links == route);
        REQUIRE(adaptive.Route(src, dst) == route);
        double shares = 0;
        std::set<std::vector<int>> distinct;
        std::map<int, double> leaving;  // by vertex
        std::map<int, double> arriving;
        for (const RouteShare& way : ways) {
          REQUIRE(way.links.size() == route.size());
          CheckPath(adaptive, way.links, src, dst);
          REQUIRE(distinct.insert(way.links).second);
          shares += way.share;
          for (const int id : way.links) {
            leaving[adaptive.links()[static_cast<std::size_t>(id)].from] += way.share;
            arriving[adaptive.links()[static_cast<std::size_t>(id)].to] += way.share;
          }
        }
        REQUIRE(shares == doctest::Approx(1).epsilon(1e-12));
        for (const auto& [vertex, share] : leaving) {
          REQUIRE(share == doctest::Approx(vertex == src ? 1 : arriving[vertex]).epsilon(1e-12));
        }
        REQUIRE(adaptive.RouteBandwidth(src, dst) >= plain.RouteBandwidth(src, dst) * (1 - 1e-12));
        REQUIRE(adaptive.RouteLatency(src, dst) == plain.RouteLatency(src, dst));
        spread += ways.size() > 1 ? 1 : 0;
      }
    }
    CHECK(spread > 0);
  }
}

// Bytes on every link when node n sends one unit from each GPU to the GPU `shift` nodes further.
std::map<int, double> ShiftLoads(const Cluster& cluster, int shift, std::uint32_t flow_label) {
  std::map<int, double> loads;
  const int gpus = cluster.GpuCount();
  for (int src = 0; src < gpus; ++src) {
    const int dst = (src + shift * cluster.gpus_per_node) % gpus;
    if (cluster.Spreads()) {
      for (const RouteShare& way : cluster.Routes(src, dst)) {
        for (const int id : way.links) loads[id] += way.share;
      }
    } else {
      for (const int id : cluster.Route(src, dst, flow_label)) loads[id] += 1;
    }
  }
  return loads;
}

double MostLoaded(const Cluster& cluster, const std::map<int, double>& loads) {
  double most = 0;
  for (const auto& [id, load] : loads) {
    const Link& link = cluster.links()[static_cast<std::size_t>(id)];
    if (link.kind == LinkKind::kNetwork) most = std::max(most, load);
  }
  return most;
}

// The exact mean of the fullest of k bins after n balls: Σ over m of P(fullest > m), where P(fullest
// ≤ m) = n!/kⁿ [xⁿ] (Σ_{j≤m} xʲ/j!)ᵏ.
double MeanFullestBin(int n, int k) {
  double mean = 0;
  for (int m = 0; m < n; ++m) {
    std::vector<double> series(static_cast<std::size_t>(n) + 1, 0);
    series[0] = 1;
    for (int bin = 1; bin <= k; ++bin) {
      std::vector<double> next(series.size(), 0);
      for (int i = 0; i <= n; ++i) {
        double term = series[static_cast<std::size_t>(i)];
        for (int j = 0; j <= std::min(m, n - i); ++j) {
          if (j > 0) term *= 1.0 / (j * k) * (i + j);  // carries n!/kⁿ along, so nothing overflows
          next[static_cast<std::size_t>(i + j)] += term;
        }
      }
      series = std::move(next);
    }
    mean += 1 - series[static_cast<std::size_t>(n)];
  }
  return mean;
}

TEST_CASE("ECMP: eight flows on eight ways fill the fullest as balls fill bins") {
  // Two leaves of eight nodes a rail, so each leaf has 8 flows up on 8 cables.
  CHECK(MeanFullestBin(2, 2) == doctest::Approx(1.5));
  CHECK(MeanFullestBin(8, 8) == doctest::Approx(2.5972328186).epsilon(1e-9));
  const std::vector<std::string> changes = {"fabric.leaf_ports=16", "fabric.spine_ports=64"};
  std::vector<std::string> more = changes;
  more.emplace_back("fabric.routing=ecmp");
  const Cluster ecmp = With("128xh100-ndr", more);
  double sum = 0, squares = 0;
  int samples = 0;
  for (std::uint32_t label = 0; label < 400; ++label) {
    const std::map<int, double> loads = ShiftLoads(ecmp, 8, label);
    std::map<int, double> fullest;  // by leaf
    double total = 0;
    for (const auto& [id, load] : loads) {
      const Link& link = ecmp.links()[static_cast<std::size_t>(id)];
      if (ecmp.vertices()[static_cast<std::size_t>(link.to)].kind != VertexKind::kSpine) continue;
      fullest[link.from] = std::max(fullest[link.from], load);
      total += load;
    }
    REQUIRE(total == 128);
    REQUIRE(fullest.size() == 16);
    for (const auto& [leaf, load] : fullest) {
      sum += load;
      squares += load * load;
      ++samples;
    }
  }
  const double mean = sum / samples;
  const double error = std::sqrt((squares / samples - mean * mean) / samples);
  CHECK(error < 0.02);
  CHECK(std::abs(mean - MeanFullestBin(8, 8)) < 4 * error);

  // The same flows without a hash, and spread over all ways: nothing collides.
  CHECK(MostLoaded(ecmp, ShiftLoads(With("128xh100-ndr", changes), 8, 0)) == 1);
  more.back() = "fabric.routing=adaptive";
  const Cluster adaptive = With("128xh100-ndr", more);
  for (const auto& [id, load] : ShiftLoads(adaptive, 8, 0)) {
    if (adaptive.links()[static_cast<std::size_t>(id)].kind == LinkKind::kNetwork)
      REQUIRE(load == doctest::Approx(1).epsilon(1e-12));
  }
}

TEST_CASE("the seed of the document decides the collisions, and nothing else does") {
  const std::vector<std::string> base = {"fabric.leaf_ports=16", "fabric.spine_ports=64",
                                         "fabric.routing=ecmp"};
  std::set<std::vector<int>> routes;
  std::string most;
  for (int seed = 0; seed < 8; ++seed) {
    std::vector<std::string> changes = base;
    changes.push_back("fabric.hash_seed=" + std::to_string(seed));
    const Cluster cluster = With("128xh100-ndr", changes);
    routes.insert(cluster.Route(0, 64));
    most += std::to_string(std::lround(MostLoaded(cluster, ShiftLoads(cluster, 8, 0)))) + " ";
    CHECK(cluster.Route(0, 64) == With("128xh100-ndr", changes).Route(0, 64));
  }
  CHECK(routes.size() >= 4);  // of 8 · 1 ways; all alike has odds of 8⁻⁷
  // Signature: the same on every machine.
  CHECK(most == "5 5 5 3 4 5 5 4 ");
}

TEST_CASE("a hash chooses evenly, by every level on its own") {
  for (const int n : {1, 2, 3, 7, 32}) {
    std::vector<int> count(static_cast<std::size_t>(n), 0);
    const int flows = 20000;
    for (int i = 0; i < flows; ++i)
      ++count[static_cast<std::size_t>(HashedChoice(FlowHash(3, i, i + 1, 0), 1, n))];
    double chi2 = 0;
    const double expected = static_cast<double>(flows) / n;
    for (const int c : count) chi2 += (c - expected) * (c - expected) / expected;
    // Mean n − 1, standard deviation √(2(n − 1)).
    CHECK(chi2 < n - 1 + 4 * std::sqrt(2.0 * (n - 1)) + 1);
  }
  int same = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t flow = FlowHash(0, i, 2 * i + 1, 5);
    same += HashedChoice(flow, 0, 10) == HashedChoice(flow, 1, 10) ? 1 : 0;
  }
  CHECK(same > 60);
  CHECK(same < 140);
  CHECK(FlowHash(0, 1, 2, 0) != FlowHash(0, 2, 1, 0));
  CHECK(FlowHash(0, 1, 2, 0) != FlowHash(0, 1, 2, 1));
  CHECK(FlowHash(0, 1, 2, 0) != FlowHash(1, 1, 2, 0));
}

TEST_CASE("more ways than asked for: an even choice") {
  const Cluster cluster = With("16384xh100-ndr", {"fabric.routing=adaptive"});
  const int far = 1024 * 8;  // another pod: 32 ways at the leaf, 32 at the spine
  for (const int most : {1, 5, 32, 64, 4096}) {
    CAPTURE(most);
    const std::vector<RouteShare> ways = cluster.Routes(0, far, most);
    CHECK(static_cast<int>(ways.size()) == std::min(most, 1024));
    std::map<int, int> at_leaf;
    std::set<std::vector<int>> distinct;
    for (const RouteShare& way : ways) {
      distinct.insert(way.links);
      for (const int id : way.links) {
        const Vertex& to = cluster.vertices()[static_cast<std::size_t>(
            cluster.links()[static_cast<std::size_t>(id)].to)];
        const Vertex& from = cluster.vertices()[static_cast<std::size_t>(
            cluster.links()[static_cast<std::size_t>(id)].from)];
        if (from.kind == VertexKind::kLeaf && to.kind == VertexKind::kSpine) ++at_leaf[id];
      }
    }
    CHECK(distinct.size() == ways.size());
    CHECK(static_cast<int>(at_leaf.size()) == std::min(most, 32));
    int fewest = 1 << 20, fullest = 0;
    for (const auto& [id, count] : at_leaf) {
      fewest = std::min(fewest, count);
      fullest = std::max(fullest, count);
    }
    CHECK(fullest - fewest <= 1);
  }
}

TEST_CASE("a searched graph: all equal paths, the first is the route") {
  // A square of GPUs on their own links, and a longer way through a CPU.
  const std::vector<Vertex> vertices = {{VertexKind::kGpu, 0, 0}, {VertexKind::kGpu, 0, 1},
                                        {VertexKind::kGpu, 0, 2}, {VertexKind::kGpu, 0, 3},
                                        {VertexKind::kNic, 0, 0}, {VertexKind::kPcieSwitch, 0, 0}};
  std::vector<Link> links;
  const auto cable = [&](int a, int b, LinkKind kind, double gb) {
    links.push_back({a, b, kind, gb * 1e9, 1e-6});
    links.push_back({b, a, kind, gb * 1e9, 1e-6});
  };
  cable(0, 1, LinkKind::kXgmi, 50);
  cable(0, 2, LinkKind::kXgmi, 50);
  cable(1, 3, LinkKind::kXgmi, 50);
  cable(2, 3, LinkKind::kXgmi, 50);
  for (int gpu = 0; gpu < 4; ++gpu) cable(gpu, 5, LinkKind::kPcie, 10);
  cable(4, 5, LinkKind::kPcie, 10);
  Cluster cluster;
  cluster.gpus_per_node = 4;
  cluster.graph = MakeSearchedGraph(vertices, links, true);
  const std::vector<RouteShare> ways = cluster.Routes(0, 3);
  REQUIRE(ways.size() == 2);  // not three: PCIe is as short, but narrower
  CHECK(ways[0].links == cluster.Route(0, 3));
  CHECK(ways[0].share == 0.5);
  CHECK(ways[0].links == std::vector<int>{0, 4});
  CHECK(ways[1].links == std::vector<int>{2, 6});
  CHECK(cluster.RouteBandwidth(0, 3) == 100e9);
  CHECK(cluster.RouteBandwidth(0, 1) == 50e9);
  CHECK(cluster.Routes(0, 3, 1).size() == 1);
  CHECK(cluster.NvLinkDomainOf(3) == 0);
}

TEST_CASE("NICs do not forward inside a node, and GPUs only from GPU to GPU, once") {
  const std::vector<Vertex> vertices = {{VertexKind::kGpu, 0, 0},
                                        {VertexKind::kGpu, 0, 1},
                                        {VertexKind::kGpu, 0, 2},
                                        {VertexKind::kGpu, 0, 3},
                                        {VertexKind::kNic, 0, 0}};
  std::vector<Link> links;
  const auto cable = [&](int a, int b, LinkKind kind) {
    links.push_back({a, b, kind, 1e9, 1e-6});
    links.push_back({b, a, kind, 1e9, 1e-6});
  };
  cable(0, 1, LinkKind::kNvLink);
  cable(1, 2, LinkKind::kNvLink);
  cable(2, 3, LinkKind::kNvLink);
  cable(0, 4, LinkKind::kPcie);
  cable(3, 4, LinkKind::kPcie);
  const auto graph = MakeSearchedGraph(vertices, links);
  CHECK(SearchRoute(*graph, 0, 2) == std::vector<int>{0, 2});
  CHECK(SearchRoute(*graph, 0, 3).empty());  // neither over two GPUs nor over the NIC
  CHECK(SearchRoute(*graph, 0, 4) == std::vector<int>{6});
  CHECK(SearchRoute(*graph, 1, 4).empty());  // a GPU hands nothing on to PCIe
}

TEST_CASE("E0108 and E0109: routing that is not known, a seed without a hash") {
  Diagnostic d = ThrownBy([] { With("16xh100-ndr", {"fabric.routing=random"}); });
  CHECK(d.code == 108);
  CHECK(d.where.pointer == "/fabric/routing");
  d = ThrownBy([] { With("16xh100-ndr", {"fabric.hash_seed=1"}); });
  CHECK(d.code == 109);
  CHECK(d.where.pointer == "/fabric/hash_seed");
  CHECK(d.help.find("ecmp") != std::string::npos);
}

}  // namespace
}  // namespace aurum
