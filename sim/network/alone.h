#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "sim/network/max_min.h"
#include "sim/network/prepared_traffic.h"

namespace aurum {

// What the flows of one transfer do with nobody else on the network.
class AloneRun {
 public:
  explicit AloneRun(const PreparedTraffic& traffic)
      : traffic_(traffic), known_(traffic.pattern_count()) {}

  // From the start of the flows to the end of the last. O(links) for a single flow, else O(1) once
  // known.
  double Seconds(PatternId id);
  // By flow: the bytes left `elapsed_s` after the start of the flows; valid until the next call.
  // `seconds` is Seconds(id).
  std::span<const double> Left(PatternId id, double elapsed_s, double seconds);

 private:
  struct Known {
    double seconds = -1;     // < 0 until asked for
    bool one_phase = false;  // all flows end together
  };
  // A single flow that stands for itself: quicker to compute than to remember.
  bool IsLone(PatternId id) const {
    const std::span<const PreparedFlow> flows = traffic_.flows(id);
    return flows.size() == 1 && !flows[0].folded;
  }
  double Run(PatternId id, double until_s);

  const PreparedTraffic& traffic_;
  std::vector<Known> known_;
  MaxMinSharing sharing_{std::span<const double>{}};
  struct Open {
    std::size_t index;
    MaxMinSharing::FlowId id;
  };
  std::vector<Open> open_;
  std::vector<double> left_;
};

}  // namespace aurum
