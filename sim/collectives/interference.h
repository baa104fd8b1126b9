#pragma once

#include "sim/collectives/collective.h"

namespace aurum {

// What a running collective takes from the kernels beside it on one GPU. interference.cc has the
// physics and the sources.

struct Interference {
  double sm_share = 0;         // of the GPU's SMs, 0 … 0.5
  double hbm_bytes_per_s = 0;  // reads and writes of device memory while it runs
};

// Of `kind` with `bytes` (nccl-tests' convention) on `group`, which costs `cost` by PriceCollective
// or PriceGroups. All zero for one rank, no bytes or a cost of no time. O(ranks).
Interference InterferenceOf(CollectiveKind kind, double bytes, const RankGroup& group,
                            const Cluster& cluster, const Profile& profile,
                            const CollectiveCost& cost);

// How many times as long a kernel takes while the collective runs beside it; ≥ 1. `compute_s` and
// `memory_s`: what the kernel's arithmetic and its memory traffic take alone, each by itself, so
// that it takes the longer of the two (roofline); not both zero. A kernel that is bound by compute
// has memory_s small; one that is bound by memory has compute_s small.
double ComputeSlowdown(const Interference& interference, const Profile& profile, double compute_s,
                       double memory_s);

// The same for one kernel of `tiles` equal thread blocks, one on an SM at a time: whole waves on the
// SMs that are left over whole waves on all of them. tiles ≥ 1.
double WaveSlowdown(const Interference& interference, const Profile& profile, double tiles);

}  // namespace aurum
