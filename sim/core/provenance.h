#pragma once

#include <string_view>

namespace aurum {

// Where a figure comes from. A result carries the weakest provenance of the figures that it rests on.
enum class Provenance { kMeasured, kCalibrated, kDatasheet, kAssumed };

std::string_view ProvenanceName(Provenance provenance);  // "measured", "calibrated", ...
constexpr Provenance Weakest(Provenance a, Provenance b) { return a < b ? b : a; }

}  // namespace aurum
