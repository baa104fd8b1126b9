#include "topologies/nccl_topo.h"
#include "tests/topologies/fixtures.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "sim/core/text_file.h"
#include "tests/support/shared.h"
#include "topologies/nccl_figures.h"

namespace aurum {
namespace {

ImportedCluster ImportNcclFile(const std::string& path, const TopologyImportOptions& options = {}) {
  TopologyImportOptions named = options;
  named.name = "a-test";
  return ImportNcclTopology(TextSource(path, ReadTextFile(path)), named);
}

ImportedCluster ImportNccl(const std::string& fixture, const TopologyImportOptions& options = {}) {
  return ImportNcclFile("tests/topologies/fixtures/nccl/" + fixture, options);
}

ImportedCluster ImportNcclText(const std::string& text, const TopologyImportOptions& options = {}) {
  return ImportNcclTopology(TextSource("text.xml", text), options);
}

std::vector<int> CheckedCodes(const ImportedCluster& imported) {
  std::vector<int> codes;
  for (const Diagnostic& warning : imported.warnings) {
    CHECK(warning.warning);
    CHECK(!warning.help.empty());
    CHECK(!warning.where.file.empty());
    codes.push_back(warning.code);
  }
  std::sort(codes.begin(), codes.end());
  return codes;
}

std::string ChangedText(const std::string& fixture, const std::string& from,
                        const std::string& to) {
  std::string text = ReadTextFile("tests/topologies/fixtures/nccl/" + fixture);
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST_CASE(
    "a switched node: NVLinks summed onto the plane, ports summed into a NIC, GPUs by 'dev'") {
  const ImportedCluster imported = ImportNccl("switched.xml");
  CHECK(CheckedCodes(imported) == std::vector<int>{1550});  // an NVMe drive
  const Cluster cluster = ReadImported(imported);
  CHECK(cluster.gpu.name == "H100-SXM5-80GB");
  CHECK(cluster.gpu.profile == "h100");
  CHECK(cluster.GpuCount() == 2);
  CHECK(CountKind(cluster, VertexKind::kNvSwitch) == 1);
  CHECK(CountKind(cluster, VertexKind::kCpu) == 2);
  // The two levels of the Broadcom switch are one.
  CHECK(CountKind(cluster, VertexKind::kPcieSwitch) == 2);
  CHECK(CountKind(cluster, VertexKind::kNic) == 2);
  CHECK(cluster.RouteBandwidth(0, 1) == 18 * 25e9);
  CHECK(cluster.RouteLatency(0, 1) == doctest::Approx(0.6e-6));
  const Json& vertices = *FindPath(imported.document, "node.vertices");
  CHECK(vertices.items()[0].Find("label")->AsString() == "0000:81:00.0");  // dev 0
  for (const Json& vertex : vertices.items()) {
    if (vertex.Find("kind")->AsString() != "nic") continue;
    const bool card = vertex.Find("label")->AsString() == "one_0+one_1";
    CHECK(vertex.Find("gbit_per_s")->AsNumber() == (card ? 400 : 10));
    CHECK((vertex.Find("gpu_direct") == nullptr) == card);
  }
  for (const Json& cable : FindPath(imported.document, "node.cables")->items()) {
    const std::string& source = cable.Find("source")->AsString();
    CHECK(!source.empty());
    if (cable.Find("kind")->AsString() == "inter_socket") {
      CHECK(cable.Find("gb_per_s_per_direction")->AsNumber() == 22);
      CHECK(source.find("SRP_QPI_BW") != std::string::npos);
    }
    // PCIe 4.0 x8: 16 GT/s · 8 · 128/130 / 8.
    if (source.find("0000:13:00.0") != std::string::npos)
      CHECK(cable.Find("gb_per_s_per_direction")->AsNumber() ==
            doctest::Approx(16.0 * 128 / 130).epsilon(1e-12));
  }
}

TEST_CASE(
    "NVLinks between two GPUs, and POWER's to the CPU; what is not told is assumed with a "
    "warning") {
  TopologyImportOptions options;
  options.pcie_generation = 4;
  const ImportedCluster told = ImportNccl("power.xml", options);
  CHECK(CheckedCodes(told) == std::vector<int>{1541});
  const ImportedCluster imported = ImportNccl("power.xml");
  CHECK(CheckedCodes(imported) == std::vector<int>{1540, 1541});
  const Cluster cluster = ReadImported(imported);
  CHECK(cluster.gpu.name == "V100-SXM2-16GB");
  CHECK(cluster.RouteBandwidth(0, 1) == 3 * 25e9);
  CHECK(cluster.Route(0, 1).size() == 1);
  CHECK(cluster.NvLinkDomainOf(0) == cluster.NvLinkDomainOf(1));
  int chip_to_chip = 0;
  for (const Link& link : cluster.links())
    chip_to_chip += link.kind == LinkKind::kChipToChip ? 1 : 0;
  CHECK(chip_to_chip == 4);
  CHECK(cluster.provenance == Provenance::kAssumed);
  // The document keeps what was assumed, with number, value and source.
  REQUIRE(cluster.warnings.size() == 2);
  bool nic = false;
  for (const std::string& warning : cluster.warnings)
    nic = nic || (warning.starts_with("W1541") && warning.find("100 Gbit/s") != std::string::npos &&
                  warning.find("NET_BW") != std::string::npos);
  CHECK(nic);
  options.nic_gbit_per_s = 200;
  options.profile = "a100";
  CHECK(CheckedCodes(ImportNccl("power.xml", options)).empty());
}

TEST_CASE("xGMI: direct, or over one GPU between") {
  const Cluster cluster = ReadImported(ImportNccl("xgmi.xml"));
  CHECK(cluster.gpu.profile == "mi100");
  CHECK(cluster.RouteBandwidth(0, 1) == 46e9);
  CHECK(cluster.Route(0, 1).size() == 1);
  CHECK(cluster.Route(0, 2).size() == 2);
  CHECK(cluster.HasNvLink());
  for (const Link& link : cluster.links()) CHECK(link.kind != LinkKind::kNvLink);
}

TEST_CASE("a file for NCCL to complete: --gpu, and its NVLinks assumed on a board of eight") {
  const Diagnostic d = ThrownBy([] { ImportNccl("partial.xml"); });
  CHECK(d.code == 545);
  CHECK(d.where.line == 5);
  CHECK(d.help.find("--gpu") != std::string::npos);
  TopologyImportOptions options;
  options.gpu = "a100";
  const ImportedCluster imported = ImportNccl("partial.xml", options);
  CHECK(CheckedCodes(imported) == std::vector<int>{1540, 1541, 1543});
  CHECK(ReadImported(imported).RouteBandwidth(0, 7) == 300e9);
  CHECK(ReadImported(imported).nics_per_node == 2);
  options.nvlinks = 0;
  options.pcie_generation = 3;
  const Cluster pcie = ReadImported(ImportNccl("partial.xml", options));
  CHECK(!pcie.HasNvLink());
  CHECK(pcie.RouteBandwidth(0, 7) == doctest::Approx(8e9 * 16 * 128 / 130 / 8));
  CHECK(pcie.Route(0, 1).size() == 2);
  CHECK(pcie.Route(0, 7).size() == 4);
  options.nvlinks = 13;
  CHECK(ThrownBy([&] { ImportNccl("partial.xml", options); }).code == 552);
}

TEST_CASE("several nodes: NIC rates must be told, the fabric is assumed") {
  TopologyImportOptions options;
  options.gpu = "a100";
  options.nodes = 4;
  Diagnostic d = ThrownBy([&] { ImportNccl("partial.xml", options); });
  CHECK(d.code == 553);
  CHECK(d.help.find("--nic-gbit") != std::string::npos);
  options.nic_gbit_per_s = 200;
  const ImportedCluster imported = ImportNccl("partial.xml", options);
  CHECK(CheckedCodes(imported) == std::vector<int>{1540, 1543, 1548});
  const Cluster cluster = ReadImported(imported);
  CHECK(cluster.GpuCount() == 32);
  CHECK(cluster.NetworkBandwidthPerGpu() == 25e9 / 4);
  options.switch_ports = 40;
  CHECK(CheckedCodes(ImportNccl("partial.xml", options)) == std::vector<int>{1540, 1543});
}

TEST_CASE("NICs that serve one GPU become one") {
  TopologyImportOptions options;
  options.nodes = 2;
  options.switch_ports = 64;
  const ImportedCluster imported = ImportNccl("many-nics.xml", options);
  CHECK(CheckedCodes(imported) == std::vector<int>{1547});
  const Cluster cluster = ReadImported(imported);
  CHECK(cluster.nics_per_node == 1);
  CHECK(cluster.NetworkBandwidthPerGpu() == 4 * 12.5e9);
}

TEST_CASE("what cannot be read is an error with code, place and remedy") {
  struct Row {
    const char* fixture;
    const char* from;
    const char* to;
    int code;
    int line;
  };
  const std::vector<Row> rows = {
      {"graphs.xml", "graphs", "graphs", 541, 1},
      {"switched.xml", "<system version=\"1\">", "<topology>", 540, 0},
      {"switched.xml", "</system>", "", 540, 0},
      {"switched.xml", "count=\"9\"", "", 542, 7},
      {"switched.xml", "count=\"9\"", "count=\"-9\"", 542, 7},
      {"switched.xml", "count=\"9\"", "count=\"19\"", 552, 7},
      {"switched.xml", "speed=\"200000\"", "speed=\"fast\"", 542, 14},
      {"switched.xml", "32.0 GT/s", "33.0 GT/s", 542, 3},
      {"switched.xml", "link_width=\"16\"", "link_width=\"sixteen\"", 542, 3},
      {"switched.xml", "busid=\"0000:10:00.0\"", "", 542, 3},
      {"switched.xml", "busid=\"0000:81:00.0\"", "busid=\"0000:80:00.0\"", 544, 23},
      {"switched.xml", "device=\"0x2330\"", "device=\"0x20b2\"", 546, 5},
      {"switched.xml", "numaid=\"0\"", "numaid=\"0\" host_hash=\"0x1\"", 0, 0},
  };
  for (const Row& row : rows) {
    CAPTURE(row.from);
    CAPTURE(row.to);
    const std::string text = ChangedText(row.fixture, row.from, row.to);
    if (row.code == 0) {
      CHECK_NOTHROW(ImportNcclText(text));
      continue;
    }
    const Diagnostic d = ThrownBy([&] { ImportNcclText(text); });
    CHECK(d.code == row.code);
    CHECK(d.where.file == "text.xml");
    CHECK(d.where.line > 0);
    if (row.line > 0) CHECK(d.where.line == row.line);
    CHECK(!d.help.empty());
  }
  CHECK(ThrownBy([] { ImportNcclText(""); }).code == 540);
  CHECK(ThrownBy([] { ImportNcclText("GPU0 GPU1"); }).code == 540);
  CHECK(ThrownBy([] { ImportNcclText("<system/>"); }).code == 543);
  CHECK(ThrownBy([] { ImportNcclText("<other/>"); }).code == 541);
  const Diagnostic g5 =
      ThrownBy([] { ImportNcclText("<system><cpu><pci busid=\"0000:00:16.0\"/></cpu></system>"); });
  CHECK(g5.code == 543);
  CHECK(g5.message.find("no 'class'") != std::string::npos);
  CHECK(
      ThrownBy([] {
        ImportNcclText(
            "<system><cpu host_hash=\"1\"/><cpu host_hash=\"2\"/><cpu host_hash=\"1\"/></system>");
      }).code == 556);
  TopologyImportOptions options;
  options.gpu = "h2000";
  const Diagnostic unknown = ThrownBy([&] { ImportNccl("switched.xml", options); });
  CHECK(unknown.code == 545);
  CHECK(unknown.help.find("did you mean 'h200'?") != std::string::npos);
}

TEST_CASE("links to what is not there, and bridges that are slow, are told") {
  std::string text = ChangedText("xgmi.xml", "target=\"0000:10:00.0\"", "target=\"0000:70:00.0\"");
  CHECK(CheckedCodes(ImportNcclText(text)) == std::vector<int>{1544, 1551});
  text = ChangedText("switched.xml", "32.0 GT/s", "5.0 GT/s");
  CHECK(CheckedCodes(ImportNcclText(text)) == std::vector<int>{1549, 1550});
}

TEST_CASE("figures of NCCL and of PCIe") {
  CHECK(NcclSocketFigure("x86_64", "GenuineIntel", 6, 85).gb_per_s == 10);
  CHECK(NcclSocketFigure("x86_64", "GenuineIntel", 6, 143).gb_per_s == 22);
  CHECK(NcclSocketFigure("x86_64", "GenuineIntel", 6, 207).gb_per_s == 40);
  CHECK(NcclSocketFigure("x86_64", "GenuineIntel", 6, 79).gb_per_s == 6);
  CHECK(NcclSocketFigure("x86_64", "AuthenticAMD", 143, 49).gb_per_s == 16);
  CHECK(NcclSocketFigure("x86_64", "AuthenticAMD", 175, 48).gb_per_s == 24);
  CHECK(NcclSocketFigure("ppc64", "", 0, 0).gb_per_s == 32);
  CHECK(NcclSocketFigure("", "", 0, 0).gb_per_s == 0);
  CHECK(PcieBytesPerSecond(2.5, 1) == doctest::Approx(0.25e9));
  CHECK(PcieBytesPerSecond(8, 16) == doctest::Approx(15.754e9).epsilon(1e-4));
  CHECK(PcieBytesPerSecond(16, 16) == doctest::Approx(31.508e9).epsilon(1e-4));
  CHECK(PcieBytesPerSecond(64, 16) == doctest::Approx(121e9));
  CHECK(BroadcomGeneration(0x1000, 0xc030, 0x1000, 0x0072, 0) == 5);
  CHECK(BroadcomGeneration(0x1000, 0xc030, 0x1000, 0x1003, 0) == 0);
  CHECK(BroadcomGeneration(0x1000, 0xc010, 0x1000, 0xa023, 1) == 4);
}

TEST_CASE("the known GPUs: keys in order, profiles where we say so") {
  const std::vector<std::string> keys = GpuKeys();
  CHECK(std::is_sorted(keys.begin(), keys.end()));
  for (const std::string& key : keys) {
    CAPTURE(key);
    const GpuFacts& gpu = *FindGpuByKey(key);
    CHECK(std::filesystem::exists("calibrate/profiles/" + std::string(gpu.profile) + ".json") ==
          gpu.has_profile);
    CHECK(PcieGigatransfers(gpu.pcie_generation) > 0);
    CHECK((gpu.links == 0) == (gpu.gb_per_s_per_link == 0));
    if (!gpu.pci_device.empty()) CHECK(FindGpuByPciDevice(gpu.pci_device) == &gpu);
  }
  CHECK(FindGpuByKey("h1000") == nullptr);
}

// Real files of others.
TEST_CASE("real dumps: OCI's H100 node") {
  const std::string path = SharedPath("data/topology-samples/topo_oci_h100.xml");
  if (path.empty()) return;
  const ImportedCluster imported = ImportNcclFile(path);
  CHECK(CheckedCodes(imported) == std::vector<int>{1549});  // upstream bridges at 5 GT/s
  const Cluster cluster = ReadImported(imported);
  CHECK(cluster.GpuCount() == 8);
  CHECK(cluster.nics_per_node == 8);  // 16 ports, two a card
  CHECK(CountKind(cluster, VertexKind::kPcieSwitch) == 8);
  for (int dst = 1; dst < 8; ++dst) CHECK(cluster.RouteBandwidth(0, dst) == 450e9);
  TopologyImportOptions options;
  options.nodes = 2;
  const Cluster two = ReadImported(ImportNcclFile(path, options));
  CHECK(two.NetworkBandwidthPerGpu() == 45e9);  // 2 · 180 Gbit/s
  CHECK(two.RouteLatency(0, 8) == doctest::Approx(2.7e-6));
}

TEST_CASE("real dumps: RCCL's MI100 and MI200 nodes") {
  std::string path = SharedPath("data/topology-samples/topo_rccl_4p3l.xml");
  if (path.empty()) return;
  const Cluster four = ReadImported(ImportNcclFile(path));
  CHECK(four.GpuCount() == 4);
  CHECK(four.RouteBandwidth(0, 3) == 46e9);
  path = SharedPath("data/topology-samples/topo_rccl_8p_90a.xml");
  const Cluster eight = ReadImported(ImportNcclFile(path));
  CHECK(eight.GpuCount() == 8);
  int direct = 0;
  for (int src = 0; src < 8; ++src) {
    for (int dst = 0; dst < 8; ++dst) {
      if (src == dst) continue;
      CHECK(eight.RouteBandwidth(src, dst) == 50e9);
      CHECK(eight.Route(src, dst).size() <= 2);
      direct += eight.Route(src, dst).size() == 1 ? 1 : 0;
    }
  }
  CHECK(direct == 24);
}

TEST_CASE("real files for NCCL to complete: AWS and Azure") {
  std::string path = SharedPath("data/topology-samples/topo_aws_p4d.xml");
  if (path.empty()) return;
  ImportedCluster imported = ImportNcclFile(path);  // device 0x20b0 tells the GPU
  CHECK(CheckedCodes(imported) == std::vector<int>{1541, 1543});
  CHECK(ReadImported(imported).gpu.name == "A100-SXM4-40GB");
  CHECK(ReadImported(imported).nics_per_node == 4);
  CHECK(ReadImported(imported).RouteBandwidth(0, 7) == 300e9);
  path = SharedPath("data/topology-samples/topo_azure_ndv5.xml");
  CHECK(ThrownBy([&] { ImportNcclFile(path); }).code == 545);
  TopologyImportOptions options;
  options.gpu = "h100";
  options.nic_gbit_per_s = 400;
  options.nodes = 2;
  imported = ImportNcclFile(path, options);
  CHECK(CheckedCodes(imported) == std::vector<int>{1543, 1548});
  CHECK(ReadImported(imported).NetworkBandwidthPerGpu() == 50e9);
  path = SharedPath("data/topology-samples/topo_aws_g5_minimal.xml");
  Diagnostic d = ThrownBy([&] { ImportNcclFile(path); });
  CHECK(d.code == 543);
  CHECK(d.where.line == 14);
  path = SharedPath("data/topology-samples/graph_azure_ncv4.xml");
  d = ThrownBy([&] { ImportNcclFile(path); });
  CHECK(d.code == 541);
  CHECK(d.message.find("graph dump") != std::string::npos);
}

}  // namespace
}  // namespace aurum
