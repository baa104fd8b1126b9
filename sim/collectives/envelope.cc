#include "sim/collectives/envelope.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <vector>

#include "sim/collectives/collective.h"

namespace aurum {

// A size that was not measured is priced at equal traffic per rank: n ranks moving `bytes` put
// BusFactor(n) · bytes on each rank's link, so the neighbour size k is asked for the bytes that put
// the same there. Between two measured sizes the latency and the rest are interpolated linearly in
// the number of ranks. Above the largest, the rest is that of the largest (an NVSwitch plane gives
// each rank the same rate) and the latency grows by a step per further step of the ring; below the
// smallest, the smallest stands. Example: all-gather on 6 with 4 and 8 measured: 5/6 of the bytes
// per rank, so 4 is asked for (5/6)/(3/4) = 10/9 of the bytes, 8 for (5/6)/(7/8) = 20/21, and the
// answer lies half way.

namespace {

int RingSteps(CollectiveKind kind, int ranks) {
  return kind == CollectiveKind::kAllReduce ? 2 * (ranks - 1) : ranks - 1;
}

std::vector<int> MeasuredSizes(const Profile& profile, CollectiveKind kind) {
  std::vector<int> sizes;
  for (const auto& [key, envelope] : profile.collectives) {
    if (key.first == kind && key.second > 1 && !envelope.lines.empty()) sizes.push_back(key.second);
  }
  return sizes;  // a map's keys ascend
}

}  // namespace

std::optional<EnvelopeCost> PriceByEnvelope(const Profile& profile, CollectiveKind kind, int ranks,
                                            double bytes, double step_s) {
  assert(ranks > 1 && bytes >= 0);
  CollectiveKind measured = kind;
  std::vector<int> sizes = MeasuredSizes(profile, kind);
  if (sizes.empty() && kind == CollectiveKind::kBroadcast) {
    measured = CollectiveKind::kAllGather;
    sizes = MeasuredSizes(profile, measured);
  }
  if (sizes.empty()) return std::nullopt;
  const auto at = [&](int size) {
    const CollectiveEnvelope& envelope = profile.collectives.at({measured, size});
    const double same_traffic = bytes * BusFactor(kind, ranks) / BusFactor(measured, size);
    EnvelopeCost cost;
    cost.latency_s = EnvelopeSeconds(envelope, 0);
    cost.flow_s = EnvelopeSeconds(envelope, same_traffic) - cost.latency_s;
    cost.interpolated = size != ranks || measured != kind;
    cost.provenance = cost.interpolated ? Weakest(envelope.quality.provenance, Provenance::kAssumed)
                                        : envelope.quality.provenance;
    return cost;
  };
  const auto above = std::lower_bound(sizes.begin(), sizes.end(), ranks);
  if (above != sizes.end() && *above == ranks) return at(ranks);
  if (above == sizes.begin()) return at(*above);
  EnvelopeCost low = at(*(above - 1));
  if (above == sizes.end()) {
    low.latency_s += (RingSteps(kind, ranks) - RingSteps(kind, *(above - 1))) * step_s;
    return low;
  }
  const EnvelopeCost high = at(*above);
  const double share = static_cast<double>(ranks - *(above - 1)) / (*above - *(above - 1));
  low.latency_s = std::lerp(low.latency_s, high.latency_s, share);
  low.flow_s = std::lerp(low.flow_s, high.flow_s, share);
  low.provenance = Weakest(low.provenance, high.provenance);
  return low;
}

std::optional<double> BusBandwidth(const Profile& profile, CollectiveKind kind, int ranks) {
  const std::vector<int> sizes = MeasuredSizes(profile, kind);
  if (sizes.empty()) return std::nullopt;
  const int nearest = *std::min_element(sizes.begin(), sizes.end(), [&](int a, int b) {
    return std::abs(a - ranks) < std::abs(b - ranks);
  });
  // The steepest line is the one that large messages follow.
  double slope = 0;
  for (const EnvelopeLine& line : profile.collectives.at({kind, nearest}).lines) {
    slope = std::max(slope, line.bytes_per_s);
  }
  return slope * BusFactor(kind, nearest);
}

std::optional<double> RingBusBandwidth(const Profile& profile, int ranks) {
  for (const CollectiveKind kind :
       {CollectiveKind::kAllGather, CollectiveKind::kReduceScatter, CollectiveKind::kAllReduce}) {
    if (const std::optional<double> bus = BusBandwidth(profile, kind, ranks)) return bus;
  }
  return std::nullopt;
}

}  // namespace aurum
