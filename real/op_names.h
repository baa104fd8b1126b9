#pragma once

#include <string>
#include <vector>

#include "real/rank_program.h"

namespace aurum {

// Names of lanes and kinds, as run records and comparisons write them; by value of the enumeration.
const std::vector<std::string>& LaneNames();        // "main", "tp", "pp_forward", …
const std::vector<std::string>& OpKindNames();      // "forward", "tp_collective", …
const std::vector<std::string>& RankOpKindNames();  // "compute", "collective", "send", …

inline const std::string& LaneName(Lane lane) {
  return LaneNames()[static_cast<std::size_t>(lane)];
}
inline const std::string& OpKindName(OpKind kind) {
  return OpKindNames()[static_cast<std::size_t>(kind)];
}
inline const std::string& RankOpKindName(RankOpKind kind) {
  return RankOpKindNames()[static_cast<std::size_t>(kind)];
}

}  // namespace aurum
