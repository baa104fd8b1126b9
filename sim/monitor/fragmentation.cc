#include "sim/monitor/fragmentation.h"

#include <cassert>

namespace aurum {

Fragmentation MeasureFragmentation(const std::vector<int>& free_by_node, int tp, int pp) {
  assert(tp >= 1 && pp >= 1);
  Fragmentation out;
  for (const int free : free_by_node) {
    out.gpus += free;
    out.in_groups += free / tp * tp;
  }
  out.replicas = out.in_groups / tp / pp;
  out.in_replicas = out.replicas * tp * pp;
  return out;
}

}  // namespace aurum
