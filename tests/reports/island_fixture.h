#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "sim/core/json.h"

namespace aurum {

// The island of a sweep of four axes.
inline Json IslandFixture() { return ReadJsonFile("tests/reports/fixtures/island.json").root; }

// Without these members.
inline void Erase(Json* object, const std::vector<std::string>& keys) {
  std::erase_if(object->members(), [&](const auto& m) {
    return std::find(keys.begin(), keys.end(), m.first) != keys.end();
  });
}

}  // namespace aurum
