#pragma once

#include "sim/collectives/collective.h"
#include "sim/network/event_loop.h"

namespace aurum {

// The cluster's links at the rates that collectives reach, B/s, by link id: what flows share. NVLink
// keeps its nominal rate: what one collective reaches there was measured, and may be more than rings
// do.
Fabric EffectiveFabric(const Cluster& cluster, const Profile& profile,
                       const CollectiveOptions& options);

}  // namespace aurum
