#include "sim/workload/packing.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace aurum {

// First-fit-decreasing
// --------------------
// The longest sample first, each into the first row that still has room, or into a new one. Rows of
// 10 and samples 7, 5, 4, 3, 1: 7+3 | 5+4+1. At most 11/9 of the fewest possible rows plus 2/3
// (Dósa, "The tight bound of first fit decreasing bin-packing algorithm", 2007), and of two rows at
// most one is not more than half full: what opened the later one did not fit into the earlier one,
// and both hold something at least as long. What the loaders of packed training do, on a buffer.
//
// The first row with room is found in a tree over rows whose nodes know the most room below them, so
// n samples cost n·log(n), not n².
std::vector<std::uint32_t> FirstFitDecreasing(const std::vector<double>& lengths, double capacity,
                                              std::size_t* rows) {
  const std::size_t count = lengths.size();
  std::vector<std::uint32_t> order(count), row(count);
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return lengths[a] != lengths[b] ? lengths[a] > lengths[b] : a < b;
  });
  const std::size_t leaves = std::bit_ceil(std::max<std::size_t>(count, 1));
  std::vector<double> room(2 * leaves, capacity);  // an unopened row is an empty one
  std::size_t opened = 0;
  for (const std::uint32_t item : order) {
    const double length = std::min(lengths[item], capacity);
    std::size_t node = 1;
    while (node < leaves) node = 2 * node + (room[2 * node] >= length ? 0 : 1);
    row[item] = static_cast<std::uint32_t>(node - leaves);
    opened = std::max(opened, node - leaves + 1);
    room[node] -= length;
    while (node > 1) {
      node /= 2;
      room[node] = std::max(room[2 * node], room[2 * node + 1]);
    }
  }
  *rows = opened;
  return row;
}

}  // namespace aurum
