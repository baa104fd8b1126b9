#pragma once

#include <optional>

#include "sim/cost/profile.h"

namespace aurum {

// A measured collective inside one NVLink domain: what does not grow with the bytes, and what does.
struct EnvelopeCost {
  double latency_s = 0;
  double flow_s = 0;
  bool interpolated = false;  // no envelope of exactly this kind and size
  Provenance provenance = Provenance::kAssumed;
};

// By the profile's envelope of `kind` on `ranks` GPUs. Where that size was not measured, by its
// neighbours (envelope.cc); a broadcast is priced by all-gather's where it has none of its own.
// nullopt where the profile says nothing. `step_s`: latency of one more ring step, for sizes beyond
// the largest measured.
std::optional<EnvelopeCost> PriceByEnvelope(const Profile& profile, CollectiveKind kind, int ranks,
                                            double bytes, double step_s);

// The bus bandwidth of large messages on `ranks` GPUs, B/s: all-gather's, whose ring is the
// plainest, else another kind's; nearest measured size. nullopt where nothing was measured.
std::optional<double> RingBusBandwidth(const Profile& profile, int ranks);

// The bus bandwidth of large messages of one kind on `ranks` GPUs, B/s; nearest measured size.
std::optional<double> BusBandwidth(const Profile& profile, CollectiveKind kind, int ranks);

}  // namespace aurum
