#include "topologies/nvidia_smi.h"
#include "tests/topologies/fixtures.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/core/text_file.h"
#include "tests/support/shared.h"

namespace aurum {
namespace {

TopologyImportOptions Gpu(const std::string& key) {
  TopologyImportOptions options;
  options.name = "a-test";
  options.gpu = key;
  return options;
}

ImportedCluster ImportSmiFile(const std::string& path, const TopologyImportOptions& options) {
  return ImportNvidiaSmi(TextSource(path, ReadTextFile(path)), options);
}

ImportedCluster ImportSmi(const std::string& fixture, const TopologyImportOptions& options) {
  return ImportSmiFile("tests/topologies/fixtures/smi/" + fixture, options);
}

ImportedCluster ImportSmiText(const std::string& text, const TopologyImportOptions& options) {
  return ImportNvidiaSmi(TextSource("text.txt", text), options);
}

std::vector<int> WarningCodes(const ImportedCluster& imported) {
  std::vector<int> codes;
  for (const Diagnostic& warning : imported.warnings) codes.push_back(warning.code);
  std::sort(codes.begin(), codes.end());
  return codes;
}

TEST_CASE("a switched node: the plane, sockets from NUMA, switches from the NICs' columns") {
  const ImportedCluster imported = ImportSmi("switched.txt", Gpu("h100"));
  CHECK(WarningCodes(imported) == std::vector<int>{1540, 1541, 1542});
  const Cluster cluster = ReadImported(imported);
  CHECK(cluster.GpuCount() == 8);
  CHECK(cluster.RouteBandwidth(0, 7) == 450e9);
  CHECK(CountKind(cluster, VertexKind::kNvSwitch) == 1);
  CHECK(CountKind(cluster, VertexKind::kCpu) == 2);
  CHECK(CountKind(cluster, VertexKind::kPcieSwitch) == 4);
  CHECK(cluster.nics_per_node == 4);
  // Names of the legend, sockets as told.
  const std::string text = imported.document.Dump();
  CHECK(text.find("\"label\":\"mlx5_3\"") != std::string::npos);
  CHECK(text.find("\"label\":\"NUMA 1\"") != std::string::npos);
  TopologyImportOptions all = Gpu("h100");
  all.pcie_generation = 5;
  all.nic_gbit_per_s = 400;
  all.inter_socket_gb_per_s = 22;
  CHECK(WarningCodes(ImportSmi("switched.txt", all)).empty());
  CHECK(ReadImported(ImportSmi("switched.txt", all)).provenance == Provenance::kDatasheet);
  all.nodes = 4;
  all.switch_ports = 64;
  const Cluster four = ReadImported(ImportSmi("switched.txt", all));
  CHECK(four.NetworkBandwidthPerGpu() == 25e9);  // two GPUs a NIC
  CHECK(four.Route(0, 8).size() == 6);           // GPU, switch, NIC, leaf, and down again
}

TEST_CASE("merged cells and a table that was cut off say the same") {
  const ImportedCluster whole = ImportSmi("switched.txt", Gpu("h100"));
  const ImportedCluster merged = ImportSmi("merged.txt", Gpu("h100"));
  CHECK(WarningCodes(merged) == std::vector<int>{1540, 1541, 1542, 1552});
  CHECK(merged.document.Find("node")->Find("vertices")->Dump() ==
        whole.document.Find("node")->Find("vertices")->Dump());
  const ImportedCluster cut = ImportSmi("cut.txt", Gpu("h100"));
  CHECK(WarningCodes(cut) == std::vector<int>{1540, 1541, 1542, 1545, 1553});
  const Cluster cluster = ReadImported(cut);
  CHECK(cluster.GpuCount() == 8);
  for (int dst = 1; dst < 8; ++dst) CHECK(cluster.RouteBandwidth(0, dst) == 450e9);
}

TEST_CASE("uneven NVLinks join GPUs in pairs") {
  const ImportedCluster imported = ImportSmi("bridges.txt", Gpu("v100-16"));
  const Cluster cluster = ReadImported(imported);
  CHECK(CountKind(cluster, VertexKind::kNvSwitch) == 0);
  CHECK(cluster.RouteBandwidth(0, 1) == 25e9);
  CHECK(cluster.RouteBandwidth(0, 3) == 50e9);
  CHECK(cluster.NvLinkDomainOf(3) == 0);
  Diagnostic d = ThrownBy([] { ImportSmi("bridges.txt", Gpu("l4")); });
  CHECK(d.code == 552);
  CHECK(d.help.find("--gpu") != std::string::npos);
}

TEST_CASE("an old table without NUMA: PIX, PXB and PHB make the tree") {
  const Cluster cluster = ReadImported(ImportSmi("old.txt", Gpu("p100")));
  CHECK(!cluster.HasNvLink());
  CHECK(cluster.Route(0, 1).size() == 2);  // one switch
  CHECK(cluster.Route(0, 2).size() == 3);  // GPU 2 hangs on the upper one
  CHECK(cluster.Route(0, 3).size() == 5);  // across the sockets
  CHECK(cluster.nics_per_node == 1);
  CHECK(cluster.RouteBandwidth(0, 3) == doctest::Approx(8e9 * 16 * 128 / 130 / 8));
}

TEST_CASE("what cannot be read is an error with code, place and remedy") {
  struct Row {
    const char* text;
    int code;
    int line;
  };
  const std::vector<Row> rows = {
      {"", 547, 1},
      {"no table\n", 547, 1},
      {"<system/>\n", 547, 1},
      {"  GPU0 GPU1\nGPU0 X NV2\n", 551, 0},  // GPU1 PIX unknown? no: NV2 known
      {"  GPU0 GPU1\nGPU0 X\nGPU1 PIX X\n", 549, 2},
      {"  GPU0 GPU1\nGPU0 X PIX\nGPU1 PXB X\n", 550, 3},
      {"  GPU0 GPU1\nGPU0 X NV2\nGPU1 NV3 X\n", 550, 3},
      {"  GPU0 GPU1\nGPU0 PIX X\nGPU1 PIX X\n", 550, 2},
      {"  GPU0 GPU1\nGPU0 X PIX\nGPU0 X PIX\n", 549, 3},
      {"  GPU0 GPU1\nGPU0 X FOO\nGPU1 PIX X\n", 548, 2},
      {"  GPU0 GPU1\nGPU0 X NV\nGPU1 PIX X\n", 548, 2},
      {"  GPU0 GPU1\nGPU0 X NV99999999999\nGPU1 PIX X\n", 548, 2},
      {"  GPU0 GPU1\nGPU0 FOO PIX\nGPU1 PIX X\n", 548, 2},
      {"  GPU0 GPU0\nGPU0 X PIX\n", 549, 1},
      {"  GPU0 mlx5_0 GPU1\nGPU0 X PIX PIX\n", 549, 1},
      {"  GPU0 GPU1 GPU2\nGPU0 X PIX PIX\n", 551, 0},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    if (std::string(row.text) == "  GPU0 GPU1\nGPU0 X NV2\n") {
      CHECK_NOTHROW(ImportSmiText(row.text, Gpu("a6000")));  // the one row says it all
      continue;
    }
    const Diagnostic d = ThrownBy([&] { ImportSmiText(row.text, Gpu("h100")); });
    CHECK(d.code == row.code);
    CHECK(d.where.file == "text.txt");
    if (row.line > 0) CHECK(d.where.line == row.line);
    CHECK(!d.help.empty());
  }
  const Diagnostic d = ThrownBy([] { ImportSmi("switched.txt", Gpu("")); });
  CHECK(d.code == 545);
  CHECK(d.message.find("18 NVLinks: b200") != std::string::npos);
  // Eight of ten NVLinks each, but not to all alike: no plane can be that.
  CHECK(ThrownBy([] {
          ImportSmiText("  GPU0 GPU1 GPU2\nGPU0 X NV4 NV3\nGPU1 NV4 X NV4\nGPU2 NV3 NV4 X\n",
                        Gpu("v100-16"));
        }).code == 552);
}

TEST_CASE("relations that fit no tree are told") {
  const ImportedCluster imported = ImportSmiText(
      "  GPU0 GPU1 GPU2\nGPU0 X PIX SYS\nGPU1 PIX X PIX\nGPU2 SYS PIX X\n", Gpu("l4"));
  CHECK(WarningCodes(imported) == std::vector<int>{1540, 1546});
}

TEST_CASE("one GPU, a second table, text around") {
  CHECK(ReadImported(ImportSmiText("\tGPU0\tCPU Affinity\nGPU0\t X \t0-7\n", Gpu("rtx4090")))
            .GpuCount() == 1);
  const std::string table = "  GPU0 GPU1\nGPU0 X PHB\nGPU1 PHB X\n";
  const ImportedCluster two =
      ImportSmiText("host a\n" + table + "\nhost b\n" + table, Gpu("rtx4090"));
  CHECK(ReadImported(two).GpuCount() == 2);
  CHECK(WarningCodes(two) == std::vector<int>{1540, 1550});
  // GeForce has no peer-to-peer: two GPUs on one switch meet at the CPU.
  const Cluster box =
      ReadImported(ImportSmiText("  GPU0 GPU1\nGPU0 X PIX\nGPU1 PIX X\n", Gpu("rtx4090")));
  CHECK(box.Route(0, 1).size() == 4);
}

// Real tables of others.
TEST_CASE("real tables") {
  if (SharedPath("data/topology-samples").empty()) return;
  const auto import = [](const char* file, const char* gpu) {
    return ImportSmiFile(SharedPath(std::string("data/topology-samples/") + file), Gpu(gpu));
  };
  const Cluster a100 = ReadImported(import("nvidia_smi_topo_m_a100_8x.txt", "a100"));
  CHECK(a100.GpuCount() == 8);
  CHECK(a100.RouteBandwidth(0, 7) == 300e9);
  CHECK(CountKind(a100, VertexKind::kCpu) == 2);
  const Cluster h100 = ReadImported(import("smi_topo_h100_spaces.txt", "h100"));
  CHECK(h100.RouteBandwidth(0, 7) == 450e9);
  CHECK(h100.nics_per_node == 0);

  const ImportedCluster b200 = import("smi_topo_b200_merged_columns.txt", "b200");
  CHECK(WarningCodes(b200) == std::vector<int>{1540, 1541, 1542, 1545, 1552, 1553});
  CHECK(ReadImported(b200).GpuCount() == 8);
  CHECK(CountKind(ReadImported(b200), VertexKind::kNic) == 16);
  for (int dst = 1; dst < 8; ++dst) CHECK(ReadImported(b200).RouteBandwidth(0, dst) == 900e9);

  const ImportedCluster dgx2 = import("smi_topo_16gpu_dgx2_mlx_truncated.txt", "v100-sxm3");
  CHECK(ReadImported(dgx2).GpuCount() == 16);
  for (int dst = 1; dst < 16; ++dst) CHECK(ReadImported(dgx2).RouteBandwidth(0, dst) == 150e9);
  const std::vector<int> codes = WarningCodes(dgx2);
  CHECK(std::find(codes.begin(), codes.end(), 1553) != codes.end());

  const Cluster old = ReadImported(import("smi_topo_old_no_numa_mlx5.txt", "p100"));
  CHECK(old.GpuCount() == 8);
  CHECK(old.Route(0, 1).size() == 2);
  CHECK(old.Route(0, 2).size() == 4);
  CHECK(old.Route(0, 4).size() == 7);
  CHECK(CountKind(old, VertexKind::kPcieSwitch) == 6);
}

}  // namespace
}  // namespace aurum
