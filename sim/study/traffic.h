#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/collectives/collective.h"
#include "sim/plan/scenario.h"
#include "sim/plan/simulate.h"
#include "sim/study/link_loads.h"

namespace aurum {

// Collectives that run at the same time on a cluster, without a model: what they do to each other.

struct TrafficItem {
  std::string name;
  CollectiveKind kind = CollectiveKind::kAllReduce;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kAuto;
  double bytes = 0;  // nccl-tests' convention
  std::vector<RankGroup> groups;
  bool pairs = false;  // groups are (from, to), of transfers one way
  double start_s = 0;
  int repeat = 1;
};

struct TrafficDocument {
  std::string name;
  std::shared_ptr<const Cluster> cluster;
  std::shared_ptr<const Profile> profile;
  double network_efficiency = 0.85;
  bool in_network_reduction = false;  // the switches reduce (SHARP)
  std::vector<TrafficItem> items;
};

// Reads an "aurum.traffic/1" document (docs/schema/traffic.schema.json). E0361 groups that do not
// share out the GPUs; E0362 a collective that cannot be.
TrafficDocument ReadTraffic(const JsonDocument& document, InputCache* cache);

struct TrafficOutcome {
  struct Item {
    double priced_s = 0;    // one repetition, all its groups at once, by the analytic price
    double alone_s = 0;     // one repetition, simulated with nothing else
    double together_s = 0;  // one repetition, mean, with all others
  };
  std::vector<Item> items;  // as the document's
  Loads loads;              // labels are items
  double makespan_s = 0;
  std::size_t ops = 0;
};

// Runs all items at once, at the flow, auto or chunk level.
TrafficOutcome RunTraffic(const TrafficDocument& traffic, Level level);

}  // namespace aurum
