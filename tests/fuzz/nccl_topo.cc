#include "topologies/nccl_topo.h"

#include "tests/fuzz/imported_cluster.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return aurum::TryImport(data, size, aurum::ImportNcclTopology);
}
