#include "topologies/render.h"

#include <doctest/doctest.h>

#include <cmath>
#include <sstream>
#include <string>

#include "tests/support/shared.h"
#include "tests/topologies/fixtures.h"
#include "topologies/graph.h"

namespace aurum {
namespace {

void CheckAsciiWithin100Columns(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(line.size() <= 100);
    for (const char c : line) REQUIRE((c >= ' ' && c <= '~'));
    CHECK((line.empty() || line.back() != ' '));
  }
  CHECK((text.empty() || text.back() == '\n'));
}

TEST_CASE("every drawing is ASCII of at most 100 columns") {
  for (const std::string& name : ClusterCatalogue(".")) {
    CAPTURE(name);
    const Cluster cluster = OpenCatalogue(name);
    CheckAsciiWithin100Columns(DrawCluster(cluster));
    CheckAsciiWithin100Columns(BandwidthMatrix(cluster));
    CheckAsciiWithin100Columns(DescribePath(cluster, 0, cluster.GpuCount() - 1));
  }
  for (const char* change : {"node.gpus=12", "node.gpus=16", "node.gpus=4"}) {
    JsonDocument document = Changed("8xa100-hgx", change);
    ApplyOverride(&document, "node.nics.count=4");
    CheckAsciiWithin100Columns(DrawCluster(ReadCluster(document)));
    CheckAsciiWithin100Columns(BandwidthMatrix(ReadCluster(document)));
  }
}

TEST_CASE("the drawing of an HGX node") {
  const std::string text = DrawCluster(OpenCatalogue("8xa100-hgx"));
  CHECK(Contains(text, "8xa100-hgx: 1 node x 8 GPUs = 8 GPUs, A100-SXM4-80GB, 80 GiB each\n"));
  CHECK(Contains(
      text,
      "    [             CPU0             ][             CPU1             ]  16 GB/s inter-socket\n"
      "           |               |               |               |          31.5 GB/s PCIe\n"
      "    [PCIe switch 0 ][PCIe switch 1 ][PCIe switch 2 ][PCIe switch 3 ]\n"
      "       |       |       |       |       |       |       |       |      31.5 GB/s PCIe\n"
      "      GPU0    GPU1    GPU2    GPU3    GPU4    GPU5    GPU6    GPU7\n"
      "       |       |       |       |       |       |       |       |      300 GB/s NVLink\n"
      "    [                   NVSwitch plane, 6 chips                    ]\n"));
  CHECK(Contains(text, "connected to nothing"));
  CHECK(!Contains(text, "fabric:"));
}

TEST_CASE("the drawing of a fabric counts its levels, and shows scaled rates") {
  const Cluster cluster = OpenCatalogue("16384xh100-ndr");
  std::string text = DrawCluster(cluster);
  CHECK(Contains(text, "all 2048 are alike"));
  CHECK(Contains(text,
                 "16384 NICs    --   1 x 50 GB/s, 0.35 us --> 512 leaves (8 rails of 64), up to 32 "
                 "NICs each"));
  CHECK(Contains(text, "512 spines (16 pods of 32 leaves, 32 spines)"));
  CHECK(Contains(text, "256 cores"));
  CHECK(Contains(text, "NICs 819.2 TB/s, leaves up 819.2 TB/s, spines up 819.2 TB/s"));
  CHECK(Contains(text, "over a core"));
  text = DrawCluster(cluster.WithScaledLinks(2, 1, 0.5));
  CHECK(Contains(text, "900 GB/s NVLink"));
  CHECK(Contains(text, "NICs 409.6 TB/s"));
}

TEST_CASE("a path lists every hop with its rate and latency") {
  const Cluster cluster = OpenCatalogue("16xh100-ndr");
  const std::string text = DescribePath(cluster, 0, 15);
  CHECK(Contains(text, "GPU 0 (node0/gpu0) -> GPU 15 (node1/gpu7)\n"));
  CHECK(Contains(text, "  node0/gpu7              NVLink             450     0.3\n"));
  CHECK(Contains(text, "  leaf7                   network             50    0.35  narrowest\n"));
  CHECK(Contains(text, "  8 hops, 50 GB/s, 3.3 us\n"));
  CHECK(Contains(DescribePath(cluster, 3, 3), "the same GPU"));

  const Json json = PathJson(cluster, 0, 15);
  double latency_us = 0;
  double narrowest = INFINITY;
  std::string at = json.Find("src")->AsString();
  CHECK(at == "node0/gpu0");
  for (const Json& hop : json.Find("hops")->items()) {
    CHECK(hop.Find("from")->AsString() == at);
    at = hop.Find("to")->AsString();
    latency_us += hop.Find("latency_us")->AsNumber();
    narrowest = std::min(narrowest, hop.Find("gb_per_s")->AsNumber());
  }
  CHECK(at == json.Find("dst")->AsString());
  CHECK(json.Find("latency_us")->AsNumber() == doctest::Approx(latency_us));
  CHECK(json.Find("narrowest_gb_per_s")->AsNumber() == narrowest);
  CHECK(json.Find("hop_count")->AsInteger() == 8);
  CHECK(PathJson(cluster, 3, 3).Find("narrowest_gb_per_s")->IsNull());
}

TEST_CASE("E0507: a GPU that is not there") {
  const Cluster cluster = OpenCatalogue("8xh100-hgx");
  for (const int gpu : {-1, 8}) {
    const Diagnostic d = ThrownBy([&] { DescribePath(cluster, 0, gpu); });
    CHECK(d.code == 507);
    CHECK(Contains(d.message, std::to_string(gpu)));
    CHECK(Contains(d.help, "0 … 7"));
    CHECK(ThrownBy([&] { PathJson(cluster, gpu, 0); }).code == 507);
  }
}

TEST_CASE("the matrix is there for small clusters only") {
  const std::string box = BandwidthMatrix(OpenCatalogue("4x4090-pcie"));
  CHECK(box ==
        "  GB/s     to 0   to 1   to 2   to 3\n"
        "  GPU0        -   31.5     16     16\n"
        "  GPU1     31.5      -     16     16\n"
        "  GPU2       16     16      -   31.5\n"
        "  GPU3       16     16   31.5      -\n");
  CHECK(Contains(BandwidthMatrix(OpenCatalogue("16xh100-ndr")), "GPU15    50   50"));
  CHECK(BandwidthMatrix(OpenCatalogue("32xa100-hdr")).empty());
  CHECK(BandwidthMatrix(OpenCatalogue("1x4090")).empty());
}

TEST_CASE("JSON of a cluster") {
  const Cluster cluster = OpenCatalogue("32xa100-hdr");
  const Json json = ClusterJson(cluster);
  CHECK(json.Find("schema")->AsString() == "aurum.topology/1");
  CHECK(json.Find("gpus")->AsInteger() == 32);
  CHECK(json.Find("network_gb_per_s_per_gpu")->AsNumber() == 25);
  CHECK(json.Find("provenance")->AsString() == "datasheet");
  CHECK(FindPath(json, "fabric.leaves")->AsInteger() == 8);
  CHECK(FindPath(json, "sources.nvlink")->AsString().find("600 GB/s") != std::string::npos);
  CHECK(FindPath(json, "pairs_gb_per_s") == nullptr);
  std::int64_t cables = 0;
  for (const Json& cable : json.Find("cables")->items()) cables += cable.Find("count")->AsInteger();
  CHECK(cables * 2 == static_cast<std::int64_t>(cluster.links().size()));
  const Json box = ClusterJson(OpenCatalogue("4x4090-pcie"));
  CHECK(box.Find("fabric")->IsNull());
  CHECK(box.Find("host_memory_gib_per_node")->IsNull());
  CHECK(FindPath(box, "pairs_gb_per_s")->items()[0].items()[2].AsNumber() == 16);
  CHECK(FindPath(box, "pairs_gb_per_s")->items()[1].items()[1].IsNull());
}

TEST_CASE("a graph without a known structure can be drawn too") {
  Cluster cluster;
  cluster.name = "imported";
  cluster.gpus_per_node = 2;
  cluster.graph = MakeSearchedGraph(
      {{VertexKind::kGpu, 0, 0}, {VertexKind::kGpu, 0, 1}},
      {{0, 1, LinkKind::kNvLink, 3e11, 3e-7}, {1, 0, LinkKind::kNvLink, 3e11, 3e-7}});
  CHECK(Contains(DrawCluster(cluster), "NVLink        gpu - gpu"));
  CHECK(Contains(DescribePath(cluster, 1, 0), "1 hop, 300 GB/s, 0.3 us"));
  CHECK(ClusterJson(cluster).Find("fabric")->IsNull());
}

}  // namespace
}  // namespace aurum
