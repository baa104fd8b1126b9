#pragma once

#include <optional>
#include <string>

#include "sim/search/space.h"

namespace aurum {

// Why nothing depends on what `pointer` of the scenario says ("/plan/sharding"), in this plan: "there is one replica";
// "" where it may matter. Only of what is known to have nothing to act on: a group of one, no host transfers.
std::string WhyWithoutEffect(const Scenario& scenario, const std::string& pointer);

// Plans that differ in such a key alone are twins. The one that stands for all of them says the least of it: what is
// off, the sharding that divides least, else the choice that the space names first.
struct Twin {
  std::size_t dimension = 0;
  std::size_t choice = 0;  // of the twin that stands for this one
  std::string reason;      // "sharding has no effect: there is one replica"
};

// Twins of the combination `at`, whose plan is `scenario`, by their dimensions first … last - 1: the least twin of each
// that says less than `at` does. A dimension of several paths has none. They may be no plans: that is for the
// caller to see, in this order.
std::vector<Twin> TwinsOf(const PlanSpace& space, const ChoiceIndices& at, const Scenario& scenario,
                          std::size_t first, std::size_t last);

}  // namespace aurum
