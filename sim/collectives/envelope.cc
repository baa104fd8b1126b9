#include "sim/collectives/envelope.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <vector>

#include "sim/collectives/collective.h"
#include "sim/collectives/flows.h"
#include "sim/collectives/protocol.h"

namespace aurum {

// A size that was not measured is priced at equal traffic per rank: n ranks moving `bytes` put
// BusFactor(n) · bytes on each rank's link, so the neighbour size k is asked for the bytes that put
// the same there. Between two measured sizes the latency and the rest are interpolated linearly in
// the number of ranks. Above the largest, the rest is that of the largest (an NVSwitch plane gives
// each rank the same rate) and the latency grows by a step per further step of the ring; below the
// smallest, the smallest stands. Example: all-gather on 6 with 4 and 8 measured: 5/6 of the bytes
// per rank, so 4 is asked for (5/6)/(3/4) = 10/9 of the bytes, 8 for (5/6)/(7/8) = 20/21, and the
// answer lies half way.
//
// That is the ring's law. An all-reduce through NVSwitches that add (NVLS) puts 1 + 1/n on the links
// instead of 2 (n - 1)/n, so its busbw rises with n: on H200 414 GB/s with 5 GPUs, 460 with 7, 482
// with 8, which is 311, 307 and 310 GB/s on the link (stas00/ml-engineering, network). Where NVLS was
// measured at one size it is carried over by that law, and the faster of both stands.

namespace {

constexpr double kNear = 1.25;  // the law over the last line's rate: believed up to here

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

// The rate, B/s of the collective's bytes, at which a large one goes on, by what NCCL plans with; 0
// where that says nothing. A ring puts F bytes of each byte on every link, NVLS 1 + 1/n: what the
// switch reads of a GPU for the shards of all, and what it writes for the GPU's own.
double LawRate(const Profile& profile, CollectiveKind kind, int ranks, const EnvelopeLaw& law) {
  if (law.link_bytes_per_s <= 0 || ranks < 4) return 0;
  if (kind != CollectiveKind::kAllReduce && kind != CollectiveKind::kAllGather &&
      kind != CollectiveKind::kReduceScatter)
    return 0;
  const double cc = profile.device.compute_capability;
  const double link = law.link_bytes_per_s * NcclNvLinkShare(cc);
  const double ring = link / BusFactor(kind, ranks);
  if (kind != CollectiveKind::kAllReduce || !law.nvls || !law.switches_reduce) return ring;
  return std::max(ring, link * NvlsShare(cc) / (1 + 1.0 / ranks));
}

// The envelope of one measured size, asked for `bytes`, and beyond what was measured the law: where
// it is near the last line's rate, which short messages hold down. Elsewhere something of this node
// is not as NCCL plans, and the measurement stands.
double FlowSeconds(const Profile& profile, CollectiveKind kind, int size, double bytes,
                   const EnvelopeLaw& law) {
  const CollectiveEnvelope& envelope = profile.collectives.at({kind, size});
  const double latency_s = EnvelopeSeconds(envelope, 0);
  const double most = law.measured_to_bytes;
  if (most <= 0 || bytes <= most) return EnvelopeSeconds(envelope, bytes) - latency_s;
  const double measured_s = EnvelopeSeconds(envelope, most);
  double rate = (bytes - most) / (EnvelopeSeconds(envelope, bytes) - measured_s);
  const double by_law = LawRate(profile, kind, size, law);
  if (by_law > rate && by_law < kNear * rate) rate = by_law;
  return measured_s + (bytes - most) / rate - latency_s;
}

double SlopeOf(const CollectiveEnvelope& envelope) {
  // The steepest line is the one that large messages follow.
  double slope = 0;
  for (const EnvelopeLine& line : envelope.lines) slope = std::max(slope, line.bytes_per_s);
  return slope;
}

std::optional<EnvelopeCost> ByRing(const Profile& profile, CollectiveKind kind, int ranks,
                                   double bytes, const EnvelopeLaw& law) {
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
    cost.flow_s = FlowSeconds(profile, measured, size, same_traffic, law);
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
    low.latency_s += (RingSteps(kind, ranks) - RingSteps(kind, *(above - 1))) * law.step_s;
    return low;
  }
  const EnvelopeCost high = at(*above);
  const double share = static_cast<double>(ranks - *(above - 1)) / (*above - *(above - 1));
  low.latency_s = std::lerp(low.latency_s, high.latency_s, share);
  low.flow_s = std::lerp(low.flow_s, high.flow_s, share);
  low.provenance = Weakest(low.provenance, high.provenance);
  return low;
}

// An all-reduce through the switch, by the largest size where one was measured, else at the rate that
// NCCL plans with and with its latency.
std::optional<EnvelopeCost> ByNvls(const Profile& profile, int ranks, double bytes,
                                   const EnvelopeLaw& law) {
  if (!law.nvls || !law.switches_reduce || law.link_bytes_per_s <= 0) return std::nullopt;
  const double cc = profile.device.compute_capability;
  const std::vector<int> sizes = MeasuredSizes(profile, CollectiveKind::kAllReduce);
  if (sizes.empty() || !NvlsBeatsRing(cc, ranks)) return std::nullopt;
  int measured = 0;
  for (const int size : sizes) {
    if (MeasuredByNvls(profile, size, law)) measured = size;
  }
  const CollectiveEnvelope& envelope =
      profile.collectives.at({CollectiveKind::kAllReduce, measured > 0 ? measured : sizes.back()});
  EnvelopeCost cost;
  cost.latency_s = EnvelopeSeconds(envelope, 0);
  if (measured == 0) cost.latency_s = std::max(cost.latency_s, kNvlsInside_s);
  const double on_link = bytes * (1 + 1.0 / ranks);
  cost.flow_s = measured > 0
                    ? FlowSeconds(profile, CollectiveKind::kAllReduce, measured,
                                  on_link / (1 + 1.0 / measured), law)
                    : on_link / (law.link_bytes_per_s * NcclNvLinkShare(cc) * NvlsShare(cc));
  cost.interpolated = true;
  cost.provenance = Weakest(envelope.quality.provenance, Provenance::kAssumed);
  return cost;
}

// An all-reduce that may not go through the switch where the measured one did: a reduce-scatter and
// an all-gather.
std::optional<EnvelopeCost> ByHalves(const Profile& profile, int ranks, double bytes,
                                     const EnvelopeLaw& law) {
  std::optional<EnvelopeCost> first =
      ByRing(profile, CollectiveKind::kReduceScatter, ranks, bytes, law);
  const std::optional<EnvelopeCost> second =
      ByRing(profile, CollectiveKind::kAllGather, ranks, bytes, law);
  if (!first || !second) return std::nullopt;
  first->latency_s += second->latency_s;
  first->flow_s += second->flow_s;
  first->interpolated = true;
  first->provenance = Provenance::kAssumed;
  return first;
}

}  // namespace

