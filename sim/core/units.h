#pragma once

namespace aurum {

// Named conversions between the units of the command line and the SI units used inside (bytes, seconds, FLOP).
inline constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
inline constexpr double kMiB = 1024.0 * 1024.0;
inline constexpr double kHour = 3600;           // s
inline constexpr double kKilowattHour = 3.6e6;  // J
inline constexpr double kGiga = 1e9;
inline constexpr double kTera = 1e12;

// A network port's rate in Gbit/s as bytes per second.
inline constexpr double BytesPerSecondFromGbit(double gbit_per_s) { return gbit_per_s * 1e9 / 8.0; }

}  // namespace aurum
