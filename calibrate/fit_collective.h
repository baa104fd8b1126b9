#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/table.h"
#include "sim/cost/profile.h"

namespace aurum {

struct SizedTime {
  double bytes = 0;
  double seconds = 0;
};
// At most `most_lines` lines whose lower envelope fits the points by relative error; ascending
// latency, descending slope, each lowest somewhere. `points` ascending in size, at least two. Exact
// search.
std::vector<EnvelopeLine> FitEnvelope(const std::vector<SizedTime>& points, int most_lines);

// One envelope per kind and group size, fitted on all sizes. The hold-out error is that of an
// envelope fitted on every second size at the sizes between. Kinds with fewer than 6 sizes are left
// out.
std::map<std::pair<CollectiveKind, int>, CollectiveEnvelope> FitCollectives(
    const std::vector<CollectiveRow>& rows, const std::string& source);

}  // namespace aurum
