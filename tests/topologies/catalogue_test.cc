#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/shared.h"
#include "tests/topologies/fixtures.h"

namespace aurum {
namespace {

TEST_CASE("every name of the catalogue opens and is what its name says") {
  const std::vector<std::string> names = ClusterCatalogue(".");
  for (const auto* name :
       {"1x4090", "2x4090-pcie", "4x4090-pcie", "orin-nx", "8xa100-hgx", "8xh100-hgx", "8xh200-hgx",
        "32xa100-hdr", "16xh100-ndr", "16384xh100-ndr", "72xgb200-nvl72", "gb200-nvl72"}) {
    CAPTURE(name);
    CHECK(std::find(names.begin(), names.end(), name) != names.end());
  }
  CHECK(std::is_sorted(names.begin(), names.end()));
  for (const std::string& name : names) {
    CAPTURE(name);
    const Cluster cluster = OpenCatalogue(name);
    const std::size_t x = name.find('x');
    if (name[0] >= '0' && name[0] <= '9') {
      CHECK(cluster.GpuCount() == std::stoi(name.substr(0, x)));
      CHECK(cluster.name == name);
    }
    CHECK(!cluster.source.empty());
    CHECK(!cluster.gpu.profile.empty());
    CHECK(cluster.gpu.memory_bytes > 1e9);
  }
}

TEST_CASE("any size of a family") {
  const Cluster cluster = OpenCatalogue("264xh100-ndr");
  CHECK(cluster.name == "264xh100-ndr");
  CHECK(cluster.nodes == 33);
  CHECK(cluster.NodeOf(263) == 32);
  CHECK(OpenCatalogue("gb200-nvl72").name == "72xgb200-nvl72");
  CHECK(OpenCatalogue("64xgb200-nvl72").nodes == 16);
  CHECK(OpenCatalogue("8xh100-ndr").nodes == 1);
  CHECK(ClusterFamilies(".") ==
        std::vector<std::string>{"<N>xa100-40-hdr", "<N>xa100-hdr", "<N>xa100-roce-100",
                                 "<N>xb200-efa", "<N>xb200-ndr", "<N>xgb200-nvl72", "<N>xh100-efa",
                                 "<N>xh100-ndr", "<N>xh100-ndr-128p", "<N>xh100-ndr-2to1",
                                 "<N>xh200-ndr"});
  CHECK(OpenCatalogue("16xh100-efa").transport == Transport::kEfa);
  CHECK(OpenCatalogue("16xa100-roce-100").transport == Transport::kRoce);
  CHECK(OpenCatalogue("16xh100-ndr").transport == Transport::kInfiniBand);
}

TEST_CASE("E0220: an unknown cluster names the nearest and all that are known") {
  Diagnostic d = ThrownBy([] { OpenCluster("8xh100-hxg", "."); });
  CHECK(d.code == 220);
  CHECK(Contains(d.message, "'8xh100-hxg'"));
  CHECK(Contains(d.help, "did you mean '8xh100-hgx'?"));
  CHECK(Contains(d.help, "<N>xh100-ndr"));
  CHECK(Contains(d.help, "aurum list clusters"));
  d = ThrownBy([] { OpenCluster("48xh100-ndt", "."); });
  CHECK(d.code == 220);
  CHECK(Contains(d.help, "did you mean '48xh100-ndr'?"));
  d = ThrownBy([] { OpenCluster("h100-ndr", "."); });
  CHECK(Contains(d.help, "did you mean '16xh100-ndr'?"));
  d = ThrownBy([] { OpenCluster("", "."); });
  CHECK(d.code == 220);
  d = ThrownBy([] { OpenCluster("8xh100-hgx", "tests"); });
  CHECK(d.code == 220);
  CHECK(Contains(d.help, "no catalogue"));
  CHECK(ThrownBy([] { OpenCluster("./nowhere.json", "."); }).code == 201);
}

TEST_CASE("E0501 and E0502: sizes that a family does not have") {
  Diagnostic d = ThrownBy([] { OpenCluster("100xh100-ndr", "."); });
  CHECK(d.code == 501);
  CHECK(Contains(d.message, "100 GPUs"));
  CHECK(Contains(d.help, "96xh100-ndr or 104xh100-ndr"));
  d = ThrownBy([] { OpenCluster("0xh100-ndr", "."); });
  CHECK(d.code == 501);
  CHECK(Contains(d.help, "8xh100-ndr"));
  // 40-port switches: 40³/4 end points in three levels.
  CHECK(OpenCatalogue("16000xa100-hdr").nodes == 2000);
  d = ThrownBy([] { OpenCatalogue("16008xa100-hdr"); });
  CHECK(d.code == 502);
  CHECK(Contains(d.message, "16008 GPUs"));
  CHECK(Contains(d.help, "2000 nodes (16000 GPUs)"));
  CHECK(Contains(d.where.file, "a100-hdr.json"));
  CHECK(d.where.line > 0);
  CHECK(d.where.pointer == "/nodes");
  d = ThrownBy([] { OpenCatalogue("65544xh100-ndr"); });
  CHECK(d.code == 502);
  CHECK(Contains(d.help, "8192 nodes (65536 GPUs)"));
  CHECK(ThrownBy([] { OpenCatalogue("99999999999999999999999xh100-ndr"); }).code == 502);
}

TEST_CASE("E0506: a family file is not a cluster") {
  const Diagnostic d = ThrownBy(
      [] { ReadCluster(OpenCluster("./topologies/catalogue/families/h100-ndr.json", ".")); });
  CHECK(d.code == 506);
  CHECK(Contains(d.where.pointer, "/family"));
  CHECK(Contains(d.help, "16xh100-ndr"));
}

}  // namespace
}  // namespace aurum
