#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/engine/op_graph.h"
#include "sim/network/event_loop.h"

namespace aurum {

// What one link carried, and who met on it.
struct LinkLoad {
  std::uint32_t link = 0;           // of the cluster; where links were folded, one of its class
  std::uint32_t count = 1;          // links that it stands for
  double capacity_bytes_per_s = 0;  // that collectives reach
  double bytes = 0;
  double mean_use = 0;  // of the capacity, from the first op to the last
  double busy_s = 0;    // while at least one transfer ran
  double met_s = 0;     // while at least two did
  std::vector<double> bytes_by_label;
};

// What transfers of one label lost to others.
struct LabelDelay {
  std::size_t transfers = 0;  // of all groups
  double nominal_s = 0;       // their mean duration, undisturbed
  double actual_s = 0;        // and as it was
  double worst_factor = 1;    // the largest actual / nominal
};

struct Loads {
  std::vector<LinkLoad> links;  // that carried something; the longest met first, then the busiest
  std::vector<LabelDelay> labels;  // by label
};

// `instances`: by op, transfers that it stands for; empty: one each. `label`: by op, what its bytes are counted as (< label_count); `link_of`, `link_count`: of a folded
// fabric, else empty. O(hops of all transfers · log).
Loads MeasureLoads(const OpGraph& graph, const Fabric& fabric, const Schedule& schedule,
                   std::span<const std::uint8_t> label, std::size_t label_count,
                   std::span<const std::uint32_t> instances = {},
                   std::span<const std::uint32_t> link_of = {},
                   std::span<const std::uint32_t> link_count = {});

}  // namespace aurum
