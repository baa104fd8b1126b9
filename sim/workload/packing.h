#pragma once

#include <cstdint>
#include <vector>

namespace aurum {

// Row of each item, numbered as they are opened, by first-fit-decreasing into rows of `capacity`. An
// item longer than a row gets one of its own. `rows` is set to how many there are.
std::vector<std::uint32_t> FirstFitDecreasing(const std::vector<double>& lengths, double capacity,
                                              std::size_t* rows);

}  // namespace aurum
