#pragma once

#include <cstdint>
#include <span>

namespace aurum {

// Rates, loads and capacities as whole numbers of a unit, so that sums of them are exact in any
// order. The unit is the power of two that makes the widest link 2^50 … 2^51 units: 2^-15 B/s for
// 50 GB/s.
class RateScale {
 public:
  RateScale() = default;
  explicit RateScale(double widest_bytes_per_s);
  static constexpr std::int64_t kMost = std::int64_t{1} << 62;
  // Rounded down, but anything above 0 is at least one unit; at most kMost.
  std::int64_t Units(double bytes_per_s) const;
  double BytesPerSecond(std::int64_t units) const { return static_cast<double>(units) * unit_; }

 private:
  double unit_ = 1;
};

// The widest of the capacities, 0 if there are none.
double Widest(std::span<const double> capacity_bytes_per_s);

}  // namespace aurum
