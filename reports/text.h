#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sim/core/json.h"
#include "sim/core/rounding.h"

namespace aurum {

// Figures as text, the way the HTML page writes them: three significant digits unless told
// otherwise, the unit always, never a locale's decimal comma.

// 1234567 -> "1,234,567", 12.34 -> "12.3", 0.01234 -> "0.0123".
std::string NumberText(double value, int significant = 3);
// A whole number: 72000 -> "72,000".
std::string CountText(double value);
// Shortest text of a setting, at most three significant digits: 16, 14.6, 0.5.
std::string TickText(double value);
std::string FixedText(double value, int decimals);
// In s, ms or µs, whichever gives a number of at least 1.
std::string SecondsText(double seconds, int significant = 3);
// " [0.95–1.06]" in the unit that SecondsText takes for `near`.
std::string SecondsIntervalText(double low, double high, double near);
// With a plus sign where it is positive.
std::string SignedSecondsText(double seconds);
std::string PercentText(double share, int decimals = 1);
// Percent with a plus sign where it is positive.
std::string SignedPercentText(double share, int decimals = 1);

// Members of an island: nothing where the key is absent, null or of another type.
std::optional<double> NumberOf(const Json& object, std::string_view key);
std::string TextOf(const Json& object, std::string_view key);
bool BoolOf(const Json& object, std::string_view key);
// The largest number of the array under `key`.
std::optional<double> LargestOf(const Json& object, std::string_view key);
// The array or object under `key`, or an empty one.
const Json& ArrayOf(const Json& object, std::string_view key);
const Json& ObjectOf(const Json& object, std::string_view key);

}  // namespace aurum