bool MeasuredByNvls(const Profile& profile, int ranks, const EnvelopeLaw& law) {
  const auto entry = profile.collectives.find({CollectiveKind::kAllReduce, ranks});
  if (!law.switches_reduce || law.link_bytes_per_s <= 0 || entry == profile.collectives.end())
    return false;
  return SlopeOf(entry->second) * BusFactor(CollectiveKind::kAllReduce, ranks) >
         law.link_bytes_per_s * NcclNvLinkShare(profile.device.compute_capability);
}

std::optional<EnvelopeCost> PriceByEnvelope(const Profile& profile, CollectiveKind kind, int ranks,
                                            double bytes, const EnvelopeLaw& law) {
  assert(ranks > 1 && bytes >= 0);
  const std::optional<EnvelopeCost> ring = ByRing(profile, kind, ranks, bytes, law);
  if (!ring || kind != CollectiveKind::kAllReduce) return ring;
  if (!law.nvls) {
    const std::optional<EnvelopeCost> halves = ByHalves(profile, ranks, bytes, law);
    const auto seconds = [](const EnvelopeCost& cost) { return cost.latency_s + cost.flow_s; };
    const bool faster = halves && law.switches_reduce && seconds(*halves) > seconds(*ring);
    return faster ? halves : ring;
  }
  if (!ring->interpolated) return ring;
  const std::optional<EnvelopeCost> nvls = ByNvls(profile, ranks, bytes, law);
  return nvls && nvls->latency_s + nvls->flow_s < ring->latency_s + ring->flow_s ? nvls : ring;
}

std::optional<double> BusBandwidth(const Profile& profile, CollectiveKind kind, int ranks) {
  const std::vector<int> sizes = MeasuredSizes(profile, kind);
  if (sizes.empty()) return std::nullopt;
  const int nearest = *std::min_element(sizes.begin(), sizes.end(), [&](int a, int b) {
    return std::abs(a - ranks) < std::abs(b - ranks);
  });
  return SlopeOf(profile.collectives.at({kind, nearest})) * BusFactor(kind, nearest);
}

std::optional<double> RingBusBandwidth(const Profile& profile, int ranks) {
  for (const CollectiveKind kind :
       {CollectiveKind::kAllGather, CollectiveKind::kReduceScatter, CollectiveKind::kAllReduce}) {
    if (const std::optional<double> bus = BusBandwidth(profile, kind, ranks)) return bus;
  }
  return std::nullopt;
}

}  // namespace aurum
