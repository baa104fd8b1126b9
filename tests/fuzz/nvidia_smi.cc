#include "topologies/nvidia_smi.h"

#include "tests/fuzz/entry.h"
#include "topologies/cluster.h"

// What the importer makes is a cluster that our own reader takes, in which GPUs reach each other.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return aurum::Try(data, size, [](std::string text) {
    aurum::TopologyImportOptions options;
    options.name = "fuzz";
    if (text.size() % 2 == 0) options.gpu = "h100";
    if (text.size() % 3 == 0) options.nodes = 2;
    if (text.size() % 5 != 0) options.nic_gbit_per_s = 400;
    const aurum::TextSource source("fuzz", std::move(text));
    const aurum::ImportedCluster imported = aurum::ImportNvidiaSmi(source, options);
    const std::string written = imported.document.Dump(2);
    const aurum::Cluster cluster = aurum::ReadCluster(aurum::ParseJson(written, "imported.json"));
    const int last = cluster.GpuCount() - 1;
    aurum::Require(last >= 0, "a cluster has a GPU");
    if (last == 0 || (cluster.nodes > 1 && cluster.nics_per_node == 0)) return;
    aurum::Require(!cluster.Route(0, last).empty(), "two GPUs have a route");
    aurum::Require(cluster.RouteBandwidth(0, last) > 0, "a route carries something");
  });
}
