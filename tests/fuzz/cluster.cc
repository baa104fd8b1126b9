#include "topologies/cluster.h"

#include "tests/fuzz/entry.h"

// A cluster that was accepted has routes that join up, and bandwidth on them.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return aurum::Try(data, size, [](std::string text) {
    const aurum::Cluster cluster =
        aurum::ReadCluster(aurum::ParseJson(std::move(text), "fuzz.json"));
    const int last = cluster.GpuCount() - 1;
    aurum::Require(last >= 0, "a cluster has a GPU");
    if (last == 0 || last > 4096) return;
    int at = -1;
    for (const int id : cluster.Route(0, last)) {
      const aurum::Link& link = cluster.links()[static_cast<std::size_t>(id)];
      aurum::Require(at == -1 || link.from == at, "a route joins up");
      at = link.to;
    }
    aurum::Require(at >= 0, "two GPUs have a route");
    aurum::Require(cluster.RouteBandwidth(0, last) > 0, "a route carries something");
  });
}
