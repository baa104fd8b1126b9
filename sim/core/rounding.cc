#include "sim/core/rounding.h"

#include <array>
#include <charconv>
#include <cmath>

namespace aurum {

double RoundSignificant(double value, int digits) {
  if (!std::isfinite(value) || value == 0) return value;
  std::array<char, 64> buffer{};
  const auto written = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                     std::chars_format::scientific, digits - 1);
  double rounded = value;
  std::from_chars(buffer.data(), written.ptr, rounded);
  return rounded;
}

}  // namespace aurum
