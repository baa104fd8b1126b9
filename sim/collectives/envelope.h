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

// What is known besides the measurements.
struct EnvelopeLaw {
  double step_s = 0;             // one more ring step, for sizes beyond the largest measured
  double link_bytes_per_s = 0;   // NVLink rate of a GPU of the measured node; 0 = none or unknown
  bool switches_reduce = false;  // that node's do (NVLS)
  bool nvls = true;              // the priced collective may use it
  double measured_to_bytes = 0;  // CollectiveOptions
};

// By the profile's envelope of `kind` on `ranks` GPUs. Where that size was not measured, by its
// neighbours (envelope.cc); a broadcast is priced by all-gather's where it has none of its own.
// nullopt where the profile says nothing.
std::optional<EnvelopeCost> PriceByEnvelope(const Profile& profile, CollectiveKind kind, int ranks,
                                            double bytes, const EnvelopeLaw& law);

// Whether an all-reduce measured on `ranks` GPUs went through NVLS: faster than any ring on that link.
bool MeasuredByNvls(const Profile& profile, int ranks, const EnvelopeLaw& law);

// The bus bandwidth of large messages on `ranks` GPUs, B/s: all-gather's, whose ring is the
// plainest, else another kind's; nearest measured size. nullopt where nothing was measured.
std::optional<double> RingBusBandwidth(const Profile& profile, int ranks);

// The bus bandwidth of large messages of one kind on `ranks` GPUs, B/s; nearest measured size.
std::optional<double> BusBandwidth(const Profile& profile, CollectiveKind kind, int ranks);

}  // namespace aurum
