#pragma once

#include <string>

#include "tests/fuzz/entry.h"
#include "topologies/cluster.h"
#include "topologies/machine.h"

namespace aurum {

// What an importer makes of any text is a cluster that our own reader takes, in which GPUs reach
// each other. The options are drawn from the text.
template <typename Import>
int TryImport(const std::uint8_t* data, std::size_t size, Import import) {
  return Try(data, size, [&](std::string text) {
    TopologyImportOptions options;
    options.name = "fuzz";
    if (text.size() % 2 == 0) options.gpu = "h100";
    if (text.size() % 3 == 0) options.nodes = 2;
    if (text.size() % 5 != 0) options.nic_gbit_per_s = 400;
    const TextSource source("fuzz", std::move(text));
    const ImportedCluster imported = import(source, options);
    const Cluster cluster = ReadCluster(ParseJson(imported.document.Dump(2), "imported.json"));
    const int last = cluster.GpuCount() - 1;
    Require(last >= 0, "a cluster has a GPU");
    if (last == 0 || (cluster.nodes > 1 && cluster.nics_per_node == 0)) return;
    Require(!cluster.Route(0, last).empty(), "two GPUs have a route");
    Require(cluster.RouteBandwidth(0, last) > 0, "a route carries something");
  });
}

}  // namespace aurum
