#include "topologies/spec.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/shared.h"
#include "tests/topologies/fixtures.h"

namespace aurum {
namespace {

TEST_CASE("a document says what the spec holds, in SI units") {
  const ClusterSpec spec = ReadClusterSpec(OpenCluster("32xa100-hdr", "."));
  CHECK(spec.gpu.name == "A100-SXM4-80GB");
  CHECK(spec.gpu.profile == "a100");
  CHECK(spec.gpu.memory_bytes == 80.0 * 1024 * 1024 * 1024);
  CHECK(spec.nodes == 4);
  CHECK(spec.node.kind == NodeKind::kHgx);
  CHECK(spec.node.nvlink->bandwidth_bytes_per_s == 300e9);
  CHECK(spec.node.nvlink->latency_s == doctest::Approx(0.3e-6));
  CHECK(spec.node.nvswitches == 6);
  CHECK(spec.node.pcie_switches == 4);
  CHECK(spec.node.nic_bytes_per_s == 25e9);
  CHECK(spec.fabric->leaf_down_ports == 20);
  CHECK(spec.fabric->spine_ports == 40);
  CHECK(spec.fabric->core_ports == 40);
  CHECK(spec.fabric->switch_link_bytes_per_s == 25e9);
  CHECK(spec.provenance == Provenance::kDatasheet);
  CHECK(ReadClusterSpec(OpenCluster("4x4090-pcie", ".")).provenance == Provenance::kAssumed);
}

TEST_CASE("what contradicts itself is an error with code, place and remedy") {
  struct Row {
    const char* base;
    const char* change;
    int code;
    const char* pointer;
    const char* help;
  };
  const std::vector<Row> rows = {
      {"8xh100-hgx", "nodez=2", 101, "/nodez", "did you mean 'nodes'?"},
      {"8xh100-hgx", "node.nvlink.link_per_gpu=2", 101, "/node/nvlink/link_per_gpu",
       "links_per_gpu"},
      {"4x4090-pcie", "node.nvlink={}", 101, "/node/nvlink", ""},
      {"8xh100-hgx", "schema=aurum.cluster/2", 108, "/schema", "aurum.cluster/1"},
      {"8xh100-hgx", "node.kind=dgx", 108, "/node/kind", "hgx"},
      {"8xh100-hgx", "provenance=guessed", 108, "/provenance", "assumed"},
      {"8xh100-hgx", "nodes=0", 107, "/nodes", ""},
      {"8xh100-hgx", "nodes=1.5", 103, "/nodes", ""},
      {"8xh100-hgx", "node.pcie.latency_us=-1", 107, "/node/pcie/latency_us", ""},
      {"8xh100-hgx", "node.pcie.gb_per_s_per_direction=0", 107, "/node/pcie/gb_per_s_per_direction",
       "leave the block out"},
      {"8xh100-hgx", "node.inter_socket=null", 102, "/node", "gb_per_s_per_direction"},
      {"8xh100-hgx", "node.pcie=null", 102, "/node", ""},
      {"4x4090-pcie", "node.pcie.peer_to_peer=null", 102, "/node/pcie", ""},
      {"16xh100-ndr", "nodes=9000", 502, "/nodes", "8192 nodes (65536 GPUs)"},
      {"16xh100-ndr", "fabric.core_ports=7", 0, "", ""},
      {"8xh100-hgx", "node.nvlink.switches=19", 503, "/node/nvlink/switches",
       "at least one link per switch"},
      {"8xh100-hgx", "node.nics.count=3", 503, "/node/nics/count", "whole GPUs"},
      {"8xh100-hgx", "node.nics.count=16", 503, "/node/nics/count", "add their rates up"},
      {"8xh100-hgx", "node.pcie.switches=3", 503, "/node/pcie", "must divide 'gpus'"},
      {"8xh100-hgx", "node.sockets=3", 503, "/node/pcie",
       "must divide the number of PCIe switches"},
      {"4x4090-pcie", "node.sockets=3", 503, "/node/sockets", "must divide 'gpus'"},
      {"orin-nx", "node.gpus=2", 107, "/node/gpus", ""},
      {"8xh100-hgx", "nodes=2", 504, "/nodes", "add 'fabric'"},
      {"orin-nx", "nodes=2", 504, "/nodes", "one node"},
      {"16xh100-ndr", "node.nics=null", 504, "/fabric", "add 'nics'"},
      {"16xh100-ndr", "fabric.oversubscription=3", 505, "/fabric/oversubscription",
       "choose a divisor"},
      {"16xh100-ndr", "fabric.leaf_down_ports=40", 505, "/fabric/leaf_down_ports", "larger switch"},
      {"16xh100-ndr", "fabric.kind=torus", 108, "/fabric/kind", "rail_optimised_fat_tree"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.base);
    CAPTURE(row.change);
    const JsonDocument document = Changed(row.base, row.change);
    if (row.code == 0) {
      CHECK_NOTHROW(ReadClusterSpec(document));
      continue;
    }
    const Diagnostic d = ThrownBy([&] { ReadClusterSpec(document); });
    CHECK(d.code == row.code);
    CHECK(d.where.pointer == row.pointer);
    CHECK(d.where.line > 0);
    CHECK(d.help.find(row.help) != std::string::npos);
    CHECK(!d.message.empty());
  }
}

TEST_CASE("a 72-GPU NVLink domain needs no fabric, two of them do") {
  JsonDocument document = Changed("72xgb200-nvl72", "fabric=null");
  const Cluster rack = ReadCluster(document);
  CHECK(rack.NetworkBandwidthPerGpu() == 0);
  CHECK(rack.RouteBandwidth(0, 71) == 900e9);
  ApplyOverride(&document, "nodes=19");
  CHECK(ThrownBy([&] { ReadCluster(document); }).code == 504);
}

TEST_CASE("oversubscription with 40 down ports on a 64-port leaf: 2:1 fits, 1:1 does not") {
  JsonDocument document = Changed("512xh100-ndr", "fabric.leaf_down_ports=40");
  CHECK(ThrownBy([&] { ReadClusterSpec(document); }).code == 505);
  ApplyOverride(&document, "fabric.oversubscription=2");
  CHECK(ReadClusterSpec(document).fabric->leaf_down_ports == 40);
}

}  // namespace
}  // namespace aurum
