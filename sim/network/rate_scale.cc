#include "sim/network/rate_scale.h"

#include <algorithm>
#include <cmath>

namespace aurum {

RateScale::RateScale(double widest_bytes_per_s) {
  int exponent = 0;
  std::frexp(widest_bytes_per_s, &exponent);
  unit_ = widest_bytes_per_s > 0 ? std::ldexp(1.0, exponent - 51) : 1;
}

std::int64_t RateScale::Units(double bytes_per_s) const {
  const double units = std::floor(bytes_per_s / unit_);
  if (units >= static_cast<double>(kMost)) return kMost;
  if (units < 1) return bytes_per_s > 0 ? 1 : 0;
  return static_cast<std::int64_t>(units);
}

double Widest(std::span<const double> capacity) {
  double widest = 0;
  for (const double c : capacity) widest = std::max(widest, c);
  return widest;
}

}  // namespace aurum
