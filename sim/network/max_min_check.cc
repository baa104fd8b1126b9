#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/network/max_min.h"

namespace aurum {

bool IsMaxMinFair(std::span<const double> capacity, std::span<const SharingFlow> flows,
                  std::span<const double> rates, double tolerance, std::string* why) {
  assert(flows.size() == rates.size());
  const auto fail = [&](const std::string& message) {
    if (why != nullptr) *why = message;
    return false;
  };
  std::vector<double> load(capacity.size(), 0), top_level(capacity.size(), 0);
  for (std::size_t f = 0; f < flows.size(); ++f) {
    if (!(rates[f] >= 0)) return fail("flow " + std::to_string(f) + " has no rate");
    if (rates[f] > flows[f].cap_bytes_per_s * (1 + tolerance)) {
      return fail("flow " + std::to_string(f) + " is above its cap");
    }
    for (std::size_t hop = 0; hop < flows[f].links.size(); ++hop) {
      const std::uint32_t link = flows[f].links[hop];
      const double times = flows[f].multiplicity.empty() ? 1 : flows[f].multiplicity[hop];
      load[link] += rates[f] * times;
      top_level[link] = std::max(top_level[link], rates[f] / flows[f].weight);
    }
  }
  for (std::size_t link = 0; link < capacity.size(); ++link) {
    if (load[link] > capacity[link] * (1 + tolerance)) {
      return fail("link " + std::to_string(link) + " carries " + std::to_string(load[link]) +
                  " of " + std::to_string(capacity[link]) + " B/s");
    }
  }
  for (std::size_t f = 0; f < flows.size(); ++f) {
    if (rates[f] >= flows[f].cap_bytes_per_s * (1 - tolerance)) continue;
    const double level = rates[f] / flows[f].weight;
    const bool limited =
        std::any_of(flows[f].links.begin(), flows[f].links.end(), [&](std::uint32_t link) {
          return load[link] >= capacity[link] * (1 - tolerance) &&
                 level >= top_level[link] * (1 - tolerance);
        });
    if (!limited) return fail("flow " + std::to_string(f) + " is limited by nothing");
  }
  return true;
}

}  // namespace aurum
