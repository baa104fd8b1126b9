#pragma once

#include <cassert>
#include <cmath>
#include <compare>
#include <cstdint>
#include <limits>

namespace aurum {

// A point in simulated time, or a span of it: int64 picoseconds, so that ±106 days fit and equal times stay equal.
// A duration is rounded once, when an operation is made; sums of Times are exact.
struct Time {
  std::int64_t ps = 0;

  friend constexpr auto operator<=>(Time, Time) =
      default;  // NOLINT(modernize-use-nullptr): its 0 is none
  friend constexpr Time operator+(Time a, Time b) { return {a.ps + b.ps}; }
  friend constexpr Time operator-(Time a, Time b) { return {a.ps - b.ps}; }
  constexpr Time& operator+=(Time b) {
    ps += b.ps;
    return *this;
  }
};

inline constexpr double kPicosecondsPerSecond = 1e12;
inline constexpr Time kTimeMax{std::numeric_limits<std::int64_t>::max()};

// Rounds to the nearest picosecond. `seconds` must be finite, non-negative and below 106 days.
inline Time TimeFromSeconds(double seconds) {
  assert(std::isfinite(seconds) && seconds >= 0 && seconds < 9.2e6);
  return {std::llround(seconds * kPicosecondsPerSecond)};
}

inline constexpr double Seconds(Time t) {
  return static_cast<double>(t.ps) / kPicosecondsPerSecond;
}

}  // namespace aurum
